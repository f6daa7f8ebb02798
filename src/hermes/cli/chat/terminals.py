"""The terminals of the chat: plain lines, or prompt_toolkit with live rows above the input."""

import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TextIO

import anyio
from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, DummyCompleter, DynamicCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, is_done
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout

PROMPT_LABEL = "❯ "
"""The prompt while no question is open."""


class InputInterrupted(Exception):
    """The user pressed Ctrl-C. Raised when a terminal is read; not a failure."""


class ChatInputQueue:
    """Entries that were typed and not yet read. Unbounded, because a key press cannot wait."""

    def __init__(self) -> None:
        self._waiting: deque[str | InputInterrupted] = deque()
        self._changed = anyio.Event()
        self._closed = False

    def put(self, entry: str | InputInterrupted) -> None:
        self._waiting.append(entry)
        self._changed.set()

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    async def read(self) -> str:
        """Raises `InputInterrupted`, and `EOFError` when it is closed and empty."""
        while not self._waiting:
            if self._closed:
                raise EOFError
            self._changed = anyio.Event()
            await self._changed.wait()
        entry = self._waiting.popleft()
        if isinstance(entry, InputInterrupted):
            raise entry
        return entry


CONTINUATION_PROMPT = "… "


class LineTerminal:
    """Reads a line only when the chat waits for one, so that input can be piped in."""

    can_redraw = False
    """True where pending text is drawn above the input and then printed as whole blocks."""

    def __init__(self, source: int, sink: TextIO, *, width: int = 80) -> None:
        self.width = max(width, 20)
        self._source = source
        self._sink = sink
        self._typed = b""
        self._label: str | None = None
        self._reading = False
        self._wanted = anyio.Event()
        self._life = anyio.CancelScope()
        self._entries = ChatInputQueue()

    async def run(self) -> None:
        """Run until the user leaves or `close` is called."""
        with self._life:
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._handle_signals)
                    await self._read_entries()
                    group.cancel_scope.cancel()
            finally:
                self._entries.close()

    async def read(self) -> str:
        """Return the next entry. Raises `InputInterrupted`, and `EOFError` at the end."""
        return await self._entries.read()

    async def print(self, text: str, *, end: str = "\n") -> None:
        self._sink.write(text + end)
        self._sink.flush()

    async def clear(self) -> None:
        """There is no screen to clear."""

    def set_prompt(self, label: str | None) -> None:
        """Set the prompt; None while a turn runs and no question is open."""
        if self._reading and label and label != self._label:
            self._write(f"\n{label}")  # the prompt printed before is no longer valid
        self._label = label
        if label is not None:
            self._wanted.set()
        elif self._wanted.is_set():  # keep an unset event: a task may wait for it
            self._wanted = anyio.Event()

    def discard_input(self) -> bool:
        """Discard text that was typed but not sent; False when there was none."""
        return False  # the terminal edits an unfinished line itself

    def set_live_rows(self, live: Callable[[int, int], Sequence[str]]) -> None:
        """Nothing can be drawn in place."""

    def refresh(self) -> None:
        """Nothing can be drawn in place."""

    def close(self) -> None:
        self._life.cancel()

    async def _handle_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            async for _ in signals:
                self._entries.put(InputInterrupted())

    async def _read_entries(self) -> None:
        while True:
            await self._wanted.wait()
            self._write(self._label or "")
            self._reading = True
            line = await self._read_entry()
            self._reading = False
            if line is None:
                self._write("\n")
                return
            self.set_prompt(None)
            self._entries.put(line)

    async def _read_entry(self) -> str | None:
        """Read one line, plus the following ones while it ends with a backslash."""
        lines: list[str] = []
        while True:
            line = await self._read_line()
            if line is None:
                return "\n".join(lines) if lines else None
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])
            self._write(CONTINUATION_PROMPT)

    async def _read_line(self) -> str | None:
        while b"\n" not in self._typed:
            # A regular file is always ready, and epoll refuses it.
            with suppress(PermissionError):
                await anyio.wait_readable(self._source)
            data = os.read(self._source, 65536)
            if not data:
                rest, self._typed = self._typed, b""
                return rest.decode(errors="replace") if rest else None
            self._typed += data
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    def _write(self, text: str) -> None:
        self._sink.write(text)
        self._sink.flush()


def bind_keys(
    buffer: Buffer, *, interrupt: Callable[[], None], leave: Callable[[], None]
) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        before = buffer.document.current_line_before_cursor
        if before.endswith("\\") and buffer.document.is_cursor_at_the_end_of_line:
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        elif buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None  # chosen from the menu: the next Enter sends it
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        buffer.newline(copy_margin=False)

    @keys.add("c-c")
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        interrupt()

    @keys.add("c-d")
    def _(event: KeyPressEvent) -> None:
        if buffer.text:
            buffer.delete()
        else:
            leave()

    return keys


