"""Renders tool calls as lines: the running call, and the result of each."""

from collections.abc import Callable
from typing import Literal

from hermes.cli.render.answer_stream import OutputFragment
from hermes.cli.render.lines import call_line, result_lines, result_mark
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.events.runs import RunStarted
from hermes.core.events.tools import ToolDecided, ToolFinished, ToolRequested
from hermes.core.messages import ToolCall
from hermes.core.tool_calls import OpenToolCalls
from hermes.plumbing.units import format_duration
from hermes.settings.schema import DisplaySettings

ProgressMode = Literal["all", "new", "none"]
"""Show each call, only calls of another tool than the previous one, or none."""
RESULT_MARK_COLUMNS = 24
"""Columns reserved beside a call for its mark and duration."""


def progress_mode(display: DisplaySettings) -> ProgressMode:
    return display.tool_progress_mode if display.tool_progress else "none"


class ToolProgress:
    """Calls of a run and of its subagents. `announce` shows a call when it starts."""

    def __init__(
        self, run: str, *, announce: bool, progress: ProgressMode, width: Callable[[], int]
    ) -> None:
        self.verbose = False
        self.depth = {run: 0}
        self._announce = announce
        self._progress = progress
        self._last = ""
        self._width = width
        self._open = OpenToolCalls()

    @property
    def current_call(self) -> str:
        """The latest running call; empty when none is running."""
        if not self._open.calls:
            return ""
        *others, last = self._open.calls
        more = f" (+{len(others)})" if others else ""
        return call_line(last.request.call, self._width() - RESULT_MARK_COLUMNS) + more

    def requested(self, event: ToolRequested) -> list[OutputFragment]:
        self._open.apply(event)
        line = call_line(event.call, self._width() - RESULT_MARK_COLUMNS)
        return (
            [OutputFragment("tool", line)]
            if self._announce and self._should_show(event.call)
            else []
        )

    def decided(self, event: ToolDecided) -> list[OutputFragment]:
        self._open.apply(event)
        return []

    def finished(self, event: ToolFinished) -> list[OutputFragment]:
        result, finished = event.result, self._open.apply(event)
        if finished is None:
            return []
        call, decided, depth = finished.request.call, finished.decision, self.depth[event.run]
        failed = result.status != "ok"
        if not failed and not self.verbose and (self._announce or not self._should_show(call)):
            return []
        refused = result.status == "denied" and decided is not None and decided.verdict != "allow"
        mark = result_mark(result) + (f" ({clean(decided.rule)})" if refused and decided else "")
        line = f"{'  ' * depth}{call_line(call, self._width() - RESULT_MARK_COLUMNS)}"
        fragments = [OutputFragment("tool", f"{line}  {mark} {format_duration(event.seconds)}")]
        if self.verbose or result.status == "error":
            limit = 8 if self.verbose else 2
            fragments.append(
                OutputFragment("tool", result_lines(result, self._width(), limit=limit))
            )
        return fragments

    def _should_show(self, call: ToolCall) -> bool:
        last, self._last = self._last, call.name
        return self._progress == "all" or (self._progress == "new" and last != call.name)

    def subagent_started(self, event: RunStarted) -> list[OutputFragment]:
        depth = self.depth[event.run] = self.depth[event.parent] + 1
        task = clip(clean(event.task), self._width() - 8 - 2 * depth)
        return [OutputFragment("note", f"{'  ' * depth}🧩 {task}")] if task else []

    def clear(self) -> None:
        """Forget open calls: the turn is over and they get no result."""
        self._open = OpenToolCalls()
