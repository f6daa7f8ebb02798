"""Gives sudo its password in a place, without any command, file, variable or output holding it.

sudo asks a helper (`-A`, SUDO_ASKPASS), because the standard input of a command belongs to the
command: `cat list | sudo tee file` has data there. The helper asks a keeper: a background shell
in the place that got the password through its own standard input and has it in memory only. It
answers a child of sudo and nobody else, once for each sudo: a password that is refused is not
tried again, so that no account is locked. A `sudo` first on the PATH adds the `-A`, which works
in pipelines, scripts and `xargs` alike, and leaves the command's own text as it is.
"""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from shlex import quote

import anyio

from hermes.core.errors import HermesError
from hermes.core.protocols import CommandResult, Process
from hermes.environments.sudo_scripts import DESK, KEEPER, SET_UP

VARIABLE = "SUDO_PASSWORD"
_WORD = re.compile(r"\bsudo\b")
_SETTING_UP = 30.0
IDLE = 3600
"""Seconds after which the keeper leaves when nobody asked."""

Run = Callable[[str], Awaitable[CommandResult]]
Start = Callable[[str], Awaitable[Process]]


class SudoDesk:
    """One for each open place that was given a password. `owner` is our process, where the place
    can see it: the keeper does not outlive it."""

    def __init__(self, password: str, *, owner: int | None = None) -> None:
        self._password = password
        self._owner = owner
        self._keeper: Process | None = None
        self._tried_at: float | None = None
        self._lock = anyio.Lock()

    async def ready(self, command: str, run: Run, start: Start) -> None:
        """Before a command that speaks of sudo. A place without sudo stays as it is."""
        if _WORD.search(command) is None:
            return
        async with self._lock:
            now = anyio.current_time()
            if self._tried_at is not None and now - self._tried_at < IDLE / 2:
                return
            await self.close()
            await self._open(run, start)
            self._tried_at = now

    async def close(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            with suppress(HermesError):  # the place is gone, and the keeper with it
                await keeper.kill()

    async def _open(self, run: Run, start: Start) -> None:
        done = await run(SET_UP)
        _, found, desk = done.output.rpartition(DESK)
        if not found:
            return
        words = {"desk": desk.strip(), "owner": str(self._owner or ""), "idle": str(IDLE)}
        given = " ".join(f"__hermes_{name}={quote(value)}" for name, value in words.items())
        self._keeper = await start(f"{given}\n{KEEPER}")
        await self._keeper.write(self._password.encode() + b"\n")


def desk_for(password: str, *, owner: int | None = None) -> SudoDesk | None:
    """None without a password, or with one that no line can hold."""
    if not password or "\n" in password or "\0" in password:
        return None
    return SudoDesk(password, owner=owner)
