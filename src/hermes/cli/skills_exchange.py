"""What the commands of the exchange have in common: how findings and differences are shown."""

from typing import Any

import click

from hermes.app.approving import user_name
from hermes.app.exchange import Exchange
from hermes.app.exchange_revoked import KEPT, Fallen, fall_back
from hermes.cli.loading import settings_for
from hermes.cli.output import note, say, table
from hermes.cli.render_safe import clean
from hermes.cli.skills_desk import RUN, with_journal
from hermes.core.bus import Bus
from hermes.memory.opening import Store
from hermes.settings.load import Loaded
from hermes.skills.exchange.importing import Examined
from hermes.skills.exchange.sealing import short


def exchange_for(ctx: click.Context) -> Exchange:
    return Exchange(settings_for(ctx))


def settle(loaded: Loaded, exchange: Exchange) -> list[Fallen]:
    """What a look at others brought: skills that fall, and indexes that have grown old."""
    for warning in exchange.warnings:
        note(clean(warning))
    if not exchange.keyring.known.affected():
        return []

    async def work(journal: Store) -> list[Fallen]:
        publish = Bus(journal).publish
        return await fall_back(exchange, loaded, journal, publish, run=RUN, by=user_name())

    fallen = with_journal(loaded, work)
    for each in fallen:
        told = "stays" if each.before in KEPT else f"was {each.before} and is"
        state = each.before if each.before in KEPT else "draft"
        note(clean(f"{each.skill} {told} a {state}: {each.why}"))
    return fallen


def show_examined(examined: Examined) -> None:
    manifest = examined.bundle.manifest
    new = ", new here" if examined.new_publisher else ""
    say(
        clean(
            f"{manifest.name} version {manifest.version} of {manifest.publisher} "
            f"(key {short(examined.bundle.key)}{new}), digest {manifest.digest[:12]}, "
            f"until {manifest.expires:%Y-%m-%d}"
        )
    )
    rows = [
        ("stopped" if each.blocks else "note", each.kind, f"{each.file}:{each.line}", each.cause)
        for each in examined.findings
    ]
    if rows:
        table(("", "kind", "where", "what"), rows)
    if examined.ruling == "look":
        note("nothing of this keeps it out; look at it before you use the draft")
    difference = examined.difference
    for word, values in (("can now", difference.gained), ("no longer", difference.lost)):
        if values:
            say(clean(f"{word}: {', '.join(values[:40])}"))
    if difference.undeclared:
        note(f"not declared by its publisher: {', '.join(difference.undeclared[:20])}")
    proven = examined.proven
    say(clean(f"evidence: {proven.outcome}. {proven.detail}".rstrip(". ")))
    if proven.harm:
        note(clean(f"while it was played it did damage: {'; '.join(proven.harm)}"))
    elif proven.outcome == "failed":
        note("what its publisher claims does not hold here: it stays a draft until it does")


def as_data(examined: Examined) -> dict[str, Any]:
    manifest = examined.bundle.manifest
    return {
        "name": manifest.name,
        "version": manifest.version,
        "publisher": manifest.publisher,
        "key": examined.bundle.key,
        "new_publisher": examined.new_publisher,
        "digest": manifest.digest,
        "expires": manifest.expires,
        "blocked": examined.blocked,
        "ruling": examined.ruling,
        "findings": examined.findings,
        "gained": examined.difference.gained,
        "lost": examined.difference.lost,
        "undeclared": examined.difference.undeclared,
        "evidence": examined.proven,
        "tried_in_sandbox": examined.tried,
    }
