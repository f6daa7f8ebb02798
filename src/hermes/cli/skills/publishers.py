"""`hermes skills trust` and `revoke`."""

import re
from typing import Any

import anyio
import click

from hermes.app.skills.exchange import SkillExchange
from hermes.app.skills.library import SKILLS_RUN
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_json, print_table
from hermes.cli.skills.context import with_journal
from hermes.cli.skills.exchange_context import apply_revocations, open_exchange
from hermes.core.errors import SettingsError
from hermes.memory.store import JournalStore
from hermes.skills.exchange.keyring import KnownPublisher
from hermes.skills.exchange.signed_statements import shorten_key


@cli_command("""
hermes skills trust
hermes skills trust team-web --key 5f1c…
hermes skills trust team-web --address https://skills.example.com
hermes skills trust team-web --facts
hermes skills trust team-security --issuer
hermes skills trust --new-key
""")
@click.argument("publisher", required=False)
@click.option("--key", default="", help="Its public key, as you got it from the owner.")
@click.option("--address", default="", help="Subscribe to its index, a URL or a folder.")
@click.option("--facts", is_flag=True, help="Import its team facts now.")
@click.option(
    "--issuer/--no-issuer",
    default=None,
    help="Also accept its revocations of skills and keys of others.",
)
@click.option("--forget", is_flag=True, help="Forget its key; the next key is pinned.")
@click.option("--new-key", is_flag=True, help="Change your own key; the old one signs the new one.")
def trust(
    ctx: click.Context, /, publisher: str | None, new_key: bool, as_json: bool, **given: Any
) -> None:
    """List the known publishers and their keys; with PUBLISHER, pin or subscribe to one.

    Trust here means that this key belongs to that name. It never makes a skill trusted.
    """
    exchange = open_exchange(ctx)
    if new_key:
        old, new = exchange.rotate()
        echo(f"your key was {old} and is {new}; publish again, so that others get it")
        return
    if publisher is None:
        _list_publishers(exchange, as_json)
    elif given["forget"]:
        exchange.keyring.forget(publisher)
        echo(f"{publisher} is no longer known here")
    elif given["facts"]:
        _import_publisher_facts(ctx, exchange, publisher)
    else:
        _pin_publisher(exchange, publisher, given["key"], given["address"], given["issuer"])
    apply_revocations(load_settings(ctx), exchange)


def _pin_publisher(
    exchange: SkillExchange, publisher: str, key: str, address: str, issuer: bool | None
) -> None:
    if address and not key:
        fetched = anyio.run(exchange.read_index, address)
        index, key = fetched.index, fetched.key
        if index.publisher != publisher:
            raise SettingsError(f"{address} is published by {index.publisher!r}, not {publisher!r}")
    if key:
        exchange.keyring.pin(publisher, key.casefold(), address)
    elif issuer is None:
        raise SettingsError("give its --key or its --address")
    if issuer is not None:
        exchange.keyring.set_issuer(publisher, issuer)
    pinned = exchange.keyring.find(publisher)
    also = f", at {pinned.address}" if pinned.address else ""
    heeded = "; its revocations of others count here" if pinned.issuer else ""
    echo(f"{publisher} is known by key {shorten_key(pinned.key)}{also}{heeded}")


def _import_publisher_facts(ctx: click.Context, exchange: SkillExchange, publisher: str) -> None:
    from hermes.app.skills.team_facts import FactImportResult, import_team_facts
    from hermes.learning.session_memory import FACTS_FILE
    from hermes.memory.facts.recorder import FactRecorder

    loaded, address = load_settings(ctx), exchange.keyring.find(publisher).address
    if not address:
        raise SettingsError(
            f"{publisher} has no address: hermes skills trust {publisher} --address URL"
        )

    async def work(journal: JournalStore) -> list[FactImportResult]:
        statements = (await exchange.read_index(address)).statements_of_kind("facts")
        recorder = FactRecorder(loaded.home / FACTS_FILE, journal)
        try:
            return [
                await import_team_facts(exchange, each, recorder, journal, SKILLS_RUN)
                for each in statements
            ]
        finally:
            recorder.close()

    for taken in with_journal(loaded, work):
        echo(f"{taken.asserted} facts, {taken.confirmed} confirmed, {taken.retracted} retracted")


def _list_publishers(exchange: SkillExchange, as_json: bool) -> None:
    known = exchange.keyring.state
    if as_json:
        print_json(known)
        return
    rows = [
        (
            each.name,
            shorten_key(each.key),
            f"{each.pinned:%Y-%m-%d}",
            len(each.versions),
            _publisher_state(each, known.revoked_keys),
            each.address,
        )
        for each in known.publishers.values()
    ]
    heads = ("publisher", "key", "since", "skills", "", "address")
    print_table(heads, rows, empty="no publisher is known yet")


def _publisher_state(publisher: KnownPublisher, revoked: tuple[str, ...]) -> str:
    if publisher.key in revoked:
        return "revoked"
    return "issuer" if publisher.issuer else ""


@cli_command("""
hermes skills revoke my-skill
hermes skills revoke --key 5f1c…
hermes skills revoke --key 5f1c… --announce
""")
@click.argument("what", required=False)
@click.option("--key", default="", help="A public key; nothing signed by it is imported any more.")
@click.option(
    "--announce", is_flag=True, help="Publish it in your index, although it belongs to others."
)
def revoke(ctx: click.Context, what: str | None, key: str, announce: bool, as_json: bool) -> None:
    """Revoke WHAT: a skill that you published, or the digest of any bundle.

    It takes effect here at once: skills imported from it become drafts again. Your own skills and
    your present and former keys go into the revocations of your next index, which subscribers
    follow. With --announce, what belongs to others goes there too; it counts for subscribers that
    made you an issuer (`hermes skills trust YOU --issuer`).
    """
    loaded = load_settings(ctx)
    exchange = SkillExchange(loaded)
    if key:
        if not re.fullmatch(r"[0-9a-fA-F]{64}", key):
            raise SettingsError(
                "a public key has 64 hexadecimal digits; see: hermes skills trust --json"
            )
        spread = exchange.revoke(keys=[key.casefold()], announce=announce)
        row: dict[str, object] = {"revoked_key": key.casefold()}
        text = f"nothing signed by {key[:12]} is imported any more"
    else:
        digest = _bundle_digest(exchange, what)
        spread = exchange.revoke(digests=[digest], announce=announce)
        row, text = {"revoked": digest}, f"{digest[:12]} is revoked"
    demoted = apply_revocations(loaded, exchange)
    if as_json:
        print_json({**row, "announced": spread, "fallen": demoted})
    else:
        echo(f"{text}{'; publish again, so that others get it' if spread else ''}")


def _bundle_digest(exchange: SkillExchange, what: str | None) -> str:
    if not what:
        raise SettingsError("name a published skill, a digest, or a --key")
    published = exchange.publisher_state().versions
    digest = published[what][1] if what in published else what.casefold()
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise SettingsError(
            f"{what!r} was not published from here, and is not a digest of 64 digits"
        )
    return digest
