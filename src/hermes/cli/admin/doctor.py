"""`hermes doctor`: checks the installation and every file it reads."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import anyio
import click
import msgspec

from hermes.app.models import lacks_capable_model
from hermes.cli import exit_codes
from hermes.cli.admin.environments import EnvironmentReadiness
from hermes.cli.admin.installation import installed_completion_files
from hermes.cli.admin.setup_choices import missing_extra
from hermes.cli.context import command_line_overrides, home_folder
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_json
from hermes.cli.render.terminal_text import clean
from hermes.core.errors import HermesError, SettingsError
from hermes.models.catalog import resolve_reference
from hermes.plumbing.problems import Problem
from hermes.plumbing.units import format_size
from hermes.policy.loading import BUILT_IN_SETS_FOLDER
from hermes.settings.load import CONFIG_FILE_NAME, LoadedSettings, load_with_problems

MIN_FREE_BYTES = 500 * 1024 * 1024
MAX_VERIFIED_BYTES = 64 * 1024 * 1024
"""A journal up to this size is verified whole; that takes about a second."""
CONNECT_TIMEOUT_S = 3.0
CERTIFICATE_WARNING = timedelta(days=14)


CheckState = Literal["ok", "absent", "warning", "problem"]


class DoctorFinding(msgspec.Struct, frozen=True):
    about: str
    state: CheckState
    text: str
    fix: str = ""


def check_python() -> Iterator[DoctorFinding]:
    yield DoctorFinding("python", "ok", f"{platform.python_version()} ({sys.executable})")
    if not sys.flags.utf8_mode and sys.getfilesystemencoding().lower() != "utf-8":
        fix = "set LANG to a UTF-8 locale such as C.UTF-8"
        yield DoctorFinding("locale", "warning", "texts are not UTF-8 here", fix)


def check_home(folder: Path) -> Iterator[DoctorFinding]:
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        fix = f"make {existing} writable for this user, or set HERMES_HOME to a folder of yours"
        yield DoctorFinding("home", "problem", f"{folder} cannot be written", fix)
        return
    yield DoctorFinding(
        "home", "ok", str(folder) if existing == folder else f"{folder} (not created yet)"
    )
    free = shutil.disk_usage(existing).free
    text = f"{format_size(free)} free"
    if free < MIN_FREE_BYTES:
        fix = "free some space; on a full disk conversations stop, and a watch keeps no journal"
        yield DoctorFinding("disk", "warning", text, fix)
    else:
        yield DoctorFinding("disk", "ok", text)


def check_journal(location: Path | str) -> Iterator[DoctorFinding]:
    if isinstance(location, Path):
        yield from _check_journal_file(location)
    else:
        yield from _check_database(location)


def _check_database(url: str) -> Iterator[DoctorFinding]:
    from hermes.memory.journal.maintenance import read_status

    try:
        found = read_status(url)
    except HermesError as error:  # its text says what to do
        yield DoctorFinding("journal", "problem", str(error))
        return
    text = f"{found.place}, {found.events:,} events, {found.round_trip_ms:.1f} ms away"
    yield DoctorFinding("journal", "ok", text)


def _check_journal_file(path: Path) -> Iterator[DoctorFinding]:
    from hermes.memory.journal.verification import verify

    if not path.exists():
        yield DoctorFinding("journal", "ok", "none yet; it appears with the first conversation")
        return
    size = path.stat().st_size
    if size > MAX_VERIFIED_BYTES:
        text = f"{path}, {format_size(size)}; too large for a quick check"
        yield DoctorFinding("journal", "ok", text, "`hermes journal verify` checks all of it")
        return
    try:
        report = verify(path, read_only=True)
        if report.problems:  # a writer may have started meanwhile: verify with locks
            report = verify(path)
    except HermesError as error:  # its text says what to do
        yield DoctorFinding("journal", "problem", str(error))
        return
    for problem in report.problems[:3]:
        yield DoctorFinding(
            "journal", "problem", problem, "`hermes journal salvage` saves the rest"
        )
    if not report.problems:
        yield DoctorFinding("journal", "ok", f"{report.events:,} events, verified")


def check_model(loaded: LoadedSettings, *, offline: bool) -> Iterator[DoctorFinding]:
    settings = loaded.settings.model
    try:
        target = resolve_reference(settings.default, settings)
    except HermesError as error:
        yield DoctorFinding("model", "problem", str(error), "choose one: hermes model set REF")
        return
    if missing := missing_extra(target.provider.name):
        yield DoctorFinding("model", "problem", f"{target.reference} cannot be used", missing)
        return
    if lacks_capable_model(loaded, ""):
        text = "none that can investigate: a chat answers from checks and the journal only"
        yield DoctorFinding("model", "warning", text, "hermes setup")
        return
    yield DoctorFinding("model", "ok", target.reference)
    variable = target.provider.key_variable
    if variable and not loaded.secrets.get(variable):
        fix = f"hermes setup, or: hermes config set {variable}"
        yield DoctorFinding("key", "problem", f"{variable} is not set", fix)
    elif variable:
        yield DoctorFinding("key", "ok", f"{variable} is set")
    if target.provider.base_url and not offline:
        yield from check_server(target.provider.base_url, loaded, target.provider.hint)


def check_server(url: str, loaded: LoadedSettings, hint: str) -> Iterator[DoctorFinding]:
    """Only opens a connection: no request is sent, so it costs nothing."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    proxies = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
    if any(loaded.secrets.get(name) for name in proxies):
        yield DoctorFinding("server", "ok", f"{host}: reached through a proxy, not tried")
        return

    async def connect() -> None:
        with anyio.fail_after(CONNECT_TIMEOUT_S):
            await (await anyio.connect_tcp(host, port)).aclose()

    try:
        anyio.run(connect)
    except (OSError, TimeoutError) as error:
        why = str(error) or f"no answer within {CONNECT_TIMEOUT_S:.0f} seconds"
        fix = hint or "check the network, the firewall, or model.providers"
        yield DoctorFinding("server", "problem", f"{host}:{port} cannot be reached: {why}", fix)
    else:
        yield DoctorFinding("server", "ok", f"{host}:{port} listens")


