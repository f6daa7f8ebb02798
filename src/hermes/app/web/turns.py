"""Turns of the agent for callers of the API."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream

from hermes.agent.conversation import Conversation
from hermes.app.application import Application
from hermes.app.tools.tooling import configured_environment
from hermes.core.bus import BusItem, Glimpse
from hermes.core.errors import HermesError, SettingsError
from hermes.core.events.access import ApiHistoryRecorded
from hermes.core.events.approvals import ApprovalRequested
from hermes.core.events.base import RunOrigin
from hermes.core.events.runs import (
    MessageAdded,
    ModelAnswered,
    RunDeleted,
    RunStarted,
    TurnEnded,
    TurnStarted,
)
from hermes.core.events.tools import ToolRequested
from hermes.core.messages import AttachedText, Usage
from hermes.core.protocols import Journal
from hermes.web.agent_turns import (
    RecordedAnswer,
    TurnEnd,
    TurnPart,
    TurnQuestion,
    TurnText,
    TurnToolCall,
)
from hermes.web.api_routes import UnknownIdError

T = TypeVar("T")
OWN_MODEL_NAME = "hermes"
"""Stands for the configured model in the list of models."""
MAX_TURNS = 8
"""Turns at once."""
IDLE_TIMEOUT_S = 300.0
"""How long a conversation is kept open for its next turn. Later it is resumed from the journal."""
TOO_MANY_TURNS = "as many turns as possible are being worked on; try again in a minute"
ORIGIN: RunOrigin = "web"


class Queue(Generic[T]):
    """Items for one reader. Waiting for one may be cancelled, and needs no closing."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._filled = anyio.Event()

    def put(self, item: T) -> None:
        self._items.append(item)
        self._filled.set()

    async def get(self) -> T:
        while not self._items:
            self._filled = anyio.Event()
            await self._filled.wait()
        return self._items.popleft()


class ApplicationTurn:
    """One turn. It runs to its end even if no client reads its parts."""

    def __init__(self, conversation: Conversation) -> None:
        self.run = conversation.run
        self.number = conversation.next_turn
        self.model = conversation.model.name
        self._conversation = conversation
        self._parts = Queue[TurnPart]()
        self._interrupted_for: str | None = None
        self._ended = False

    async def next_part(self) -> TurnPart:
        return await self._parts.get()

    def interrupt(self, reason: str = "") -> None:
        self._interrupted_for = reason
        if not self._ended:
            self._conversation.interrupt(reason)

    def steer(self, text: str) -> None:
        self._conversation.steer(text)

    async def work(self, application: Application, request: "_TurnRequest") -> None:
        before = self._conversation.usage
        async with application.bus.subscribe() as items:
            async with anyio.create_task_group() as group:
                group.start_soon(self._show, items)
                end = await self._say(request)
                group.cancel_scope.cancel()
            with suppress(anyio.WouldBlock, anyio.EndOfStream):
                while True:
                    self._show_item(items.receive_nowait())
        used = self._conversation.usage
        usage = Usage(
            used.input_tokens - before.input_tokens,
            used.output_tokens - before.output_tokens,
            used.cached_tokens - before.cached_tokens,
            used.cost_usd - before.cost_usd,
        )
        self._ended = True
        self._parts.put(msgspec.structs.replace(end, usage=usage))

    async def _say(self, request: "_TurnRequest") -> TurnEnd:
        if self._interrupted_for is not None:  # before its turn came
            return TurnEnd(outcome="interrupted", reason=self._interrupted_for)
        try:
            answer = await self._conversation.say(
                request.text, attached=request.attached, by=request.person
            )
        except HermesError as error:
            return TurnEnd(outcome="failed", reason=str(error))
        ended = self._conversation.ended
        if ended is None:
            return TurnEnd(answer=answer)
        return TurnEnd(answer=answer, outcome=ended.outcome, reason=ended.reason)

    async def _show(self, items: MemoryObjectReceiveStream[BusItem]) -> None:
        async for item in items:
            self._show_item(item)

    def _show_item(self, item: BusItem) -> None:
        part = self._part_of(item)
        if part is not None:
            self._parts.put(part)

    def _part_of(self, item: BusItem) -> TurnPart | None:
        if isinstance(item, Glimpse):
            shown = item.run == self.run and item.delta.text
            return TurnText(item.delta.text) if shown else None
        event = item.event
        if isinstance(event, ApprovalRequested) and event.run.partition("/")[0] == self.run:
            return TurnQuestion(event.approval, event.shown)
        if isinstance(event, ToolRequested) and event.run == self.run:
            arguments = msgspec.json.encode(event.call.arguments).decode()
            return TurnToolCall(event.call.id, event.call.name, arguments)
        return None


@dataclass(frozen=True)
class _TurnRequest:
    turn: ApplicationTurn
    text: str
    attached: tuple[AttachedText, ...]
    person: str


