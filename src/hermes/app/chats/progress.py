"""What a chat sees while Hermes works: that it is typing, and one message with the running tools.

None of this is kept or repeated. The answer is a message of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

import anyio

from hermes.core.bus import Bus
from hermes.core.channels import Address, Channel, EditsMessages, OutgoingMessage, ShowsTyping
from hermes.core.errors import HermesError
from hermes.core.events.tools import ToolRequested
from hermes.core.foreign_text import visible_line
from hermes.core.messages import ToolCall
from hermes.core.protocols import JournalRecord
from hermes.core.run_ids import new_id
from hermes.settings.schema import DisplaySettings

MAX_PROGRESS_LINES = 8
MAX_LINE_CHARS = 100
SEND_TIMEOUT_S = 10.0
_MIN_TYPING_INTERVAL_S = 1.0
_CONNECTION_CHECK_S = 0.2
_ICONS = {
    "terminal": "💻",
    "process": "⚙️",
    "read_file": "📖",
    "write_file": "📝",
    "patch": "📝",
    "search_files": "🔎",
    "delegate": "🧩",
    "memory": "🧠",
    "todo": "📋",
    "clarify": "❓",
}
_SHOWN_ARGUMENTS = ("command", "path", "query", "pattern", "url", "question", "name", "action")

ToolProgressMode = Literal["off", "new", "all"]


def chat_progress_mode(display: DisplaySettings) -> ToolProgressMode:
    return display.tool_progress_mode if display.tool_progress else "off"


def tool_line(call: ToolCall) -> str:
    """`💻 ls -la`, on one line. The event it comes from has no secrets any more."""
    shown = next(_shown_arguments(call.arguments), "")
    name = "" if call.name == "terminal" and shown else f"{call.name} "
    return visible_line(f"{_ICONS.get(call.name, '🔧')} {name}{shown}".strip(), MAX_LINE_CHARS)


def _shown_arguments(arguments: Mapping[str, Any]) -> Iterator[str]:
    for key in _SHOWN_ARGUMENTS:
        if isinstance(value := arguments.get(key), str) and value.strip():
            yield value


class TurnDisplay:
    """Shown while `run` is running; the progress message is removed at the end.

    `find_channel` gives None while the channel is not connected, as for a turn that is resumed at
    the start.
    """

    def __init__(
        self,
        find_channel: Callable[[], Channel | None],
        to: Address,
        bus: Bus,
        run: str,
        *,
        mode: ToolProgressMode,
        interval_s: float,
    ) -> None:
        self._find_channel, self._to, self._bus, self._run = find_channel, to, bus, run
        self._mode, self._interval_s = mode, interval_s
        self._lines: list[str] = []
        self._calls = 0
        self._last_tool = ""
        self._shown = self._reference = ""

    async def run(self) -> None:
        """Show the progress of the turn until cancelled."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._show_typing)
                channel = self._find_channel()
                if self._mode != "off" and (channel is None or isinstance(channel, EditsMessages)):
                    group.start_soon(self._follow_tools)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(SEND_TIMEOUT_S):
                await self._remove()

    async def _show_typing(self) -> None:
        while True:
            channel, pause_s = self._find_channel(), _CONNECTION_CHECK_S
            if isinstance(channel, ShowsTyping):
                with suppress(HermesError), anyio.move_on_after(SEND_TIMEOUT_S):
                    await channel.show_typing(self._to)
                pause_s = max(channel.typing_interval_s, _MIN_TYPING_INTERVAL_S)
            elif channel is not None:
                return
            await anyio.sleep(pause_s)

    async def _follow_tools(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._update_message)
            async with self._bus.subscribe() as stream:
                async for item in stream:
                    if isinstance(item, JournalRecord) and isinstance(item.event, ToolRequested):
                        self._note(item.event)

    def _note(self, event: ToolRequested) -> None:
        if event.run.partition("/")[0] != self._run:
            return
        self._calls += 1
        if self._mode == "new" and event.call.name == self._last_tool:
            return
        self._last_tool = event.call.name
        self._lines = [*self._lines, tool_line(event.call)][-MAX_PROGRESS_LINES:]

    async def _update_message(self) -> None:
        while True:
            text = self._text()
            if text and text != self._shown:
                with suppress(HermesError), anyio.move_on_after(SEND_TIMEOUT_S):
                    await self._show(text)
            await anyio.sleep(self._interval_s)

    def _text(self) -> str:
        hidden = self._calls - len(self._lines)
        more = [f"… {hidden} more"] if hidden > 0 and self._mode == "all" else []
        return "\n".join([*more, *self._lines])

    async def _show(self, text: str) -> None:
        channel = self._find_channel()
        if channel is None or not isinstance(channel, EditsMessages):
            return
        message = OutgoingMessage(key=new_id("progress"), to=self._to, text=text)
        if self._reference:
            await channel.edit(self._reference, message)
        else:
            self._reference = await channel.send(message)
        self._shown = text

    async def _remove(self) -> None:
        channel = self._find_channel()
        if self._reference and isinstance(channel, EditsMessages):
            with suppress(HermesError):
                await channel.delete(self._to, self._reference)
