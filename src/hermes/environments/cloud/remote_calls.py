"""Makes short remote calls to a cloud box: each sends a program and reads one answer.

For services behind an SDK, where a long-lived channel (`remote.channels`) is not available or not
reliable. A command runs in the background and prints to a file; calls start it, poll it and stop
it. So nothing depends on how the service streams, truncates or decodes output, or on a connection
that stays open as long as the command runs. `remote_calls.sh` is the program in the box.
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
"""Seconds that one call waits for output; many proxies end a request after 30."""
OUTPUT_WINDOW_BYTES = 204_800
"""Bytes of a background process's output that are kept for another reader."""
KEEP_ALIVE_COMMAND = ("bash", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done")
"""Keeps an idle box running and reaps its orphan processes."""

_CALL_TIMEOUT_S = 40.0
"""Seconds for an answer, in addition to the time that the call itself waits."""
_FILE_CALL_TIMEOUT_S = 300.0
"""The same for a call that transfers a file."""
_CHUNK_BYTES = 262_144
_ANSWER_END = b"\0hermes\0"
"""Ends every complete answer: some clients report a broken connection as success."""

# The script is sent as input: arguments may be part of a URL and are visible to `ps`. Reading a
# number of bytes is fast in bash; reading up to a delimiter is byte by byte.
_LOADER = 'LC_ALL=C read -r -N {} __; eval "$__"'


class CloudBox(Protocol):
    """A machine in which short programs can be run; hides the SDK from the other modules."""

    id: str

    async def exec(self, argv: Sequence[str], stdin: bytes, *, timeout: float) -> bytes:
        """The standard output. Raises `EnvironmentFailed`."""

    async def close(self) -> None:
        """Raises `EnvironmentFailed` when the box may still be running, and cost money."""


class RemoteCallAnswer(Value, frozen=True):
    code: int | None
    """The exit code of the command; None while it runs."""
    gone: bool
    """The files of the running command were removed."""
    size: int
    """Bytes that the command has printed."""
    data: bytes


class RemoteCalls:
    """Makes calls to one box. `folder` there is ours, `start` is the first working folder."""

    def __init__(self, box: CloudBox, folder: str = "", start: str = "") -> None:
        self.box, self.folder, self.start = box, folder, start

    async def open(self, wanted: str) -> "RemoteCalls":
        """`wanted` is the first working folder; empty for the default of the box."""
        answer = await self.call("open", "-", stdin=os.fsencode(wanted) + b"\0")
        folder, _, start = os.fsdecode(answer.data).partition("\0")
        return RemoteCalls(self.box, folder, start)

    async def call(
        self, verb: str, tree: str, *arguments: object, stdin: bytes = b"", waits_s: float = 0
    ) -> RemoteCallAnswer:
        """Raises `ToolError` with the reason when the box refuses."""
        words, script = [str(argument) for argument in arguments], _load_script()
        argv = ["bash", "-c", _LOADER.format(len(script)), "bash", self.folder, verb, tree, *words]
        limit = waits_s + (
            _FILE_CALL_TIMEOUT_S if len(stdin) > _CHUNK_BYTES or verb == "read" else _CALL_TIMEOUT_S
        )
        try:
            with anyio.fail_after(limit):
                output = await self.box.exec(argv, script + stdin, timeout=limit)
        except TimeoutError as error:
            raise EnvironmentFailed(
                f"{self.box.id} did not answer within {limit:.0f} seconds"
            ) from error
        return _parse_answer(self.box.id, output)


def _parse_answer(box: str, output: bytes) -> RemoteCallAnswer:
    whole = output.removesuffix(_ANSWER_END)
    if len(whole) < len(output):
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
    if output.startswith((b"ok ", b"no ")):
        raise EnvironmentFailed(
            f"the connection to {box} broke; it is not known what happened there"
        )
    excerpt = output[:200].decode("utf-8", "replace").strip() or "nothing"
    raise EnvironmentFailed(
        f"{box} answered {excerpt!r}, which is no answer of ours: its image must have bash and "
        "the usual programs (coreutils, grep)"
    )


@cache
def _load_script() -> bytes:
    mark = FOLDER_MARK.decode().encode("unicode_escape").decode()
    before = (
        f"HEAD={HEAD_BYTES} TAIL={TAIL_BYTES} PIECE={_CHUNK_BYTES} "
        f"WINDOW={OUTPUT_WINDOW_BYTES} MARK={TREE_VARIABLE} FOLDER_MARK=$'{mark}'\n"
    )
    inside = Path(__file__).with_name("remote_calls.sh").read_text()
    return (before + inside).encode("ascii")
