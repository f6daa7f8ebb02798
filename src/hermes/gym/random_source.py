"""Draws what differs between the variants of a scenario; the same for the same seed."""

import random
from collections.abc import Sequence
from typing import Literal, TypeVar

Split = Literal["train", "held-out"]
ChoiceT = TypeVar("ChoiceT")

HELD_OUT_INTERVAL = 4
"""Every fourth wording is reserved for evaluation."""

_HOST_NAMES = "web app api shop edge core node box srv prod data cache"
_SERVICE_NAMES = """
orders billing catalog search inventory checkout gateway accounts invoices shipping pricing
sessions profiles reports ledger notify basket reviews stock returns payments quotes
"""
_NEUTRAL_WORDS = """
amber birch cedar delta ember fjord grove haven iris juniper karma lotus maple north onyx pearl
quartz raven slate tulip umbra violet willow zephyr
"""
HOST_NAMES, SERVICE_NAMES, NEUTRAL_WORDS = (
    _HOST_NAMES.split(),
    _SERVICE_NAMES.split(),
    _NEUTRAL_WORDS.split(),
)


class RandomSource:
    """`split`: use the wordings for training, or those reserved for evaluation."""

    def __init__(self, seed: int, scenario: str = "", split: Split = "train") -> None:
        self.seed = seed
        self._random = random.Random(f"{scenario}:{seed}:{split}")
        self._split = split
        self._ports: set[int] = set()

    def pick(self, choices: Sequence[ChoiceT]) -> ChoiceT:
        return self._random.choice(choices)

    def some(self, choices: Sequence[ChoiceT], count: int) -> list[ChoiceT]:
        return self._random.sample(list(choices), count)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def share(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def port(self) -> int:
        """Never the same twice."""
        while True:
            port = self._random.randint(2000, 9999)
            if port not in self._ports:
                self._ports.add(port)
                return port

    def host(self) -> str:
        return f"{self.pick(HOST_NAMES)}-{self.number(1, 40):02d}"

    def service(self) -> str:
        return self.pick(SERVICE_NAMES)

    def services(self, count: int) -> list[str]:
        return self.some(SERVICE_NAMES, count)

    def word(self) -> str:
        return self.pick(NEUTRAL_WORDS)

    def token(self, length: int = 8) -> str:
        return "".join(
            self._random.choice("abcdefghjkmnpqrstuvwxyz23456789") for _ in range(length)
        )

    def wording(self, wordings: Sequence[str]) -> str:
        """Picks one of the split. Needs eight or more, so that both splits have some."""
        if len(wordings) < 2 * HELD_OUT_INTERVAL:
            raise ValueError(
                f"{len(wordings)} wordings are too few: write at least {2 * HELD_OUT_INTERVAL}"
            )
        held_out = wordings[HELD_OUT_INTERVAL - 1 :: HELD_OUT_INTERVAL]
        if self._split == "held-out":
            return self.pick(held_out)
        return self.pick(
            [each for number, each in enumerate(wordings, 1) if number % HELD_OUT_INTERVAL]
        )