MAX_MENU_ROWS = 8
"""Rows of the completion menu, and of the input before it scrolls."""


def build_layout(
    buffer: Buffer, *, above: Callable[[], ANSI], prefix: Callable[[], StyleAndTextTuples]
) -> Layout:
    live = ConditionalContainer(
        Window(FormattedTextControl(above), dont_extend_height=True),
        Condition(lambda: bool(above().value)),
    )
    entry = Window(
        BufferControl(buffer, input_processors=[BeforeInput(prefix)]),
        height=Dimension(min=1, max=MAX_MENU_ROWS),
        dont_extend_height=True,
        wrap_lines=True,
    )
    # Reserve rows for the menu only while it is open, so that the input stays at the bottom.
    menu_space = ConditionalContainer(
        Window(height=MAX_MENU_ROWS), Condition(lambda: buffer.complete_state is not None)
    )
    body = FloatContainer(
        HSplit([live, entry, menu_space]),
        [Float(CompletionsMenu(max_height=MAX_MENU_ROWS), xcursor=True, ycursor=True)],
    )
    # At the end the input disappears from the screen.
    return Layout(ConditionalContainer(body, ~is_done), focused_element=entry)


class PromptTerminal:
    """A terminal that can be redrawn. One prompt_toolkit application runs during the whole chat."""

    can_redraw = True

    def __init__(
        self,
        *,
        history: History | None = None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.completer: Completer = DummyCompleter()
        self._live: Callable[[int, int], Sequence[str]] = lambda width, rows: ()
        self._label: str | None = PROMPT_LABEL
        self._stash: Document | None = None
        self._left = False
        self._entries = ChatInputQueue()
        self.buffer = Buffer(
            completer=DynamicCompleter(lambda: self.completer),
            complete_while_typing=Condition(lambda: self.buffer.text.startswith("/")),
            history=history or InMemoryHistory(),
            multiline=True,
            accept_handler=self._accept,
        )
        self.app: Application[None] = Application(
            layout=build_layout(self.buffer, above=self._live_text, prefix=self._prefix),
            key_bindings=bind_keys(self.buffer, interrupt=self._interrupt, leave=self.close),
            input=input,
            output=output,
            min_redraw_interval=0.03,
        )

    @property
    def width(self) -> int:
        return max(self.app.output.get_size().columns, 20)

    async def run(self) -> None:
        with patch_stdout(raw=True):
            try:
                if not self._left:
                    # Our tasks report their errors; the default handler would wait for ENTER.
                    await self.app.run_async(set_exception_handler=False)
            finally:
                self._entries.close()

    async def read(self) -> str:
        return await self._entries.read()

    async def print(self, text: str, *, end: str = "\n") -> None:
        output = self.app.output
        await self._print_above_input(lambda: output.write_raw((text + end).replace("\n", "\r\n")))

    async def clear(self) -> None:
        def wipe() -> None:
            self.app.output.erase_screen()
            self.app.output.cursor_goto(0, 0)

        await self._print_above_input(wipe)

    async def _print_above_input(self, write: Callable[[], None]) -> None:
        # A print cancelled halfway would leave the application without key bindings.
        with anyio.CancelScope(shield=True):
            async with in_terminal():
                write()
                self.app.output.flush()

    def set_prompt(self, label: str | None) -> None:
        asking = label is not None and label != PROMPT_LABEL
        if asking and self._stash is None:
            self._stash = self.buffer.document  # unfinished input must not become an answer
            self.buffer.reset()
        elif not asking and self._stash is not None:
            self.buffer.reset(self._stash)
            self._stash = None
        self._label = label
        self.app.invalidate()

    def discard_input(self) -> bool:
        typed = bool(self.buffer.text)
        self.buffer.reset()
        return typed

    def set_live_rows(self, live: Callable[[int, int], Sequence[str]]) -> None:
        self._live = live

    def refresh(self) -> None:
        self.app.invalidate()

    def close(self) -> None:
        self._left = True
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def _accept(self, buffer: Buffer) -> bool:
        self._entries.put(buffer.text)
        if self._stash is not None:
            buffer.text = ""  # answers may be secret: keep them out of the history
        return False  # clear the input

    def _interrupt(self) -> None:
        self._entries.put(InputInterrupted())

    def _live_text(self) -> ANSI:
        size = self.app.output.get_size()
        return ANSI("\n".join(self._live(max(size.columns, 20), max(size.rows - MAX_MENU_ROWS, 3))))

    def _prefix(self) -> StyleAndTextTuples:
        return [("bold", self._label or PROMPT_LABEL)]


ChatTerminal = LineTerminal | PromptTerminal
