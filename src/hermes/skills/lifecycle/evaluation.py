"""Decides from paired replays, with and without the skill, whether a skill is validated."""

import random
import re
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Literal

import msgspec
from msgspec.structs import replace

from hermes.core.events.skills import SkillMeasured
from hermes.core.messages import Value

BOOTSTRAP_DRAWS, BOOTSTRAP_SEED = 4_000, 7
BOUND_CONFIDENCE = 0.95
_MIN_SECONDS = 1e-3
"""Shorter times are not compared."""
ReplayCaseKind = Literal["variant", "unrelated", "look-alike"]


class ReplayCase(Value, kw_only=True, frozen=True):
    """variant: the same problem with other values; on the other kinds the skill must not act."""

    name: str
    seed: int
    kind: ReplayCaseKind = "variant"

    def __str__(self) -> str:
        return f"{self.kind} {self.name} #{self.seed}"


def parse_replay_case(text: str) -> ReplayCase | None:
    """The inverse of `str(case)`; None for other text."""
    found = re.fullmatch(r"(variant|unrelated|look-alike) (\S+) #(\d+)", text)
    if found is None:
        return None
    kind = msgspec.convert(found[1], ReplayCaseKind)
    return ReplayCase(name=found[2], seed=int(found[3]), kind=kind)


class ReplayResult(Value, kw_only=True, frozen=True):
    solved: bool
    seconds: float = 0.0
    turns: int = 0
    tokens: int = 0
    harm: tuple[str, ...] = ()
    """What was damaged, according to the checks of the host."""
    by_skill: bool = False
    """The skill alone solved it."""


class ReplayPair(Value, kw_only=True, frozen=True):
    case: ReplayCase
    without: ReplayResult
    using: ReplayResult


RunReplay = Callable[[ReplayCase, bool], Awaitable[ReplayResult]]
"""Replays a case on a fresh host, with the skill or without it."""


async def run_replay_pairs(cases: list[ReplayCase], replay: RunReplay) -> list[ReplayPair]:
    """Sequential: parallel runs would distort the measurement."""
    return [
        ReplayPair(case=case, without=await replay(case, False), using=await replay(case, True))
        for case in cases
    ]


class EvaluationCriteria(Value, kw_only=True, frozen=True):
    variants: int = 2
    faster: float = 0.9
    """Maximum of the median ratio; its upper bound must be below 1."""


class CostRatio(Value, kw_only=True, frozen=True):
    name: str
    ratio: float
    upper: float
    """One-sided bound of the median ratio, by bootstrap over the pairs."""


class SkillEvaluation(Value, kw_only=True, frozen=True):
    passed: bool
    reasons: tuple[str, ...] = ()
    """Why not; empty when it passed."""
    solved_with: int = 0
    solved_without: int = 0
    variants: int = 0
    measures: tuple[CostRatio, ...] = ()
    harmed: tuple[str, ...] = ()

    @property
    def best(self) -> CostRatio | None:
        return min(self.measures, key=lambda each: each.upper, default=None)


def evaluate_pairs(
    pairs: Sequence[ReplayPair], criteria: EvaluationCriteria | None = None
) -> SkillEvaluation:
    """The same pairs always give the same result."""
    criteria = criteria or EvaluationCriteria()
    variants = [pair for pair in pairs if pair.case.kind == "variant"]
    solved_with = sum(pair.using.solved for pair in variants)
    solved_without = sum(pair.without.solved for pair in variants)
    measures = _compute_cost_ratios(variants)
    harmed = tuple(_find_harm(pairs))
    reasons = [
        *_find_missing_variants(variants, criteria),
        *_find_unsolved(solved_with, solved_without, len(variants)),
        *_find_missing_gain(measures, criteria, gained=solved_with > solved_without),
        *(f"harm: {each}" for each in harmed),
    ]
    return SkillEvaluation(
        passed=not reasons,
        reasons=tuple(reasons),
        solved_with=solved_with,
        solved_without=solved_without,
        variants=len(variants),
        measures=measures,
        harmed=harmed,
    )


