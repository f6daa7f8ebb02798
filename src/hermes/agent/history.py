"""Rebuilds a conversation from events: one reducer for live turns and for resumed ones.

Whatever the journal contains, and wherever it was cut off, the resulting messages are a valid
sequence: each call of an assistant message is answered exactly once, directly after it.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

from hermes.agent.tool_results import RepetitionDetector
from hermes.core.errors import SettingsError
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.runs import (
    ContextCompressed,
    MessageAdded,
    ModelAnswered,
    ModelSwitched,
    RunDeleted,
    RunStarted,
    TurnEnded,
    TurnStarted,
    TurnUndone,
)
from hermes.core.events.tools import ToolFinished, ToolStarted
from hermes.core.knowledge import RECALL_NOTE_PREFIX
from hermes.core.messages import Message, Risk, ToolCall, ToolResult, Usage
from hermes.core.protocols import Journal

InterruptionCause = Literal["a crash", "an interruption"]
EFFECT_UNKNOWN = (
    "started before {cause}; it is not known whether it took effect; check before doing it again"
)
NOT_FINISHED = "cut off by {cause} before it had a result; it only reads and can be run again"
NOT_RUN = "not run: {cause} came before it"


class ConversationHistory:
    def __init__(self) -> None:
        self.run_started: RunStarted | None = None
        self.by = ""
        """Who asked in the last turn, else who began the run."""
        self.deleted = False
        self.first_seq = 0
        self.model = ""
        """The model last switched to, if any."""
        self.messages: list[Message] = []
        self.asked: list[tuple[int, str]] = []
        """Every user text that still counts, also those compressed away, with its turn."""
        self.usage = Usage()
        self.turn = 0
        self.open = False
        self.steps = 0
        """Answers of the model in the open turn."""
        self.ended: TurnEnded | None = None
        self.pending: dict[str, ToolCall] = {}
        """Calls of the last assistant message while not all of them are answered."""
        self.results: dict[str, ToolResult] = {}
        self.repetition = RepetitionDetector()
        self.remarks: dict[str, str] = {}
        """What Hermes itself wrote below a result, by call."""
        self.call_ids: set[str] = set()
        self._turns: list[int] = []
        self._started: dict[str, Risk] = {}
        self._nested_change = False

    def apply(self, event: Event | UnknownEvent) -> None:
        step = _EVENT_HANDLERS.get(type(event))
        if step is not None:
            step(self, event)

    @property
    def view(self) -> tuple[Message, ...]:
        """The messages as the model would see them now; open calls count as not run."""
        return (*self.messages, *self._answers()) if self.pending else tuple(self.messages)

    def unanswered(self) -> list[ToolCall]:
        return [call for id, call in self.pending.items() if id not in self.results]

    def may_run(self, call: ToolCall) -> bool:
        """Return False when it was started before and running it again could do harm."""
        risk = self._started.get(call.id)
        return risk is None or (risk is Risk.READ and not self._nested_change)

    def lost_result(self, call: ToolCall, cause: InterruptionCause = "a crash") -> ToolResult:
        """Return what the model reads for a call that has no result and gets none."""
        text = EFFECT_UNKNOWN
        if self.may_run(call):
            text = NOT_FINISHED if call.id in self._started else NOT_RUN
        return ToolResult(call_id=call.id, status="error", content=text.format(cause=cause))

    @property
    def last_turn(self) -> int:
        """The newest turn that counts, 0 when there is none."""
        return self.asked[-1][0] if self.asked else 0

    def request(self, turn: int) -> str | None:
        """The request at the beginning of a turn."""
        return next((text for of, text in self.asked if of == turn), None)

    def _answers(self) -> Iterator[Message]:
        for id, call in self.pending.items():
            yield Message(role="tool", result=self.results.get(id) or self.lost_result(call))

    def _append(self, message: Message, turn: int) -> None:
        self.messages.append(message)
        self._turns.append(turn)

    def _settle(self) -> None:
        """Close the last assistant message: every call answered, in the order of the calls."""
        answered = [
            (call, self.results.get(id) or self.lost_result(call))
            for id, call in self.pending.items()
        ]
        for result in self.repetition.note(answered):
            self._append(Message(role="tool", result=result), self.turn)
        self.remarks |= self.repetition.remarks
        self.pending = {}

    def _begin(self, event: RunStarted) -> None:
        self.run_started, self.by = event, event.by

    def _delete(self, _: RunDeleted) -> None:
        self.deleted = True

    def _start_turn(self, event: TurnStarted) -> None:
        self._settle()
        self.turn, self.open, self.steps = max(event.turn, self.turn), True, 0
        self.by = event.by or self.by
        self.repetition = RepetitionDetector()

    def _end_turn(self, event: TurnEnded) -> None:
        self._settle()
        self.open, self.ended = False, event

    def _undo_turn(self, event: TurnUndone) -> None:
        if event.turn == self.turn:
            self.pending, self.open = {}, False
        kept = [
            (message, turn)
            for message, turn in zip(self.messages, self._turns, strict=True)
            if turn != event.turn
        ]
        self.messages = [message for message, _ in kept]
        self._turns = [turn for _, turn in kept]
        self.asked = [(turn, text) for turn, text in self.asked if turn != event.turn]

    def _add(self, event: MessageAdded) -> None:
        self._settle()
        message = event.message
        self._append(message, 0 if message.role == "system" else self.turn)
        if message.role == "user" and not message.text.startswith(RECALL_NOTE_PREFIX):
            self.asked.append((self.turn, message.text))
        elif message.role == "assistant":
            self.steps += 1
            self.pending = {call.id: call for call in message.calls}
            self.results, self._started, self._nested_change = {}, {}, False
            self.call_ids.update(self.pending)

    def _start_call(self, event: ToolStarted) -> None:
        if event.call_id in self.pending:
            self._started[event.call_id] = event.risk
        elif event.risk is not Risk.READ:
            self._nested_change = True  # a tool called another tool, and that one changes things

    def _finish_call(self, event: ToolFinished) -> None:
        result = event.result
        if result.call_id not in self.pending:
            return  # a call made by a tool, or a second answer
        self.results.setdefault(result.call_id, result)
        if len(self.results) == len(self.pending):
            self._settle()

    def _spend(self, event: ModelAnswered) -> None:
        self.usage += event.usage

    def _switch(self, event: ModelSwitched) -> None:
        self.model = event.model

    def _compress(self, event: ContextCompressed) -> None:
        cut = slice(event.kept_first, event.kept_first + event.dropped)
        self.messages[cut] = [Message(role="user", text=event.summary)]
        self._turns[cut] = [0]


_EVENT_HANDLERS: dict[type, Callable[[ConversationHistory, Any], None]] = {
    RunStarted: ConversationHistory._begin,
    RunDeleted: ConversationHistory._delete,
    TurnStarted: ConversationHistory._start_turn,
    TurnEnded: ConversationHistory._end_turn,
    TurnUndone: ConversationHistory._undo_turn,
    MessageAdded: ConversationHistory._add,
    ToolStarted: ConversationHistory._start_call,
    ToolFinished: ConversationHistory._finish_call,
    ModelAnswered: ConversationHistory._spend,
    ModelSwitched: ConversationHistory._switch,
    ContextCompressed: ConversationHistory._compress,
}


async def rebuild_history(journal: Journal, run: str) -> ConversationHistory:
    """Rebuild a run from the journal alone. Raises `SettingsError` when there is none."""
    history = ConversationHistory()
    async for recorded in journal.read(run=run):
        history.first_seq = history.first_seq or recorded.seq
        history.apply(recorded.event)
    if history.run_started is None or history.deleted:
        why = "was deleted" if history.deleted else "is not in the journal"
        raise SettingsError(f"run {run!r} {why}; `hermes sessions list` shows those there are")
    return history


_RUN_EVENT_KINDS = ("run.started", "run.deleted", "turn.started", "turn.ended", "turn.undone")


async def find_interrupted_runs(journal: Journal) -> list[str]:
    """Unattended runs whose last turn has no end, oldest first.

    A run that another living process works on looks the same here: resume these only with the run
    lock.
    """
    unattended: dict[str, bool] = {}
    async for recorded in journal.read(kinds=_RUN_EVENT_KINDS):
        event = recorded.event
        if isinstance(event, RunStarted) and event.unattended:
            unattended[event.run] = False
        elif event.run not in unattended:
            continue
        elif isinstance(event, TurnStarted):
            unattended[event.run] = True
        elif isinstance(event, TurnEnded | TurnUndone | RunDeleted):
            unattended[event.run] = False
    return [run for run, is_open in unattended.items() if is_open]
