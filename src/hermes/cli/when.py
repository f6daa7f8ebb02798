"""Options that say from when on: `7d`, `12h`, or a date."""

from datetime import UTC, datetime, timedelta

import click

from hermes.policy.durations import seconds


def _since(ctx: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.now(UTC) - timedelta(seconds=seconds(text))
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"{text!r} is not like 7d, 12h or 2026-03-02") from error


UNTIL = click.option(
    "--until", callback=_since, metavar="WHEN", help="Only until then: 7d, 12h or 2026-03-02."
)
SINCE = click.option(
    "--since", callback=_since, metavar="WHEN", help="Only from then on: 7d, 12h or 2026-03-02."
)
