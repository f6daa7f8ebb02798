"""What the stand-ins of Modal and Daytona share. Nothing real could be had for these tests: a
"machine" is a folder of this one, programs run here with an empty environment, and each call is
checked against the signature that the real SDK was recorded to have."""

import asyncio
import functools
import inspect
import itertools
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CALLS: list[tuple[str, dict[str, Any]]] = []
"""Every call that reached a stand-in, with its arguments by name."""
MACHINES: list["Machine"] = []

_RECORDED = json.loads(Path(__file__).parent.with_name("signatures.json").read_text())
_number = itertools.count(1)


def as_recorded(sdk: str, path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Refuses what the real one would refuse, and writes the call down."""
    signature = inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect._ParameterKind[kind],
                default=None if optional else inspect.Parameter.empty,
            )
            for name, kind, optional in _RECORDED[sdk]["signatures"][path]
        ]
    )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        bound_to_self = "self" in inspect.signature(function).parameters

        @functools.wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            arguments = signature.bind(*given[bound_to_self:], **named).arguments
            CALLS.append((f"{sdk}.{path}", dict(arguments)))
            return function(*given, **named)

        return call

    return decorate


class Machine:
    def __init__(self) -> None:
        self.id = f"stand-in-{next(_number)}"
        self.lost = False
        self.folder = Path(tempfile.mkdtemp(prefix="stand-in-machine-"))
        (self.folder / "work").mkdir()
        (self.folder / "tmp").mkdir()
        MACHINES.append(self)
        self._mark = f"STAND_IN={os.getpid()}-{self.id}"

    async def exec(
        self, argv: Sequence[str], stdin: bytes, *, timeout: float, mixed: bool = False
    ) -> tuple[int, bytes]:
        program = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT if mixed else asyncio.subprocess.DEVNULL,
            cwd=self.folder / "work",
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "TMPDIR": str(self.folder / "tmp"),
                "STAND_IN": self._mark.partition("=")[2],
            },
        )
        try:
            said, _ = await asyncio.wait_for(program.communicate(stdin), timeout)
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
        return program.returncode or 0, said

    def end(self) -> None:
        """All that runs there ends, and all that was there is gone."""
        self.lost = True
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
            except OSError:
                continue
        shutil.rmtree(self.folder, ignore_errors=True)