NO_TOOLS = "none in a chat until a capable model is chosen; schedules and incidents have theirs"


def check_tools(loaded: LoadedSettings) -> Iterator[DoctorFinding]:
    from hermes.app.tools.tooling import build_tooling

    try:
        tooling = build_tooling(loaded)
    except HermesError as error:
        yield DoctorFinding(
            "tools", "problem", str(error), "`hermes tools sets` lists the toolsets"
        )
        return
    offered = [*tooling.catalogue.tools, *tooling.catalogue.elsewhere]
    yield DoctorFinding("tools", "ok", ", ".join(offered) or NO_TOOLS)
    for problem in tooling.problems:
        yield DoctorFinding("tools", "problem", problem, "correct the file, or remove it")


def check_plugins(loaded: LoadedSettings) -> Iterator[DoctorFinding]:
    from hermes.core.plugins import BUILT_IN, outside_plugins, plugin_problems

    problems = list(plugin_problems(loaded.home))
    for problem in problems:
        fix = "correct it, remove it, or ask its author"
        yield DoctorFinding("plug-ins", "problem", problem, fix)
    named = [
        f"{group}: {name}" for group in BUILT_IN for name in outside_plugins(group, loaded.home)
    ]
    if named and not problems:
        yield DoctorFinding("plug-ins", "ok", ", ".join(named))


