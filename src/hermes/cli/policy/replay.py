"""`hermes policy replay`, `report` and `misjudged`: evaluate recorded decisions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import get_args

import click
import msgspec
from msgspec.structs import asdict

from hermes.app.policy import effective_policy_settings
from hermes.cli.context import find_run, load_settings, query_journal, since_option
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_json, print_table
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
from hermes.core.tool_calls import OpenToolCalls
from hermes.memory.store import JournalStore, store_exists
from hermes.policy.decide import DocumentPolicy
from hermes.policy.examination import (
    DecidedAction,
    ReplayDifference,
    replay_decisions,
    rule_statistics,
)
from hermes.policy.rules.documents import LoadedDocuments
from hermes.policy.rules.evaluation import TAINTED_RULE
from hermes.policy.rules.rule import PolicyVerdict
from hermes.settings.load import LoadedSettings

ACTION_ORIGINS = get_args(RunOrigin)
REPLAY_EVENTS = ("run.started", "tool.requested", "tool.decided", "tool.approved")
BLOCKED_EVENTS = ("run.started", "tool.blocked")
run_option = click.option(
    "--run", help="Only one run and its subagents: an id, a title, or latest."
)


@cli_command("""
hermes policy replay --set observe
hermes policy replay --file new-rule.yaml --since 30d
hermes policy replay --file new-rule.yaml --run latest --json
""")
@click.option(
    "--set", "set_name", type=click.Choice(POLICY_SET_NAMES), default=None, help="Built-in set."
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Rules to add; they replace own rules with the same name (may be repeated).",
)
@run_option
@since_option
@click.option("--isolated", is_flag=True, help="Decide as in an isolated environment.")
def replay(
    ctx: click.Context,
    set_name: str | None,
    files: tuple[Path, ...],
    run: str | None,
    since: datetime | None,
    isolated: bool,
    as_json: bool,
) -> None:
    """Decide the recorded actions again, and list the decisions that would change.

    Without --set and --file it uses the rules in force now. Each action is decided with its
    recorded time and environment; nothing is run.
    """
    loaded = load_settings(ctx, {"policy.set": set_name} if set_name else None)
    events = _read_events(loaded, run, since)
    recorded = list(_recorded_actions(events, loaded.settings.terminal.backend, isolated))
    tainted = frozenset(
        (one.action.run, one.action.call.id)
        for decided, one in recorded
        if decided.tainted or decided.rule == TAINTED_RULE
    )
    replay_context = PolicyReplayContext(
        working_folder(""), PolicyReplayClock(loaded.settings.policy.timezone), tainted
    )
    found = replay_decisions(
        ReplayPolicies(loaded, load_policy_files(files), replay_context),
        _replay_in_order(recorded, replay_context.clock),
    )
    if as_json:
        print_json({"actions": len(recorded), "changes": [asdict(each) for each in found]})
        return
    print_table(
        ("run", "action", "was", "by", "would be", "by"),
        [_difference_row(one) for one in found],
        empty="nothing would change",
    )
    stricter = sum(one.stricter for one in found)
    echo(f"{len(recorded)} actions; {stricter} stricter, {len(found) - stricter} laxer")


class ReplayPolicies:
    """One policy for isolated environments and one for the others: their rules differ."""

    def __init__(
        self, loaded: LoadedSettings, candidates: LoadedDocuments, replay: PolicyReplayContext
    ) -> None:
        self._loaded = loaded
        self._candidates = candidates
        self._replay = replay
        self._of = cache(self._build_policy)
        self._of(False)  # report broken rules even if there are no actions

    def decide(self, action: Action) -> PolicyVerdict:
        return self._of(action.isolated).decide(action)

    def record_start(self, action: Action) -> None:
        self._of(action.isolated).record_start(action)

    def _build_policy(self, isolated: bool) -> DocumentPolicy:
        loaded, replay_context = self._loaded, self._replay
        present = documents_in_force(loaded, replay_context.folder, isolated=isolated)
        documents = overlay_documents(present.documents, self._candidates)
        return build_replay_policy(
            documents, effective_policy_settings(loaded, isolated=isolated), loaded, replay_context
        )


def _replay_in_order(
    recorded: Iterable[tuple[ToolDecided, DecidedAction]], clock: PolicyReplayClock
) -> Iterator[DecidedAction]:
    for decided, one in recorded:
        clock.set(decided.at)
        yield one


def _recorded_actions(
    events: Sequence[Event | UnknownEvent], environment: str, isolated: bool
) -> Iterator[tuple[ToolDecided, DecidedAction]]:
    runs: dict[str, RunStarted] = {}
    calls = OpenToolCalls()
    for event in events:
        call = calls.apply(event)
        if isinstance(event, RunStarted):
            runs[event.run] = event
        elif isinstance(event, ToolDecided) and call is not None:
            action = _rebuild_action(call.request, runs.get(event.run), environment, isolated)
            yield event, DecidedAction(action=action, verdict=event.verdict, rule=event.rule)


def _rebuild_action(
    request: ToolRequested, started: RunStarted | None, environment: str, isolated: bool
) -> Action:
    """Rebuild the action; fields that older versions did not record come from the run."""
    known = bool(request.environment)
    origin = started.origin if started else "cli"
    return Action(
        call=request.call,
        risk=request.risk,
        run=request.run,
        origin=msgspec.convert(request.origin, RunOrigin)
        if request.origin in ACTION_ORIGINS
        else origin,
        environment=request.environment or environment,
        target=request.target if known else environment,
        isolated=request.remote is None and (isolated or request.isolated),
        cwd=request.cwd or (started.directory if started else ""),
        command=request.command,
        actor=request.actor or (started.by if started else ""),
        remote=request.remote,
        request=request.request,
        definition=request.definition,
    )


def _difference_row(one: ReplayDifference) -> tuple[str, ...]:
    node = clip(escape_invisible(one.node), 60)
    return one.run, node, one.before, one.before_rule, one.after, one.after_rule


@cli_command("hermes policy report --since 7d --json")
@run_option
@since_option
def report(ctx: click.Context, run: str | None, since: datetime | None, as_json: bool) -> None:
    """Count the decisions per rule, the most frequent first.

    `passed`: allowed, or approved by a person; `failed`: denied, refused or not answered;
    `warned`: rules in audit mode.
    """
    events = _read_events(load_settings(ctx), run, since)
    verdicts: dict[str, Counter[str]] = {}
    for event in events:
        if isinstance(event, ToolDecided):
            verdicts.setdefault(event.rule, Counter())[event.verdict] += 1
    rows = []
    for one in rule_statistics(events):
        counts = verdicts.get(one.rule, Counter())
        row: dict[str, object] = {"rule": one.rule, "times": counts.total()}
        row |= {"allowed": counts["allow"], "asked": counts["ask"], "denied": counts["deny"]}
        row |= {"dry_run": counts["dry-run"]}
        rows.append(row | {"passed": one.passed, "failed": one.failed, "warned": one.warned})
    if as_json:
        print_json(rows)
        return
    print_table(
        tuple(name.replace("_", " ") for name in rows[0]) if rows else (),
        [tuple(row.values()) for row in rows],
        empty="there are no decisions yet",
    )


@cli_command("hermes policy misjudged --since 7d --json")
@run_option
@since_option
def misjudged(ctx: click.Context, run: str | None, since: datetime | None, as_json: bool) -> None:
    """List operations that the kernel blocked because the verdict did not cover them.

    Each line shows a command that the policy judged as less harmful than it was. Some programs only
    try to write a cache or a history and continue without it. Where that is known not to change
    the result (`optional`), only --json lists it.
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
        empty="the kernel blocked nothing",
    )


def _read_events(
    loaded: LoadedSettings,
    run: str | None,
    since: datetime | None,
    kinds: tuple[str, ...] = REPLAY_EVENTS,
) -> list[Event | UnknownEvent]:
    async def query(journal: JournalStore) -> list[Event | UnknownEvent]:
        wanted = (await find_run(journal, run)).id if run else ""
        started = [] if since is None else [one async for one in journal.read(kinds=kinds[:1])]
        later = [one async for one in journal.read(kinds=kinds, since=since)]
        return [
            one.event
            for one in (*started, *later)
            if not wanted or one.event.run == wanted or one.event.run.startswith(f"{wanted}/")
        ]

    return query_journal(loaded, query) if store_exists(loaded.store) else []
