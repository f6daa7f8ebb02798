"""The agent's memory of what was said and done before, by its words."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import msgspec

from hermes.core.errors import SettingsError, StoreError, ToolError
from hermes.core.messages import Risk
from hermes.core.protocols import ToolContext
from hermes.core.recall import OPEN_ONE, Hit, Hits, Line, Search, Searches
from hermes.tools.declare import FunctionTool, about, tool
from hermes.tools.encoding import printable

_AGO = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_EXTRA = 20
"""More hits than wanted: those of this very conversation are left out."""


class NoPast:
    """For listings: a tool that is there and has nothing to search."""

    async def search(self, wanted: Search) -> Hits:
        return Hits()


def make_session_search(past: Searches) -> FunctionTool:
    @tool(risk=Risk.READ)
    async def session_search(
        context: ToolContext,
        query: Annotated[str, about('words; "a phrase", begin*, -without, this OR that')],
        limit: Annotated[int, msgspec.Meta(ge=1, le=30)] = 5,
        session: Annotated[str, about("only this run")] = "",
        kind: Literal["any", "message", "call", "result", "summary", "fact"] = "any",
        service: Annotated[str, about("a name that must occur")] = "",
        since: Annotated[str, about("2h, 3d or 2026-03-02")] = "",
    ) -> str:
        """Search all earlier sessions: what was said, run and answered, with its source."""
        wanted = Search(
            words=query,
            limit=limit + _EXTRA,
            session=session,
            kind=None if kind == "any" else kind,
            service=service,
            since=_since(since),
        )
        try:
            found = await past.search(wanted)
        except (StoreError, SettingsError) as error:
            raise ToolError(f"the past cannot be searched now: {error}") from error
        hits = [hit for hit in found.hits if hit.line.run != context.run or session]
        return printable(_told(found, hits[:limit]))

    return session_search


session_search = make_session_search(NoPast())


def _since(text: str) -> datetime | None:
    if not text:
        return None
    if ago := _AGO.fullmatch(text.strip()):
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ToolError(f"since {text!r} is no time: say 2h, 3d or 2026-03-02") from error


def _told(found: Hits, hits: list[Hit]) -> str:
    if not hits:
        return "\n".join(["nothing found", *found.notices])
    parts = [_hit(hit) for hit in hits]
    if found.relaxed:
        parts.append("[some of these hold only a part of the words]")
    return "\n\n".join([*parts, *found.notices, OPEN_ONE])


def _hit(hit: Hit) -> str:
    line = hit.line
    who = " ".join(filter(None, (line.role, line.speaker, line.kind)))
    head = f"{line.run} #{line.seq} · {line.at:%Y-%m-%d %H:%M} · {who}"
    beside = [f"  {name}: {_short(near)}" for name, near in _near(hit) if near is not None]
    return "\n".join([head, f"  {hit.snippet}", *beside])


def _near(hit: Hit) -> tuple[tuple[str, Line | None], ...]:
    return ("before", hit.before), ("after", hit.after)


def _short(line: Line, width: int = 120) -> str:
    text = " ".join(line.text.split())
    return f"({line.role}) {text if len(text) <= width else text[: width - 1] + '…'}"
