"""`hermes skills revoke`."""

import re

import click

from hermes.app.exchange import Exchange
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, say
from hermes.cli.skills_exchange import settle
from hermes.core.errors import SettingsError


@click.command(
    cls=Examples,
    examples="hermes skills revoke my-skill\n"
    "hermes skills revoke --key 5f1c…\n"
    "hermes skills revoke --key 5f1c… --announce",
)
@click.argument("what", required=False)
@click.option("--key", default="", help="A public key that nothing is taken from any more.")
@click.option(
    "--announce", is_flag=True, help="Say it in your index although it is not yours to take back."
)
@json_option
@click.pass_context
def revoke(ctx: click.Context, what: str | None, key: str, announce: bool, as_json: bool) -> None:
    """Take back WHAT: a skill that you published, or the digest of any bundle.

    It counts here at once: skills that came from it are drafts again. What you published yourself,
    and keys that are or were yours, go into the list of revocations of your next index, which
    subscribers heed. What belongs to others goes there with --announce, for those who made you an
    issuer (`hermes skills trust YOU --issuer`).
    """
    loaded = settings_for(ctx)
    exchange = Exchange(loaded)
    if key:
        if not re.fullmatch(r"[0-9a-fA-F]{64}", key):
            raise SettingsError(
                "a public key has 64 hexadecimal digits; see: hermes skills trust --json"
            )
        spread = exchange.revoke(keys=[key.casefold()], announce=announce)
        row: dict[str, object] = {"revoked_key": key.casefold()}
        told = f"nothing signed by {key[:12]} is taken in any more"
    else:
        digest = _digest(exchange, what)
        spread = exchange.revoke(digests=[digest], announce=announce)
        row, told = {"revoked": digest}, f"{digest[:12]} is revoked"
    fallen = settle(loaded, exchange)
    if as_json:
        emit_json({**row, "announced": spread, "fallen": fallen})
    else:
        say(f"{told}{'; publish again, so that others learn of it' if spread else ''}")


def _digest(exchange: Exchange, what: str | None) -> str:
    if not what:
        raise SettingsError("say what to revoke: a published skill, a digest, or --key")
    published = exchange.own().versions
    digest = published[what][1] if what in published else what.casefold()
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise SettingsError(f"{what!r} was not published from here, and is no digest of 64 digits")
    return digest
