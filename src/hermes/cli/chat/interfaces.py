"""Protocols and value types of the chat: the application, the terminal, the display options."""

from collections.abc import Callable, Sequence
from typing import Protocol

from hermes.agent.conversation import Conversation
from hermes.cli.context import RunLister
from hermes.cli.render.terminal_text import TextStyle
from hermes.cli.render.tool_progress import ProgressMode
from hermes.core.bus import Bus
from hermes.core.messages import Value
from hermes.core.protocols import Journal, Model

PROMPT_LABEL = "❯ "
"""The prompt while no question is open."""


class RunJournal(Journal, RunLister, Protocol):
    """A journal that can list its runs."""


class ChatApplication(Protocol):
    @property
    def bus(self) -> Bus: ...
    @property
    def journal(self) -> RunJournal: ...
    async def begin(self, task: str = "") -> Conversation: ...
    async def resume(self, run: str = "") -> Conversation: ...
    def open_model(self, reference: str) -> Model: ...
    async def checked_model(self, reference: str) -> Model: ...


class ModelServerCheck(Protocol):
    """Whether the server of a model can be reached."""

    name: str

    @property
    def words(self) -> str: ...
    async def trouble(self) -> str: ...


class ChatInfo(Value, kw_only=True, frozen=True):
    """What the banner and /status show."""

    version: str = ""
    model: str = ""
    directory: str = ""
    environment: str = ""
    tools: tuple[tuple[str, str], ...] = ()
    """Each name with the first line of its description."""
    skills: tuple[tuple[str, str], ...] = ()
    models: tuple[str, ...] = ()
    """References that /model can complete."""
    personalities: dict[str, str] = {}


class ChatDisplay(Value, kw_only=True, frozen=True):
    """How the output is displayed on this terminal."""

    style: TextStyle = TextStyle()
    spinner: bool = False
    reasoning: bool = False
    progress: ProgressMode = "all"
    banner: bool = True


class InputInterrupted(Exception):
    """The user pressed Ctrl-C. Raised by `ChatTerminal.read`; not a failure."""


class ChatTerminal(Protocol):
    """A terminal that can be redrawn, or plain lines in and out."""

    @property
    def width(self) -> int: ...
    @property
    def can_redraw(self) -> bool:
        """True when pending text is drawn above the input and then printed as whole blocks."""
        ...

    async def run(self) -> None:
        """Run until the user leaves or `close` is called."""
        ...

    async def read(self) -> str:
        """Return the next entry. Raises `InputInterrupted`, and `EOFError` at the end."""
        ...

    async def print(self, text: str, *, end: str = "\n") -> None: ...
    async def clear(self) -> None: ...
    def set_prompt(self, label: str | None) -> None:
        """Set the prompt; None while a turn runs and no question is open."""
        ...

    def discard_input(self) -> bool:
        """Discard text that was typed but not sent; False when there was none."""
        ...

    def set_live_rows(self, live: Callable[[int, int], Sequence[str]]) -> None:
        """Set the function that returns the live rows for a width and a height."""
        ...

    def refresh(self) -> None:
        """Redraw the live rows."""
        ...

    def close(self) -> None: ...
