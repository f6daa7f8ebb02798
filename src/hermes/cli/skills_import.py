"""`hermes skills import`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import click

from hermes.app.approving import user_name
from hermes.app.exchange import Exchange, record_import
from hermes.cli.lazy import Examples
from hermes.cli.output import confirm, emit_json, json_option, note, say
from hermes.cli.skills_desk import RUN, library_for, with_journal
from hermes.cli.skills_exchange import as_data, settle, show_examined
from hermes.core.errors import PolicyDenied, SettingsError
from hermes.settings.load import Loaded
from hermes.skills.exchange.bundle import read_bundle
from hermes.skills.exchange.importing import Examined, Gatehouse
from hermes.skills.exchange.placing import Placed
from hermes.skills.library import Library


@click.command(
    "import",
    cls=Examples,
    examples="hermes skills import my.skill\n"
    "hermes skills import https://skills.example.com disk-full-runaway-log\n"
    "hermes skills import git+https://example.com/team/skills.git --yes\n"
    "hermes skills import --subscribed --yes",
)
@click.argument("source", required=False)
@click.argument("names", nargs=-1)
@click.option("--subscribed", is_flag=True, help="From every publisher with an address.")
@click.option("--yes", is_flag=True, help="Take in what is not stopped, without asking.")
@click.option("--no-sandbox", is_flag=True, help="Where no sandbox can be: read it only.")
@click.option("--no-evidence", is_flag=True, help="Do not play its evidence again.")
@json_option
@click.pass_context
def import_(
    ctx: click.Context,
    source: str | None,
    names: tuple[str, ...],
    subscribed: bool,
    yes: bool,
    no_sandbox: bool,
    no_evidence: bool,
    as_json: bool,
) -> None:
    """Take in skills from SOURCE: a bundle, a folder, a git repository or an address.

    Each is verified, put in quarantine, read, compared with what you have, and its scripts are
    tried in a sandbox among canary secrets. It becomes a draft: a signature never grants trust.
    """
    if as_json and not yes:
        raise SettingsError("--json needs --yes: nobody is asked")
    loaded, library = library_for(ctx)
    exchange = Exchange(loaded)
    say_what = (lambda _: None) if as_json else note
    gate = exchange.gatehouse(say_what, sandbox=not no_sandbox, prove=not no_evidence)
    desk = _Desk(loaded, library, gate, ask=not yes, quiet=as_json)
    sources = _sources(exchange, source, subscribed)

    async def fetch_all() -> list[bytes]:
        return [data for each in sources async for data in exchange.gather(each, names)]

    try:
        for data in anyio.run(fetch_all):
            desk.take(data)
    finally:  # what was revoked counts, also when nothing else of an index does
        settle(loaded, exchange)
    if as_json:
        emit_json(desk.done)
    if desk.stopped:
        kept = ", ".join(map(str, desk.stopped))
        raise PolicyDenied(f"{len(desk.stopped)} stopped and kept in quarantine: {kept}")


def _sources(exchange: Exchange, source: str | None, subscribed: bool) -> list[str]:
    known = exchange.keyring.known.publishers.values()
    found = [source] if source else [each.address for each in known if subscribed and each.address]
    if not found:
        raise SettingsError(
            "name a source, or subscribe first: hermes skills trust NAME --address URL"
        )
    return found


@dataclass
class _Desk:
    """One import, bundle by bundle."""

    loaded: Loaded
    library: Library
    gate: Gatehouse
    ask: bool
    quiet: bool
    done: list[dict[str, Any]] = field(default_factory=list)
    stopped: list[Path] = field(default_factory=list)

    def take(self, data: bytes) -> None:
        name = read_bundle(data, self.gate.check).manifest.name
        present = Library(self.library.roots).all.get(name)
        existing = present.folder if present is not None else None
        examined = anyio.run(self.gate.examine, data, existing)
        if not self.quiet:
            show_examined(examined)
        row = as_data(examined)
        self.done.append(row)
        if examined.blocked:
            self.stopped.append(examined.folder)
        elif not self.ask or confirm(f"Take in {name}?"):
            placed = self.gate.admit(examined, existing, by=user_name())
            row |= {"placed": placed.folder, "how": placed.how, "conflicts": placed.conflicts}
            self._record(examined, placed)

    def _record(self, examined: Examined, placed: Placed) -> None:
        if placed.how != "same":
            by = user_name()
            with_journal(
                self.loaded, lambda journal: record_import(journal, RUN, examined, placed, by)
            )
        if not self.quiet:
            _tell(placed)


def _tell(placed: Placed) -> None:
    if placed.how == "same":
        say(f"{placed.folder} is here already, exactly so")
        return
    if placed.conflicts:
        note(f"both changed {', '.join(placed.conflicts)}: both are kept")
    say(f"{placed.folder}: {placed.how}, as a draft; see: hermes skills show {placed.folder}")
