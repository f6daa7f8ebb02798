"""How probable each toolset is, for batch runs whose tools should vary. A draw can be repeated."""

import random
from collections.abc import Mapping
from difflib import get_close_matches

from hermes.core.errors import SettingsError
from hermes.tools.toolsets import TOOLSETS, Toolset, unknown

Distribution = Mapping[str, float]
"""By toolset, the probability that it is there; each is drawn on its own."""

DISTRIBUTIONS: Mapping[str, Distribution] = {
    "default": {"default": 1.0},
    "safe": {"safe": 1.0},
    "terminal": {"terminal": 1.0, "file": 0.3, "planning": 0.2},
    "development": {"terminal": 0.9, "file": 0.9, "code": 0.5, "planning": 0.5},
    "mixed": {"terminal": 0.7, "file": 0.7, "code": 0.4, "planning": 0.4, "delegation": 0.2},
    "even": {"terminal": 0.5, "file": 0.5, "code": 0.5, "planning": 0.5, "delegation": 0.5},
}


def named(
    name: str,
    own: Mapping[str, Distribution] | None = None,
    sets: Mapping[str, Toolset] = TOOLSETS,
) -> Distribution:
    """A distribution by name, checked. Raises `SettingsError`."""
    known = {**DISTRIBUTIONS, **(own or {})}
    found = known.get(name)
    if found is None:
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
        raise SettingsError(f"there is no distribution {name!r}; {hint}")
    check(name, found, sets)
    return found


def check(name: str, distribution: Distribution, sets: Mapping[str, Toolset] = TOOLSETS) -> None:
    for toolset, chance in distribution.items():
        if toolset not in sets:
            raise SettingsError(f"distribution {name!r}: {unknown(toolset, sets)}")
        if not 0.0 <= chance <= 1.0:  # also refuses what is not a number
            raise SettingsError(
                f"distribution {name!r}: {toolset} has probability {chance}; it must be 0 to 1"
            )
    if not any(distribution.values()):
        raise SettingsError(f"distribution {name!r} never draws any toolset")


def draw(distribution: Distribution, seed: str | int) -> tuple[str, ...]:
    """Some toolsets, at least one; the same seed always draws the same."""
    chance = random.Random(f"toolsets:{seed}")
    numbers = {name: chance.random() for name in sorted(distribution)}
    drawn = tuple(name for name, p in distribution.items() if numbers[name] < p)
    if drawn:
        return drawn
    # An agent without tools teaches nothing: the one that came nearest to being drawn.
    possible = [name for name, p in distribution.items() if p > 0]
    return (min(possible, key=lambda name: numbers[name] / distribution[name]),)
