"""`hermes skills export`, `publish` and `verify`, and the import of signed bundles."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import click

from hermes.app.people import user_name
from hermes.app.skills.exchange import SkillExchange, read_measurements, record_import
from hermes.app.skills.library import SKILLS_RUN
from hermes.cli.lazy import cli_command
from hermes.cli.output import confirm, echo, note, print_json, write_file
from hermes.cli.skills.context import load_library, with_journal
from hermes.cli.skills.exchange_context import (
    apply_revocations,
    examination_data,
    open_exchange,
    print_examination,
)
from hermes.core.errors import PolicyDenied, SettingsError
from hermes.core.events.skills import SkillMeasured
from hermes.memory.store import JournalStore, store_exists
from hermes.settings.load import LoadedSettings
from hermes.skills.exchange.bundle import BUNDLE_SUFFIX, read_bundle
from hermes.skills.exchange.importer import ImportExamination, SkillImporter
from hermes.skills.exchange.placement import SkillPlacement
from hermes.skills.exchange.signed_statements import SignedStatement, shorten_key
from hermes.skills.library import SkillLibrary


@cli_command("""
hermes skills export disk-full-runaway-log
hermes skills export my-skill -o /tmp/my.skill --as team-web
""")
@click.argument("name")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write.")
@click.option("--as", "publisher", default="", help="Your name as a publisher; set once.")
def export(
    ctx: click.Context, name: str, output: Path | None, publisher: str, as_json: bool
) -> None:
    """Pack skill NAME as one signed file for other agents.

    It contains the skill, its permissions, its measurements and its origin. The key is created
    with the first export and stored in the home folder under exchange/.
    """
    loaded, library = load_library(ctx)
    skill, exchange = library.find(name), SkillExchange(loaded)
    data = exchange.export(skill, skill_evidence(loaded, name), publisher)
    target = output or Path(f"{name}{BUNDLE_SUFFIX}")
    write_file(target, data)
    version, digest = exchange.publisher_state().versions[name]
    key = exchange.signer().key
    if as_json:
        print_json({"file": str(target), "version": version, "digest": digest, "key": key})
        return
    echo(f"{target}: {name} version {version}, signed by {exchange.name()} with {shorten_key(key)}")


def skill_evidence(loaded: LoadedSettings, name: str) -> list[SkillMeasured]:
    if not store_exists(loaded.store):
        return []
    return with_journal(loaded, lambda journal: read_measurements(journal, name))


@cli_command("""
hermes skills publish ./site my-skill other-skill
hermes skills publish ./site my-skill --serve 127.0.0.1:8020
hermes skills publish ./site --all --facts
""")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All skills of your own.")
@click.option("--facts", is_flag=True, help="Facts of scope team too.")
@click.option("--as", "publisher", default="", help="Your name as a publisher; set once.")
@click.option("--serve", default="", help="Serve it at HOST:PORT until interrupted.")
def publish(
    ctx: click.Context,
    folder: Path,
    names: tuple[str, ...],
    every: bool,
    facts: bool,
    publisher: str,
    serve: str,
    as_json: bool,
) -> None:
    """Write a signed index of skills into FOLDER, for any web server, git or --serve.

    Others subscribe with `hermes skills trust NAME --address URL`. The index also contains your
    revocations and changes of your key.
    """
    loaded, library = load_library(ctx)
    exchange = SkillExchange(loaded)
    exchange.name(publisher)
    own = [skill.name for skill in library.skills if skill.origin != "bundled"]
    chosen = [library.find(name) for name in (own if every else names)]
    bundles = [
        (skill, exchange.export(skill, skill_evidence(loaded, skill.name))) for skill in chosen
    ]
    statements = _signed_facts(loaded, exchange) if facts else []
    index = exchange.publish(folder, bundles, statements)
    if as_json:
        print_json(
            {"index": str(index), "skills": [s.name for s in chosen], "key": exchange.signer().key}
        )
    else:
        echo(
            f"{index}: {len(chosen)} skills, {len(statements)} lists of facts, by {exchange.name()}"
        )
    if serve:
        _serve_index(folder, serve)


def _signed_facts(loaded: LoadedSettings, exchange: SkillExchange) -> list[SignedStatement]:
    from hermes.app.skills.team_facts import list_team_facts, sign_team_facts
    from hermes.learning.session_memory import FACTS_FILE
    from hermes.memory.facts.recorder import FactRecorder

    if not store_exists(loaded.store):
        return []

    async def work(journal: JournalStore) -> list[SignedStatement]:
        recorder = FactRecorder(loaded.home / FACTS_FILE, journal)
        try:
            statement = sign_team_facts(exchange, await list_team_facts(recorder))
        finally:
            recorder.close()
        return [statement] if statement else []

    return with_journal(loaded, work)


def _serve_index(folder: Path, bind_address: str) -> None:
    from hermes.skills.exchange.publish_server import serve_folder

    host, _, digits = bind_address.rpartition(":")
    if not digits.isdigit():
        raise SettingsError(f"{bind_address!r} is not HOST:PORT, as in 127.0.0.1:8020")
    port, host = int(digits), host or "127.0.0.1"

    async def serve() -> None:
        async with anyio.create_task_group() as group:
            address: str = await group.start(serve_folder, folder, host, port)
            note(f"serving {folder} at {address}; Ctrl-C ends it")

    try:
        anyio.run(serve)
    except KeyboardInterrupt:
        note("ended")


def import_bundles(
    ctx: click.Context,
    source: str | None,
    names: tuple[str, ...],
    subscribed: bool,
    yes: bool,
    no_sandbox: bool,
    no_evidence: bool,
    as_json: bool,
) -> None:
    """Import signed bundles: verify, examine, ask, place."""
    if as_json and not yes:
        raise SettingsError("--json needs --yes: it does not ask")
    loaded, library = load_library(ctx)
    exchange = SkillExchange(loaded)
    report = (lambda _: None) if as_json else note
    importer = exchange.open_importer(report, sandbox=not no_sandbox, prove=not no_evidence)
    imports = _SkillImport(loaded, library, importer, ask_before_placing=not yes, quiet=as_json)
    sources = _import_sources(exchange, source, subscribed)

    async def fetch_all() -> list[bytes]:
        return [data for each in sources async for data in exchange.fetch_bundles(each, names)]

    try:
        for data in anyio.run(fetch_all):
            imports.import_bundle(data)
    finally:  # revocations count, even when the rest of an index is invalid
        apply_revocations(loaded, exchange)
    if as_json:
        print_json(imports.imported)
    if imports.stopped:
        kept = ", ".join(map(str, imports.stopped))
        raise PolicyDenied(f"{len(imports.stopped)} blocked and kept in quarantine: {kept}")


def _import_sources(exchange: SkillExchange, source: str | None, subscribed: bool) -> list[str]:
    known = exchange.keyring.state.publishers.values()
    found = [source] if source else [each.address for each in known if subscribed and each.address]
    if not found:
        raise SettingsError(
            "name a source, or subscribe first: hermes skills trust NAME --address URL"
        )
    return found


@dataclass
class _SkillImport:
    loaded: LoadedSettings
    library: SkillLibrary
    importer: SkillImporter
    ask_before_placing: bool
    quiet: bool
    imported: list[dict[str, Any]] = field(default_factory=list)
    stopped: list[Path] = field(default_factory=list)

    def import_bundle(self, data: bytes) -> None:
        name = read_bundle(data, self.importer.verify_signature).manifest.name
        present = SkillLibrary(self.library.roots).skills_by_name.get(name)
        existing = present.folder if present is not None else None
        examined = anyio.run(self.importer.examine, data, existing)
        if not self.quiet:
            print_examination(examined)
        row = examination_data(examined)
        self.imported.append(row)
        if examined.blocked:
            self.stopped.append(examined.folder)
        elif not self.ask_before_placing or confirm(f"Import {name}?"):
            placed = self.importer.admit(examined, existing, by=user_name())
            row |= {"placed": placed.folder, "how": placed.how, "conflicts": placed.conflicts}
            self._record(examined, placed)

    def _record(self, examined: ImportExamination, placed: SkillPlacement) -> None:
        if placed.how != "same":
            by = user_name()
            with_journal(
                self.loaded,
                lambda journal: record_import(journal, SKILLS_RUN, examined, placed, by),
            )
        if not self.quiet:
            print_placed(placed)


def print_placed(placed: SkillPlacement) -> None:
    if placed.how == "same":
        echo(f"{placed.folder} is already here, unchanged")
        return
    if placed.conflicts:
        note(f"changed on both sides, both versions are kept: {', '.join(placed.conflicts)}")
    echo(f"{placed.folder}: {placed.how}, as a draft; see: hermes skills show {placed.folder}")


@cli_command("""
hermes skills verify my.skill
hermes skills verify x.skill --json
""")
@click.argument("bundle")
@click.option("--no-sandbox", is_flag=True, help="Only scan it; run nothing.")
def verify(ctx: click.Context, bundle: str, no_sandbox: bool, as_json: bool) -> None:
    """Check BUNDLE, a file or an address, like an import, but import nothing."""
    exchange = open_exchange(ctx)
    importer = exchange.open_importer(
        (lambda _: None) if as_json else note, sandbox=not no_sandbox, prove=False
    )

    async def work() -> list[bytes]:
        return [data async for data in exchange.fetch_bundles(bundle)]

    found = [anyio.run(importer.examine, data) for data in anyio.run(work)]
    if as_json:
        print_json([examination_data(each) for each in found])
    else:
        for each in found:
            print_examination(each)
    if any(each.blocked for each in found):
        raise PolicyDenied("it would not be imported; see the findings above")
