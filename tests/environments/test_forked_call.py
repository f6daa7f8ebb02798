"""A function is called in a forked process, and nothing of that stays in this one."""

import os
import sys
import threading
import time
from pathlib import Path

import anyio
import pytest

from hermes.core.errors import EnvironmentFailed
from hermes.environments.processes.forked_call import call_in_fork

pytestmark = pytest.mark.anyio


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.parametrize("size", [0, 5, 1_000_000])
async def test_what_the_function_returns_arrives_whole(size: int) -> None:
    assert await call_in_fork(lambda: b"x" * size, 20) == b"x" * size


async def test_what_it_loads_and_changes_stays_in_the_child() -> None:
    seen: list[int] = []

    def work() -> bytes:
        import this  # noqa: F401, PLC0415

        seen.append(1)
        return str(os.getpid()).encode()

    before = children()
    assert int(await call_in_fork(work, 20)) != os.getpid()
    assert (seen, "this" in sys.modules) == ([], False)
    assert children() <= before


async def test_an_error_of_the_function_is_reported() -> None:
    def fail() -> bytes:
        raise ValueError("no")

    with pytest.raises(EnvironmentFailed, match="code 1"):
        await call_in_fork(fail, 20)


async def test_a_child_that_waits_for_a_lock_of_another_thread_ends_after_its_time() -> None:
    lock, taken, done = threading.Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait(20)

    def work() -> bytes:
        with lock:
            return b"never"

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait(20)
    try:
        with pytest.raises(EnvironmentFailed, match="code"):
            await call_in_fork(work, 0.3)
    finally:
        done.set()
        holder.join()


async def test_a_caller_that_is_cancelled_leaves_no_child() -> None:
    def sleep() -> bytes:
        time.sleep(60)
        return b""

    before = children()
    with anyio.move_on_after(0.2):
        await call_in_fork(sleep, 60)
    assert children() <= before
