"""Where boxes come from, as the settings say: a warm process beside us, or containers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from hermes.gym.box.carrier import Opener
from hermes.gym.box.docker import in_docker
from hermes.gym.box.here import open_here
from hermes.gym.box.nursery import nursery
from hermes.gym.settings import GymSettings


def opener_of(settings: GymSettings) -> Opener:
    """For one box."""
    return in_docker(settings) if settings.backend == "docker" else open_here


@asynccontextmanager
async def boxes(settings: GymSettings) -> AsyncGenerator[Opener, None]:
    """Yields what opens a box; all of them are to be gone when this is left."""
    if settings.backend == "docker":
        yield in_docker(settings)
        return
    async with nursery() as opener:
        yield opener
