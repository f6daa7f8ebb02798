"""Examines policies: checks and explains described actions, runs PolicyTests, replays decisions."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, get_args

import msgspec

from hermes.core.actions import Action, Decision, KernelSupport
from hermes.core.errors import SettingsError
from hermes.core.events import Event
from hermes.core.events.base import RunOrigin
from hermes.core.events.tools import ToolApproved, ToolDecided
from hermes.core.messages import Risk, ToolCall, Value
from hermes.plumbing.problems import suggest_name
from hermes.policy.actions.action_effects import (
    ActionLocation,
    IncidentFacts,
)
from hermes.policy.actions.reader import ActionContext
from hermes.policy.decide import DocumentPolicy
from hermes.policy.rules import schema
from hermes.policy.rules.documents import LocatedDocument
from hermes.policy.rules.evaluation import evaluate
from hermes.policy.rules.rule import PolicyVerdict
from hermes.policy.rules.schema import ActionDescription

DescribeAction = Callable[[Action], Action]
"""Adds what the tool itself says about a call: its risk, where it acts, and what it sends."""
_READ_ONLY_TOOLS = ("read_file", "search_files", "todo", "clarify", "delegate")


def parse_description(data: Mapping[str, Any]) -> ActionDescription:
    """Raises `SettingsError` naming the invalid key."""
    known = [field.name for field in msgspec.structs.fields(ActionDescription)]
    for key in data:
        if key not in known:
            raise SettingsError(f"unknown key {key!r}; {suggest_name(str(key), known)}")
    try:
        return msgspec.convert(dict(data), ActionDescription)
    except msgspec.ValidationError as error:
        raise SettingsError(f"this is not an action: {error}") from error


def action_from_description(description: ActionDescription) -> Action:
    origins = get_args(RunOrigin)
    if description.origin not in origins:
        raise SettingsError(
            f"no origin {description.origin!r}; {suggest_name(description.origin, origins)}"
        )
    tool = description.tool or "terminal"
    arguments = {**description.arguments}
    if description.command and tool == "terminal":
        arguments.setdefault("command", description.command)
    risk = Risk.READ if tool in _READ_ONLY_TOOLS else Risk(description.risk)
    host = (
        description.target
        if isinstance(description.target, str)
        else description.target.get("host", "")
    )
    return Action(
        call=ToolCall("given", tool, arguments),
        risk=risk,
        run=description.run,
        origin=msgspec.convert(description.origin, RunOrigin),
        environment=description.environment,
        target=host,
        isolated=description.isolated,
        tested=description.tested,
    )


def context_from_description(
    description: ActionDescription, *, cwd: str, home: str
) -> ActionContext:
    """Missing values are taken from this process."""
    target = description.target if isinstance(description.target, dict) else {}
    unknown = set(target) - set(ActionLocation.__struct_fields__)
    if unknown:
        name = min(unknown)
        known = list(ActionLocation.__struct_fields__)
        raise SettingsError(f"target: unknown key {name!r}; {suggest_name(name, known)}")
    return ActionContext(
        cwd=description.cwd or cwd,
        home=description.home or home,
        command=description.command if description.tool not in ("", "terminal") else "",
        tainted=description.tainted,
        actor=description.actor,
        where=msgspec.convert(target, ActionLocation),
        incident=msgspec.convert(description.incident, IncidentFacts),
    )


def evaluation_time(description: ActionDescription, now: datetime) -> datetime:
    if not description.now:
        return now
    try:
        when = datetime.fromisoformat(description.now)
    except ValueError as error:
        raise SettingsError(
            f"now: {description.now!r} is not a time like 2026-03-02T07:30"
        ) from error
    return when if when.tzinfo else when.replace(tzinfo=now.tzinfo)


def check_action(
    policy: DocumentPolicy,
    data: Mapping[str, Any],
    *,
    cwd: str = "/",
    home: str = "/root",
    kernel: KernelSupport | None = None,
    describe: DescribeAction | None = None,
) -> dict[str, Any]:
    """The verdict on an action such as `{"command": "rm -rf /srv"}`. Raises `SettingsError`."""
    verdict = _evaluate(policy, parse_description(data), cwd, home, kernel, describe)
    return {
        "verdict": verdict.verdict,
        "rule": verdict.rule,
        "effects": list(verdict.effects),
        "reason": verdict.reason,
        "node": verdict.node,
        "hash": verdict.hash,
        "announce": verdict.ask.announce if verdict.ask else 0.0,
        "profile": msgspec.to_builtins(verdict.profile),
        "enforced": enforced_in_json(verdict),
        "enforced_reason": verdict.unenforced,
    }


def enforced_in_json(decision: Decision) -> bool | str | None:
    """`true`, `"partly"` or `false`; `null` when the kernel support is unknown."""
    if decision.enforced in ("", "partly"):
        return decision.enforced or None
    return decision.enforced == "yes"


def _evaluate(
    policy: DocumentPolicy,
    description: schema.ActionDescription,
    cwd: str,
    home: str,
    kernel: KernelSupport | None = None,
    describe: DescribeAction | None = None,
) -> PolicyVerdict:
    action = msgspec.structs.replace(action_from_description(description), kernel=kernel)
    action = describe(action) if describe else action
    effects = policy.reader.read(action, context_from_description(description, cwd=cwd, home=home))
    return evaluate(policy.rule_set, effects, now=evaluation_time(description, policy.clock()))


class PolicyTestResult(Value, kw_only=True, frozen=True):
    """The result of one case of a PolicyTest."""

    test: str
    source: str
    case: int
    shown: str
    expected: str
    got: str
    rule: str
    ok: bool
    problem: str = ""


def run_tests(
    documents: Iterable[LocatedDocument],
    policy_for: Callable[[str], DocumentPolicy],
    *,
    cwd: str = "/srv/app",
    home: str = "/home/me",
) -> list[PolicyTestResult]:
    """Runs all cases. `policy_for` returns the policy of a set; "" is the own policy."""
    results = []
    for placed in documents:
        if not isinstance(placed.document, schema.PolicyTest):
            continue
        policy = policy_for(placed.document.spec.set)
        for number, case in enumerate(placed.document.spec.cases, start=1):
            results.append(_run_case(policy, placed, number, case, (cwd, home)))
    return results


def _run_case(
    policy: DocumentPolicy,
    placed: LocatedDocument,
    number: int,
    case: schema.PolicyTestCase,
    where: tuple[str, str],
) -> PolicyTestResult:
    verdict = _evaluate(policy, case, *where)
    missing = sorted(set(case.effects) - set(verdict.effects))
    problem = ""
    if verdict.verdict != case.expect:
        problem = (
            f"expected {case.expect}, got {verdict.verdict} by {verdict.rule}: {verdict.reason}"
        )
    elif case.rule and verdict.rule != case.rule:
        problem = f"expected the rule {case.rule}, got {verdict.rule}"
    elif missing:
        problem = f"lacks the effects {', '.join(missing)}"
    return PolicyTestResult(
        test=placed.document.metadata.name,
        source=placed.source,
        case=number,
        shown=case.command or f"{case.tool} {msgspec.json.encode(case.arguments).decode()}",
        expected=case.expect,
        got=verdict.verdict,
        rule=verdict.rule,
        ok=not problem,
        problem=problem,
    )


class DecidedAction(Value, kw_only=True, frozen=True):
    """An action with its former decision."""

    action: Action
    verdict: str
    rule: str


class ReplayDifference(Value, kw_only=True, frozen=True):
    call: str
    run: str
    node: str
    before: str
    before_rule: str
    after: str
    after_rule: str
    stricter: bool


_VERDICT_ORDER = ("allow", "dry-run", "ask", "deny")


class ReplayPolicy(Protocol):
    """A policy, or several for different kinds of environments."""

    def decide(self, action: Action) -> PolicyVerdict: ...
    def record_start(self, action: Action) -> None: ...


def replay_decisions(policy: ReplayPolicy, past: Iterable[DecidedAction]) -> list[ReplayDifference]:
    """The actions that a policy would decide differently. Actions that were run count as run."""
    found = []
    for each in past:
        verdict = policy.decide(each.action)
        if each.verdict in ("allow", "ask"):
            policy.record_start(each.action)
        if verdict.verdict != each.verdict:
            found.append(
                ReplayDifference(
                    call=each.action.call.id,
                    run=each.action.run,
                    node=verdict.node,
                    before=each.verdict,
                    before_rule=each.rule,
                    after=verdict.verdict,
                    after_rule=verdict.rule,
                    stricter=_VERDICT_ORDER.index(verdict.verdict)
                    > _VERDICT_ORDER.index(each.verdict),
                )
            )
    return found


class RuleStatistics(Value, kw_only=True, frozen=True):
    rule: str
    passed: int = 0
    """Allowed, or approved by a person."""
    failed: int = 0
    """Denied by a rule or a person, or not answered in time."""
    warned: int = 0
    """A dry run, or matched by a rule in audit mode."""


def rule_statistics(events: Sequence[Event | Any]) -> list[RuleStatistics]:
    """Return how often each rule passed, failed or warned, most frequent first."""
    approved = {
        (event.run, event.call_id)
        for event in events
        if isinstance(event, ToolApproved) and event.approved
    }
    counts: dict[str, Counter[str]] = {}
    for event in events:
        if not isinstance(event, ToolDecided):
            continue
        counts.setdefault(event.rule, Counter())[_outcome(event, approved)] += 1
        for rule in event.audited:
            counts.setdefault(rule, Counter())["warned"] += 1
    reports = [RuleStatistics(rule=rule, **count) for rule, count in counts.items()]
    return sorted(reports, key=lambda one: (-one.passed - one.failed - one.warned, one.rule))


def _outcome(event: ToolDecided, approved: Collection[tuple[str, str]]) -> str:
    if event.verdict == "dry-run":
        return "warned"
    answered_yes = event.verdict == "ask" and (event.run, event.call_id) in approved
    return "passed" if event.verdict == "allow" or answered_yes else "failed"
