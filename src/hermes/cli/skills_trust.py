"""`hermes skills trust`."""

from typing import Any

import anyio
import click

from hermes.app.exchange import Exchange
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, say, table
from hermes.cli.skills_desk import RUN, with_journal
from hermes.cli.skills_exchange import exchange_for, settle
from hermes.core.errors import SettingsError
from hermes.memory.opening import Store
from hermes.skills.exchange.known import Publisher
from hermes.skills.exchange.sealing import short


@click.command(
    cls=Examples,
    examples="hermes skills trust\n"
    "hermes skills trust team-web --key 5f1c…\n"
    "hermes skills trust team-web --address https://skills.example.com\n"
    "hermes skills trust team-web --facts\n"
    "hermes skills trust team-security --issuer\n"
    "hermes skills trust --new-key",
)
@click.argument("publisher", required=False)
@click.option("--key", default="", help="Its public key, as its owner told you.")
@click.option("--address", default="", help="Subscribe to its index, a URL or a folder.")
@click.option("--facts", is_flag=True, help="Take in its facts for the team now.")
@click.option(
    "--issuer/--no-issuer",
    default=None,
    help="Heed what it revokes of others too; its own it may always take back.",
)
@click.option("--forget", is_flag=True, help="Forget its key; the next one is pinned anew.")
@click.option("--new-key", is_flag=True, help="Change your own key; the old one vouches for it.")
@json_option
@click.pass_context
def trust(
    ctx: click.Context, /, publisher: str | None, new_key: bool, as_json: bool, **given: Any
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
    elif given["forget"]:
        exchange.keyring.forget(publisher)
        say(f"{publisher} is no longer known here")
    elif given["facts"]:
        _facts(ctx, exchange, publisher)
    else:
        _pin(exchange, publisher, given["key"], given["address"], given["issuer"])
    settle(settings_for(ctx), exchange)


def _pin(exchange: Exchange, publisher: str, key: str, address: str, issuer: bool | None) -> None:
    if address and not key:
        looked = anyio.run(exchange.look, address)
        index, key = looked.index, looked.key
        if index.publisher != publisher:
            raise SettingsError(f"{address} is published by {index.publisher!r}, not {publisher!r}")
    if key:
        exchange.keyring.pin(publisher, key.casefold(), address)
    elif issuer is None:
        raise SettingsError("say by which --key, or at which --address, it is known")
    if issuer is not None:
        exchange.keyring.make_issuer(publisher, issuer)
    pinned = exchange.keyring.find(publisher)
    also = f", at {pinned.address}" if pinned.address else ""
    heeded = "; what it revokes of others counts here" if pinned.issuer else ""
    say(f"{publisher} is known by key {short(pinned.key)}{also}{heeded}")


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
        said = (await exchange.look(address)).said("facts")
        keeper = FactKeeper(loaded.home / FACTS, journal)
        try:
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
        (
            each.name,
            short(each.key),
            f"{each.pinned:%Y-%m-%d}",
            len(each.versions),
            _standing(each, known.revoked_keys),
            each.address,
        )
        for each in known.publishers.values()
    ]
    heads = ("publisher", "key", "since", "skills", "", "address")
    table(heads, rows, empty="nobody is known here yet")


def _standing(publisher: Publisher, revoked: tuple[str, ...]) -> str:
    if publisher.key in revoked:
        return "revoked"
    return "issuer" if publisher.issuer else ""
