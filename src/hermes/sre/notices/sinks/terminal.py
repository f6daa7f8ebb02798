"""Notices as lines on the terminal of the watch."""

from collections.abc import Callable

import anyio

from hermes.core.events.watching import NoticeQueued
from hermes.sre.notices.sink import Undelivered, title_of
from hermes.sre.report.markdown import one_line, visible


class TerminalSink:
    """`write` may block for as long as somebody has stopped the terminal: it has its own thread."""

    name = "terminal"

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    async def send(self, notice: NoticeQueued, repeated: bool) -> None:
        lines = [f"{notice.at.astimezone():%H:%M:%S}  {one_line(title_of(notice, repeated), 300)}"]
        if notice.about != "update":
            lines += [f"          {line}" for line in visible(notice.text).splitlines()]
        text = "\n".join(lines) + "\n"
        try:
            await anyio.to_thread.run_sync(self._write, text, abandon_on_cancel=True)
        except (OSError, ValueError) as error:  # closed, or its other end is gone
            raise Undelivered(f"the terminal is gone: {error}", hopeless=True) from error
