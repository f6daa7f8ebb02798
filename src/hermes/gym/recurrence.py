"""What a skill saves a model: the same cases answered the first time, and with what it knows."""

import statistics
from collections.abc import Sequence

from hermes.core.messages import Value
from hermes.gym.drill import Drilled

WITHOUT = " without skills"
SCRIPTED = "scripted:"
"""A script answers as fast as a file is read: it is no measure of speed."""


class Recurrence(Value, kw_only=True, frozen=True, omit_defaults=False):
    agent: str
    cases: int
    """Resolved both times."""
    by_playbook: int
    seconds: float
    """Median with skills over median without."""
    tokens: float
    model_calls: float
    """Median with skills; the first time had `first_calls`."""
    first_calls: float


def recurrences(drills: Sequence[Drilled]) -> list[Recurrence]:
    """For each model that was drilled with and without skills; never for a script."""
    names = dict.fromkeys(each.agent for each in drills)
    pairs = [(name, f"{name}{WITHOUT}") for name in names if f"{name}{WITHOUT}" in names]
    return [
        found
        for name, bare in pairs
        if not name.startswith(SCRIPTED) and (found := _compare(name, bare, drills)) is not None
    ]


def _compare(name: str, bare: str, drills: Sequence[Drilled]) -> Recurrence | None:
    known = {(each.scenario, each.seed): each for each in drills if _counts(each, name)}
    first = {(each.scenario, each.seed): each for each in drills if _counts(each, bare)}
    both = [case for case in known if case in first]
    if not both:
        return None
    return Recurrence(
        agent=name,
        cases=len(both),
        by_playbook=sum(known[case].answered_by == "playbook" for case in both),
        seconds=_ratio([known[c].seconds for c in both], [first[c].seconds for c in both]),
        tokens=_ratio([known[c].tokens for c in both], [first[c].tokens for c in both]),
        model_calls=statistics.median(known[case].model_calls for case in both),
        first_calls=statistics.median(first[case].model_calls for case in both),
    )


def _counts(drilled: Drilled, agent: str) -> bool:
    return drilled.agent == agent and drilled.resolved and not drilled.void


def _ratio(now: Sequence[float], before: Sequence[float]) -> float:
    whole = statistics.median(before)
    return round(statistics.median(now) / whole, 3) if whole else 0.0
