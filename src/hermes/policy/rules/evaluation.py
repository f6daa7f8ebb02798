"""Evaluates the rules for an action: combines the strictest results into a verdict."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from msgspec.structs import replace

from hermes.core.actions import AuditModeVerdict, ConfinementProfile
from hermes.policy.actions.action_effects import ActionEffects, ActionStep
from hermes.policy.actions.confinement_profile import approved_profile, build_profile
from hermes.policy.actions.enforceability import check_enforcement, find_obstacle, verdict_basis
from hermes.policy.commands.effects import ALWAYS_DENIED_EFFECTS
from hermes.policy.rules.matching import StepView
from hermes.policy.rules.rule import (
    STRICTNESS,
    AskOptions,
    NearMiss,
    PolicyRule,
    PolicyVerdict,
    RuleException,
)

_MAX_KEYS = 10_000


class RateCounter:
    """Counts recent actions for `rate_limit`, on a monotonic clock that cannot be set."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._done: dict[tuple[str, str], deque[float]] = {}

    def count(self, rule: str, key: str, per: float) -> int:
        """The number of actions within the last `per` seconds."""
        since = self._clock() - per
        return sum(1 for at in self._done.get((rule, key), ()) if at > since)

    def record(self, rule: str, key: str, *, max_kept: int, ago: float = 0.0) -> None:
        """Records an action that started; at most `max_kept` are kept."""
        if len(self._done) >= _MAX_KEYS and (rule, key) not in self._done:
            self._done.pop(min(self._done, key=lambda known: self._done[known][-1]))
        done = self._done.setdefault((rule, key), deque(maxlen=max_kept))
        done.append(self._clock() - ago)


DEFAULT_READ_RULE, DEFAULT_ASK_RULE, TAINTED_RULE, ALWAYS_DENIED_RULE = (
    "default-reads",
    "default-asks",
    "tainted-asks",
    "floor",
)
UNENFORCED_RULE = "unenforced-asks"
BUILT_IN_RULES = (
    DEFAULT_READ_RULE,
    DEFAULT_ASK_RULE,
    TAINTED_RULE,
    ALWAYS_DENIED_RULE,
    UNENFORCED_RULE,
)
"""Names of the built-in rules that need no document."""

_MAX_SHOWN_CHARS = 200
"""Characters of untrusted words that a reason shows."""

_VERDICT_BY_STRICTNESS: tuple[Literal["allow", "dry-run", "ask", "deny"], ...] = (
    "allow",
    "dry-run",
    "ask",
    "ask",
    "deny",
)


@dataclass(frozen=True)
class RuleSet:
    rules: tuple[PolicyRule, ...] = ()
    audit_rules: tuple[PolicyRule, ...] = ()
    exceptions: tuple[RuleException, ...] = ()
    ask: AskOptions = field(default_factory=AskOptions)
    """How to ask when no rule specifies it."""


@dataclass(frozen=True)
class VerdictCandidate:
    """A possible verdict on one step, with its reason."""

    rank: int
    name: str
    step: ActionStep
    reason: str
    ask: AskOptions | None = None


def evaluate(
    rule_set: RuleSet, effects: ActionEffects, *, now: datetime, rates: RateCounter | None = None
) -> PolicyVerdict:
    found: list[VerdictCandidate] = []
    lifted: list[str] = []
    views = [StepView(effects, step, now) for step in effects.steps]
    for view in views:
        matching = [rule for rule in rule_set.rules if rule.matches(view)]
        found += _evaluate_step(rule_set, view, matching, rates, lifted)
    if effects.tainted and not _may_be_tainted(rule_set.exceptions, views, effects):
        step = next((step for step in effects.steps if not step.is_read_only), effects.steps[0])
        found.append(
            VerdictCandidate(
                STRICTNESS["ask"], TAINTED_RULE, step, _taint_reason(effects), rule_set.ask
            )
        )
    found += _untested_candidates(rule_set, views, effects)
    profile = build_profile(effects)
    obstacle = _enforcement_obstacle(effects, profile)
    if obstacle:
        found += _unenforced_candidates(rule_set, views, effects, obstacle, lifted)
    audited = [
        AuditModeVerdict(rule.name, rule.effect)
        for rule in rule_set.audit_rules
        if any(rule.matches(view) for view in views)
    ]
    return _with_profile(_combine(effects, found, lifted, audited), effects, profile)


def record_rates(
    rule_set: RuleSet, effects: ActionEffects, *, now: datetime, rates: RateCounter
) -> None:
    """The action starts: it counts once towards each rate limit and key that it matches."""
    views = [StepView(effects, step, now) for step in effects.steps]
    for rule in rule_set.rules:
        if rule.rate is not None:
            keys = (_rate_limit_key(rule, view) for view in views if rule.matches(view))
            for key in dict.fromkeys(keys):
                rates.record(rule.name, key, max_kept=rule.rate.max)


def _enforcement_obstacle(effects: ActionEffects, profile: ConfinementProfile) -> str:
    """Return why the kernel cannot enforce the verdict here, although it has limits."""
    if effects.kernel is None or effects.where.isolated or not effects.command:
        return ""
    return "" if profile.unrestricted else find_obstacle(profile, effects.kernel)


