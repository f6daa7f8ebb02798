"""The tools `read_file`, which reads a window of lines in constant memory, and `write_file`."""

from typing import Annotated

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import PICTURE_STARTS, Risk, Value
from hermes.core.protocols import Environment, StoresBytes, Tool, ToolContext
from hermes.tools.declare import about, tool
from hermes.tools.dependencies import ToolDependencies, content_digest
from hermes.tools.executor import MAX_PREVIEW_CHARS
from hermes.tools.files.common import (
    EMPTY_FILE_TEXT,
    decode_text,
    explain_missing_path,
    printable,
    shell_path,
)

READ_CHUNK_BYTES = 256 * 1024
"""A file up to this size is read at once; of a larger one only the window."""
MAX_TRACKED_BYTES = 16 * 1024 * 1024
"""Up to this size a change by others is noticed; larger files cannot be patched anyway."""
MAX_PICTURE_FILE_BYTES = 20 * 1024 * 1024
"""The limit of `plumbing.picture_format`, which is loaded only when a picture is there."""

_MAX_LINE_CHARS = 2_000
_MAX_LINE_BYTES = 4 * 1024 * 1024
_MAX_OUTPUT_CHARS = MAX_PREVIEW_CHARS - 400
"""A window ends before the executor would have to keep the rest as an artifact."""

_MEASURE_COMMAND = """( f={path}; s=$(wc -c < "$f") && echo $s &&
if [ "$s" -le {tracked} ] && command -v sha256sum >/dev/null; then sha256sum < "$f"; else echo -; fi
head -n {lines} "$f" | wc -c )"""


class _FileLine(Value, frozen=True):
    text: str
    more: int = 0
    """How much of a long line is not in `text`."""


class _ReadRequest(Value, frozen=True):
    path: str
    codec: str
    start: int
    limit: int


class _FileMeasurement(Value, frozen=True):
    size: int
    digest: str
    start: int
    """The byte at which the requested line begins."""


def make_read_file(dependencies: ToolDependencies) -> Tool:
    @tool(risk=Risk.READ)
    async def read_file(
        context: ToolContext,
        path: Annotated[str, about("a file, or an artifact:// reference")],
        offset: Annotated[int, msgspec.Meta(ge=1, description="first line")] = 1,
        limit: Annotated[int, msgspec.Meta(ge=1, le=5000)] = 500,
    ) -> str:
        """Read lines of a text file, each as `number|text`."""
        if path.startswith("artifact://"):
            return await _read_artifact(context, path, offset, limit)
        try:
            head = await context.environment.read(path, limit=READ_CHUNK_BYTES + 1)
        except ToolError as error:
            raise await explain_missing_path(context.environment, path, error) from error
        if head.startswith(PICTURE_STARTS):
            whole = await context.environment.read(path, limit=MAX_PICTURE_FILE_BYTES + 1)
            if len(whole) > MAX_PICTURE_FILE_BYTES:
                size = (await _measure(context.environment, path, 1)).size
                limit_text = f"a picture has at most {MAX_PICTURE_FILE_BYTES:,} bytes"
                return f"{_describe_binary(path, head, size)}. It cannot be shown: {limit_text}"
            return await _show_picture(context, path, whole)
        if len(head) > READ_CHUNK_BYTES:
            return await _read_large(dependencies, context, path, head, (offset, limit))
        dependencies.seen_files.note(context, path, content_digest(head))
        decoded = decode_text(head)
        if decoded is None:
            return _describe_binary(path, head, len(head))
        return _select_lines(decoded.text, offset, limit)

    return read_file


async def _read_artifact(context: ToolContext, reference: str, offset: int, limit: int) -> str:
    if isinstance(context.artifacts, StoresBytes):
        data = await context.artifacts.load_bytes(reference)
        if data.startswith(PICTURE_STARTS):
            return await _show_picture(context, reference, data)
    return _select_lines(await context.artifacts.load(reference), offset, limit)


async def _show_picture(context: ToolContext, path: str, data: bytes) -> str:
    try:
        picture = await context.add_picture(data, path)
    except ToolError as error:
        return f"{_describe_binary(path, data, len(data))}. It cannot be shown: {error}"
    return f"{path} is a picture, {picture.width} × {picture.height} pixels ({picture.media})"


async def _read_large(
    dependencies: ToolDependencies,
    context: ToolContext,
    path: str,
    head: bytes,
    wanted: tuple[int, int],
) -> str:
    offset, limit = wanted
    measured = await _measure(context.environment, path, offset)
    decoded = decode_text(head[:8192])
    if decoded is None or decoded.codec.startswith("utf-16"):
        return _describe_binary(path, head, measured.size)
    # Noted before the window is read: a change in between then counts as a change, not as seen.
    if measured.digest != "-":
        dependencies.seen_files.note(context, path, measured.digest)
    if measured.start >= measured.size:
        raise ToolError(f"line {offset} is past the end of {path} ({measured.size:,} bytes)")
    reading = _ReadRequest(path, decoded.codec, measured.start, limit)
    lines, at_end = await _read_lines(context.environment, reading)
    return _render_lines(lines, offset, f"{measured.size:,} bytes", ended=at_end)


