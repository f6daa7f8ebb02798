"""`hermes policy replay` and `report`: the gate's past, counted, or judged anew."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import get_args

import click
import msgspec

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
from hermes.cli.when import SINCE
from hermes.core.actions import Action
from hermes.core.events import Event
from hermes.core.events.happening import Origin, Unknown
from hermes.core.events.runs import RunStarted
from hermes.core.events.tools import ToolBlocked, ToolDecided, ToolRequested
from hermes.memory.opening import Store, exists
from hermes.policy.decide import DocumentPolicy
from hermes.policy.documents import Loaded as Documents
from hermes.policy.examine import Difference, Past
from hermes.policy.examine import replay as judge_anew
from hermes.policy.examine import report as count
from hermes.policy.judgement import TAINTED
from hermes.policy.verdict import Verdict
from hermes.settings.load import Loaded

ORIGINS = get_args(Origin)
KINDS = ("run.started", "tool.requested", "tool.decided", "tool.approved")
BLOCKED = ("run.started", "tool.blocked")
RUN = click.option("--run", help="Only one run and its subagents: an id, a title, or latest.")


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

    Without --set and --file: by the rules in force now. Each action is judged as of the time and
    in the place in which it happened; nothing is run.
    """
    loaded = settings_for(ctx, {"policy.set": set_name} if set_name else None)
    events = _events(loaded, run, since)
    past = list(_past(events, loaded.settings.terminal.backend, isolated))
    tainted = frozenset(
        (one.action.run, one.action.call.id)
        for decided, one in past
        if decided.tainted or decided.rule == TAINTED
    )
    then = Then(folder_of(""), Moment(loaded.settings.policy.timezone), tainted)
    found = judge_anew(Places(loaded, load_paths(files), then), _one_by_one(past, then.moment))
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


class Places:
    """Gates of that time: isolated places have other rules, unless a set was chosen."""

    def __init__(self, loaded: Loaded, tried: Documents, then: Then) -> None:
        self._loaded = loaded
        self._tried = tried
        self._then = then
        self._of = cache(self._open)
        self._of(False)  # rules with mistakes are told even if there is nothing to judge

    def decide(self, action: Action) -> Verdict:
        return self._of(action.isolated).decide(action)

    def started(self, action: Action) -> None:
        self._of(action.isolated).started(action)

    def _open(self, isolated: bool) -> DocumentPolicy:
        loaded, then = self._loaded, self._then
        present = in_force(loaded, then.folder, isolated=isolated)
        documents = put_on_top(present.documents, self._tried)
        return made_for_then(documents, effective(loaded, isolated=isolated), loaded, then)


def _one_by_one(past: Iterable[tuple[ToolDecided, Past]], moment: Moment) -> Iterator[Past]:
    for decided, one in past:
        moment.set(decided.at)
        yield one


def _past(
    events: Sequence[Event | Unknown], place: str, isolated: bool
) -> Iterator[tuple[ToolDecided, Past]]:
    runs: dict[str, RunStarted] = {}
    requested: dict[tuple[str, str], ToolRequested] = {}
    for event in events:
        match event:
            case RunStarted():
                runs[event.run] = event
            case ToolRequested():
                requested[event.run, event.call.id] = event
            case ToolDecided() if asked := requested.get((event.run, event.call_id)):
                action = _action(asked, runs.get(event.run), place, isolated)
                yield event, Past(action=action, verdict=event.verdict, rule=event.rule)


def _action(asked: ToolRequested, begun: RunStarted | None, place: str, isolated: bool) -> Action:
    """As it was asked for; what an older version did not write down is as the run began."""
    known = bool(asked.environment)
    origin = begun.origin if begun else "cli"
    return Action(
        call=asked.call,
        risk=asked.risk,
        run=asked.run,
        origin=msgspec.convert(asked.origin, Origin) if asked.origin in ORIGINS else origin,
        environment=asked.environment or place,
        target=asked.target if known else place,
        isolated=isolated or asked.isolated,
        cwd=asked.cwd or (begun.directory if begun else ""),
        command=asked.command,
    )


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


@click.command(cls=Examples, examples="hermes policy misjudged --since 7d --json")
@RUN
@SINCE
@json_option
@click.pass_context
def misjudged(ctx: click.Context, run: str | None, since: datetime | None, as_json: bool) -> None:
    """List what commands tried beyond their verdict, and the kernel refused them.

    Each line is a finding about the gate: it took a command for more harmless than it was. Some
    programs only try to keep a cache or a history beside their work, and go on without. Where that
    is known to change no answer (`optional`), only --json lists it.
    """
    found = [
        event
        for event in _events(settings_for(ctx), run, since, BLOCKED)
        if isinstance(event, ToolBlocked)
    ]
    if as_json:
        emit_json([msgspec.to_builtins(event) for event in found])
        return
    table(
        ("when", "blocked", "by", "judged", "command"),
        [
            (
                event.at.isoformat(" ", "seconds"),
                visible(event.what),
                visible(event.program),
                visible(event.judged),
                clip(visible(event.command), 80),
            )
            for event in found
            if not event.optional
        ],
        empty="no command tried more than it was judged to do",
    )


def _events(
    loaded: Loaded,
    run: str | None,
    since: datetime | None,
    kinds: tuple[str, ...] = KINDS,
) -> list[Event | Unknown]:
    async def ask(journal: Store) -> list[Event | Unknown]:
        wanted = (await find_run(journal, run)).id if run else ""
        begun = [] if since is None else [one async for one in journal.read(kinds=kinds[:1])]
        later = [one async for one in journal.read(kinds=kinds, since=since)]
        return [
            one.event
            for one in (*begun, *later)
            if not wanted or one.event.run == wanted or one.event.run.startswith(f"{wanted}/")
        ]

    return ask_journal(loaded, ask) if exists(loaded.store) else []
