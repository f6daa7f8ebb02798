"""A process that runs hooks is killed: no event is lost, and what is run again has its number."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
from hook_home import add_hook, hook_settings, told, trust

from hermes.core.events.incidents import IncidentOpened
from hermes.memory.store import open_journal

pytestmark = pytest.mark.anyio
KILLS, EVENTS = int(os.environ.get("HERMES_TEST_KILLS", "3")), 6


def start(folder: Path) -> subprocess.Popen[bytes]:
    program = Path(__file__).parent / "hook_home.py"
    with (folder / "output").open("ab") as output:
        command = [sys.executable, str(program), str(folder)]
        return subprocess.Popen(command, stdout=output, stderr=output)


async def kill_when(folder: Path, ready: Callable[[], bool]) -> None:
    process = start(folder)
    try:
        with anyio.fail_after(60):
            while not ready():
                assert process.poll() is None, (folder / "output").read_text()
                await anyio.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


async def ended_numbers(folder: Path) -> list[int]:
    async with open_journal(hook_settings(folder).store, or_read_only=True) as journal:
        return [each.event.number async for each in journal.read(kinds=("hook.ended",))]  # type: ignore[union-attr]


async def run_to_the_end(folder: Path, numbers: list[int]) -> None:
    process = start(folder)
    try:
        with anyio.fail_after(60):
            while {*await ended_numbers(folder)} != {*numbers}:
                assert process.poll() is None, (folder / "output").read_text()
                await anyio.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


async def append_events(folder: Path, count: int) -> list[int]:
    async with open_journal(hook_settings(folder).store) as journal:
        return [
            *await journal.append(
                *(
                    IncidentOpened(run="incident-1", incident=str(n), title="t", severity="P2")
                    for n in range(count)
                )
            )
        ]


def has_told(folder: Path, count: int, last: int) -> bool:
    said = [each["number"] for each in told(folder, "page")]
    return len(said) >= count or last in said


async def test_a_kill_while_the_handler_runs_runs_it_again_with_the_same_number(
    tmp_path: Path,
) -> None:
    add_hook(tmp_path, "page", "['incident:opened']")
    await trust(tmp_path, "page")
    numbers = await append_events(tmp_path, 2)
    (tmp_path / "hold").touch()
    await kill_when(tmp_path, lambda: bool(told(tmp_path, "page")))
    (tmp_path / "hold").unlink()
    assert await ended_numbers(tmp_path) == []
    await run_to_the_end(tmp_path, numbers)
    assert [each["number"] for each in told(tmp_path, "page")] == [numbers[0], *numbers]


async def test_after_many_kills_every_event_was_told_and_none_without_its_number(
    tmp_path: Path,
) -> None:
    add_hook(tmp_path, "page", "['incident:opened']")
    await trust(tmp_path, "page")
    numbers = await append_events(tmp_path, EVENTS)
    draw = random.Random(20)
    for _ in range(KILLS):
        enough = len(told(tmp_path, "page")) + draw.randint(1, 2)
        await kill_when(tmp_path, partial(has_told, tmp_path, enough, numbers[-1]))
    await run_to_the_end(tmp_path, numbers)
    said = [each["number"] for each in told(tmp_path, "page")]
    assert list(dict.fromkeys(said)) == numbers
    assert len(said) <= len(numbers) + KILLS
