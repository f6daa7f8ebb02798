"""What happens when Hermes, the fork server, a supervisor or a command ends while another waits."""

import fcntl
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from hermes.core.actions import ConfinementProfile
from hermes.core.errors import EnvironmentFailed
from hermes.environments.local import LocalEnvironment
from hermes.environments.processes.run import TIMEOUT_EXIT_CODE
from hermes.environments.processes.spawn import wait_readable
from hermes.environments.sandboxing import support

NOT_HERE = support.kernel_support().reason
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]
PATIENCE_S = 120.0


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    async with LocalEnvironment(tmp_path, variables) as place:
        assert (await place.kernel_support()).reason == ""
        yield place


async def run(
    place: LocalEnvironment, command: str, profile: ConfinementProfile | None = None
) -> tuple[int, str]:
    async with place.confined(profile or ConfinementProfile()) as confined:
        result = await confined.run(command, timeout=PATIENCE_S)
        return result.exit_code, result.output


def server_pid(place: LocalEnvironment) -> int:
    line = place.server._server
    assert line is not None
    return line.pid


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def waiting_commands(place: LocalEnvironment) -> list[int]:
    """They are children of this process, with the argv of the fork server."""
    server = server_pid(place)
    argv = Path(f"/proc/{server}/cmdline").read_bytes()
    return [
        pid
        for pid in children(os.getpid())
        if pid != server and Path(f"/proc/{pid}/cmdline").read_bytes() == argv
    ]


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not true():  # noqa: ASYNC110 - another process cannot set an event
            await anyio.sleep(0.01)


async def next_pair(place: LocalEnvironment) -> tuple[int, int]:
    """The process that waits to become the next command, and its supervisor."""
    pair = (1, 1)
    await until(lambda: pair == (len(waiting_commands(place)), len(children(server_pid(place)))))
    return waiting_commands(place)[0], children(server_pid(place))[0]


async def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: stat_fields(pid)[0] == "T")


def stat_fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def waits_for_supervisor(pid: int) -> bool:
    return "seccomp" in Path(f"/proc/{pid}/wchan").read_text()


async def test_a_command_that_was_given_up_before_it_started_never_runs(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    profile = ConfinementProfile(changes=True, writable=(str(tmp_path),))
    waiting, _ = await next_pair(here)
    await stop(waiting)
    with anyio.move_on_after(0.2):  # the request is sent, and nobody has read it
        await run(here, f"echo first >> {tmp_path}/made", profile)
    os.kill(waiting, signal.SIGCONT)
    await run(here, f"echo second >> {tmp_path}/made", profile)
    await here.server.close()  # behind all requests
    assert (tmp_path / "made").read_text() == "second\n"


async def test_a_command_does_not_wait_for_a_supervisor_that_ended_before_it_began(
    here: LocalEnvironment,
) -> None:
    profile = ConfinementProfile(judged_at=time.time_ns(), judged_files=("config",))
    command, supervisor = await next_pair(here)
    await stop(supervisor)

    async def kill_later() -> None:
        """When the command has begun, and asks the supervisor about its program."""
        await until(lambda: waits_for_supervisor(command))
        os.kill(supervisor, signal.SIGKILL)

    async with anyio.create_task_group() as group:
        group.start_soon(kill_later)
        with pytest.raises(EnvironmentFailed, match="could not be confined"):
            await run(here, "echo never", profile)
    assert await run(here, "echo again") == (0, "again\n")


async def test_a_command_that_waits_for_a_lock_does_not_wait_for_a_supervisor_that_ended(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    held = tmp_path / "lock"
    profile = ConfinementProfile(changes=True, writable=(str(held),))
    _, supervisor = await next_pair(here)

    async def kill_later() -> None:
        """When a process waits for the lock in place of the supervisor."""
        await until(lambda: bool(children(supervisor)))
        os.kill(supervisor, signal.SIGKILL)

    with held.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        async with anyio.create_task_group() as group:
            group.start_soon(kill_later)
            code, _ = await run(here, f"flock {held} echo locked", profile)
    assert code not in (0, TIMEOUT_EXIT_CODE)


async def test_a_descriptor_that_is_closed_while_a_task_waits_for_it_can_be_used_again(
    here: LocalEnvironment,
) -> None:
    process = await here.start("sleep 60", pty=True)
    async with anyio.create_task_group() as group:
        group.start_soon(process.output)
        await anyio.wait_all_tasks_blocked()
        process.close()
        ours, theirs = socket.socketpair()  # one of them has the number of the terminal
        with ours, theirs, anyio.fail_after(PATIENCE_S):
            for end, other in ((ours, theirs), (theirs, ours)):
                other.send(b"x")
                await wait_readable(end.fileno())
        await process.kill()
