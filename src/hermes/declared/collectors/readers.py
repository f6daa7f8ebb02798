"""Reads the files and facts of a host: of this one directly, of others through a command runner.

On other hosts one program answers each request. It is Python where that exists, and otherwise a
shell script with `stat`, `sha256sum` and `base64`.
"""

import base64
import binascii
import gzip
import json
import os
import shlex
import stat
import time
import zlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from hermes.core.errors import EnvironmentFailed
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.declared.collectors import host_program

RunCommand = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
"""Runs a script with `sh` and some standard input; its exit code and output."""
MAX_OUTPUT_BYTES = 180_000
"""Of one command: an environment keeps about this much of the output."""
MAX_READ_BYTES = 2 << 20
"""Contents of files of this host that are held at once."""
MAX_PARTS = 64
COMMAND_TIMEOUT_S = 120.0
_ANSWER_MARK = b"\nhermes-state "
_NO_PYTHON = b"hermes-state-without-python"
_SCRIPTS = Path(__file__).parent / "scripts"
_HAS_PYTHON = "python3 -IS -c 'import sys; sys.exit(sys.version_info < (3, 7))' 2> /dev/null"
FactsByKind = dict[str, dict[str, dict[str, str]]]


class ListedFile(Value, frozen=True, kw_only=True):
    path: str
    type: str
    mode: str
    uid: str
    gid: str
    size: int
    stamp: str
    link: str = ""
    named: bool = False


class HostListing(Value, frozen=True, kw_only=True):
    at: float
    host: str
    files: tuple[ListedFile, ...]
    left_out: tuple[str, ...] = ()
    facts: FactsByKind = {}


class FileContents(Value, frozen=True, kw_only=True):
    contents: dict[str, bytes | None]
    """None for a file that cannot be read or is too long."""
    digests: dict[str, str]


class HostReader(Protocol):
    """Raises `EnvironmentFailed`."""

    async def list_files(self, request: dict[str, Any]) -> HostListing: ...
    async def read_files(
        self, contents: Sequence[tuple[str, int]], digests: Sequence[str], max_bytes: int
    ) -> FileContents:
        """Perhaps not all of them: the caller asks again for the rest. `contents`: with sizes."""


class LocalReader:
    """Reads this host."""

    async def list_files(self, request: dict[str, Any]) -> HostListing:
        at = time.time()
        rows, left_out = host_program.list_files(request)
        return HostListing(
            at=at,
            host=os.uname().nodename,
            files=tuple(_host_file(rows.pop(path)) for path in tuple(rows)),
            left_out=tuple(left_out),
            facts=host_program.read_facts(),
        )

    async def read_files(
        self, contents: Sequence[tuple[str, int]], digests: Sequence[str], max_bytes: int
    ) -> FileContents:
        found = FileContents(
            contents={}, digests={path: host_program.digest_file(path) for path in digests}
        )
        left = MAX_READ_BYTES
        for path, _ in contents:
            content = found.contents[path] = host_program.read_file(path, max_bytes)
            left -= len(content or b"")
            if left < 0:
                break
        return found


