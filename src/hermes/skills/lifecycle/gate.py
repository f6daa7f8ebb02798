"""The gate before `validated`: paired replays, counted by code, with a bound and not a feeling."""

import random
from collections.abc import Callable, Sequence
from statistics import median

from msgspec.structs import replace

from hermes.core.events.skills import SkillMeasured
from hermes.core.messages import Value
from hermes.skills.lifecycle.replay import Case, Pair, Replayed

DRAWS = 4_000
CONFIDENCE = 0.95
_LEAST = 1e-3
"""Seconds below which two times are the same."""


class Demands(Value, kw_only=True, frozen=True):
    variants: int = 2
    faster: float = 0.9
    """What the median ratio must not exceed."""
    bound: float = 1.0
    """What its upper bound must stay below."""


class Measure(Value, kw_only=True, frozen=True):
    name: str
    ratio: float
    upper: float
    """One-sided bound of the median ratio, by bootstrap over the pairs."""


class Judgement(Value, kw_only=True, frozen=True):
    passed: bool
    reasons: tuple[str, ...] = ()
    """Why not; empty when it passed."""
    solved_with: int = 0
    solved_without: int = 0
    variants: int = 0
    measures: tuple[Measure, ...] = ()
    harmed: tuple[str, ...] = ()

    @property
    def best(self) -> Measure | None:
        return min(self.measures, key=lambda each: each.upper, default=None)


def judge(pairs: Sequence[Pair], demands: Demands | None = None, *, seed: int = 7) -> Judgement:
    """The same pairs and the same seed give the same judgement."""
    demands = demands or Demands()
    variants = [pair for pair in pairs if pair.case.kind == "variant"]
    solved_with = sum(pair.using.solved for pair in variants)
    solved_without = sum(pair.without.solved for pair in variants)
    measures = _measures(variants, seed)
    harmed = tuple(_harm(pairs))
    reasons = [
        *_too_few(variants, demands),
        *_worse(solved_with, solved_without, len(variants)),
        *_not_faster(measures, demands, gained=solved_with > solved_without),
        *(f"harm: {each}" for each in harmed),
    ]
    return Judgement(
        passed=not reasons,
        reasons=tuple(reasons),
        solved_with=solved_with,
        solved_without=solved_without,
        variants=len(variants),
        measures=measures,
        harmed=harmed,
    )


def hold_to(judgement: Judgement, pairs: Sequence[Pair], claimed: Sequence[Case]) -> Judgement:
    """Not passed while a case that its publisher claims is not solved by the skill itself.

    To be no worse than nothing is not enough there: somebody said that it works.
    """
    broken = [
        str(pair.case)
        for pair in pairs
        if pair.case in claimed and not (pair.using.solved and pair.using.by_skill)
    ]
    if not broken:
        return judgement
    why = f"its publisher claims that it solves {', '.join(broken)}, and here it does not"
    return replace(judgement, passed=False, reasons=(*judgement.reasons, why))


def upper_bound(
    ratios: Sequence[float], *, seed: int = 7, draws: int = DRAWS, confidence: float = CONFIDENCE
) -> float:
    """Of the median, by drawing the pairs again and again with replacement."""
    chance = random.Random(seed)  # not a secret: the same evidence must give the same answer
    medians = sorted(median(chance.choices(ratios, k=len(ratios))) for _ in range(draws))
    return medians[min(draws - 1, int(confidence * draws))]


def _measures(variants: Sequence[Pair], seed: int) -> tuple[Measure, ...]:
    """Only where both solved it: a failure is quick, and proves nothing."""
    both = [pair for pair in variants if pair.using.solved and pair.without.solved]
    costs: dict[str, Callable[[Replayed], float]] = {
        "seconds": lambda played: played.seconds,
        "turns": lambda played: float(played.turns),
    }
    found = []
    for name, cost in costs.items():
        ratios = [
            max(cost(pair.using), _LEAST if name == "seconds" else 0.0) / cost(pair.without)
            for pair in both
            if cost(pair.without) > _LEAST
        ]
        if ratios:
            upper = upper_bound(ratios, seed=seed)
            found.append(Measure(name=name, ratio=median(ratios), upper=upper))
    return tuple(found)


def _too_few(variants: Sequence[Pair], demands: Demands) -> list[str]:
    seen = {(pair.case.name, pair.case.seed) for pair in variants}
    if len(seen) >= demands.variants:
        return []
    return [f"{len(seen)} variants were replayed, {demands.variants} are needed"]


def _worse(solved_with: int, solved_without: int, variants: int) -> list[str]:
    if solved_with < solved_without:
        return [f"it solves {solved_with} of {variants}, without it {solved_without} are solved"]
    return ["it solves none of the variants"] if variants and not solved_with else []


def _not_faster(measures: Sequence[Measure], demands: Demands, *, gained: bool) -> list[str]:
    """Either time or turns will do. A skill that solves more need not also be faster."""
    if any(m.ratio <= demands.faster and m.upper < demands.bound for m in measures):
        return []
    if gained and not measures:
        return []
    told = ", ".join(f"{m.name} ×{m.ratio:.2f} (at most ×{m.upper:.2f})" for m in measures)
    return [
        f"no gain: the median must be at most ×{demands.faster:g} with a bound below "
        f"×{demands.bound:g}; it is {told or 'not known'}"
    ]


def _harm(pairs: Sequence[Pair]) -> list[str]:
    found = []
    for pair in pairs:
        known = {_check(each) for each in pair.without.harm}
        new = [each for each in pair.using.harm if _check(each) not in known]
        found += [f"{pair.case}: {each}" for each in new]
        if pair.case.kind != "variant" and pair.without.solved and not pair.using.solved:
            found.append(f"{pair.case}: solved without it, and not with it")
    return found


def _check(harm: str) -> str:
    """What was found damaged; how badly differs from play to play."""
    return harm.partition(":")[0]


def measured(
    skill: str, digest: str, judgement: Judgement, pairs: Sequence[Pair], *, run: str
) -> SkillMeasured:
    """The judgement as it is written down."""
    best = judgement.best
    return SkillMeasured(
        run=run,
        skill=skill,
        digest=digest,
        passed=judgement.passed,
        cases=tuple(str(pair.case) for pair in pairs),
        solved_with=judgement.solved_with,
        solved_without=judgement.solved_without,
        ratio=round(best.ratio, 4) if best else None,
        upper=round(best.upper, 4) if best else None,
        measure=best.name if best else "",
        harmed=judgement.harmed,
        reasons=judgement.reasons,
    )