class ApiSession:
    """One conversation with an environment of its own, kept open between its turns for a while."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._requests = Queue[_TurnRequest]()
        self._conversation: Conversation | None = None
        self.turn: ApplicationTurn | None = None
        """The one that is being worked on."""
        self.ended = False

    @property
    def conversation(self) -> Conversation:
        assert self._conversation is not None, "the session was not started"
        return self._conversation

    async def serve(
        self, run: str, task: str, person: str, *, task_status: TaskStatus[None]
    ) -> None:
        """Work on turns until none comes for a while. `run` is resumed; without it, one begins."""
        application = self._application
        folder = Path(application.directory)
        async with configured_environment(
            application.loaded, folder, beside=application.agent_dependencies.environment
        ) as environment:
            if run:
                self._conversation = await application.resume(run, environment=environment)
            else:
                self._conversation = await application.begin(
                    task, by=person, audience=f"{ORIGIN}:{person}", environment=environment
                )
            try:
                task_status.started()
                await self._work_on_turns()
            finally:
                self.ended = True
                with anyio.CancelScope(shield=True):
                    await application.release(self._conversation.run)

    async def _work_on_turns(self) -> None:
        while True:
            request = None
            with anyio.move_on_after(IDLE_TIMEOUT_S):
                request = await self._requests.get()
            if request is None:
                return
            try:
                await request.turn.work(self._application, request)
            finally:
                self.turn = None

    def start_turn(
        self, text: str, attached: Sequence[AttachedText], person: str
    ) -> ApplicationTurn:
        """Raises `SettingsError` while another turn runs."""
        if self.turn is not None:
            run = self.conversation.run
            raise SettingsError(f"{run} is still being worked on; wait, or cancel it")
        self.turn = ApplicationTurn(self.conversation)
        self._requests.put(_TurnRequest(self.turn, text, tuple(attached), person))
        return self.turn


class ApplicationTurns:
    def __init__(self, application: Application, group: TaskGroup) -> None:
        self._application = application
        self._group = group
        self._sessions: dict[str, ApiSession] = {}

    async def begin(
        self, text: str, *, person: str, model: str = "", history: Sequence[AttachedText] = ()
    ) -> ApplicationTurn:
        self._check_capacity()
        opened = None
        if model not in ("", OWN_MODEL_NAME, self._application.agent_dependencies.model.name):
            opened = self._application.open_model(model)
        session = await self._open_session("", text, person)
        if opened is not None:
            await session.conversation.switch(opened)
        return session.start_turn(text, history, person)

    async def resume(
        self, run: str, text: str, *, person: str, history: Sequence[AttachedText] = ()
    ) -> ApplicationTurn:
        self._check_capacity()
        session = self._sessions.get(run)
        if session is None or session.ended:
            session = await self._open_session(run, text, person)
        return session.start_turn(text, history, person)

    def find_active(self, run: str) -> ApplicationTurn | None:
        session = self._sessions.get(run)
        return session.turn if session is not None else None

    def model_names(self) -> Sequence[str]:
        default = self._application.agent_dependencies.model.name
        return tuple(dict.fromkeys((OWN_MODEL_NAME, default)))

    async def find_answer(
        self, run: str, turn: int | None = None, *, person: str
    ) -> RecordedAnswer | None:
        journal = self._application.journal
        async for _ in journal.read(run=run, kinds=("run.deleted",)):
            return None
        return await read_answer(journal, run, turn, person)

    async def delete(self, run: str, *, person: str) -> None:
        journal = self._application.journal
        if await self.find_answer(run, person=person) is None:
            raise UnknownIdError("there is no such response")
        if self.find_active(run) is not None:
            raise SettingsError(f"{run} is still being worked on; cancel it first")
        started = [each.event.run async for each in journal.read(kinds=("run.started",))]
        below = [each for each in started if each.startswith(f"{run}/")]  # its subagents
        await self._application.bus.publish(*(RunDeleted(run=each) for each in (run, *below)))

    async def _open_session(self, run: str, task: str, person: str) -> ApiSession:
        """Raises `HermesError`."""
        session = ApiSession(self._application)
        await self._group.start(session.serve, run, task, person)
        self._sessions = {each: kept for each, kept in self._sessions.items() if not kept.ended}
        self._sessions[session.conversation.run] = session
        return session

    def _check_capacity(self) -> None:
        if sum(each.turn is not None for each in self._sessions.values()) >= MAX_TURNS:
            raise SettingsError(TOO_MANY_TURNS)


async def read_answer(
    journal: Journal, run: str, wanted: int | None, person: str
) -> RecordedAnswer | None:
    """A turn of a run that `person` began through the API; the latest one without a number."""
    turn, model, answer, usage = 0, "", "", Usage()
    found: RecordedAnswer | None = None
    began: datetime | None = None
    async for recorded in journal.read(run=run):
        event = recorded.event
        if isinstance(event, RunStarted):
            if event.origin != ORIGIN or event.by != person:
                return None
            model = event.model
        elif isinstance(event, TurnStarted):
            turn, began, answer, usage = event.turn, event.at, "", Usage()
            if wanted in (None, turn):
                found = RecordedAnswer(turn=turn, model=model, at=began)
        elif isinstance(event, MessageAdded) and event.message.role == "assistant":
            answer = event.message.text
        elif isinstance(event, ModelAnswered):
            usage += event.usage
        elif isinstance(event, TurnEnded) and found is not None and event.turn == found.turn:
            end = TurnEnd(answer=answer, outcome=event.outcome, reason=event.reason, usage=usage)
            found = msgspec.structs.replace(found, end=end)
            if wanted == event.turn:
                return found
    return found


class JournalHistories:
    """Which run has which history of an API client, from the journal."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._runs: dict[tuple[str, str], str] = {}
        self._read_to = 0

    async def find_run(self, digest: str, person: str) -> str:
        journal = self._application.journal
        newest = await journal.last()
        async for recorded in journal.read(after=self._read_to, kinds=("api.history",)):
            if isinstance(event := recorded.event, ApiHistoryRecorded):
                self._runs[event.digest, event.person] = event.run
        self._read_to = newest
        return self._runs.get((digest, person), "")

    async def record(self, run: str, digest: str, person: str) -> None:
        event = ApiHistoryRecorded(run=run, digest=digest, person=person)
        await self._application.bus.publish(event)
