"""Run as a process of its own by tests, beside others or to be killed: works on a journal."""

from pathlib import Path

import anyio

import hermes.memory.postgres.journal  # noqa: F401 - once here, not in each process
from hermes.core.events.runs import RunRenamed
from hermes.memory.store import StoreLocation, open_journal
from hermes.memory.store_copy import copy_store


async def write(place: StoreLocation, run: str) -> None:
    async with open_journal(place) as journal:
        for number in range(100):
            await journal.append(RunRenamed(run=run, title=str(number)))


def report(safe: int, total: int) -> None:
    print(safe, flush=True)  # noqa: T201 - for the test, which reads it


def location(text: str) -> StoreLocation:
    return text if "://" in text else Path(text)


def main(task: str, place: str, second: str) -> None:
    if task == "write":
        anyio.run(write, location(place), second)
    else:
        copy_store(location(place), location(second), report)


anyio.run(anyio.sleep, 0)  # loads the event loop, once for all processes
