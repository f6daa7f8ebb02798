"""`hermes policy replay` and `report`: the gate's past, counted, or judged anew."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import get_args

import click
import msgspec

from hermes.app.policy import effective_policy_settings
from hermes.cli.context import find_run, load_settings, query_journal, since_option
from hermes.cli.lazy import CommandWithExamples
from hermes.cli.output import echo, json_option, print_json, print_table
from hermes.cli.policy.context import (
    POLICY_SET_NAMES,
    PolicyReplayClock,
    PolicyReplayContext,
    build_replay_policy,
    documents_in_force,
    load_policy_files,
    overlay_documents,
    working_folder,
)
from hermes.cli.render.terminal_text import clip, escape_invisible
from hermes.core.actions import Action
from hermes.core.events import Event
from hermes.core.events.base import RunOrigin, UnknownEvent
from hermes.core.events.runs import RunStarted
from hermes.core.events.tools import ToolBlocked, ToolDecided, ToolRequested
from hermes.memory.store import JournalStore, store_exists
from hermes.policy.decide import DocumentPolicy
from hermes.policy.examination import DecidedAction, ReplayDifference
from hermes.policy.examination import replay_decisions as judge_anew
from hermes.policy.examination import rule_statistics as count
from hermes.policy.rules.documents import LoadedDocuments as Documents
from hermes.policy.rules.evaluation import TAINTED_RULE
from hermes.policy.rules.rule import PolicyVerdict
from hermes.settings.load import LoadedSettings

ACTION_ORIGINS = get_args(RunOrigin)
REPLAY_EVENTS = ("run.started", "tool.requested", "tool.decided", "tool.approved")
BLOCKED_EVENTS = ("run.started", "tool.blocked")
run_option = click.option(
    "--run", help="Only one run and its subagents: an id, a title, or latest."
)


@click.command(
    cls=CommandWithExamples,
    examples="""
