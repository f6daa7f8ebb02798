"""What `hermes doctor` looks at: each check finds something in order, or says how to mend it."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import anyio
import msgspec

from hermes.app.models import lacks_capable_model
from hermes.cli.completion import installed_files
from hermes.cli.setup_choice import missing_extra
from hermes.core.errors import HermesError
from hermes.models.reference import resolve
from hermes.policy.opening import SETS
from hermes.settings.load import Loaded

ROOM = 500 * 1024 * 1024
QUICK = 64 * 1024 * 1024
"""A journal up to this size is verified whole; that takes about a second."""
PATIENCE = 3.0


State = Literal["ok", "absent", "warning", "problem"]


class Finding(msgspec.Struct, frozen=True):
    about: str
    state: State
    text: str
    fix: str = ""


def python() -> Iterator[Finding]:
    yield Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")
    if not sys.flags.utf8_mode and sys.getfilesystemencoding().lower() != "utf-8":
        fix = "set LANG to a UTF-8 locale such as C.UTF-8"
        yield Finding("locale", "warning", "texts are not UTF-8 here", fix)


def home(folder: Path) -> Iterator[Finding]:
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        fix = f"make {there} writable for this user, or set HERMES_HOME to a folder of yours"
        yield Finding("home", "problem", f"{folder} cannot be written", fix)
        return
    yield Finding("home", "ok", str(folder) if there == folder else f"{folder} (not made yet)")
    free = shutil.disk_usage(there).free
    text = f"{free / 1024**3:.1f} GiB free"
    if free < ROOM:
        yield Finding("disk", "warning", text, "free some space; a full disk stops every run")
    else:
        yield Finding("disk", "ok", text)


def journal(place: Path | str) -> Iterator[Finding]:
    if isinstance(place, Path):
        yield from _file(place)
    else:
        yield from _database(place)


def _database(url: str) -> Iterator[Finding]:
    from hermes.memory.status import status

    try:
        found = status(url)
    except HermesError as error:  # says itself what to do
        yield Finding("journal", "problem", str(error))
        return
    text = f"{found.place}, {found.events:,} events, {found.round_trip_ms:.1f} ms away"
    yield Finding("journal", "ok", text)


def _file(path: Path) -> Iterator[Finding]:
    from hermes.memory.verification import verify

    if not path.exists():
        yield Finding("journal", "ok", "none yet; it appears with the first conversation")
        return
    size = path.stat().st_size
    if size > QUICK:
        text = f"{path}, {size / 1024**2:,.0f} MiB; too large for a quick look"
        yield Finding("journal", "ok", text, "`hermes journal verify` looks at all of it")
        return
    try:
        report = verify(path, read_only=True)
        if report.problems:  # or a writer started meanwhile: the ordinary way cannot be misled
            report = verify(path)
    except HermesError as error:  # says itself what to do
        yield Finding("journal", "problem", str(error))
        return
    for problem in report.problems[:3]:
        yield Finding("journal", "problem", problem, "`hermes journal salvage` saves the rest")
    if not report.problems:
        yield Finding("journal", "ok", f"{report.events:,} events, verified")


def model(loaded: Loaded, *, offline: bool) -> Iterator[Finding]:
    settings = loaded.settings.model
    try:
        target = resolve(settings.default, settings)
    except HermesError as error:
        yield Finding("model", "problem", str(error), "choose one: hermes model set REF")
        return
    if missing := missing_extra(target.provider.name):
        yield Finding("model", "problem", f"{target.reference} cannot be used", missing)
        return
    if lacks_capable_model(loaded, ""):
        text = "none that can investigate: a chat answers from checks and the journal only"
        yield Finding("model", "warning", text, "hermes setup")
        return
    yield Finding("model", "ok", target.reference)
    variable = target.provider.key_variable
    if variable and not loaded.secrets.get(variable):
        fix = f"hermes setup, or: hermes config set {variable}"
        yield Finding("key", "problem", f"{variable} is not set", fix)
    elif variable:
        yield Finding("key", "ok", f"{variable} is set")
    if target.provider.base_url and not offline:
        yield from server(target.provider.base_url, loaded, target.provider.hint)


def server(url: str, loaded: Loaded, hint: str) -> Iterator[Finding]:
    """Only whether somebody listens there: nothing is asked, so it costs nothing."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    proxies = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
    if any(loaded.secrets.get(name) for name in proxies):
        yield Finding("server", "ok", f"{host}: reached through a proxy, not tried")
        return

    async def knock() -> None:
        with anyio.fail_after(PATIENCE):
            await (await anyio.connect_tcp(host, port)).aclose()

    try:
        anyio.run(knock)
    except (OSError, TimeoutError) as error:
        why = str(error) or f"no answer within {PATIENCE:.0f} seconds"
        fix = hint or "look at the network, a firewall, or model.providers"
        yield Finding("server", "problem", f"{host}:{port} cannot be reached: {why}", fix)
    else:
        yield Finding("server", "ok", f"{host}:{port} listens")


