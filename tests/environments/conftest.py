"""The places of the contract suite: one line in PLACES puts a new kind through all of it."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import real_docker
import real_ssh
from stand_ins.places import kubernetes, singularity

from hermes.core.protocols import Environment
from hermes.environments.local import LocalEnvironment
from hermes.environments.open import select_variables
from hermes.environments.sandbox import SandboxEnvironment

Place = Callable[[Path], AbstractAsyncContextManager[Environment]]


def local(folder: Path) -> LocalEnvironment:
    (folder / "work").mkdir()
    variables = select_variables({"PATH": os.environ["PATH"], "HOME": str(folder)})
    return LocalEnvironment(folder / "work", variables, processes=folder / "processes")


def sandbox(folder: Path) -> SandboxEnvironment:
    (folder / "work").mkdir()
    return SandboxEnvironment(folder / "work", select_variables({"PATH": os.environ["PATH"]}))


# Each is given an empty folder of this machine, and may call `pytest.skip` to say what is missing.
PLACES: dict[str, Place] = {
    "local": local,
    "sandbox": sandbox,
    "singularity-stand-in": singularity,
    "kubernetes-stand-in": kubernetes,
    "docker": real_docker.one_for_many,
    "ssh": real_ssh.one_for_many,
}


@pytest.fixture(scope="session", autouse=True)
def real_places() -> Iterator[None]:
    """They are started when first asked for, and stopped here."""
    yield
    real_docker.stop()
    real_ssh.stop()


@pytest.fixture(params=list(PLACES))
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Environment]:
    async with PLACES[request.param](tmp_path) as environment:
        yield environment


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    async with local(tmp_path) as environment:
        yield environment
