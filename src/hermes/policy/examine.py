"""What people ask of the gate: check, explain, test, replay, report."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from hermes.core.actions import Action, Decision, KernelSupport
from hermes.core.events import Event
from hermes.core.events.tools import ToolApproved, ToolDecided
from hermes.core.messages import Value
from hermes.policy import schema
from hermes.policy.decide import DocumentPolicy
from hermes.policy.deed import Deed, Step
from hermes.policy.documents import Placed
from hermes.policy.given import action_of, given_of, moment_of, situation_of
from hermes.policy.judgement import judge, near_misses
from hermes.policy.verdict import Verdict


def check(
    policy: DocumentPolicy,
    data: Mapping[str, Any],
    *,
    cwd: str = "/",
    home: str = "/root",
    kernel: KernelSupport | None = None,
) -> dict[str, Any]:
    """The verdict on something like `{"command": "rm -rf /srv"}`. Raises `SettingsError`."""
    verdict, _ = _judge(policy, given_of(data), cwd, home, kernel)
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
    """`true`, `"partly"` or `false`; `null` when the place was not asked."""
    if decision.enforced in ("", "partly"):
        return decision.enforced or None
    return decision.enforced == "yes"


def explain(
    policy: DocumentPolicy, data: Mapping[str, Any], *, cwd: str = "/", home: str = "/root"
) -> list[tuple[str, str]]:
    """The same in full, as lines of a label and a text."""
    given = given_of(data)
    verdict, deed = _judge(policy, given, cwd, home)
    near = near_misses(policy.book, deed, moment_of(given, policy.clock()))
    lines = [("verdict", verdict.verdict), ("rule", _with_source(policy, verdict.rule))]
    lines += [("reason", verdict.reason), ("because of", verdict.node)]
    lines += [("also", _with_source(policy, name)) for name in verdict.also]
    lines += [("lifted", text) for text in verdict.lifted]
    lines += [("audit", f"{each.rule} would say {each.effect}") for each in verdict.audited]
    lines += [("asks", _asked(verdict))] if verdict.ask else []
    for step in deed.steps:
        lines += _step_lines(step)
    lines += [("only at run time", reason) for reason in deed.dynamic]
    for miss in near:
        fields = ", ".join(miss.missed)
        lines.append(("nearly", f"{miss.rule} ({miss.effect}) but for {fields}: {miss.node}"))
    return [*lines, ("action", verdict.hash)]


def _step_lines(step: Step) -> Iterator[tuple[str, str]]:
    wrapped = f" (inside {', '.join(step.via)})" if step.via else ""
    yield "step", f"{step.node}{wrapped}: {', '.join(sorted(step.effects))}"
    for reason in step.why:
        yield "  why", reason
    for path in step.changes:
        yield "  changes", path


def _judge(
    policy: DocumentPolicy,
    given: schema.Given,
    cwd: str,
    home: str,
    kernel: KernelSupport | None = None,
) -> tuple[Verdict, Deed]:
    action = msgspec.structs.replace(action_of(given), kernel=kernel)
    deed = policy.reader.read(action, situation_of(given, cwd=cwd, home=home))
    return judge(policy.book, deed, now=moment_of(given, policy.clock())), deed


def _with_source(policy: DocumentPolicy, name: str) -> str:
    book = policy.book
    sources = {rule.name: rule.source for rule in (*book.rules, *book.audits)}
    sources |= {lift.name: lift.source for lift in book.lifts}
    return f"{name} ({sources[name]})" if name in sources else name


def _asked(verdict: Verdict) -> str:
    ask = verdict.ask
    if ask is None:
        return ""
    if ask.announce:
        return f"announces it and goes on after {ask.announce:g} s unless stopped"
    who, never = " or ".join(ask.approvers) or "anybody", ", ".join(ask.barred)
    but = f", not {never}" if never else ""
    return f"{ask.count} of {who}{but}; no answer within {ask.timeout:g} s is a no"


class CaseResult(Value, kw_only=True, frozen=True):
    """One case of a PolicyTest and how it went."""

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
    documents: Iterable[Placed],
    policy_for: Callable[[str], DocumentPolicy],
    *,
    cwd: str = "/srv/app",
    home: str = "/home/me",
) -> list[CaseResult]:
    """Every case of every PolicyTest. `policy_for` gives the policy of a set, of "" the own one."""
    results = []
    for placed in documents:
        if not isinstance(placed.document, schema.PolicyTest):
            continue
        policy = policy_for(placed.document.spec.set)
        for number, case in enumerate(placed.document.spec.cases, start=1):
            results.append(_run_case(policy, placed, number, case, (cwd, home)))
    return results


def _run_case(
    policy: DocumentPolicy, placed: Placed, number: int, case: schema.Case, where: tuple[str, str]
) -> CaseResult:
    verdict, _ = _judge(policy, case, *where)
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
    return CaseResult(
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


class Past(Value, kw_only=True, frozen=True):
    """An action that was once decided on."""

    action: Action
    verdict: str
    rule: str


class Difference(Value, kw_only=True, frozen=True):
    call: str
    run: str
    node: str
    before: str
    before_rule: str
    after: str
    after_rule: str
    stricter: bool


_ORDER = ("allow", "dry-run", "ask", "deny")


class Judge(Protocol):
    """A gate, or several of which each judges what happened in its kind of place."""

    def decide(self, action: Action) -> Verdict: ...
    def started(self, action: Action) -> None: ...


def replay(policy: Judge, past: Iterable[Past]) -> list[Difference]:
    """What a policy would have decided otherwise. What was run then is remembered as run."""
    found = []
    for each in past:
        verdict = policy.decide(each.action)
        if each.verdict in ("allow", "ask"):
            policy.started(each.action)
        if verdict.verdict != each.verdict:
            found.append(
                Difference(
                    call=each.action.call.id,
                    run=each.action.run,
                    node=verdict.node,
                    before=each.verdict,
                    before_rule=each.rule,
                    after=verdict.verdict,
                    after_rule=verdict.rule,
                    stricter=_ORDER.index(verdict.verdict) > _ORDER.index(each.verdict),
                )
            )
    return found


class RuleReport(Value, kw_only=True, frozen=True):
    rule: str
    passed: int = 0
    """Allowed, or approved by a person."""
    failed: int = 0
    """Denied, or refused by a person, or by nobody in time."""
    warned: int = 0
    """Only tried out, or noticed by a rule in audit mode."""


def report(events: Sequence[Event | Any]) -> list[RuleReport]:
    """How often each rule let pass, held or warned, the busiest first."""
    answers = {event.call_id: event.approved for event in events if isinstance(event, ToolApproved)}
    counts: dict[str, Counter[str]] = {}
    for event in events:
        if not isinstance(event, ToolDecided):
            continue
        counts.setdefault(event.rule, Counter())[_outcome(event, answers)] += 1
        for rule in event.audited:
            counts.setdefault(rule, Counter())["warned"] += 1
    reports = [RuleReport(rule=rule, **count) for rule, count in counts.items()]
    return sorted(reports, key=lambda one: (-one.passed - one.failed - one.warned, one.rule))


def _outcome(event: ToolDecided, answers: Mapping[str, bool]) -> str:
    if event.verdict == "dry-run":
        return "warned"
    allowed = event.verdict == "allow" or (event.verdict == "ask" and answers.get(event.call_id))
    return "passed" if allowed else "failed"
