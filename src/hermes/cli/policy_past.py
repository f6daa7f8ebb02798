"""`hermes policy replay` and `report`: the gate's past, counted, or judged anew."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from hermes.app.gate import effective
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, say, table
from hermes.cli.policy_action import SETS
from hermes.cli.policy_gate import (
    Moment,
    Then,
    folder_of,
    in_force,
    load_paths,
    made_for_then,
    put_on_top,
)
from hermes.cli.render_safe import clip, visible
from hermes.cli.stored import ask_journal, find_run
from hermes.core.actions import Action
from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.events.runs import RunStarted
from hermes.core.events.tools import ToolDecided, ToolRequested
from hermes.memory.journal import SqliteJournal
from hermes.policy.durations import seconds
from hermes.policy.examine import Difference, Past
from hermes.policy.examine import replay as judge_anew
from hermes.policy.examine import report as count
from hermes.policy.judgement import TAINTED
from hermes.settings.load import Loaded

KINDS = ("run.started", "tool.requested", "tool.decided", "tool.approved")


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


RUN = click.option("--run", help="Only one run and its subagents: an id, a title, or latest.")
SINCE = click.option(
    "--since", callback=_since, metavar="WHEN", help="Only from then on: 7d, 12h or 2026-03-02."
)


@click.command(
    cls=Examples,
    examples="""
hermes policy replay --set observe
hermes policy replay --file new-rule.yaml --since 30d
hermes policy replay --file new-rule.yaml --run latest --json
""",
)
@click.option("--set", "set_name", type=click.Choice(SETS), default=None, help="Built-in set.")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Rules on top of yours, in place of own ones with the same name (may be repeated).",
)
@RUN
@SINCE
@click.option("--isolated", is_flag=True, help="Judge as in a place that cannot hurt the host.")
@json_option
@click.pass_context
def replay(
    ctx: click.Context,
    set_name: str | None,
    files: tuple[Path, ...],
    run: str | None,
    since: datetime | None,
    isolated: bool,
    as_json: bool,
) -> None:
    """Judge the recorded actions anew, and list what would be decided otherwise.

    Without --set and --file: by the rules in force now. Each action is judged as of the time
    it happened, in the folder its run began in; nothing is run.
    """
    loaded = settings_for(ctx, {"policy.set": set_name} if set_name else None)
    folder = folder_of("")
    present = in_force(loaded, folder, isolated=isolated)
    documents = put_on_top(present.documents, load_paths(files))
    events = _events(loaded, run, since)
    past = list(_past(events, loaded.settings.terminal.backend, isolated))
    tainted = ((one.action.run, one.action.call.id) for _, one in past if one.rule == TAINTED)
    settings = effective(loaded, isolated=isolated)
    then = Then(folder, Moment(settings.timezone), frozenset(tainted))
    gate = made_for_then(documents, settings, loaded, then)
    found = judge_anew(gate, _one_by_one(past, then.moment))
    if as_json:
        emit_json({"actions": len(past), "changes": [_plain(each) for each in found]})
        return
    table(
        ("run", "action", "was", "by", "would be", "by"),
        [_row(one) for one in found],
        empty="nothing would change",
    )
    stricter = sum(one.stricter for one in found)
    say(f"{len(past)} actions; {stricter} stricter, {len(found) - stricter} laxer")


def _one_by_one(past: Iterable[tuple[datetime, Past]], moment: Moment) -> Iterator[Past]:
    for at, one in past:
        moment.set(at)
        yield one


def _past(
    events: Sequence[Event | Unknown], place: str, isolated: bool
) -> Iterator[tuple[datetime, Past]]:
    runs: dict[str, RunStarted] = {}
    requested: dict[tuple[str, str], ToolRequested] = {}
    for event in events:
        match event:
            case RunStarted():
                runs[event.run] = event
            case ToolRequested():
                requested[event.run, event.call.id] = event
            case ToolDecided() if asked := requested.get((event.run, event.call_id)):
                begun = runs.get(event.run)
                action = Action(
                    call=asked.call,
                    risk=asked.risk,
                    run=event.run,
                    origin=begun.origin if begun else "cli",
                    environment=place,
                    target=place,
                    isolated=isolated,
                    cwd=begun.directory if begun else "",
                )
                yield event.at, Past(action=action, verdict=event.verdict, rule=event.rule)


def _row(one: Difference) -> tuple[str, ...]:
    node = clip(visible(one.node), 60)
    return one.run, node, one.before, one.before_rule, one.after, one.after_rule


def _plain(one: Difference) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


@click.command(cls=Examples, examples="hermes policy report --since 7d --json")
@RUN
@SINCE
@json_option
@click.pass_context
def report(ctx: click.Context, run: str | None, since: datetime | None, as_json: bool) -> None:
    """Count per rule what was decided, the busiest first.

    `passed` was allowed or approved by a person, `failed` denied, refused or answered by nobody,
    `warned` only tried out.
    """
    events = _events(settings_for(ctx), run, since)
    verdicts: dict[str, Counter[str]] = {}
    for event in events:
        if isinstance(event, ToolDecided):
            verdicts.setdefault(event.rule, Counter())[event.verdict] += 1
    rows = []
    for one in count(events):
        said = verdicts.get(one.rule, Counter())
        row: dict[str, object] = {"rule": one.rule, "times": said.total()}
        row |= {"allowed": said["allow"], "asked": said["ask"], "denied": said["deny"]}
        row |= {"dry_run": said["dry-run"]}
        rows.append(row | {"passed": one.passed, "failed": one.failed, "warned": one.warned})
    if as_json:
        emit_json(rows)
        return
    table(
        tuple(name.replace("_", " ") for name in rows[0]) if rows else (),
        [tuple(row.values()) for row in rows],
        empty="nothing was decided yet",
    )


def _events(loaded: Loaded, run: str | None, since: datetime | None) -> list[Event | Unknown]:
    async def ask(journal: SqliteJournal) -> list[Event | Unknown]:
        wanted = (await find_run(journal, run)).id if run else ""
        begun = [] if since is None else [one async for one in journal.read(kinds=KINDS[:1])]
        later = [one async for one in journal.read(kinds=KINDS, since=since)]
        return [
            one.event
            for one in (*begun, *later)
            if not wanted or one.event.run == wanted or one.event.run.startswith(f"{wanted}/")
        ]

    return ask_journal(loaded, ask) if loaded.journal.exists() else []
