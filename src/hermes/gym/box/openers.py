"""Opens boxes as the settings of the gym say: on this machine, or in containers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from hermes.environments.boxes.backend import BoxOpener
from hermes.environments.boxes.local_backend import open_forkserver, open_local_box
from hermes.gym.box.docker_backend import docker_box_opener
from hermes.gym.settings import GymSettings


def box_opener(settings: GymSettings) -> BoxOpener:
    """For a single box; `open_box_source` is quicker for many."""
    return docker_box_opener(settings) if settings.backend == "docker" else open_local_box


@asynccontextmanager
async def open_box_source(settings: GymSettings) -> AsyncGenerator[BoxOpener, None]:
    """Yields an opener for many boxes. Close all of them before leaving the context."""
    if settings.backend == "docker":
        yield docker_box_opener(settings)
        return
    async with open_forkserver() as opener:
        yield opener
