"""Finds files by what is in them or by their names, in the environment, with what it has."""

import re
from typing import Annotated, Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, Value
from hermes.core.protocols import ToolContext
from hermes.tools.declare import about, tool
from hermes.tools.encoding import printable
from hermes.tools.executor import PREVIEW
from hermes.tools.nearby import explain
from hermes.tools.search_commands import NO_PATH, NO_SEARCHER, TROUBLE, Search, command

_BUDGET = PREVIEW - 400
_RECORD = re.compile(r"([^\x02]*)\x02(\d+[:-][^\n]*)\n?")
_PLAIN = re.compile(r"^(.*?)([:-])(\d+\2.*)$", re.MULTILINE)


class _Hit(Value, frozen=True):
    path: str
    line: str = ""
    """`12:text`, or `12-text` beside a hit; empty when only names were asked for."""


@tool(risk=Risk.READ)
async def search_files(
    here: ToolContext,
    pattern: Annotated[str, about("regex for content; glob or part of a name for names")],
    path: str = ".",
    kind: Literal["content", "names"] = "content",
    glob: Annotated[str, about("only files like this, e.g. *.py")] = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 50,
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0,
    context: Annotated[int, msgspec.Meta(ge=0, le=20, description="lines around each hit")] = 0,
) -> str:
    """Search file contents, or file names, under a folder; skips what .gitignore names."""
    if "\0" in pattern + path + glob:
        raise ToolError("a zero byte cannot be searched for")
    if glob and kind == "names":
        raise ToolError('with kind="names" the pattern is the glob; leave glob out')
    search = Search(
        pattern=pattern,
        path=path,
        kind=kind,
        glob=glob,
        limit=limit,
        offset=offset,
        context=context,
    )
    hits = await _hits(here, search)
    if not hits:
        return "nothing more" if offset else "nothing found"
    return _render(hits, search)


async def _hits(context: ToolContext, search: Search) -> list[_Hit]:
    result = await context.environment.run(command(search), timeout=60.0)
    output, _, trouble = result.output.partition(TROUBLE)
    if TROUBLE + trouble == NO_PATH:
        missing = ToolError(f"there is no {search.path}")
        raise await explain(context.environment, search.path, missing)
    if TROUBLE + trouble == NO_SEARCHER:
        raise ToolError("there is neither rg, nor grep and find, nor python3 in this environment")
    hits = _named(output) if search.kind == "names" else _found(output)
    if not hits and (trouble or result.timed_out):
        why = "it took too long; search a smaller folder" if result.timed_out else trouble.strip()
        raise ToolError(f"the search failed: {why}")
    return hits


def _named(output: str) -> list[_Hit]:
    return [_Hit(_path(line.replace("\1", "\n"))) for line in output.split("\n") if line]


def _found(output: str) -> list[_Hit]:
    if "\2" in output:
        return [_Hit(_path(path), line) for path, line in _RECORD.findall(output)]
    return [_Hit(_path(path), line) for path, _, line in _PLAIN.findall(output)]


def _path(path: str) -> str:
    """As a person writes it; a name that would break the listing is quoted."""
    path = path.removeprefix("--\n").removeprefix("./")
    return repr(path) if not path.isprintable() else path


def _render(hits: list[_Hit], search: Search) -> str:
    shown: list[str] = []
    current, room, count = "", _BUDGET, 0
    for hit in hits[: search.limit]:
        entry = [hit.path] if hit.path != current else []
        entry += [hit.line[:500]] if hit.line else []
        room -= sum(len(line) + 1 for line in entry)
        if room < 0 and shown:
            break
        shown += entry
        current, count = hit.path, count + 1
    if count < len(hits):
        shown.append(f"[there are more: offset={search.offset + count}]")
    return printable("\n".join(shown))