class CommandReader:
    """Reads a host through a command runner, with Python if the host has it."""

    def __init__(self, run: RunCommand, max_output: int = MAX_OUTPUT_BYTES) -> None:
        self._run = run
        self._max_output = max_output
        self._without_python = False

    async def list_files(self, request: dict[str, Any]) -> HostListing:
        if self._without_python:
            return await self._list_with_shell(request)
        parts, part, answers = 1, 0, list[dict[str, Any]]()
        while part < parts:
            fields = {**request, "part": part, "parts": parts, "max_output": self._max_output}
            answer = await self._ask("list", fields)
            if answer is None:
                return await self._list_with_shell(request)
            if too_long := answer.get("too_long"):
                parts, part, answers = _more_parts(parts, too_long / self._max_output), 0, []
                continue
            answers.append(answer)
            part += 1
        return HostListing(
            at=answers[0]["at"],
            host=answers[0]["host"],
            files=tuple(_host_file(row) for answer in answers for row in answer["rows"]),
            left_out=tuple(dict.fromkeys(each for one in answers for each in one["left_out"])),
            facts=answers[0]["facts"],
        )

    async def read_files(
        self, contents: Sequence[tuple[str, int]], digests: Sequence[str], max_bytes: int
    ) -> FileContents:
        if self._without_python:
            return await self._read_with_shell(contents, digests)
        pairs = [(path, max_bytes) for path, _ in contents]
        fields = {"contents": pairs, "digests": digests, "max_output": self._max_output}
        answer = await self._ask("read", fields)
        if answer is None or "too_long" in answer:
            raise EnvironmentFailed("the host did not answer a request for the content of files")
        return FileContents(
            contents={
                path: zlib.decompress(base64.b64decode(packed)) if packed is not None else None
                for path, packed in answer["contents"].items()
            },
            digests=answer["digests"],
        )

    async def _ask(self, verb: str, fields: dict[str, Any]) -> dict[str, Any] | None:
        """Return None for a host without Python."""
        script = (
            f"if {_HAS_PYTHON}; then exec python3 -IS -c {shlex.quote(_program_text())} {verb}; "
            f"fi; cat > /dev/null; echo {_NO_PYTHON.decode()}"
        )
        request = base64.b64encode(zlib.compress(json.dumps(fields).encode()))
        code, output = await self._run(script, request + b"\n")
        if _NO_PYTHON in output:
            self._without_python = True
            return None
        _, mark, text = output.rpartition(_ANSWER_MARK)
        try:
            answer: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
        except (ValueError, binascii.Error, zlib.error) as error:
            said = output[-300:].decode("utf-8", "replace").strip() if not mark else str(error)
            raise EnvironmentFailed(
                f"the state of the host could not be read (exit code {code}): {said}"
            ) from error
        return answer

    async def _list_with_shell(self, request: dict[str, Any]) -> HostListing:
        wanted = [*request["roots"], *request["known"], *request["named"]]
        text = "\n".join(each for each in dict.fromkeys(wanted) if "\n" not in each)
        return parse_shell_listing(await self._ask_shell("list", text))

    async def _read_with_shell(
        self, contents: Sequence[tuple[str, int]], digests: Sequence[str]
    ) -> FileContents:
        """As many files as fit, if their content does not get smaller by compression."""
        left = self._max_output * 3 // 4
        lines = list[str]()
        for line, size in [
            *((f"C {path}", size * 4 // 3 + len(path)) for path, size in contents),
            *((f"D {path}", 80 + len(path)) for path in digests),
        ]:
            left -= size
            if left < 0 and lines:
                break
            lines.append(line)
        found = FileContents(contents={}, digests={})
        for line in (await self._ask_shell("read_files", "\n".join(lines))).splitlines():
            path, _, value = line[2:].rpartition("\t")
            if line.startswith("C "):
                found.contents[path] = _unpack(value)
            elif line.startswith("D "):
                found.digests[path] = value
        return found

    async def _ask_shell(self, verb: str, request: str) -> str:
        functions = (_SCRIPTS / "files.sh").read_text(encoding="utf-8")
        script = f"{functions}\n{verb} | gzip -c | base64; echo end"
        _, output = await self._run(script, request.encode() + b"\n")
        text, _, _ = output.rpartition(b"end")
        try:
            return gzip.decompress(base64.b64decode(text)).decode("utf-8", "replace")
        except (ValueError, OSError, EOFError, zlib.error) as error:
            raise EnvironmentFailed(
                "the state of the host could not be read: it has no python3 (3.7 or later), "
                f"and the answer of its shell is damaged or too long: {error}"
            ) from error


def _program_text() -> str:
    return Path(host_program.__file__).read_text(encoding="utf-8")


def environment_runner(environment: Environment) -> RunCommand:
    async def run(script: str, stdin: bytes) -> tuple[int, bytes]:
        result = await environment.run(script, timeout=COMMAND_TIMEOUT_S, stdin=stdin, cwd="/")
        if result.timed_out:
            raise EnvironmentFailed(f"the host did not answer within {COMMAND_TIMEOUT_S:.0f} s")
        return result.exit_code, result.output.encode("utf-8", "replace")

    return run


def _more_parts(parts: int, excess: float) -> int:
    more = max(parts + 1, int(parts * excess) + 1)
    if more > MAX_PARTS:
        raise EnvironmentFailed("the host has too many files: name fewer folders in declared.roots")
    return more


def _host_file(row: Sequence[Any]) -> ListedFile:
    path, type, mode, uid, gid, size, stamp, link, named = row
    return ListedFile(
        path=path,
        type=type,
        mode=mode,
        uid=str(uid),
        gid=str(gid),
        size=size,
        stamp=stamp,
        link=link,
        named=bool(named),
    )


def _unpack(value: str) -> bytes | None:
    try:
        return gzip.decompress(base64.b64decode(value)) if value else None
    except (ValueError, OSError, EOFError, zlib.error):
        return None


def parse_shell_listing(text: str) -> HostListing:
    files = dict[str, ListedFile]()
    links = dict[str, str]()
    facts: FactsByKind = {"mount": {}, "user": {}, "group": {}, "package": {}}
    at, host, package = time.time(), "", ""
    for line in text.splitlines():
        tag, rest = line[:2], line[2:]
        if tag == "F ":
            _add_shell_file(files, rest)
        elif tag == "L ":
            path, _, target = rest.partition("\t")
            links[path] = target
        elif tag == "P ":
            package = rest
        elif tag == "V " and package:
            facts["package"][package] = {"version": rest}
        elif tag == "T ":
            seconds, _, host = rest.partition(" ")
            at = float(seconds)
        else:
            _add_shell_fact(facts, tag, rest)
    found = tuple(_with_link(each, links) for each in files.values())
    return HostListing(at=at, host=host, files=found, facts=facts)


def _add_shell_file(files: dict[str, ListedFile], rest: str) -> None:
    fields = rest.split(" ", 7)
    if len(fields) != 8 or not fields[7].startswith("/"):
        return
    mode, path = int(fields[0], 16), fields[7]
    is_link, is_folder = stat.S_ISLNK(mode), stat.S_ISDIR(mode)
    size = 0 if is_folder or is_link else int(fields[3])
    # `stat` of busybox knows only seconds.
    stamp = f"{size}:{int(fields[4]) * 10**9}:{fields[5]}:{int(fields[6]) * 10**9}"
    files[path] = ListedFile(
        path=path,
        type="link" if is_link else "folder" if is_folder else "file",
        mode=format(stat.S_IMODE(mode), "o"),
        uid=fields[1],
        gid=fields[2],
        size=size,
        stamp=stamp,
    )


def _with_link(file: ListedFile, links: dict[str, str]) -> ListedFile:
    if file.type != "link":
        return file
    return replace(file, link=links.get(file.path, ""))


def _add_shell_fact(facts: FactsByKind, tag: str, rest: str) -> None:
    fields = rest.split(" " if tag == "M " else ":")
    if tag == "M " and len(fields) >= 4 and fields[2] not in host_program.PSEUDO_FILE_SYSTEMS:
        facts["mount"][fields[1]] = dict(
            zip(("device", "type", "options"), (fields[0], fields[2], fields[3]), strict=True)
        )
    elif tag == "U " and len(fields) == 7:
        values = (fields[2], fields[3], fields[5], fields[6])
        facts["user"][fields[0]] = dict(zip(("uid", "gid", "home", "shell"), values, strict=True))
    elif tag == "G " and len(fields) == 4:
        facts["group"][fields[0]] = {"gid": fields[2], "members": fields[3]}
