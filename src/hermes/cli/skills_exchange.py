"""What the commands of the exchange have in common: how findings and differences are shown."""

from typing import Any

import click

from hermes.app.exchange import Exchange
from hermes.cli.loading import settings_for
from hermes.cli.output import note, say, table
from hermes.cli.render_safe import clean
from hermes.skills.exchange.importing import Examined
from hermes.skills.exchange.sealing import short


def exchange_for(ctx: click.Context) -> Exchange:
    return Exchange(settings_for(ctx))


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
    difference = examined.difference
    for word, values in (("can now", difference.gained), ("no longer", difference.lost)):
        if values:
            say(clean(f"{word}: {', '.join(values[:40])}"))
    if difference.undeclared:
        note(f"not declared by its publisher: {', '.join(difference.undeclared[:20])}")
    say(clean(f"evidence: {examined.proven.outcome}. {examined.proven.detail}".rstrip(". ")))


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
        "findings": examined.findings,
        "gained": examined.difference.gained,
        "lost": examined.difference.lost,
        "undeclared": examined.difference.undeclared,
        "evidence": examined.proven,
        "tried_in_sandbox": examined.tried,
    }