hermes policy replay --set observe
hermes policy replay --file new-rule.yaml --since 30d
hermes policy replay --file new-rule.yaml --run latest --json
""",
)
@click.option(
    "--set", "set_name", type=click.Choice(POLICY_SET_NAMES), default=None, help="Built-in set."
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Rules on top of yours, in place of own ones with the same name (may be repeated).",
)
@run_option
@since_option
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
    loaded = load_settings(ctx, {"policy.set": set_name} if set_name else None)
    events = _read_events(loaded, run, since)
    past = list(_recorded_actions(events, loaded.settings.terminal.backend, isolated))
    tainted = frozenset(
        (one.action.run, one.action.call.id)
        for decided, one in past
        if decided.tainted or decided.rule == TAINTED_RULE
    )
    then = PolicyReplayContext(
        working_folder(""), PolicyReplayClock(loaded.settings.policy.timezone), tainted
    )
    found = judge_anew(
        ReplayPolicies(loaded, load_policy_files(files), then), _replay_in_order(past, then.moment)
    )
    if as_json:
        print_json({"actions": len(past), "changes": [_difference_data(each) for each in found]})
        return
    print_table(
        ("run", "action", "was", "by", "would be", "by"),
        [_difference_row(one) for one in found],
        empty="nothing would change",
    )
    stricter = sum(one.stricter for one in found)
    echo(f"{len(past)} actions; {stricter} stricter, {len(found) - stricter} laxer")


class ReplayPolicies:
    """Gates of that time: isolated places have other rules, unless a set was chosen."""

    def __init__(
        self, loaded: LoadedSettings, candidates: Documents, replay: PolicyReplayContext
    ) -> None:
        self._loaded = loaded
        self._tried = candidates
        self._then = replay
        self._of = cache(self._build_policy)
        self._of(False)  # rules with mistakes are told even if there is nothing to judge

    def decide(self, action: Action) -> PolicyVerdict:
        return self._of(action.isolated).decide(action)

    def started(self, action: Action) -> None:
        self._of(action.isolated).started(action)

    def _build_policy(self, isolated: bool) -> DocumentPolicy:
        loaded, then = self._loaded, self._then
        present = documents_in_force(loaded, then.folder, isolated=isolated)
        documents = overlay_documents(present.documents, self._tried)
        return build_replay_policy(
            documents, effective_policy_settings(loaded, isolated=isolated), loaded, then
        )


def _replay_in_order(
    past: Iterable[tuple[ToolDecided, DecidedAction]], moment: PolicyReplayClock
) -> Iterator[DecidedAction]:
    for decided, one in past:
        moment.set(decided.at)
        yield one


def _recorded_actions(
    events: Sequence[Event | UnknownEvent], environment: str, isolated: bool
) -> Iterator[tuple[ToolDecided, DecidedAction]]:
    runs: dict[str, RunStarted] = {}
    requested: dict[tuple[str, str], ToolRequested] = {}
    for event in events:
        match event:
            case RunStarted():
                runs[event.run] = event
            case ToolRequested():
                requested[event.run, event.call.id] = event
            case ToolDecided() if asked := requested.get((event.run, event.call_id)):
                action = _rebuild_action(asked, runs.get(event.run), environment, isolated)
                yield event, DecidedAction(action=action, verdict=event.verdict, rule=event.rule)


def _rebuild_action(
    asked: ToolRequested, begun: RunStarted | None, environment: str, isolated: bool
) -> Action:
    """As it was asked for; what an older version did not write down is as the run began."""
    known = bool(asked.environment)
    origin = begun.origin if begun else "cli"
    return Action(
        call=asked.call,
        risk=asked.risk,
        run=asked.run,
        origin=msgspec.convert(asked.origin, RunOrigin)
        if asked.origin in ACTION_ORIGINS
        else origin,
        environment=asked.environment or environment,
        target=asked.target if known else environment,
        isolated=isolated or asked.isolated,
        cwd=asked.cwd or (begun.directory if begun else ""),
        command=asked.command,
    )


def _difference_row(one: ReplayDifference) -> tuple[str, ...]:
    node = clip(escape_invisible(one.node), 60)
    return one.run, node, one.before, one.before_rule, one.after, one.after_rule


def _difference_data(one: ReplayDifference) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


@click.command(cls=CommandWithExamples, examples="hermes policy report --since 7d --json")
@run_option
@since_option
@json_option
@click.pass_context
def report(ctx: click.Context, run: str | None, since: datetime | None, as_json: bool) -> None:
    """Count per rule what was decided, the busiest first.

    `passed` was allowed or approved by a person, `failed` denied, refused or answered by nobody,
    `warned` only tried out.
    """
    events = _read_events(load_settings(ctx), run, since)
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
        print_json(rows)
        return
    print_table(
        tuple(name.replace("_", " ") for name in rows[0]) if rows else (),
        [tuple(row.values()) for row in rows],
        empty="nothing was decided yet",
    )


@click.command(cls=CommandWithExamples, examples="hermes policy misjudged --since 7d --json")
@run_option
@since_option
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
        for event in _read_events(load_settings(ctx), run, since, BLOCKED_EVENTS)
        if isinstance(event, ToolBlocked)
    ]
    if as_json:
        print_json([msgspec.to_builtins(event) for event in found])
        return
    print_table(
        ("when", "blocked", "by", "judged", "command"),
        [
            (
                event.at.isoformat(" ", "seconds"),
                escape_invisible(event.what),
                escape_invisible(event.program),
                escape_invisible(event.judged),
                clip(escape_invisible(event.command), 80),
            )
            for event in found
            if not event.optional
        ],
        empty="no command tried more than it was judged to do",
    )


def _read_events(
    loaded: LoadedSettings,
    run: str | None,
    since: datetime | None,
    kinds: tuple[str, ...] = REPLAY_EVENTS,
) -> list[Event | UnknownEvent]:
    async def ask(journal: JournalStore) -> list[Event | UnknownEvent]:
        wanted = (await find_run(journal, run)).id if run else ""
        begun = [] if since is None else [one async for one in journal.read(kinds=kinds[:1])]
        later = [one async for one in journal.read(kinds=kinds, since=since)]
        return [
            one.event
            for one in (*begun, *later)
            if not wanted or one.event.run == wanted or one.event.run.startswith(f"{wanted}/")
        ]

    return query_journal(loaded, ask) if store_exists(loaded.store) else []
