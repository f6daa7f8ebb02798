"""Files of a sandbox, read and replaced from outside without ever walking a path of its own."""

import os
from functools import partial

from anyio import to_thread

from hermes.core.errors import ToolError
from hermes.environments.confinement import wire
from hermes.environments.confinement.line import Call, Line
from hermes.environments.confinement.wire import Request

ENDLESS = 16 << 20
"""Most bytes of a file that does not say how long it is."""


async def fetch(line: Line, path: str, *, cwd: str, offset: int, limit: int | None) -> bytes:
    """Raises `ToolError` saying why not."""
    call = await line.ask(_request("read", path, cwd))
    try:
        descriptor = await _descriptor(call, "read", path)
    finally:
        call.close()
    return await to_thread.run_sync(partial(_read, descriptor, offset, limit))


async def replace(line: Line, path: str, data: bytes, *, cwd: str) -> None:
    """All of it or nothing. Raises `ToolError` saying why not."""
    call = await line.ask(_request("write", path, cwd))
    try:
        descriptor = await _descriptor(call, "write", path)
        try:
            await to_thread.run_sync(_write, descriptor, data)
        except OSError as error:
            raise ToolError(f"cannot write {path}: {error.strerror}") from error
        call.tell(wire.COMMIT)
        kind, words, _ = await call.answer()
        if kind != wire.OK:
            raise _refused("write", path, words)
    finally:
        call.close()


def _request(kind: str, path: str, cwd: str) -> Request:
    made = Request()
    made.kind, made.path, made.cwd = kind, os.fsencode(path), os.fsencode(cwd)
    return made


async def _descriptor(call: Call, verb: str, path: str) -> int:
    kind, words, files = await call.answer()
    if kind != wire.FILE or not files:
        raise _refused(verb, path, words)
    return files[0]


def _refused(verb: str, path: str, words: bytes) -> ToolError:
    number, _, reason = words.decode("utf-8", "replace").partition(" ")
    if number == "2":
        reason = "there is no such file"
    return ToolError(f"cannot {verb} {path}: {reason}")


def _read(descriptor: int, offset: int, limit: int | None) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, offset))
        if limit is None:  # what the kernel makes up while it is read may have no end
            limit = max(os.fstat(descriptor).st_size, ENDLESS)
        return file.read(max(0, limit))


def _write(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