def check_policy(loaded: LoadedSettings) -> Iterator[DoctorFinding]:
    """Parse every policy file that applies here."""
    from hermes.app.policy import effective_policy_settings
    from hermes.policy.loading import load_policies

    settings = effective_policy_settings(loaded, isolated=False)
    found = load_policies(settings, loaded.home, Path.cwd())
    for problem in found.problems:
        state: CheckState = "problem" if problem.fatal else "warning"
        fix = "correct it; `hermes policy lint` checks policy files"
        yield DoctorFinding("policy", state, str(problem), fix)
    if not any(problem.fatal for problem in found.problems):
        own = {placed.file for placed in found.documents} - {
            str(BUILT_IN_SETS_FOLDER / f"{settings.set}.yaml")
        }
        text = f"set {settings.set}, {len(own)} file{'' if len(own) == 1 else 's'} of your own"
        yield DoctorFinding("policy", "ok", text)


def check_probes(loaded: LoadedSettings) -> Iterator[DoctorFinding]:
    from hermes.sre.probes.probe_file import load_probes, probe_file_warnings

    file = loaded.home / loaded.settings.sre.probes.file
    try:
        found = load_probes(file, loaded.home)
        warnings = probe_file_warnings(file, loaded.home)
    except HermesError as error:
        for line in str(error).splitlines():
            yield DoctorFinding("probes", "problem", line, f"correct {file}")
        return
    if found is None:
        fix = "hermes watch --discover"
        yield DoctorFinding("probes", "absent", f"no {file}; a watch discovers services", fix)
    else:
        yield DoctorFinding("probes", "ok", f"{len(found)} in {file}")
        for line in warnings:
            yield DoctorFinding("probes", "warning", line, f"correct {file}")


def check_skills(loaded: LoadedSettings) -> Iterator[DoctorFinding]:
    from hermes.app.skills.library import open_library
    from hermes.skills.lint import lint_skill

    library = open_library(loaded, Path.cwd(), {})
    own = [skill for skill in library.skills_by_name.values() if skill.origin != "bundled"]
    found = [*library.problems, *(each for skill in own for each in lint_skill(skill.folder))]
    fatal = [problem for problem in found if problem.fatal]
    for problem in fatal:
        fix = "correct it; `hermes skills lint` checks skills"
        yield DoctorFinding("skills", "problem", str(problem), fix)
    if not fatal:
        bundled = len(library.skills_by_name) - len(own)
        yield DoctorFinding("skills", "ok", f"{bundled} bundled, {len(own)} of your own")


def check_certificate(loaded: LoadedSettings) -> Iterator[DoctorFinding]:
    web = loaded.settings.web
    if not (web.cert or web.key):
        return
    from hermes.plumbing.certificates import CertificateError, load_server_certificate, read_expiry

    try:
        load_server_certificate(web.cert, web.key)
        expiry = read_expiry(web.cert)
    except CertificateError as error:
        yield DoctorFinding("certificate", "problem", str(error), "correct web.cert and web.key")
        return
    left = expiry - datetime.now(UTC)
    text = f"{web.cert} is valid until {expiry:%Y-%m-%d %H:%M} UTC"
    fix = "renew it, then restart `hermes up`"
    if left < timedelta(0):
        text = f"{web.cert} has expired on {expiry:%Y-%m-%d %H:%M} UTC"
        yield DoctorFinding("certificate", "problem", text, fix)
    elif left < CERTIFICATE_WARNING:
        yield DoctorFinding("certificate", "warning", f"{text}: {left.days} days", fix)
    else:
        yield DoctorFinding("certificate", "ok", text)


def check_copies(tried: EnvironmentReadiness) -> Iterator[DoctorFinding]:
    """`tried`: a copy that was made as experiments make it."""
    if tried.why:
        fix = "until then no cause is proved by experiment, and no fix is tested before it runs"
        yield DoctorFinding("copies", "warning", f"no copy can be made: {tried.why}", fix)
    else:
        yield DoctorFinding("copies", "ok", "experiments can copy this host")


