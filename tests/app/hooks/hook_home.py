"""A home with hooks whose handlers write down what they were run for.

Run as a program, it keeps the hooks of FOLDER/home until it is killed: python hook_home.py FOLDER
"""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from hermes.app.hooks.runner import HookRunner
from hermes.app.hooks.trust import trust_hook
from hermes.app.run_locks import RunLocks
from hermes.core.bus import Bus
from hermes.memory.store import JournalStore, open_journal
from hermes.settings.load import LoadedSettings, load

SHELL_HANDLER = """\
#!/bin/sh
given="$(cat)"
printf '%s\\n' "$given" >> "{log}"
while [ -e "{hold}" ]; do sleep 0.02; done
"""


def hook_settings(folder: Path) -> LoadedSettings:
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "SECRET_TOKEN": "s3cret-value"}
    return load(home=folder / "home", variables=variables)


def add_hook(folder: Path, name: str, events: str, handler: str = "", more: str = "") -> Path:
    """Its handler writes what it is told to FOLDER/NAME.log, and waits while FOLDER/hold is
    there."""
    place = folder / "home/hooks" / name
    place.mkdir(parents=True)
    (place / "HOOK.yaml").write_text(f"events: {events}\n{more}")
    text = handler or SHELL_HANDLER.format(log=folder / f"{name}.log", hold=folder / "hold")
    file = place / ("handler" if text.startswith("#!") else "handler.py")
    file.write_text(text)
    for each in (place.parent, place, file):
        each.chmod(0o755)
    (place / "HOOK.yaml").chmod(0o644)
    return place


def told(folder: Path, name: str) -> list[dict[str, Any]]:
    file = folder / f"{name}.log"
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


async def trust(folder: Path, *names: str) -> None:
    loaded = hook_settings(folder)
    async with open_journal(loaded.store) as journal:
        for name in names:
            await trust_hook(loaded, journal, name)


@asynccontextmanager
async def running_hooks(folder: Path) -> AsyncIterator[JournalStore]:
    """The hooks are run while the block lasts."""
    loaded = hook_settings(folder)
    async with open_journal(loaded.store) as journal, anyio.create_task_group() as group:
        locks = RunLocks(loaded.home / "locks")
        try:
            group.start_soon(HookRunner(loaded, Bus(journal), locks).run)
            yield journal
            group.cancel_scope.cancel()
        finally:
            locks.close()


async def wait_for_ended(journal: JournalStore, count: int) -> list[Any]:
    """The events about hooks that ran, as soon as there are so many."""
    with anyio.fail_after(60):
        while True:
            last = await journal.last()
            found = [each.event async for each in journal.read(kinds=("hook.ended",))]
            if len(found) >= count:
                return found
            await journal.changed(last)


async def main(folder: Path) -> None:
    async with running_hooks(folder):
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