async def _measure(environment: Environment, path: str, offset: int) -> _FileMeasurement:
    command = _MEASURE_COMMAND.format(
        path=shell_path(path), tracked=MAX_TRACKED_BYTES, lines=offset - 1
    )
    result = await environment.run(command, timeout=120.0)
    words = result.output.split("\n")
    if result.exit_code != 0 or len(words) < 3:
        why = "it took too long" if result.timed_out else result.output[-300:].strip()
        raise ToolError(f"could not find line {offset} of {path}: {why}")
    return _FileMeasurement(int(words[0]), words[1].split()[0], int(words[2]))


async def _read_lines(
    environment: Environment, reading: _ReadRequest
) -> tuple[list[_FileLine], bool]:
    """Up to `limit` lines that fit the budget, and whether the file ends with them."""
    lines: list[_FileLine] = []
    kept, length, chars_left, start = b"", 0, _MAX_OUTPUT_CHARS, reading.start
    while chunk := await environment.read(reading.path, offset=start, limit=READ_CHUNK_BYTES):
        start += len(chunk)
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            if len(lines) == reading.limit or chars_left < 0:
                return lines, False
            lines.append(_decode_line(reading, kept + part, length + len(part)))
            kept, length, chars_left = b"", 0, chars_left - len(lines[-1].text)
        kept, length = (kept + rest)[: 4 * _MAX_LINE_CHARS], length + len(rest)
        # perhaps gigabytes without a line end: its beginning is enough
        if length > _MAX_LINE_BYTES:
            return [*lines, _decode_line(reading, kept, length)], False
    if not length:
        return lines, True
    fits = len(lines) < reading.limit
    return ([*lines, _decode_line(reading, kept, length)] if fits else lines), fits


def _decode_line(reading: _ReadRequest, start: bytes, length: int) -> _FileLine:
    kept = start[: 4 * _MAX_LINE_CHARS]
    return _FileLine(kept.decode(reading.codec, "replace"), length - len(kept))


def _select_lines(text: str, offset: int, limit: int) -> str:
    every = text.split("\n")
    if every[-1] == "":
        every.pop()
    if not every:
        return EMPTY_FILE_TEXT
    if offset > len(every):
        raise ToolError(f"line {offset} is past the end: there are {len(every)} lines")
    chosen = [_FileLine(line) for line in every[offset - 1 : offset - 1 + limit]]
    at_end = offset - 1 + len(chosen) == len(every)
    return _render_lines(chosen, offset, f"{len(every):,} lines", ended=at_end)


def _render_lines(lines: list[_FileLine], offset: int, size: str, *, ended: bool) -> str:
    shown: list[str] = []
    chars_left = _MAX_OUTPUT_CHARS
    for number, line in enumerate(lines, start=offset):
        text = printable(line.text.removesuffix("\r"))
        more = line.more + max(0, len(text) - _MAX_LINE_CHARS)
        cut = f" [… {more:,} more in this line]" if more else ""
        entry = f"{number}|{text[:_MAX_LINE_CHARS]}{cut}"
        chars_left -= len(entry) + 1
        if chars_left < 0 and shown:
            ended = False
            break
        shown.append(entry)
    last = offset + len(shown) - 1
    if not ended:
        shown.append(f"[lines {offset}-{last} of {size}; go on with offset={last + 1}]")
    elif offset > 1:
        shown.append(f"[lines {offset}-{last} of {size}: the end]")
    if lines and lines[0].text.endswith("\r"):
        shown.append("[lines end in CRLF]")
    return "\n".join(shown)


def _describe_binary(path: str, head: bytes, size: int) -> str:
    return f"{path} is a binary file of {size:,} bytes; it begins with {head[:16].hex(' ')}"


def make_write_file(dependencies: ToolDependencies) -> Tool:
    @tool(risk=Risk.CHANGE)
    async def write_file(context: ToolContext, path: str, content: str) -> str:
        """Write a whole text file, making its folders. To change a part of one, use patch."""
        data = _encode_content(content)
        async with dependencies.seen_files.lock(context, path):
            before = await _current_content(context, path)
            dependencies.seen_files.check(
                context, path, None if before is None else content_digest(before)
            )
            await context.environment.write(path, data)
            dependencies.seen_files.note(context, path, content_digest(data))
        lines = _count_lines(data)
        if before is None:
            return f"created {path}: {lines} lines, {len(data):,} bytes"
        if before == data:
            return f"{path} already held exactly this: {lines} lines"
        if len(before) > MAX_TRACKED_BYTES:
            return f"replaced {path}, which was very large: now {lines} lines, {len(data):,} bytes"
        return f"replaced {path}: {_count_lines(before)} lines before, {lines} now"

    return write_file


async def _current_content(context: ToolContext, path: str) -> bytes | None:
    try:
        return await context.environment.read(path, limit=MAX_TRACKED_BYTES + 1)
    except ToolError:
        return None  # if it exists and is unreadable, writing will report it


def _encode_content(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the content is not valid text: {error}") from error


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
