"""`hermes incident stats`: how many, how long, and whether skills make it shorter."""

from datetime import datetime
from pathlib import Path

import click

from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, fields, json_option, note, say, table
from hermes.cli.render_safe import clip
from hermes.cli.stored import ask_journal
from hermes.cli.when import SINCE
from hermes.core.errors import HermesError
from hermes.memory.opening import Store, exists
from hermes.sre.incident import Incident
from hermes.sre.report.plot import svg, terminal
from hermes.sre.report.reading import listed
from hermes.sre.report.statistics import Spread, Statistics, statistics
from hermes.sre.report.times import lasting

UNKNOWN = "nobody or not known"
"""A recovery is observed; who brought it about is not recorded."""


@click.command(
    cls=Examples,
    examples="""
hermes incident stats --since 90d
hermes incident stats --service web --svg mttr.svg
hermes incident stats --drills --json
""",
)
@SINCE
@click.option("--service", default="", help="Only of this service.")
@click.option("--drills", is_flag=True, help="Also those of the gym.")
@click.option("--svg", "file", type=click.Path(path_type=Path), help="Also draw it to this file.")
@json_option
@click.pass_context
def stats(
    ctx: click.Context,
    since: datetime | None,
    service: str,
    drills: bool,
    file: Path | None,
    as_json: bool,
) -> None:
    """Count incidents, and plot the time to repair by week, with and without skills.

    MTTD: from the beginning of the problem, where its source knows it, to the incident. MTTA: from
    the incident to the first work on it or to a person who acknowledged it. MTTR: from the incident
    to checks that passed after a fix, or to a recovery that was observed; an incident for which
    neither is recorded has none.
    """
    loaded = settings_for(ctx)

    async def ask(journal: Store) -> list[Incident]:
        return await listed(journal, drills=drills)

    found = ask_journal(loaded, ask) if exists(loaded.store) else []
    told = statistics(
        [
            each
            for each in found
            if (since is None or each.case.opened_at >= since)
            and (not service or each.case.service == service)
        ]
    )
    if file is not None:
        _draw(file, told)
    if as_json:
        emit_json(told)
        return
    if not told.incidents:
        note("no incident yet")
        return
    _tell(told)


def _tell(told: Statistics) -> None:
    fields(
        {
            "incidents": f"{told.incidents}, {told.open} not resolved",
            "severity": _counts(told.severity),
            "outcome": _counts(told.outcome),
            "answered by": _counts(
                {UNKNOWN if name == "nobody" else name: n for name, n in told.answered_by.items()}
            ),
        }
    )
    say()
    named = {"MTTD": told.detect, "MTTA": told.acknowledge, "MTTR": told.repair}
    named |= {
        f"MTTR, {UNKNOWN if name == 'nobody' else name}": spread
        for name, spread in told.repaired_by.items()
    }
    table(("time", "median", "p90", "of"), [_row(name, each) for name, each in named.items()])
    say()
    say(terminal(told))
    if told.recurring:
        say()
        table(
            ("again", "times", "by skill", "first repair", "latest", "about"),
            [
                (
                    f"{each.last_at.astimezone():%Y-%m-%d}",
                    each.times,
                    each.by_skill,
                    lasting(each.first) if each.first is not None else "–",
                    lasting(each.last) if each.last is not None else "–",
                    clip(each.title, 60),
                )
                for each in told.recurring
            ],
        )


def _row(name: str, spread: Spread) -> tuple[object, ...]:
    if not spread.count:
        return name, "not defined", "not defined", 0
    return name, lasting(spread.median), lasting(spread.p90), spread.count


def _counts(counted: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counted.items())


def _draw(file: Path, told: Statistics) -> None:
    try:
        file.write_text(svg(told), encoding="utf-8")
    except OSError as error:
        raise HermesError(f"cannot write {file}: {error.strerror}") from error
    note(f"drawn to {file}")
