"""`hermes skills revoke`."""

import re

import click

from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, say
from hermes.cli.skills_exchange import exchange_for
from hermes.core.errors import SettingsError


@click.command(
    cls=Examples,
    examples="hermes skills revoke my-skill\nhermes skills revoke --key 5f1c…",
)
@click.argument("what", required=False)
@click.option("--key", default="", help="A public key that nothing is taken from any more.")
@json_option
@click.pass_context
def revoke(ctx: click.Context, what: str | None, key: str, as_json: bool) -> None:
    """Take back WHAT: a skill that you published, or the digest of any bundle.

    It counts here at once. What you published yourself goes into the list of revocations of your
    next index, which subscribers heed.
    """
    exchange = exchange_for(ctx)
    if key:
        if not re.fullmatch(r"[0-9a-fA-F]{64}", key):
            raise SettingsError(
                "a public key has 64 hexadecimal digits; see: hermes skills trust --json"
            )
        exchange.revoke(keys=[key.casefold()])
        told = f"nothing signed by {key[:12]} is taken in any more"
        emit_json({"revoked_key": key.casefold()}) if as_json else say(told)
        return
    if not what:
        raise SettingsError("say what to revoke: a published skill, a digest, or --key")
    published = exchange.own().versions
    digest = published[what][1] if what in published else what.casefold()
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise SettingsError(f"{what!r} was not published from here, and is no digest of 64 digits")
    exchange.revoke(digests=[digest])
    emit_json({"revoked": digest}) if as_json else say(f"{digest[:12]} is revoked")
