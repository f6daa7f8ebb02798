"""Documents made ready to decide: what a rule says, and what an exception lifts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from hermes.policy import schema
from hermes.policy.durations import seconds
from hermes.policy.matching import Matcher, View, compile_match
from hermes.policy.patterns import Globs
from hermes.policy.schema import words
from hermes.policy.verdict import Ask, Escalate

RANKS: Mapping[str, int] = {"allow": 0, "dry-run": 1, "announce": 2, "ask": 3, "deny": 4}


@dataclass(frozen=True)
class Rate:
    key: str
    max: int
    per: float


@dataclass(frozen=True)
class Rule:
    name: str
    effect: schema.Effect
    rank: int
    match: Matcher
    exclude: Matcher | None
    ask: Ask | None
    rate: Rate | None
    audit: bool
    message: str
    source: str
    """`file:line`."""
    require: str = ""
    """`enforced`: asks where the kernel cannot hold the command to its verdict."""

    @property
    def loosens(self) -> bool:
        return self.effect == "allow"

    def fits(self, view: View) -> bool:
        every = self.loosens
        if not self.match.fits(view, every=every):
            return False
        return self.exclude is None or not self.exclude.fits(view, every=not every)

    def covers(self, view: View) -> bool:
        """Whether it speaks for all that the step does, and so in place of the default."""
        if not self.match.fits(view, every=True):
            return False
        return self.exclude is None or not self.exclude.fits(view, every=False)


@dataclass(frozen=True)
class Lift:
    """A PolicyException."""

    name: str
    names: tuple[str, ...]
    policies: Globs
    match: Matcher
    expires: datetime
    owner: str
    reason: str
    source: str

    def covers(self, rule: str, view: View) -> bool:
        if view.now >= self.expires or not self.policies.fits(rule):
            return False
        return self.match.fits(view, every=True)


def compile_rule(document: schema.ActionPolicy, source: str, *, home: str, timeout: float) -> Rule:
    """Raises `ValueError` for what does not fit; `documents` has checked it before."""
    spec = document.spec
    decide = spec.decide
    asks = decide.effect == "ask"
    rate = decide.rate_limit
    return Rule(
        name=document.metadata.name,
        effect=decide.effect,
        rank=RANKS["announce" if asks and decide.announce else decide.effect],
        match=compile_match(spec.match, home),
        exclude=compile_match(spec.exclude, home) if spec.exclude else None,
        ask=compile_ask(decide, timeout) if asks else None,
        rate=Rate(rate.key, rate.max, seconds(rate.per)) if rate else None,
        audit=spec.mode == "audit",
        message=spec.message,
        source=source,
        require=decide.require,
    )


def compile_lift(document: schema.PolicyException, source: str, *, home: str) -> Lift:
    spec = document.spec
    return Lift(
        name=document.metadata.name,
        names=words(spec.policies),
        policies=Globs(words(spec.policies)),
        match=compile_match(spec.match, home),
        expires=end_of(spec.expires),
        owner=spec.owner,
        reason=spec.reason,
        source=source,
    )


def end_of(when: datetime | date) -> datetime:
    """A day without an hour lasts until its end; a time without a zone is UTC."""
    if not isinstance(when, datetime):
        return datetime.combine(when, time.max, UTC)
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def compile_ask(decide: schema.Decide, timeout: float) -> Ask:
    grant, who = decide.grant, decide.approvers
    return Ask(
        approvers=who.from_,
        count=who.count,
        excluded=who.not_,
        timeout=seconds(decide.timeout) if decide.timeout else timeout,
        announce=seconds(decide.announce) if decide.announce else 0.0,
        escalate=tuple(Escalate(seconds(each.after), each.to) for each in decide.escalate),
        grant_scope=grant.scope,
        grant_uses=grant.uses,
        grant_seconds=seconds(grant.valid_for),
        waits=bool(decide.timeout or decide.escalate or who.from_ or who.count > 1),
    )
