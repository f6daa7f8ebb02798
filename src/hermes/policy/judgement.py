"""From rules and a deed to a verdict: the strictest match wins, step by step.

Each step of a deed is judged alone and the strictest verdict is that of the whole, so leave for
one command is never leave for the one beside it. Pure: everything it depends on is passed in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from msgspec.structs import replace

from hermes.policy.commands.values import FLOOR
from hermes.policy.deed import Deed, Step
from hermes.policy.matching import View
from hermes.policy.profile import enforcement_of, obstacle_to, profile_of, rests_on
from hermes.policy.rates import Rates
from hermes.policy.rules import RANKS, Lift, Rule
from hermes.policy.verdict import Ask, Audited, NearMiss, Verdict

READS, ASKS, TAINTED, FLOORED = "default-reads", "default-asks", "tainted-asks", "floor"
UNENFORCED = "unenforced-asks"
OWN_RULES = (READS, ASKS, TAINTED, FLOORED, UNENFORCED)
"""Names that stand for what holds without any file."""

_SHOWN = 200
"""Characters of the carried words that a reason shows."""

_WORDS: tuple[Literal["allow", "dry-run", "ask", "deny"], ...] = (
    "allow",
    "dry-run",
    "ask",
    "ask",
    "deny",
)


@dataclass(frozen=True)
class RuleBook:
    rules: tuple[Rule, ...] = ()
    audits: tuple[Rule, ...] = ()
    lifts: tuple[Lift, ...] = ()
    ask: Ask = field(default_factory=Ask)
    """How to ask where no rule says how."""


@dataclass(frozen=True)
class Candidate:
    """One reason for a verdict on one step."""

    rank: int
    name: str
    step: Step
    reason: str
    ask: Ask | None = None


def judge(book: RuleBook, deed: Deed, *, now: datetime, rates: Rates | None = None) -> Verdict:
    found: list[Candidate] = []
    lifted: list[str] = []
    counted: list[tuple[str, str]] = []
    views = [View(deed, step, now) for step in deed.steps]
    for view in views:
        matching = [rule for rule in book.rules if rule.fits(view)]
        counted += [(rule.name, _key(rule, view)) for rule in matching if rule.rate]
        found += _judge_step(book, view, matching, rates, lifted)
    if deed.tainted and not _may_be_tainted(book.lifts, views, deed):
        step = next((step for step in deed.steps if not step.plain), deed.steps[0])
        found.append(Candidate(RANKS["ask"], TAINTED, step, _whose(deed), book.ask))
    obstacle = _obstacle(deed)
    if obstacle:
        found += _unenforced(book, views, deed, obstacle, lifted)
    audited = [
        Audited(rule.name, rule.effect)
        for rule in book.audits
        if any(rule.fits(view) for view in views)
    ]
    return _with_profile(_sum_up(deed, found, lifted, audited, counted), deed)


def _obstacle(deed: Deed) -> str:
    """Why the kernel cannot hold it to its verdict here, though a verdict with bounds it is."""
    if deed.kernel is None or deed.where.isolated or not deed.command:
        return ""
    profile = profile_of(deed)
    return "" if profile.unrestricted else obstacle_to(profile, deed.kernel)


def _unenforced(
    book: RuleBook, views: Sequence[View], deed: Deed, obstacle: str, lifted: list[str]
) -> list[Candidate]:
    """A rule may require what the kernel cannot give; without one, only doubtful reads ask."""
    found = []
    for view in views:
        for rule in book.rules:
            if rule.require and rule.fits(view):
                reason = (
                    f"the rule requires an enforced verdict, and here there is none: {obstacle}"
                )
                found.append(Candidate(RANKS["ask"], rule.name, view.step, reason, book.ask))
    # The words of a trusted playbook, whose runs carry this mark, were vouched for by people.
    doubt = rests_on(deed) if deed.plain and "#" not in deed.run else ""
    for view in views if doubt else ():
        lift = _lift(book.lifts, UNENFORCED, view)
        if lift is None:
            reason = f"the verdict rests on {doubt}, and nothing enforces it here: {obstacle}"
            found.append(Candidate(RANKS["ask"], UNENFORCED, view.step, reason, book.ask))
        else:
            lifted.append(f"{lift.name} > {UNENFORCED}")
    return found


def _with_profile(verdict: Verdict, deed: Deed) -> Verdict:
    profile = profile_of(deed, asked=verdict.verdict == "ask")
    if deed.kernel is None:
        return replace(verdict, profile=profile)
    enforced, unenforced = enforcement_of(profile, deed.kernel)
    return replace(verdict, profile=profile, enforced=enforced, unenforced=unenforced)


def _judge_step(
    book: RuleBook,
    view: View,
    matching: Sequence[Rule],
    rates: Rates | None,
    lifted: list[str],
) -> list[Candidate]:
    """The strictest candidates; exceptions that were used are added to `lifted`."""
    step = view.step
    sunk = step.effects & FLOOR
    if sunk:
        reason = _reason(step, sunk) + "; no rule and no person can allow it here"
        return [Candidate(RANKS["deny"], f"{FLOORED}:{max(sunk)}", step, reason)]
    candidates, spoken_for = [], False
    for rule in matching:
        lift = _lift(book.lifts, rule.name, view) if not rule.loosens else None
        if lift is None:
            candidates.append(_candidate(rule, view, rates, book.ask))
            spoken_for = spoken_for or rule.rank >= RANKS["ask"] or rule.covers(view)
        else:
            lifted.append(f"{lift.name} > {rule.name}")
    if not spoken_for:
        candidates.append(_default(book, view, lifted))
    top = max(candidate.rank for candidate in candidates)
    return [candidate for candidate in candidates if candidate.rank == top]


def _candidate(rule: Rule, view: View, rates: Rates | None, ask: Ask) -> Candidate:
    step, rank = view.step, rule.rank
    reason = rule.message or _reason(step, step.effects)
    if rule.rate and rates is not None:
        done = rates.count(rule.name, _key(rule, view), rule.rate.per)
        if done >= rule.rate.max:
            rank = RANKS["deny"] if rank >= RANKS["ask"] else RANKS["ask"]
            reason = f"done {done} times in the last {rule.rate.per:g} s, which is the limit"
    return Candidate(rank, rule.name, step, reason, rule.ask or ask)


def _default(book: RuleBook, view: View, lifted: list[str]) -> Candidate:
    step = view.step
    if step.plain:
        return Candidate(RANKS["allow"], READS, step, "it only looks")
    lift = _lift(book.lifts, ASKS, view)
    if lift is not None:
        lifted.append(f"{lift.name} > {ASKS}")
        return Candidate(RANKS["allow"], lift.name, step, f"{lift.reason} ({lift.owner})")
    return Candidate(RANKS["ask"], ASKS, step, _reason(step, step.effects), book.ask)


def _lift(lifts: Iterable[Lift], rule: str, view: View) -> Lift | None:
    return next((lift for lift in lifts if lift.covers(rule, view)), None)


def _may_be_tainted(lifts: Iterable[Lift], views: Sequence[View], deed: Deed) -> bool:
    """Only looking, or an exception that names the rule: `*` was not meant for an attack.

    A look with carried words is one at an address that a text ordered: that may be a way to send.
    """
    named = [lift for lift in lifts if TAINTED in lift.names]
    changing = [view for view in views if not view.step.plain]
    concerned = views if deed.carried and not changing else changing
    return all(any(lift.covers(TAINTED, view) for lift in named) for view in concerned)


def _told(first: Candidate, deed: Deed) -> str:
    """Whoever is asked must see whose words they are, also where another rule asks."""
    if not deed.carried or first.name == TAINTED:
        return first.reason
    return f"{first.reason}; {_whose(deed)}"


def _whose(deed: Deed) -> str:
    shown = f" ({deed.carried[:_SHOWN]})" if deed.carried else ""
    return f"its words{shown} come from text that nobody vouches for"


def _sum_up(
    deed: Deed,
    found: Sequence[Candidate],
    lifted: Sequence[str],
    audited: Sequence[Audited],
    counted: Sequence[tuple[str, str]],
) -> Verdict:
    top = max((candidate.rank for candidate in found), default=0)
    strictest = [candidate for candidate in found if candidate.rank == top]
    if not strictest:
        return Verdict(verdict="allow", rule=READS, reason="it does nothing", hash=deed.hash)
    asks = [candidate.ask for candidate in strictest if candidate.ask is not None]
    first = max(strictest, key=lambda each: each.ask.count if each.ask else 0)
    names = dict.fromkeys(candidate.name for candidate in strictest)
    return Verdict(
        verdict=_WORDS[top],
        rule=first.name,
        reason=_told(first, deed),
        effects=tuple(sorted(deed.effects)),
        tainted=deed.carried,
        variables=deed.variables,
        node=first.step.node,
        why="; ".join(first.step.why),
        hash=deed.hash,
        ask=merge(asks) if _WORDS[top] == "ask" else None,
        also=tuple(name for name in names if name != first.name),
        lifted=tuple(dict.fromkeys(lifted)),
        audited=tuple(audited),
        counted=tuple(dict.fromkeys(counted)),
    )


def merge(asks: Sequence[Ask]) -> Ask:
    """One question that satisfies every rule that wants one."""
    first = max(asks, key=lambda ask: ask.count)
    named = [set(ask.approvers) for ask in asks if ask.approvers]
    common = set.intersection(*named) if named else set()
    approvers = tuple(sorted(common)) or first.approvers or tuple(sorted(named[0] if named else ()))
    return Ask(
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


def near_misses(book: RuleBook, deed: Deed, now: datetime) -> tuple[NearMiss, ...]:
    """Rules that one field kept from matching, the strictest first."""
    found: dict[str, NearMiss] = {}
    for step in deed.steps:
        view = View(deed, step, now)
        for rule in (*book.rules, *book.audits):
            if rule.fits(view):
                found.pop(rule.name, None)
                continue
            missed = rule.match.missed(view, every=rule.loosens) or ("exclude",)
            if len(missed) == 1:
                found.setdefault(rule.name, NearMiss(rule.name, rule.effect, missed, step.node))
    return tuple(sorted(found.values(), key=lambda near: -RANKS[near.effect]))


def _key(rule: Rule, view: View) -> str:
    deed = view.deed
    values = {
        "service": view.service or deed.incident.service,
        "host": view.host,
        "target": f"{deed.where.place}:{view.host}",
        "program": view.step.program,
        "tool": deed.tool,
        "run": deed.run,
        "actor": deed.actor or deed.origin,
    }
    return values.get(rule.rate.key, "") if rule.rate else ""


def _reason(step: Step, effects: Iterable[str]) -> str:
    told = [line for line in step.why if line.partition(":")[0] in effects]
    return "; ".join(told) or "it has the effects " + ", ".join(sorted(effects))
