"""Writes a whole file, unless somebody else changed it since this run read it."""

from hermes.core.errors import ToolError
from hermes.core.messages import Risk
from hermes.core.protocols import Tool, ToolContext
from hermes.tools.declare import tool
from hermes.tools.kit import Kit
from hermes.tools.read_file import TRACKED
from hermes.tools.seen import digest_of


def make(kit: Kit) -> Tool:
    @tool(risk=Risk.CHANGE)
    async def write_file(context: ToolContext, path: str, content: str) -> str:
        """Write a whole text file, making its folders. To change a part of one, use patch."""
        data = _encoded(content)
        async with kit.seen.lock(context, path):
            before = await _current(context, path)
            kit.seen.check(context, path, None if before is None else digest_of(before))
            await context.environment.write(path, data)
            kit.seen.note(context, path, digest_of(data))
        lines = _lines(data)
        if before is None:
            return f"created {path}: {lines} lines, {len(data):,} bytes"
        if before == data:
            return f"{path} already held exactly this: {lines} lines"
        if len(before) > TRACKED:
            return f"replaced {path}, which was very large: now {lines} lines, {len(data):,} bytes"
        return f"replaced {path}: {_lines(before)} lines before, {lines} now"

    return write_file


async def _current(context: ToolContext, path: str) -> bytes | None:
    try:
        return await context.environment.read(path, limit=TRACKED + 1)
    except ToolError:
        return None  # if it is there and unreadable, writing will say so


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the content is not valid text: {error}") from error


def _lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
