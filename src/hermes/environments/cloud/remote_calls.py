"""Errands: short programs sent into a place, each with an answer of one line and some bytes.

For services behind an SDK, where a line to a program (`remote.line`) cannot be had or trusted. A
command does not run in the errand that starts it but on its own, printing to a file; errands
start it, look after it and end it. So nothing depends on how a service streams, shortens or
decodes what a command prints, or on a connection that lives as long as the command. The other
half is `inside.sh`.
"""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import anyio

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.messages import Value
from hermes.environments.processes.output import HEAD_BYTES, TAIL_BYTES
from hermes.environments.shell import FOLDER_MARK, TREE_VARIABLE

POLL_WAIT_S = 20
"""Seconds one errand waits for news; many proxies end a request after 30."""
OUTPUT_WINDOW_BYTES = 204_800
"""Bytes of a background process's output that stay for another reader."""
KEEP_ALIVE_COMMAND = ("bash", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done")
"""Keeps a machine up that has nothing else to do, and buries its orphans."""

_CALL_TIMEOUT_S = 40.0
"""Seconds beyond its own waiting for an errand to come back."""
_FILE_CALL_TIMEOUT_S = 300.0
"""The same for one that carries a file."""
_CHUNK_BYTES = 262_144
_ANSWER_END = b"\0hermes\0"
"""Ends every answer: some clients call a broken connection a success."""

# The script comes with the input: arguments may travel in a URL, and are seen by `ps`. To ask for
# a number of bytes makes bash read many at once; with a delimiter it reads each by itself.
_LOADER = 'LC_ALL=C read -r -N {} __; eval "$__"'


class CloudBox(Protocol):
    """Somewhere a short program can be run: all that the rest knows of an SDK."""

    id: str

    async def exec(self, argv: Sequence[str], stdin: bytes, *, timeout: float) -> bytes:
        """What it printed to its standard output. Raises `EnvironmentFailed`."""
        ...

    async def close(self) -> None:
        """Give it back. Raises `EnvironmentFailed` when it may still be running, and costing."""
        ...


class RemoteCallAnswer(Value, frozen=True):
    code: int | None
    """How the command ended; None while it runs."""
    gone: bool
    """Its files were removed from under it."""
    size: int
    """How much it has printed."""
    data: bytes


class RemoteCalls:
    """All errands into one box. `folder` there is ours, `start` the first working folder."""

    def __init__(self, box: CloudBox, folder: str = "", start: str = "") -> None:
        self.box, self.folder, self.start = box, folder, start

    async def open(self, wanted: str) -> "RemoteCalls":
        """`wanted` is the first working folder; empty leaves it to the place."""
        answer = await self.call("open", "-", stdin=os.fsencode(wanted) + b"\0")
        folder, _, start = os.fsdecode(answer.data).partition("\0")
        return RemoteCalls(self.box, folder, start)

    async def call(
        self, verb: str, tree: str, *arguments: object, stdin: bytes = b"", waits_s: float = 0
    ) -> RemoteCallAnswer:
        """Raises `ToolError` with the reason when the place says no."""
        words, script = [str(argument) for argument in arguments], _load_script()
        argv = ["bash", "-c", _LOADER.format(len(script)), "bash", self.folder, verb, tree, *words]
        limit = waits_s + (
            _FILE_CALL_TIMEOUT_S if len(stdin) > _CHUNK_BYTES or verb == "read" else _CALL_TIMEOUT_S
        )
        try:
            with anyio.fail_after(limit):
                said = await self.box.exec(argv, script + stdin, timeout=limit)
        except TimeoutError as error:
            raise EnvironmentFailed(
                f"{self.box.id} did not answer within {limit:.0f} seconds"
            ) from error
        return _parse_answer(self.box.id, said)


def _parse_answer(box: str, said: bytes) -> RemoteCallAnswer:
    whole = said.removesuffix(_ANSWER_END)
    if len(whole) < len(said):
        kind, _, reason = whole.decode("utf-8", "replace").partition(" ")
        if kind == "no":
            raise ToolError(reason)
        if kind == "bad":
            raise EnvironmentFailed(f"{box} cannot run commands: {reason}")
        first, _, data = whole.partition(b"\n")
        _, code, size = first.split(b" ")
        return RemoteCallAnswer(
            int(code) if code.isdigit() else None, code == b"gone", int(size), data
        )
    if said.startswith((b"ok ", b"no ")):
        raise EnvironmentFailed(
            f"the connection to {box} broke; it is not known what happened there"
        )
    shown = said[:200].decode("utf-8", "replace").strip() or "nothing"
    raise EnvironmentFailed(
        f"{box} answered {shown!r}, which no errand of ours does: its image must have bash and "
        "the usual programs (coreutils, grep)"
    )


@cache
def _load_script() -> bytes:
    mark = FOLDER_MARK.decode().encode("unicode_escape").decode()
    before = (
        f"HEAD={HEAD_BYTES} TAIL={TAIL_BYTES} PIECE={_CHUNK_BYTES} WINDOW={OUTPUT_WINDOW_BYTES} MARK={TREE_VARIABLE} "
        f"FOLDER_MARK=$'{mark}'\n"
    )
    inside = Path(__file__).with_name("inside.sh").read_text()
    return (before + inside).encode("ascii")