def check_programs() -> Iterator[DoctorFinding]:
    found = shutil.which("git")
    if found:
        yield DoctorFinding("git", "ok", found)
    else:
        yield DoctorFinding("git", "warning", "not found", "install git; the agent uses it often")
    if installed_completion_files():
        yield DoctorFinding("completion", "ok", ", ".join(map(str, installed_completion_files())))
    else:
        fix = "hermes completion --install"
        yield DoctorFinding("completion", "absent", "not installed", fix)


STATE_MARKS = {
    "ok": ("✓", "green"),
    "absent": ("·", "blue"),
    "warning": ("!", "yellow"),
    "problem": ("✗", "red"),
}
SHOWN_NAMES = {"place": "environment"}
"""By the name in JSON, which does not change."""


@cli_command("""
hermes doctor
hermes doctor --offline          do not try to reach the model's server
hermes doctor --json | jq '.findings[] | select(.state != "ok")'
""")
@click.option("--offline", is_flag=True, help="Do not try to reach any server.")
def doctor(ctx: click.Context, offline: bool, as_json: bool) -> int:
    """Check everything Hermes needs, and every file it reads. Nothing is created or changed.

    Errors in configuration, policy, probe, tool and skill files are reported with file and line.
    Exit code 1 when there is a problem.
    """
    findings = list(_run_checks(ctx, offline))
    problems = [finding for finding in findings if finding.state == "problem"]
    if as_json:
        print_json({"ok": not problems, "findings": findings})
        return exit_codes.FAILED if problems else exit_codes.OK
    for finding in findings:
        mark, color = STATE_MARKS[finding.state]
        about = SHOWN_NAMES.get(finding.about, finding.about)
        echo(click.style(mark, fg=color) + f" {about}: {clean(finding.text)}")
        if finding.fix:
            echo(f"    → {finding.fix}")
    echo()
    warnings = sum(finding.state == "warning" for finding in findings)
    counts = [
        f"{number} {word}{'s' if number > 1 else ''}"
        for number, word in ((len(problems), "problem"), (warnings, "warning"))
        if number
    ]
    echo(", ".join(counts) or "No problems found.")
    return exit_codes.FAILED if problems else exit_codes.OK


def _run_checks(ctx: click.Context, offline: bool) -> Iterator[DoctorFinding]:
    from hermes.cli.admin.environments import list_environments, try_copy, try_environment

    yield from check_python()
    yield from check_home(home_folder())
    loaded, problems = _load_settings(ctx)
    for problem in problems:
        text = f"{problem.where}: {problem.cause}" if problem.where else problem.cause
        yield DoctorFinding("settings", "problem", text, problem.suggestion or "hermes config edit")
    if loaded is None:
        return
    file = loaded.home / CONFIG_FILE_NAME
    yield DoctorFinding(
        "settings", "ok", str(file) if file.exists() else f"no {file}: defaults apply"
    )
    for warning in loaded.warnings:
        yield DoctorFinding("settings", "warning", warning)
    yield from check_journal(loaded.store)
    yield from check_model(loaded, offline=offline)
    for environment in list_environments(loaded):
        wanted = environment.name == loaded.settings.terminal.backend
        if wanted and not environment.why:
            environment = try_environment(loaded)
        state: CheckState = "ok" if not environment.why else "problem" if wanted else "absent"
        yield DoctorFinding("place", state, f"{environment.name}: {environment.why or 'ready'}")
    if loaded.settings.terminal.backend == "local" and sys.platform == "linux":
        yield from check_copies(try_copy(loaded))
    yield from check_policy(loaded)
    yield from check_probes(loaded)
    yield from check_skills(loaded)
    yield from check_tools(loaded)
    yield from check_plugins(loaded)
    yield from check_certificate(loaded)
    yield from check_programs()


def _load_settings(ctx: click.Context) -> tuple[LoadedSettings | None, list[Problem]]:
    try:
        return load_with_problems(overrides=command_line_overrides(ctx))
    except SettingsError as error:  # the files themselves cannot be read
        return None, [Problem("", 0, str(error))]
