"""Windows of lines of a file, in constant memory however large it is."""

from typing import Annotated

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, Value
from hermes.core.protocols import Environment, Tool, ToolContext
from hermes.tools.declare import about, tool
from hermes.tools.encoding import decode, printable
from hermes.tools.executor import PREVIEW
from hermes.tools.kit import Kit
from hermes.tools.nearby import explain, shell_word
from hermes.tools.seen import digest_of

PIECE = 256 * 1024
"""A file up to this size is read at once; of a larger one only the window."""
TRACKED = 16 * 1024 * 1024
"""Up to this size a change by somebody else is noticed; larger ones cannot be patched anyway."""

_WIDTH = 2_000
_LONGEST = 4 * 1024 * 1024
_BUDGET = PREVIEW - 400
"""A window ends before the executor would have to keep the rest as an artifact."""

_MEASURE = """( f={path}; s=$(wc -c < "$f") && echo $s &&
if [ "$s" -le {tracked} ] && command -v sha256sum >/dev/null; then sha256sum < "$f"; else echo -; fi
head -n {lines} "$f" | wc -c )"""


class _Line(Value, frozen=True):
    text: str
    more: int = 0
    """How much of a long line is not even in `text`."""


class _Reading(Value, frozen=True):
    path: str
    codec: str
    start: int
    limit: int


class _Measured(Value, frozen=True):
    size: int
    digest: str
    start: int
    """The byte at which the wanted line begins."""


def make(kit: Kit) -> Tool:
    @tool(risk=Risk.READ)
    async def read_file(
        context: ToolContext,
        path: Annotated[str, about("a file, or an artifact:// reference")],
        offset: Annotated[int, msgspec.Meta(ge=1, description="first line")] = 1,
        limit: Annotated[int, msgspec.Meta(ge=1, le=5000)] = 500,
    ) -> str:
        """Read lines of a text file, each as `number|text`."""
        if path.startswith("artifact://"):
            return _window(await context.artifacts.load(path), offset, limit)
        try:
            head = await context.environment.read(path, limit=PIECE + 1)
        except ToolError as error:
            raise await explain(context.environment, path, error) from error
        if len(head) > PIECE:
            return await _read_large(kit, context, path, head, (offset, limit))
        kit.seen.note(context, path, digest_of(head))
        decoded = decode(head)
        if decoded is None:
            return _binary(path, head, len(head))
        return _window(decoded.text, offset, limit)

    return read_file


async def _read_large(
    kit: Kit, context: ToolContext, path: str, head: bytes, wanted: tuple[int, int]
) -> str:
    offset, limit = wanted
    measured = await _measure(context.environment, path, offset)
    decoded = decode(head[:8192])
    if decoded is None or decoded.codec.startswith("utf-16"):
        return _binary(path, head, measured.size)
    # Noted before the window is read: a change in between then counts as one, not as seen.
    if measured.digest != "-":
        kit.seen.note(context, path, measured.digest)
    if measured.start >= measured.size:
        raise ToolError(f"line {offset} is past the end of {path} ({measured.size:,} bytes)")
    reading = _Reading(path, decoded.codec, measured.start, limit)
    lines, ended = await _collect(context.environment, reading)
    return _render(lines, offset, f"{measured.size:,} bytes", ended=ended)


async def _measure(environment: Environment, path: str, offset: int) -> _Measured:
    command = _MEASURE.format(path=shell_word(path), tracked=TRACKED, lines=offset - 1)
    result = await environment.run(command, timeout=120.0)
    words = result.output.split("\n")
    if result.exit_code != 0 or len(words) < 3:
        why = "it took too long" if result.timed_out else result.output[-300:].strip()
        raise ToolError(f"could not find line {offset} of {path}: {why}")
    return _Measured(int(words[0]), words[1].split()[0], int(words[2]))


async def _collect(environment: Environment, reading: _Reading) -> tuple[list[_Line], bool]:
    """Up to `limit` lines that fit the budget, and whether the file ends with them."""
    lines: list[_Line] = []
    kept, length, room, start = b"", 0, _BUDGET, reading.start
    while piece := await environment.read(reading.path, offset=start, limit=PIECE):
        start += len(piece)
        *whole, rest = piece.split(b"\n")
        for part in whole:
            if len(lines) == reading.limit or room < 0:
                return lines, False
            lines.append(_line(reading, kept + part, length + len(part)))
            kept, length, room = b"", 0, room - len(lines[-1].text)
        kept, length = (kept + rest)[: 4 * _WIDTH], length + len(rest)
        if length > _LONGEST:  # perhaps gigabytes without a line end: its beginning must do
            return [*lines, _line(reading, kept, length)], False
    if not length:
        return lines, True
    fits = len(lines) < reading.limit
    return ([*lines, _line(reading, kept, length)] if fits else lines), fits


def _line(reading: _Reading, start: bytes, length: int) -> _Line:
    kept = start[: 4 * _WIDTH]
    return _Line(kept.decode(reading.codec, "replace"), length - len(kept))


def _window(text: str, offset: int, limit: int) -> str:
    every = text.split("\n")
    if every[-1] == "":
        every.pop()
    if not every:
        return "[empty file]"
    if offset > len(every):
        raise ToolError(f"line {offset} is past the end: there are {len(every)} lines")
    chosen = [_Line(line) for line in every[offset - 1 : offset - 1 + limit]]
    ended = offset - 1 + len(chosen) == len(every)
    return _render(chosen, offset, f"{len(every):,} lines", ended=ended)


def _render(lines: list[_Line], offset: int, whole: str, *, ended: bool) -> str:
    shown: list[str] = []
    room = _BUDGET
    for number, line in enumerate(lines, start=offset):
        text = printable(line.text.removesuffix("\r"))
        more = line.more + max(0, len(text) - _WIDTH)
        cut = f" [… {more:,} more in this line]" if more else ""
        entry = f"{number}|{text[:_WIDTH]}{cut}"
        room -= len(entry) + 1
        if room < 0 and shown:
            ended = False
            break
        shown.append(entry)
    last = offset + len(shown) - 1
    if not ended:
        shown.append(f"[lines {offset}-{last} of {whole}; go on with offset={last + 1}]")
    elif offset > 1:
        shown.append(f"[lines {offset}-{last} of {whole}: the end]")
    if lines and lines[0].text.endswith("\r"):
        shown.append("[lines end in CRLF]")
    return "\n".join(shown)


def _binary(path: str, head: bytes, size: int) -> str:
    return f"{path} is a binary file of {size:,} bytes; it begins with {head[:16].hex(' ')}"
