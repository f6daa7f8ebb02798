"""`hermes skills trust`."""

import anyio
import click

from hermes.app.exchange import Exchange
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, say, table
from hermes.cli.skills_desk import RUN, with_journal
from hermes.cli.skills_exchange import exchange_for
from hermes.core.errors import SettingsError
from hermes.memory.opening import Store
from hermes.skills.exchange.sealing import short


@click.command(
    cls=Examples,
    examples="hermes skills trust\n"
    "hermes skills trust team-web --key 5f1c…\n"
    "hermes skills trust team-web --address https://skills.example.com\n"
    "hermes skills trust team-web --facts\n"
    "hermes skills trust --new-key",
)
@click.argument("publisher", required=False)
@click.option("--key", default="", help="Its public key, as its owner told you.")
@click.option("--address", default="", help="Subscribe to its index, a URL or a folder.")
@click.option("--facts", is_flag=True, help="Take in its facts for the team now.")
@click.option("--forget", is_flag=True, help="Forget its key; the next one is pinned anew.")
@click.option("--new-key", is_flag=True, help="Change your own key; the old one vouches for it.")
@json_option
@click.pass_context
def trust(
    ctx: click.Context,
    publisher: str | None,
    key: str,
    address: str,
    facts: bool,
    forget: bool,
    new_key: bool,
    as_json: bool,
) -> None:
    """Which publishers are known here, by which key; PUBLISHER pins or subscribes to one.

    Trust here means: this key speaks for that name. It never makes a skill trusted.
    """
    exchange = exchange_for(ctx)
    if new_key:
        old, new = exchange.rotate()
        say(f"your key was {old} and is {new}; publish again, so that others learn of it")
        return
    if publisher is None:
        _list(exchange, as_json)
    elif forget:
        exchange.keyring.forget(publisher)
        say(f"{publisher} is no longer known here")
    elif facts:
        _facts(ctx, exchange, publisher)
    else:
        _pin(exchange, publisher, key, address)


def _pin(exchange: Exchange, publisher: str, key: str, address: str) -> None:
    if address and not key:
        index, key = anyio.run(exchange.offers, address)
        if index.publisher != publisher:
            raise SettingsError(f"{address} is published by {index.publisher!r}, not {publisher!r}")
    if not key:
        raise SettingsError("say by which --key, or at which --address, it is known")
    pinned = exchange.keyring.pin(publisher, key.casefold(), address)
    say(f"{publisher} is known by key {short(pinned.key)}" + (f", at {address}" if address else ""))


def _facts(ctx: click.Context, exchange: Exchange, publisher: str) -> None:
    from hermes.app.exchange_facts import Taken, hear_facts
    from hermes.app.remembering import FACTS
    from hermes.memory.facts.keeping import FactKeeper

    loaded, address = settings_for(ctx), exchange.keyring.find(publisher).address
    if not address:
        raise SettingsError(
            f"{publisher} has no address: hermes skills trust {publisher} --address URL"
        )

    async def work(journal: Store) -> list[Taken]:
        await exchange.offers(address)
        keeper = FactKeeper(loaded.home / FACTS, journal)
        try:
            said = await exchange.statements(address, "facts")
            return [await hear_facts(exchange, each, keeper, journal, RUN) for each in said]
        finally:
            keeper.close()

    for taken in with_journal(loaded, work):
        say(f"{taken.asserted} facts, {taken.confirmed} confirmed, {taken.retracted} retracted")


def _list(exchange: Exchange, as_json: bool) -> None:
    known = exchange.keyring.known
    if as_json:
        emit_json(known)
        return
    rows = [
        (each.name, short(each.key), f"{each.pinned:%Y-%m-%d}", len(each.versions), each.address)
        for each in known.publishers.values()
    ]
    table(
        ("publisher", "key", "since", "skills", "address"), rows, empty="nobody is known here yet"
    )
