"""What the chat needs of the house and of a terminal; shape is enough."""

from collections.abc import Callable, Sequence
from typing import Protocol

from hermes.agent.conversation import Conversation
from hermes.cli.render_ink import Ink
from hermes.cli.render_work import Progress
from hermes.cli.stored import ListsRuns
from hermes.core.bus import Bus
from hermes.core.messages import Value
from hermes.core.protocols import Journal, Model

LABEL = "❯ "
"""What the prompt says when it waits for nothing in particular."""


class Stored(Journal, ListsRuns, Protocol):
    """A journal that can list its runs."""


class House(Protocol):
    @property
    def bus(self) -> Bus: ...
    @property
    def journal(self) -> Stored: ...
    async def begin(self, task: str = "") -> Conversation: ...
    async def resume(self, run: str = "") -> Conversation: ...
    def open_model(self, reference: str) -> Model: ...
    async def checked_model(self, reference: str) -> Model: ...


class Reach(Protocol):
    """Whether the server of a model can be reached."""

    name: str

    @property
    def words(self) -> str: ...
    async def trouble(self) -> str: ...


class Facts(Value, kw_only=True, frozen=True):
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


class Look(Value, kw_only=True, frozen=True):
    """How this person's terminal wants things drawn."""

    ink: Ink = Ink()
    spinner: bool = False
    reasoning: bool = False
    progress: Progress = "all"
    banner: bool = True


class Interrupted(Exception):  # not a failure: somebody pressed Ctrl-C
    """Raised by `Terminal.read`."""


class Terminal(Protocol):
    """Where the person sits: a terminal that can be drawn on, or nothing but lines."""

    @property
    def width(self) -> int: ...
    @property
    def drawn(self) -> bool:
        """True when text is shown live in place and then set as whole blocks."""
        ...

    async def run(self) -> None:
        """Live until the person leaves or `leave` is called."""
        ...

    async def read(self) -> str:
        """The next thing entered. Raises `Interrupted`, and `EOFError` at the end."""
        ...

    async def print(self, text: str, *, end: str = "\n") -> None: ...
    async def clear(self) -> None: ...
    def expect(self, label: str | None) -> None:
        """What the prompt asks for; None while a turn runs and nobody is asked anything."""
        ...

    def discard(self) -> bool:
        """Drop what was typed and not sent; False when there was nothing."""
        ...

    def show(self, live: Callable[[int, int], Sequence[str]]) -> None:
        """Where to take the rows from that are drawn live, given width and height."""
        ...

    def refresh(self) -> None:
        """What is drawn live has changed."""
        ...

    def leave(self) -> None: ...
