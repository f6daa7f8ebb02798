"""What the chat needs of the house and of a terminal; shape is enough."""

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
"""What the prompt says when it waits for nothing in particular."""


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
    """What the banner and /status tell about the house."""

    version: str = ""
    model: str = ""
    directory: str = ""
    place: str = ""
    tools: tuple[tuple[str, str], ...] = ()
    """Names with the first line of what each is for."""
    skills: tuple[tuple[str, str], ...] = ()
    models: tuple[str, ...] = ()
    """References that /model can complete."""
    personalities: dict[str, str] = {}


class ChatDisplay(Value, kw_only=True, frozen=True):
    """How this person's terminal wants things drawn."""

    ink: TextStyle = TextStyle()
    spinner: bool = False
    reasoning: bool = False
    progress: ProgressMode = "all"
    banner: bool = True


class InputInterrupted(Exception):  # not a failure: somebody pressed Ctrl-C
    """Raised by `Terminal.read`."""


class ChatTerminal(Protocol):
    """Where the person sits: a terminal that can be drawn on, or nothing but lines."""

    @property
    def width(self) -> int: ...
    @property
    def can_redraw(self) -> bool:
        """True when text is shown live in place and then set as whole blocks."""
        ...

    async def run(self) -> None:
        """Live until the person leaves or `leave` is called."""
        ...

    async def read(self) -> str:
        """The next thing entered. Raises `InputInterrupted`, and `EOFError` at the end."""
        ...

    async def print(self, text: str, *, end: str = "\n") -> None: ...
    async def clear(self) -> None: ...
    def set_prompt(self, label: str | None) -> None:
        """What the prompt asks for; None while a turn runs and nobody is asked anything."""
        ...

    def discard_input(self) -> bool:
        """Drop what was typed and not sent; False when there was nothing."""
        ...

    def set_live_rows(self, live: Callable[[int, int], Sequence[str]]) -> None:
        """Where to take the rows from that are drawn live, given width and height."""
        ...

    def refresh(self) -> None:
        """What is drawn live has changed."""
        ...

    def close(self) -> None: ...
