"""Files as the editor has them: what is not saved yet is read, and what is written is shown."""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import anyio
from acp.exceptions import RequestError

from hermes.acp.updates import WrittenFile
from hermes.core.actions import BlockedAccess, ConfinementProfile, KernelSupport
from hermes.core.errors import ToolError
from hermes.core.protocols import (
    BackgroundProcess,
    CommandResult,
    ConfinedEnvironment,
    ConfinesCommands,
    Environment,
    KnowsWorkingDirectory,
    PipedProcess,
    StartsPipedProcesses,
    StartsProcesses,
)

MAX_FILE_BYTES = 256 * 1024
"""Larger files are read from the disk alone."""
EDITOR_TIMEOUT_S = 10.0


@runtime_checkable
class HostEnvironment(
    Environment,
    StartsProcesses,
    KnowsWorkingDirectory,
    ConfinesCommands,
    StartsPipedProcesses,
    Protocol,
):
    """An environment on the machine of the editor, with all that it can do."""


class EditorFiles:
    """The files that the editor has open, as far as it lets an agent read and write them."""

    def __init__(
        self,
        client: Any,
        session: str,
        folders: Sequence[str],
        *,
        reads: bool,
        writes: bool,
        note_written: Callable[[WrittenFile], None],
    ) -> None:
        self._client = client
        self._session = session
        self._folders = [each.rstrip("/") + "/" for each in folders]
        self._reads, self._writes = reads, writes
        self.note_written = note_written

    async def read(self, path: str, saved: bytes) -> bytes:
        """The text in the editor; `saved` where it has none."""
        text = decode_plain(saved)
        if not self._reads or text is None or not self._has(path):
            return saved
        found: Any = None
        try:
            with anyio.move_on_after(EDITOR_TIMEOUT_S):
                found = await self._client.read_text_file(session_id=self._session, path=path)
        except (RequestError, ValueError):
            return saved  # it is not open there, or outside its project
        except ConnectionError:
            found = None
        if found is None:  # a client that does not answer is not asked for the next file
            self._reads = False
            return saved
        shown: str = found.content
        if shown.replace("\r\n", "\n") == text.replace("\r\n", "\n"):
            return saved
        if "\r\n" in text and "\r\n" not in shown:  # editors keep lines without their ends
            shown = shown.replace("\n", "\r\n")
        return shown.encode(errors="replace")

    async def write(self, path: str, data: bytes) -> None:
        """Show the editor what was written, also where it had text that was not saved."""
        text = decode_plain(data)
        if not self._writes or text is None or not self._has(path):
            return
        try:
            with anyio.fail_after(EDITOR_TIMEOUT_S):
                await self._client.write_text_file(
                    session_id=self._session, path=path, content=text
                )
        except (RequestError, ValueError, ConnectionError, TimeoutError):
            self._writes = False  # the file is on the disk, where the editor finds it

    def _has(self, path: str) -> bool:
        return any(path.startswith(each) for each in self._folders)


def decode_plain(data: bytes) -> str | None:
    """Return None for what an editor might not keep as it is: binary files, other encodings."""
    if len(data) > MAX_FILE_BYTES or data.startswith(b"\xef\xbb\xbf") or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


class EditorView:
    """An environment whose files are those of the editor. Rules and confinement are unchanged: each
    file is first read and written where it is."""

    def __init__(self, environment: Any, files: EditorFiles) -> None:
        self.name, self.target = environment.name, environment.target
        self.isolated: bool = environment.isolated
        self._environment = environment
        self._files = files

    async def __aenter__(self) -> Self:
        await self._environment.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._environment.__aexit__(*exc_info)

    @property
    def folder(self) -> str:
        folder: str = self._environment.folder
        return folder

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        result: CommandResult = await self._environment.run(
            command, timeout=timeout, stdin=stdin, cwd=cwd
        )
        return result

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        data: bytes = await self._environment.read(path, offset=offset, limit=limit)
        if offset or (limit is not None and len(data) >= limit):  # a part of a file
            return data
        return (await self._files.read(self._absolute(path), data))[:limit]

    async def write(self, path: str, data: bytes) -> None:
        before = await self._text(path)
        await self._environment.write(path, data)
        await self._files.write(self._absolute(path), data)
        if (after := decode_plain(data)) is not None:
            self._files.note_written(WrittenFile(self._absolute(path), before, after))

    async def start(self, command: str, *, pty: bool = False, cwd: str = "") -> BackgroundProcess:
        process: BackgroundProcess = await self._environment.start(command, pty=pty, cwd=cwd)
        return process

    async def find(self, handle: str) -> BackgroundProcess | None:
        process: BackgroundProcess | None = await self._environment.find(handle)
        return process

    async def text_of(self, path: str) -> str | None:
        """The whole text as the person sees it; None when it is no text or too long."""
        try:
            return decode_plain(await self.read(path, limit=MAX_FILE_BYTES + 1))
        except ToolError:
            return None

    async def _text(self, path: str) -> str | None:
        try:
            return decode_plain(await self._environment.read(path, limit=MAX_FILE_BYTES + 1))
        except ToolError:
            return None

    def _absolute(self, path: str) -> str:
        if path.startswith("~"):
            path = str(Path(path).expanduser())
        return posixpath.normpath(posixpath.join(self.folder, path))


class EditorEnvironment(EditorView):
    """The environment of a session of an editor."""

    def __init__(self, environment: HostEnvironment, files: EditorFiles) -> None:
        super().__init__(environment, files)
        self._host = environment

    async def kernel_support(self) -> KernelSupport:
        return await self._host.kernel_support()

    def confined(self, profile: ConfinementProfile) -> ConfinedEnvironment:
        return ConfinedEditorEnvironment(self._host.confined(profile), self._files)

    def open_piped(
        self,
        argv: Sequence[str],
        *,
        variables: Mapping[str, str],
        cwd: str = "",
        log: Path | None = None,
    ) -> AbstractAsyncContextManager[PipedProcess]:
        return self._host.open_piped(argv, variables=variables, cwd=cwd, log=log)


class ConfinedEditorEnvironment(EditorView):
    """The same for commands that are confined."""

    def __init__(self, environment: ConfinedEnvironment, files: EditorFiles) -> None:
        super().__init__(environment, files)
        self._confined = environment

    def collect(self) -> list[BlockedAccess]:
        return self._confined.collect()
