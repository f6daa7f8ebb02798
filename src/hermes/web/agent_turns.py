"""The interface between the API and the agent: turns of conversations, part by part."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeVar

import anyio

from hermes.core.messages import AttachedText, Usage, Value
from hermes.plumbing.http_service import HttpRequest

T = TypeVar("T")
CLIENT_GONE = "the client hung up"


class TurnText(Value, frozen=True):
    """A part of the answer while it is being written."""

    text: str


class TurnToolCall(Value, frozen=True):
    call_id: str
    name: str
    arguments: str
    """As JSON."""


class TurnQuestion(Value, frozen=True):
    """The policy waits for a person."""

    approval: str
    shown: str
    """The command, or the arguments, as a person reads them."""


class TurnEnd(Value, kw_only=True, frozen=True):
    """The last part."""

    answer: str = ""
    outcome: Literal["answered", "interrupted", "exhausted", "failed"] = "answered"
    reason: str = ""
    usage: Usage = Usage()


TurnPart = TurnText | TurnToolCall | TurnQuestion | TurnEnd


class RecordedAnswer(Value, kw_only=True, frozen=True):
    """A turn as the journal shows it."""

    turn: int
    model: str
    at: datetime
    end: TurnEnd | None = None
    """None while it is being worked on."""


class AgentTurn(Protocol):
    run: str
    number: int
    """Of the turn in its run."""
    model: str

    async def next_part(self) -> TurnPart:
        """Wait for the next part; `TurnEnd` is the last. May be cancelled and called again."""
        ...

    def interrupt(self, reason: str = "") -> None:
        """End the turn, with its reason in the journal; nothing once it has ended."""
        ...

    def steer(self, text: str) -> None:
        """Add a message, which is read with the next step."""
        ...


class AgentTurns(Protocol):
    """Begins and continues conversations for callers of the API."""

    async def begin(
        self, text: str, *, person: str, model: str = "", history: Sequence[AttachedText] = ()
    ) -> AgentTurn:
        """Begin a run. `history`: what others said before, according to the client.

        Raises `HermesError`.
        """
        ...

    async def resume(
        self, run: str, text: str, *, person: str, history: Sequence[AttachedText] = ()
    ) -> AgentTurn:
        """Continue the run. Raises `HermesError`."""
        ...

    async def find_answer(
        self, run: str, turn: int | None = None, *, person: str
    ) -> RecordedAnswer | None:
        """The turn, or the latest one, of a run that `person` began. Raises `HermesError`."""
        ...

    async def delete(self, run: str, *, person: str) -> None:
        """Delete a run that `person` began. Raises `HermesError` and `UnknownIdError`."""
        ...

    def find_active(self, run: str) -> AgentTurn | None:
        """The turn of this run that is being worked on here."""
        ...

    def model_names(self) -> Sequence[str]: ...


class HistoryIndex(Protocol):
    """Finds the run that has a history, by digest and person."""

    async def find_run(self, digest: str, person: str) -> str: ...
    async def record(self, run: str, digest: str, person: str) -> None: ...


async def wait_for_client(
    request: HttpRequest, turn: AgentTurn, wait: Callable[[], Awaitable[T]]
) -> T:
    """What is waited for. Without its client nobody gets the answer, so the turn is ended then."""
    async with anyio.create_task_group() as group:

        async def interrupt_when_gone() -> None:
            await request.disconnected()
            turn.interrupt(CLIENT_GONE)

        group.start_soon(interrupt_when_gone)
        found = await wait()
        group.cancel_scope.cancel()
    return found
