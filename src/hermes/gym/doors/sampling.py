"""Which incident comes next: what would hurt more comes more often."""

import random
from collections.abc import Mapping, Sequence

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.gym.dice import Split
from hermes.gym.scenario import Scenario
from hermes.gym.story import Severity, Story

WEIGHTS: Mapping[Severity, float] = {"P0": 3.0, "P1": 2.0, "P2": 1.5, "P3": 1.0}
SEEDS = 1_000_000


class Drawn(Value, frozen=True):
    scenario: Scenario
    seed: int
    story: Story


class Sampler:
    """The same seed draws the same incidents in the same order."""

    def __init__(
        self, scenarios: Sequence[Scenario], *, seed: int = 0, split: Split = "train"
    ) -> None:
        kept = [each for each in scenarios if split == "held-out" or not each.held_out]
        if not kept:
            raise SettingsError("there is no scenario to draw from; see: hermes drill list")
        self.scenarios = {each.name: each for each in kept}
        self.split: Split = split
        self._random = random.Random(f"incidents:{seed}:{split}")

    def draw(self) -> Drawn:
        """Drawn evenly, kept with the chance of its severity: so the weights hold exactly."""
        heaviest = max(WEIGHTS.values())
        while True:
            scenario = self._random.choice(list(self.scenarios.values()))
            found = self.take(scenario, self._random.randrange(SEEDS))
            if self._random.random() * heaviest < WEIGHTS[found.story.alert.severity]:
                return found

    def seeded(self, seed: int) -> Drawn:
        """The incident of this number, whatever was drawn before."""
        return Sampler(tuple(self.scenarios.values()), seed=seed, split=self.split).draw()

    def named(self, name: str, seed: int | None) -> Drawn:
        """Raises `SettingsError` when it is none of these."""
        if name not in self.scenarios:
            raise SettingsError(
                f"there is no scenario {name!r} here; there are: {', '.join(self.scenarios)}"
            )
        chosen = self._random.randrange(SEEDS) if seed is None else seed
        return self.take(self.scenarios[name], chosen)

    def take(self, scenario: Scenario, seed: int) -> Drawn:
        return Drawn(scenario, seed, scenario.story(seed, self.split))
