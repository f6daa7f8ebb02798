"""The input that stays put at the bottom, and above it what is being written just now."""

from collections.abc import Callable, Sequence

import anyio
from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, DummyCompleter, DynamicCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout

from hermes.cli.interactive.entries import Entries
from hermes.cli.interactive.keys import bind
from hermes.cli.interactive.layout import MENU, arrange
from hermes.cli.interactive.shapes import LABEL, Interrupted


class PromptTerminal:
    """A terminal that can be drawn on. One prompt_toolkit application lives as long as the chat."""

    drawn = True

    def __init__(
        self,
        *,
        history: History | None = None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.completer: Completer = DummyCompleter()
        self._live: Callable[[int, int], Sequence[str]] = lambda width, rows: ()
        self._label: str | None = LABEL
        self._stash: Document | None = None
        self._left = False
        self._entries = Entries()
        self.buffer = Buffer(
            completer=DynamicCompleter(lambda: self.completer),
            complete_while_typing=Condition(lambda: self.buffer.text.startswith("/")),
            history=history or InMemoryHistory(),
            multiline=True,
            accept_handler=self._accept,
        )
        self.app: Application[None] = Application(
            layout=arrange(self.buffer, above=self._above_input, prefix=self._prefix),
            key_bindings=bind(self.buffer, interrupt=self._interrupt, leave=self.leave),
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
                    # Our own tasks report their errors; a screen that waits for ENTER helps nobody.
                    await self.app.run_async(set_exception_handler=False)
            finally:
                self._entries.close()

    async def read(self) -> str:
        return await self._entries.read()

    async def print(self, text: str, *, end: str = "\n") -> None:
        output = self.app.output
        await self._above(lambda: output.write_raw((text + end).replace("\n", "\r\n")))

    async def clear(self) -> None:
        def wipe() -> None:
            self.app.output.erase_screen()
            self.app.output.cursor_goto(0, 0)

        await self._above(wipe)

    async def _above(self, write: Callable[[], None]) -> None:
        # A print cancelled half-way would leave the application without its keys.
        with anyio.CancelScope(shield=True):
            async with in_terminal():
                write()
                self.app.output.flush()

    def expect(self, label: str | None) -> None:
        asking = label is not None and label != LABEL
        if asking and self._stash is None:
            self._stash = self.buffer.document  # half a sentence must not become an answer
            self.buffer.reset()
        elif not asking and self._stash is not None:
            self.buffer.reset(self._stash)
            self._stash = None
        self._label = label
        self.app.invalidate()

    def discard(self) -> bool:
        typed = bool(self.buffer.text)
        self.buffer.reset()
        return typed

    def show(self, live: Callable[[int, int], Sequence[str]]) -> None:
        self._live = live

    def refresh(self) -> None:
        self.app.invalidate()

    def leave(self) -> None:
        self._left = True
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def _accept(self, buffer: Buffer) -> bool:
        self._entries.put(buffer.text)
        if self._stash is not None:
            buffer.text = ""  # an answer, perhaps a secret one, is not for the history
        return False  # taken: the input is empty again

    def _interrupt(self) -> None:
        self._entries.put(Interrupted())

    def _above_input(self) -> ANSI:
        size = self.app.output.get_size()
        return ANSI("\n".join(self._live(max(size.columns, 20), max(size.rows - MENU, 3))))

    def _prefix(self) -> StyleAndTextTuples:
        return [("bold", self._label or LABEL)]
