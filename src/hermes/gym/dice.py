"""The earlier name of `hermes.gym.random_source`, for scenarios of other authors."""

from typing import Any

from hermes.plumbing.renamed import find_renamed

NEW_NAMES = {
    "Split": "Split",
    "Dice": "RandomSource",
    "HELD_OUT": "HELD_OUT_INTERVAL",
    "HOSTS": "HOST_NAMES",
    "SERVICES": "SERVICE_NAMES",
    "WORDS": "NEUTRAL_WORDS",
}


def __getattr__(name: str) -> Any:
    return find_renamed(__name__, "hermes.gym.random_source", NEW_NAMES, name)
