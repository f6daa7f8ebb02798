"""Compiled rules and exceptions, and the verdict with what approvers and auditors need."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Literal

from hermes.core.actions import AuditModeVerdict, Decision
from hermes.core.messages import Value
from hermes.plumbing.units import parse_duration
from hermes.policy.rules import schema
from hermes.policy.rules.matching import NamePatterns, StepMatcher, StepView, compile_match
from hermes.policy.rules.schema import as_words

__all__ = ["AskOptions", "AuditModeVerdict", "EscalationStep", "NearMiss", "PolicyVerdict"]


class EscalationStep(Value, frozen=True):
    after: float
    to: str


class AskOptions(Value, kw_only=True, frozen=True):
    """How a person is asked. All times in seconds."""

    approvers: tuple[str, ...] = ()
    """Groups or people who may answer; empty is anybody with the right to approve."""
    count: int = 1
    excluded: tuple[str, ...] = ("requester",)
    timeout: float = 600.0
    """Without an answer by then, the action is denied."""
    announce: float = 0.0
    """Above 0: announces the action, and proceeds after this time unless a person stops it."""
    escalate: tuple[EscalationStep, ...] = ()
    grant_scope: Literal["exact-action", "session"] = "exact-action"
    grant_uses: int = 1
    grant_seconds: float = 900.0
    waits: bool = False
    """The rule sets approvers or a timeout: waits even without a person at the terminal."""

    @property
    def barred(self) -> tuple[str, ...]:
        """Who may not approve. A plain question may be answered by the requester."""
        if self.approvers or self.count > 1:
            return self.excluded
        return tuple(name for name in self.excluded if name != "requester")


class NearMiss(Value, frozen=True):
    """A rule that would have matched without some of its fields."""

    rule: str
    effect: str
    missed: tuple[str, ...]
    node: str = ""


class PolicyVerdict(Decision, kw_only=True, frozen=True):
    node: str = ""
    """The part of the command that decided."""
    why: str = ""
    """Why that part has its effects."""
    ask: AskOptions | None = None
    undo: str = ""
    """How to undo it, from the author of the step; otherwise derived from the command."""
    tested: str = ""
    """How its fix did on a copy of the host, in words; empty when it was not tested."""
    purpose: str = ""
    """What it changes and why, in words for the people who are asked."""
    also: tuple[str, ...] = ()
    """Other rules that were equally strict."""
    lifted: tuple[str, ...] = ()
    """Exceptions that made it laxer, as `exception > rule`."""
    near: tuple[NearMiss, ...] = ()
    """Only in `examine`, because finding them takes time."""


STRICTNESS: Mapping[str, int] = {"allow": 0, "dry-run": 1, "announce": 2, "ask": 3, "deny": 4}


@dataclass(frozen=True)
class CompiledRateLimit:
    key: str
    max: int
    per: float


@dataclass(frozen=True)
class PolicyRule:
    name: str
    effect: schema.PolicyEffect
    rank: int
    match: StepMatcher
    exclude: StepMatcher | None
    ask: AskOptions | None
    rate: CompiledRateLimit | None
    audit: bool
    message: str
    source: str
    """`file:line`."""
    require: str = ""
    """`enforced`: asks when the kernel cannot enforce the verdict. `tested`: asks when it was not
    tested on a copy of the host."""

    @property
    def loosens(self) -> bool:
        return self.effect == "allow"

    def matches(self, view: StepView) -> bool:
        every = self.loosens
        if not self.match.matches(view, every=every):
            return False
        return self.exclude is None or not self.exclude.matches(view, every=not every)

    def covers(self, view: StepView) -> bool:
        """Return whether it covers all effects of the step, and so replaces the default."""
        if not self.match.matches(view, every=True):
            return False
        return self.exclude is None or not self.exclude.matches(view, every=False)


@dataclass(frozen=True)
class RuleException:
    """A PolicyException."""

    name: str
    names: tuple[str, ...]
    policies: NamePatterns
    match: StepMatcher
    expires: datetime
    owner: str
    reason: str
    source: str

    def covers(self, rule: str, view: StepView) -> bool:
        if view.now >= self.expires or not self.policies.matches(rule):
            return False
        return self.match.matches(view, every=True)


def compile_rule(
    document: schema.ActionPolicy, source: str, *, home: str, timeout: float
) -> PolicyRule:
    """Raises `ValueError` for an invalid document; `documents` has checked it before."""
    spec = document.spec
    decide = spec.decide
    asks = decide.effect == "ask"
    rate = decide.rate_limit
    return PolicyRule(
        name=document.metadata.name,
        effect=decide.effect,
        rank=STRICTNESS["announce" if asks and decide.announce else decide.effect],
        match=compile_match(spec.match, home),
        exclude=compile_match(spec.exclude, home) if spec.exclude else None,
        ask=compile_ask_options(decide, timeout) if asks else None,
        rate=CompiledRateLimit(rate.key, rate.max, parse_duration(rate.per)) if rate else None,
        audit=spec.mode == "audit",
        message=spec.message,
        source=source,
        require=decide.require,
    )


def compile_exception(document: schema.PolicyException, source: str, *, home: str) -> RuleException:
    spec = document.spec
    return RuleException(
        name=document.metadata.name,
        names=as_words(spec.policies),
        policies=NamePatterns(as_words(spec.policies)),
        match=compile_match(spec.match, home),
        expires=expiry_time(spec.expires),
        owner=spec.owner,
        reason=spec.reason,
        source=source,
    )


def expiry_time(when: datetime | date) -> datetime:
    """A date without a time means its end; a time without a zone is UTC."""
    if not isinstance(when, datetime):
        return datetime.combine(when, time.max, UTC)
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def compile_ask_options(decide: schema.DecideSection, timeout: float) -> AskOptions:
    grant, who = decide.grant, decide.approvers
    return AskOptions(
        approvers=who.from_,
        count=who.count,
        excluded=who.not_,
        timeout=parse_duration(decide.timeout) if decide.timeout else timeout,
        announce=parse_duration(decide.announce) if decide.announce else 0.0,
        escalate=tuple(
            EscalationStep(parse_duration(each.after), each.to) for each in decide.escalate
        ),
        grant_scope=grant.scope,
        grant_uses=grant.uses,
        grant_seconds=parse_duration(grant.valid_for),
        waits=bool(decide.timeout or decide.escalate or who.from_ or who.count > 1),
    )