def tools(loaded: Loaded) -> Iterator[Finding]:
    from hermes.app.equipment import equip

    try:
        equipment = equip(loaded)
    except HermesError as error:
        yield Finding("tools", "problem", str(error), "`hermes tools sets` lists the toolsets")
        return
    offered = [*equipment.catalogue.tools, *equipment.catalogue.elsewhere]
    yield Finding("tools", "ok", ", ".join(offered) or "none: it only talks")
    for mistake in equipment.mistakes:
        yield Finding("tools", "problem", mistake, "correct the file, or remove it")


def policy(loaded: Loaded) -> Iterator[Finding]:
    """Every policy file that counts here, parsed as the gate parses it."""
    from hermes.app.gate import effective
    from hermes.policy.opening import gather

    settings = effective(loaded, isolated=False)
    found = gather(settings, loaded.home, Path.cwd())
    for problem in found.problems:
        state: State = "problem" if problem.fatal else "warning"
        fix = "correct it; `hermes policy lint` checks policy files"
        yield Finding("policy", state, str(problem), fix)
    if not any(problem.fatal for problem in found.problems):
        own = {placed.file for placed in found.documents} - {str(SETS / f"{settings.set}.yaml")}
        text = f"set {settings.set}, {len(own)} file{'' if len(own) == 1 else 's'} of your own"
        yield Finding("policy", "ok", text)


def probes(loaded: Loaded) -> Iterator[Finding]:
    from hermes.sre.probes.reading import load_probes

    file = loaded.home / loaded.settings.sre.probes.file
    try:
        found = load_probes(file)
    except HermesError as error:
        for line in str(error).splitlines():
            yield Finding("probes", "problem", line, f"correct {file}")
        return
    if found is None:
        fix = "hermes watch --discover"
        yield Finding("probes", "absent", f"no {file}; a watch looks for services", fix)
    else:
        yield Finding("probes", "ok", f"{len(found)} in {file}")


def skills(loaded: Loaded) -> Iterator[Finding]:
    from hermes.app.skills import open_library
    from hermes.skills.lint import lint

    library = open_library(loaded, Path.cwd(), {})
    own = [skill for skill in library.all.values() if skill.origin != "bundled"]
    found = [*library.mistakes, *(each for skill in own for each in lint(skill.folder))]
    fatal = [problem for problem in found if problem.fatal]
    for problem in fatal:
        fix = "correct it; `hermes skills lint` checks skills"
        yield Finding("skills", "problem", str(problem), fix)
    if not fatal:
        bundled = len(library.all) - len(own)
        yield Finding("skills", "ok", f"{bundled} bundled, {len(own)} of your own")


def programs() -> Iterator[Finding]:
    found = shutil.which("git")
    if found:
        yield Finding("git", "ok", found)
    else:
        yield Finding("git", "warning", "not found", "install git; the agent works with it a lot")
    if installed_files():
        yield Finding("completion", "ok", ", ".join(map(str, installed_files())))
    else:
        fix = "hermes completion --install"
        yield Finding("completion", "absent", "not installed", fix)
