"""Makes all attempts, as one kind of user with one kind of isolation, and reports what got away.

Run as a program: `driver.py FOLDER USER KIND`, with KIND `none` for the control and `copy` for a
copy of this machine. Prints JSON.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from escapes import excess, network, places, rights
from escapes.attempt import Attempt
from escapes.ordinary import become_ordinary
from escapes.world import World

from hermes.core.errors import EnvironmentFailed
from hermes.environments.confinement.limits import find_descendants
from hermes.environments.copies import CopyLimits, HostCopy
from hermes.environments.copies.machine_copy import copy_machine
from hermes.environments.open import select_variables
from hermes.environments.sandbox import SandboxEnvironment
from hermes.environments.settings import TerminalSettings

HANG_GUARD_S = 120
MOST, ELSEWHERE = 48, 15
"""Processes allowed in a sandbox; those that the other sandbox may start meanwhile."""
QUICK = [*network.ATTEMPTS, *places.ATTEMPTS, *rights.ATTEMPTS]
ATTEMPTS = [*QUICK, *excess.ATTEMPTS]


def settings(world: World) -> TerminalSettings:
    readable = (str(world.tools), str(world.shown))
    return TerminalSettings(
        memory_mb=256, processes=MOST, cpu_seconds=1, file_mb=16, readable=readable
    )


async def inside(world: World, isolation: str) -> dict[str, list[str]]:
    """In two sandboxes side by side: while some wait for a limit, the others are made."""
    found: dict[str, list[str]] = {}
    async with anyio.create_task_group() as group:
        for attempts in (QUICK, excess.ATTEMPTS):
            group.start_soon(in_a_row, world, isolation, attempts, found)
    if isolation == "copy":
        found["left-on-the-machine"] = left_on_the_machine(world)
    return found


def left_on_the_machine(world: World) -> list[str]:
    """A copy may write where the machine has its programs and settings; nothing must arrive."""
    folders = ("/etc", "/usr/bin", "/usr", "/var/lib", sys.base_prefix, "/tmp", "/dev/shm")
    paths = [Path(folder) / world.name for folder in folders]
    return [str(path) for path in paths if path.exists() and path != world.shm]


async def in_a_row(
    world: World, isolation: str, attempts: Sequence[Attempt], found: dict[str, list[str]]
) -> None:
    variables = select_variables(dict(os.environ))
    place: Place = (
        CopyOfMachine(world)
        if isolation == "copy"
        else SandboxEnvironment(
            world.work, variables, settings=settings(world), isolation=(isolation,)
        )
    )
    async with place:
        for attempt in attempts:
            found[attempt.name] = await make(world, place, attempt)


class CommandOutput(Protocol):
    @property
    def output(self) -> str: ...


class Place(Protocol):
    """Where an attempt is made."""

    async def run(self, command: str, *, timeout: float = 60.0) -> CommandOutput: ...
    async def __aenter__(self) -> Any: ...
    async def __aexit__(self, *exc_info: object) -> None: ...


class CopyOfMachine:
    """A new copy after one that was ended from inside."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._copy: HostCopy | None = None

    async def __aenter__(self) -> Self:
        limits = CopyLimits(memory_mb=256, disk_mb=64, processes=MOST, time_s=100.0)
        own = (str(self._world.home / ".hermes/.env"),)
        self._copy = await copy_machine(limits, hidden=own, cwd=str(self._world.work))
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._copy is not None:
            await self._copy.close()

    async def run(self, command: str, *, timeout: float = 60.0) -> CommandOutput:
        assert self._copy is not None
        try:
            return await self._copy.run(command, timeout_s=timeout)
        except EnvironmentFailed:
            await self._copy.close()
            await self.__aenter__()
            raise


async def make(world: World, place: Place, attempt: Attempt) -> list[str]:
    if attempt not in excess.ATTEMPTS:
        found, output = await attempted(world, place, attempt)
        return found + world.damage(output)
    peak = _Peak()
    async with anyio.create_task_group() as group:
        group.start_soon(peak.watch)
        found, output = await attempted(world, place, attempt)
        group.cancel_scope.cancel()
    return found + peak.damage() + world.pulse() + world.damage(output)


async def attempted(world: World, place: Place, attempt: Attempt) -> tuple[list[str], str]:
    """What was found wrong meanwhile, and the output."""
    try:
        result = await place.run(world.script(attempt.script), timeout=attempt.timeout)
    except EnvironmentFailed:  # to end the sandbox is not to leave it; but it must come back
        return await usable(place), ""
    return [], result.output


async def usable(place: Place) -> list[str]:
    try:
        result = await place.run("echo still here")
    except EnvironmentFailed as error:
        return [f"the sandbox does not come back: {error}"]
    return [] if result.output == "still here\n" else [f"the sandbox is broken: {result}"]


class _Peak:
    """How many processes there were at most, beyond those at the beginning."""

    def __init__(self) -> None:
        self._first = self._most = len(find_descendants(os.getpid()))

    async def watch(self) -> None:
        while True:
            self._most = max(self._most, len(find_descendants(os.getpid())))
            await anyio.sleep(0.1)

    def damage(self) -> list[str]:
        more = self._most - self._first
        return [f"there were {more} more processes"] if more > MOST + ELSEWHERE else []


def control(world: World, who: str) -> dict[str, list[str]]:
    found = {}
    for attempt in ATTEMPTS:
        if attempt.control in (who, "both"):
            world.reset()
            shell = subprocess.Popen(
                ["bash", "-c", world.script(attempt.script)],
                cwd=world.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, close_fds=False,
            )  # fmt: skip
            output, _ = shell.communicate(timeout=HANG_GUARD_S)
            found[attempt.name] = damage_in_time(world, output.decode("utf-8", "replace"))
    return found


def damage_in_time(world: World, output: str) -> list[str]:
    """A killed process needs a moment to die."""
    deadline = time.monotonic() + 2
    while not (found := world.damage(output)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def main(folder: Path, who: str, isolation: str) -> None:
    if who == "user" and os.getuid() == 0:
        become_ordinary()
    world = World(folder, os.environ["HERMES_SECRET"])
    os.environ["HOME"] = str(world.home)
    try:
        found = control(world, who) if isolation == "none" else anyio.run(inside, world, isolation)
    finally:
        world.close()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
