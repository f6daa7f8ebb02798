"""`hermes skills publish`."""

import time
from pathlib import Path

import click

from hermes.app.exchange import Exchange
from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, note, say
from hermes.cli.skills_desk import library_for, with_journal
from hermes.cli.skills_export import evidence_of
from hermes.core.errors import SettingsError
from hermes.memory.opening import Store, exists
from hermes.settings.load import Loaded
from hermes.skills.exchange.sealing import Sealed


@click.command(
    cls=Examples,
    examples="hermes skills publish ./site my-skill other-skill\n"
    "hermes skills publish ./site my-skill --serve 127.0.0.1:8020\n"
    "hermes skills publish ./site --all --facts",
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All skills of your own.")
@click.option("--facts", is_flag=True, help="Facts of scope team too.")
@click.option("--as", "publisher", default="", help="Your name as a publisher; chosen once.")
@click.option("--serve", default="", help="Hand it out at HOST:PORT until interrupted.")
@json_option
@click.pass_context
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

    Others subscribe with `hermes skills trust NAME --address URL`. What you revoked, and changes
    of your key, are in the index as well.
    """
    loaded, library = library_for(ctx)
    exchange = Exchange(loaded)
    exchange.name(publisher)
    own = [skill.name for skill in library.skills if skill.origin != "bundled"]
    chosen = [library.find(name) for name in (own if every else names)]
    bundles = [(skill, exchange.export(skill, evidence_of(loaded, skill.name))) for skill in chosen]
    statements = _facts(loaded, exchange) if facts else []
    index = exchange.publish(folder, bundles, statements)
    if as_json:
        emit_json(
            {"index": str(index), "skills": [s.name for s in chosen], "key": exchange.seal().key}
        )
    else:
        say(
            f"{index}: {len(chosen)} skills, {len(statements)} lists of facts, by {exchange.name()}"
        )
    if serve:
        _serve(folder, serve)


def _facts(loaded: Loaded, exchange: Exchange) -> list[Sealed]:
    from hermes.app.exchange_facts import say_facts, team_facts
    from hermes.app.remembering import FACTS
    from hermes.memory.facts.keeping import FactKeeper

    if not exists(loaded.store):
        return []

    async def work(journal: Store) -> list[Sealed]:
        keeper = FactKeeper(loaded.home / FACTS, journal)
        try:
            said = say_facts(exchange, await team_facts(keeper))
        finally:
            keeper.close()
        return [said] if said else []

    return with_journal(loaded, work)


def _serve(folder: Path, where: str) -> None:
    from hermes.skills.exchange.serving import served

    host, _, digits = where.rpartition(":")
    if not digits.isdigit():
        raise SettingsError(f"{where!r} is no HOST:PORT, as in 127.0.0.1:8020")
    port, host = int(digits), host or "127.0.0.1"
    with served(folder, host, port) as address:
        note(f"handing out {folder} at {address}; Ctrl-C ends it")
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            note("ended")
