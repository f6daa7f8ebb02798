"""Turns of the agent for callers of the API."""

import math
from collections.abc import Sequence
from datetime import datetime

import anyio
import msgspec
from anyio.abc import TaskGroup

from hermes.agent.conversation import Conversation
from hermes.app.application import Application
from hermes.core.bus import BusItem, Glimpse
from hermes.core.errors import HermesError, SettingsError
from hermes.core.events.access import ApiHistoryRecorded
from hermes.core.events.approvals import ApprovalRequested
from hermes.core.events.runs import (
    MessageAdded,
    ModelAnswered,
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

OWN_MODEL_NAME = "hermes"
"""Stands for the configured model in the list of models."""
MAX_TURNS = 8
"""Turns at once."""
TOO_MANY_TURNS = "as many turns as possible are being worked on; try again in a minute"
ORIGIN = "web"


class ApplicationTurn:
    """One turn. It runs to its end, also when nobody reads its parts."""

    def __init__(self, conversation: Conversation, number: int) -> None:
        self.run = conversation.run
        self.number = number
        self.model = conversation.model.name
        self._conversation = conversation
        self._send, self._receive = anyio.create_memory_object_stream[TurnPart](math.inf)

    async def next_part(self) -> TurnPart:
        return await self._receive.receive()

    def interrupt(self) -> None:
        self._conversation.interrupt()

    async def work(
        self, application: Application, text: str, attached: Sequence[AttachedText], person: str
    ) -> None:
        before = self._conversation.usage
        async with application.bus.subscribe() as items, anyio.create_task_group() as group:
            group.start_soon(self._show, items)
            end = await self._say(text, attached, person)
            group.cancel_scope.cancel()
        used = self._conversation.usage
        usage = Usage(
            used.input_tokens - before.input_tokens,
            used.output_tokens - before.output_tokens,
            used.cached_tokens - before.cached_tokens,
            used.cost_usd - before.cost_usd,
        )
        self._send.send_nowait(msgspec.structs.replace(end, usage=usage))

    async def _say(self, text: str, attached: Sequence[AttachedText], person: str) -> TurnEnd:
        try:
            answer = await self._conversation.say(text, attached=attached, by=person)
        except HermesError as error:
            return TurnEnd(outcome="failed", reason=str(error))
        ended = self._conversation.ended
        if ended is None:
            return TurnEnd(answer=answer)
        return TurnEnd(answer=answer, outcome=ended.outcome, reason=ended.reason)

    async def _show(self, items: anyio.abc.ObjectReceiveStream[BusItem]) -> None:
        async for item in items:
            part = self._part_of(item)
            if part is not None:
                self._send.send_nowait(part)

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


class ApplicationTurns:
    def __init__(self, application: Application, group: TaskGroup) -> None:
        self._application = application
        self._group = group
        self._active: dict[str, ApplicationTurn] = {}

    async def begin(
        self, text: str, *, person: str, model: str = "", history: Sequence[AttachedText] = ()
    ) -> ApplicationTurn:
        self._check_capacity()
        opened = None
        if model not in ("", OWN_MODEL_NAME, self._application.agent_dependencies.model.name):
            opened = self._application.open_model(model)
        conversation = await self._application.begin(text, by=person)
        if opened is not None:
            await conversation.switch(opened)
        return self._start(conversation, text, history, person)

    async def resume(
        self, run: str, text: str, *, person: str, history: Sequence[AttachedText] = ()
    ) -> ApplicationTurn:
        self._check_capacity()
        if run in self._active:
            raise SettingsError(f"{run} is still being worked on; wait, or cancel it")
        conversation = await self._application.resume(run)
        return self._start(conversation, text, history, person)

    def find_active(self, run: str) -> ApplicationTurn | None:
        return self._active.get(run)

    def model_names(self) -> Sequence[str]:
        default = self._application.agent_dependencies.model.name
        return tuple(dict.fromkeys((OWN_MODEL_NAME, default)))

    async def find_answer(
        self, run: str, turn: int | None = None, *, person: str
    ) -> RecordedAnswer | None:
        return await read_answer(self._application.journal, run, turn, person)

    def _check_capacity(self) -> None:
        if len(self._active) >= MAX_TURNS:
            raise SettingsError(TOO_MANY_TURNS)

    def _start(
        self,
        conversation: Conversation,
        text: str,
        attached: Sequence[AttachedText],
        person: str,
    ) -> ApplicationTurn:
        turn = ApplicationTurn(conversation, conversation.next_turn)
        self._active[turn.run] = turn
        self._group.start_soon(self._work, turn, text, attached, person)
        return turn

    async def _work(
        self, turn: ApplicationTurn, text: str, attached: Sequence[AttachedText], person: str
    ) -> None:
        try:
            await turn.work(self._application, text, attached, person)
        finally:
            del self._active[turn.run]
            with anyio.CancelScope(shield=True):
                await self._application.release(turn.run)


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