def _untested_candidates(
    rule_set: RuleSet, views: Sequence[StepView], effects: ActionEffects
) -> list[VerdictCandidate]:
    """A rule may require that a change was tested on a copy before."""
    if effects.tested:
        return []
    reason = "the rule requires a fix that was tested on a copy of the host, and this was not"
    return [
        VerdictCandidate(STRICTNESS["ask"], rule.name, view.step, reason, rule.ask or rule_set.ask)
        for view in views
        if not view.step.is_read_only
        for rule in rule_set.rules
        if rule.require == "tested" and rule.matches(view)
    ]


def _unenforced_candidates(
    rule_set: RuleSet,
    views: Sequence[StepView],
    effects: ActionEffects,
    obstacle: str,
    lifted: list[str],
) -> list[VerdictCandidate]:
    """A rule may require enforcement; without one, only doubtful reads need approval."""
    found = []
    for view in views:
        for rule in rule_set.rules:
            if rule.require == "enforced" and rule.matches(view):
                reason = (
                    f"the rule requires an enforced verdict, and here there is none: {obstacle}"
                )
                found.append(
                    VerdictCandidate(STRICTNESS["ask"], rule.name, view.step, reason, rule_set.ask)
                )
    # People approved the words of a trusted playbook, whose runs have this mark.
    doubt = verdict_basis(effects) if effects.is_read_only and "#" not in effects.run else ""
    for view in views if doubt else ():
        exception = _exception_for(rule_set.exceptions, UNENFORCED_RULE, view)
        if exception is None:
            reason = f"the verdict rests on {doubt}, and nothing enforces it here: {obstacle}"
            found.append(
                VerdictCandidate(
                    STRICTNESS["ask"], UNENFORCED_RULE, view.step, reason, rule_set.ask
                )
            )
        else:
            lifted.append(f"{exception.name} > {UNENFORCED_RULE}")
    return found


def _with_profile(
    verdict: PolicyVerdict, effects: ActionEffects, profile: ConfinementProfile
) -> PolicyVerdict:
    if verdict.verdict == "ask":
        profile = approved_profile(profile)
    if effects.kernel is None:
        return replace(verdict, profile=profile)
    enforced, unenforced = check_enforcement(profile, effects.kernel, effects.unread)
    return replace(verdict, profile=profile, enforced=enforced, unenforced=unenforced)


def _evaluate_step(
    rule_set: RuleSet,
    view: StepView,
    matching: Sequence[PolicyRule],
    rates: RateCounter | None,
    lifted: list[str],
) -> list[VerdictCandidate]:
    """The strictest candidates; used exceptions are added to `lifted`."""
    step = view.step
    sunk = step.effects & ALWAYS_DENIED_EFFECTS
    if sunk:
        reason = _reason(step, sunk) + "; no rule and no person can allow it here"
        return [
            VerdictCandidate(STRICTNESS["deny"], f"{ALWAYS_DENIED_RULE}:{max(sunk)}", step, reason)
        ]
    candidates, spoken_for = [], False
    for rule in matching:
        exception = (
            _exception_for(rule_set.exceptions, rule.name, view) if not rule.loosens else None
        )
        if exception is None:
            candidates.append(_rule_candidate(rule, view, rates, rule_set.ask))
            spoken_for = spoken_for or rule.rank >= STRICTNESS["ask"] or rule.covers(view)
        else:
            lifted.append(f"{exception.name} > {rule.name}")
    if not spoken_for:
        candidates.append(_default_candidate(rule_set, view, lifted))
    top = max(candidate.rank for candidate in candidates)
    return [candidate for candidate in candidates if candidate.rank == top]


def _rule_candidate(
    rule: PolicyRule, view: StepView, rates: RateCounter | None, ask: AskOptions
) -> VerdictCandidate:
    step, rank = view.step, rule.rank
    reason = rule.message or _reason(step, step.effects)
    if rule.rate and rates is not None:
        done = rates.count(rule.name, _rate_limit_key(rule, view), rule.rate.per)
        if done >= rule.rate.max:
            rank = STRICTNESS["deny"] if rank >= STRICTNESS["ask"] else STRICTNESS["ask"]
            reason = f"done {done} times in the last {rule.rate.per:g} s, which is the limit"
    return VerdictCandidate(rank, rule.name, step, reason, rule.ask or ask)


def _default_candidate(rule_set: RuleSet, view: StepView, lifted: list[str]) -> VerdictCandidate:
    step = view.step
    if step.is_read_only:
        return VerdictCandidate(STRICTNESS["allow"], DEFAULT_READ_RULE, step, "it only looks")
    exception = _exception_for(rule_set.exceptions, DEFAULT_ASK_RULE, view)
    if exception is not None:
        lifted.append(f"{exception.name} > {DEFAULT_ASK_RULE}")
        return VerdictCandidate(
            STRICTNESS["allow"], exception.name, step, f"{exception.reason} ({exception.owner})"
        )
    return VerdictCandidate(
        STRICTNESS["ask"], DEFAULT_ASK_RULE, step, _reason(step, step.effects), rule_set.ask
    )


