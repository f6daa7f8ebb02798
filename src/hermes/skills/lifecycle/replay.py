"""What a replay of one case brought: with the skill, and without it, on the same broken host."""

import re
from collections.abc import Awaitable, Callable
from typing import Literal, get_args

from hermes.core.messages import Value

CaseKind = Literal["variant", "unrelated", "look-alike"]


class Case(Value, kw_only=True, frozen=True):
    """variant: the same trouble with other names and values; the others must be left alone."""

    name: str
    seed: int
    kind: CaseKind = "variant"

    def __str__(self) -> str:
        return f"{self.kind} {self.name} #{self.seed}"


def case_of(text: str) -> Case | None:
    """A case as it was written down; None for what is none."""
    found = re.fullmatch(r"(variant|unrelated|look-alike) (\S+) #(\d+)", text)
    if found is None:
        return None
    kind: CaseKind = "variant"
    for known in get_args(CaseKind):
        kind = known if known == found[1] else kind
    return Case(name=found[2], seed=int(found[3]), kind=kind)


class Replayed(Value, kw_only=True, frozen=True):
    solved: bool
    seconds: float = 0.0
    turns: int = 0
    tokens: int = 0
    harm: tuple[str, ...] = ()
    """What was damaged, as whoever judges the host says."""
    by_skill: bool = False
    """The skill itself mended it, and nobody had to go on after it."""


class Pair(Value, kw_only=True, frozen=True):
    case: Case
    without: Replayed
    using: Replayed


Replay = Callable[[Case, bool], Awaitable[Replayed]]
"""Plays a case in a fresh place, with the skill or without it."""


async def replay_pairs(cases: list[Case], replay: Replay) -> list[Pair]:
    """One after the other: what runs beside would change what is measured."""
    return [
        Pair(case=case, without=await replay(case, False), using=await replay(case, True))
        for case in cases
    ]