def require_claimed_cases(
    evaluation: SkillEvaluation, pairs: Sequence[ReplayPair], claimed: Sequence[ReplayCase]
) -> SkillEvaluation:
    """Fails the evaluation when the skill does not solve a case that its publisher claims."""
    broken = [
        str(pair.case)
        for pair in pairs
        if pair.case in claimed and not (pair.using.solved and pair.using.by_skill)
    ]
    if not broken:
        return evaluation
    why = f"its publisher claims that it solves {', '.join(broken)}, and here it does not"
    return replace(evaluation, passed=False, reasons=(*evaluation.reasons, why))


def median_upper_bound(ratios: Sequence[float]) -> float:
    """Upper bound of the median, by bootstrap."""
    source = random.Random(BOOTSTRAP_SEED)  # no secret: the same evidence gives the same result
    draws = (source.choices(ratios, k=len(ratios)) for _ in range(BOOTSTRAP_DRAWS))
    return sorted(map(median, draws))[int(BOUND_CONFIDENCE * BOOTSTRAP_DRAWS)]


def _compute_cost_ratios(variants: Sequence[ReplayPair]) -> tuple[CostRatio, ...]:
    """Only from pairs where both runs solved the case: a failure may be quick."""
    both = [pair for pair in variants if pair.using.solved and pair.without.solved]
    seconds = [(max(pair.using.seconds, _MIN_SECONDS), pair.without.seconds) for pair in both]
    turns = [(pair.using.turns, pair.without.turns) for pair in both]
    found = []
    for name, costs in (("seconds", seconds), ("turns", turns)):
        ratios = [using / without for using, without in costs if without > _MIN_SECONDS]
        if ratios:
            upper = median_upper_bound(ratios)
            found.append(CostRatio(name=name, ratio=median(ratios), upper=upper))
    return tuple(found)


def _find_missing_variants(
    variants: Sequence[ReplayPair], criteria: EvaluationCriteria
) -> list[str]:
    replayed = {(pair.case.name, pair.case.seed) for pair in variants}
    if len(replayed) >= criteria.variants:
        return []
    return [f"{len(replayed)} variants were replayed, {criteria.variants} are needed"]


def _find_unsolved(solved_with: int, solved_without: int, variants: int) -> list[str]:
    if solved_with < solved_without:
        return [f"it solves {solved_with} of {variants}, without it {solved_without} are solved"]
    return ["it solves none of the variants"] if variants and not solved_with else []


def _find_missing_gain(
    measures: Sequence[CostRatio], criteria: EvaluationCriteria, *, gained: bool
) -> list[str]:
    """A gain in time or in turns is enough. A skill that solves more need not be faster."""
    if any(m.ratio <= criteria.faster and m.upper < 1 for m in measures):
        return []
    if gained and not measures:
        return []
    measured = ", ".join(f"{m.name} ×{m.ratio:.2f} (at most ×{m.upper:.2f})" for m in measures)
    return [
        f"no gain: the median must be at most ×{criteria.faster:g} with a bound below ×1; "
        f"it is {measured or 'not known'}"
    ]


def _find_harm(pairs: Sequence[ReplayPair]) -> list[str]:
    found = []
    for pair in pairs:
        known = {_harm_subject(each) for each in pair.without.harm}
        new = [each for each in pair.using.harm if _harm_subject(each) not in known]
        found += [f"{pair.case}: {each}" for each in new]
        if pair.case.kind != "variant" and pair.without.solved and not pair.using.solved:
            found.append(f"{pair.case}: solved without it, and not with it")
    return found


def _harm_subject(harm: str) -> str:
    """Return what was damaged; the extent differs between replays."""
    return harm.partition(":")[0]


def build_measured_event(
    skill: str, digest: str, evaluation: SkillEvaluation, pairs: Sequence[ReplayPair], *, run: str
) -> SkillMeasured:
    best = evaluation.best
    return SkillMeasured(
        run=run,
        skill=skill,
        digest=digest,
        passed=evaluation.passed,
        cases=tuple(str(pair.case) for pair in pairs),
        solved_with=evaluation.solved_with,
        solved_without=evaluation.solved_without,
        ratio=round(best.ratio, 4) if best else None,
        upper=round(best.upper, 4) if best else None,
        measure=best.name if best else "",
        harmed=evaluation.harmed,
        reasons=evaluation.reasons,
    )