def _exception_for(
    exceptions: Iterable[RuleException], rule: str, view: StepView
) -> RuleException | None:
    return next((exception for exception in exceptions if exception.covers(rule, view)), None)


def _may_be_tainted(
    exceptions: Iterable[RuleException], views: Sequence[StepView], effects: ActionEffects
) -> bool:
    """For reads, or with an exception that names this rule; `*` does not include it.

    A read with untrusted words is a request to an address from a text, which may send data.
    """
    named = [exception for exception in exceptions if TAINTED_RULE in exception.names]
    changing = [view for view in views if not view.step.is_read_only]
    concerned = views if effects.carried and not changing else changing
    return all(
        any(exception.covers(TAINTED_RULE, view) for exception in named) for view in concerned
    )


def _reason_with_taint(first: VerdictCandidate, effects: ActionEffects) -> str:
    """Also shows the untrusted words when another rule asks."""
    if not effects.carried or first.name == TAINTED_RULE:
        return first.reason
    return f"{first.reason}; {_taint_reason(effects)}"


def _taint_reason(effects: ActionEffects) -> str:
    shown = f" ({effects.carried[:_MAX_SHOWN_CHARS]})" if effects.carried else ""
    return f"its words{shown} come from text that nobody vouches for"


def _combine(
    effects: ActionEffects,
    found: Sequence[VerdictCandidate],
    lifted: Sequence[str],
    audited: Sequence[AuditModeVerdict],
) -> PolicyVerdict:
    top = max((candidate.rank for candidate in found), default=0)
    strictest = [candidate for candidate in found if candidate.rank == top]
    if not strictest:
        return PolicyVerdict(
            verdict="allow", rule=DEFAULT_READ_RULE, reason="it does nothing", hash=effects.hash
        )
    asks = [candidate.ask for candidate in strictest if candidate.ask is not None]
    first = max(strictest, key=lambda each: each.ask.count if each.ask else 0)
    names = dict.fromkeys(candidate.name for candidate in strictest)
    return PolicyVerdict(
        verdict=_VERDICT_BY_STRICTNESS[top],
        rule=first.name,
        reason=_reason_with_taint(first, effects),
        effects=tuple(sorted(effects.effects)),
        tainted=effects.carried,
        variables=effects.variables,
        node=first.step.node,
        why="; ".join(first.step.why),
        hash=effects.hash,
        ask=merge_ask_options(asks) if _VERDICT_BY_STRICTNESS[top] == "ask" else None,
        also=tuple(name for name in names if name != first.name),
        lifted=tuple(dict.fromkeys(lifted)),
        audited=tuple(audited),
    )


def merge_ask_options(asks: Sequence[AskOptions]) -> AskOptions:
    """The options of one question that satisfies every rule."""
    first = max(asks, key=lambda ask: ask.count)
    named = [set(ask.approvers) for ask in asks if ask.approvers]
    common = set.intersection(*named) if named else set()
    approvers = tuple(sorted(common)) or first.approvers or tuple(sorted(named[0] if named else ()))
    return AskOptions(
        approvers=approvers,
        count=first.count,
        excluded=tuple(dict.fromkeys(name for ask in asks for name in ask.excluded)),
        timeout=min(ask.timeout for ask in asks),
        announce=max(ask.announce for ask in asks),
        escalate=first.escalate or next((ask.escalate for ask in asks if ask.escalate), ()),
        grant_scope="session"
        if all(ask.grant_scope == "session" for ask in asks)
        else "exact-action",
        grant_uses=min(ask.grant_uses for ask in asks),
        grant_seconds=min(ask.grant_seconds for ask in asks),
        waits=any(ask.waits for ask in asks),
    )


def near_misses(rule_set: RuleSet, effects: ActionEffects, now: datetime) -> tuple[NearMiss, ...]:
    """Rules that only one field kept from matching, strictest first."""
    found: dict[str, NearMiss] = {}
    for step in effects.steps:
        view = StepView(effects, step, now)
        for rule in (*rule_set.rules, *rule_set.audit_rules):
            if rule.matches(view):
                found.pop(rule.name, None)
                continue
            missed = rule.match.unmatched_fields(view, every=rule.loosens) or ("exclude",)
            if len(missed) == 1:
                found.setdefault(rule.name, NearMiss(rule.name, rule.effect, missed, step.node))
    return tuple(sorted(found.values(), key=lambda near: -STRICTNESS[near.effect]))


def _rate_limit_key(rule: PolicyRule, view: StepView) -> str:
    effects = view.effects
    values = {
        "service": view.service or effects.incident.service,
        "host": view.host,
        "target": f"{effects.where.place}:{view.host}",
        "program": view.step.program,
        "tool": effects.tool,
        "run": effects.run,
        "actor": effects.actor or effects.origin,
    }
    return values.get(rule.rate.key, "") if rule.rate else ""


def _reason(step: ActionStep, effects: Iterable[str]) -> str:
    reasons = [line for line in step.why if line.partition(":")[0] in effects]
    return "; ".join(reasons) or "it has the effects " + ", ".join(sorted(effects))
