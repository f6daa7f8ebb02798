"""What goes back to a chat: answers of turns, found in the journal, with the files that they name,
questions of the agent, and news of background processes.

An answer is queued together with the note that its messages are handled. So each answer is queued
once, whenever the process ends.
"""

import random
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import anyio

from hermes.core.channels import Button, press_data
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.chats import ChatHandled, ChatOutcome
from hermes.core.events.operations import NotificationKind, NotificationQueued
from hermes.core.events.runs import MessageAdded, RunStarted, TurnEnded, TurnStarted, TurnUndone
from hermes.core.events.tools import ProcessEnded, ProcessMatched, ProcessReported
from hermes.core.protocols import JournalRecord
from hermes.core.run_ids import new_id
from hermes.gateway.settings import TalkSettings
from hermes.plumbing.units import format_duration

STOPPED_TEXT = "Stopped."
EMPTY_TEXT = "(no answer)"
MAX_LABEL_CHARS = 40
MAX_TAIL_CHARS = 1_000
"""Of the output of a background process."""
NATURAL_DELAY_MS = (800, 2_500)
TYPING_MS_PER_CHAR = 12
MAX_NATURAL_DELAY_MS = 6_000


def queue_text(
    run: str,
    to: str,
    text: str,
    *,
    about: NotificationKind = "reply",
    notice: str = "",
    reply_to: str = "",
    files: Sequence[str] = (),
    buttons: tuple[tuple[Button, ...], ...] = (),
) -> NotificationQueued:
    """A message to a chat; the outbox of the process that serves the channel delivers it."""
    return NotificationQueued(
        run=run,
        notice=notice or new_id("notice"),
        about=about,
        title="",
        text=text,
        to=to,
        reply_to=reply_to,
        files=tuple(files),
        buttons=buttons,
    )


class OpenQuestion:
    """A question of the agent to the people of a chat, until it is answered."""

    def __init__(self, text: str, choices: tuple[str, ...]) -> None:
        self._id, self._text, self._choices = secrets.token_hex(4), text, choices
        self._answer = ""
        self._answered = anyio.Event()

    def queue(self, run: str, to: str) -> NotificationQueued:
        listed = "".join(f"\n{number}. {each}" for number, each in enumerate(self._choices, 1))
        buttons = tuple(
            (Button(each[:MAX_LABEL_CHARS], press_data("answer", f"{self._id}.{number}")),)
            for number, each in enumerate(self._choices)
        )
        return queue_text(run, to, f"❓ {self._text}{listed}", about="question", buttons=buttons)

    def answer(self, text: str) -> None:
        self._answer = text
        self._answered.set()

    def choose(self, pressed: str) -> bool:
        """Answer by a button; False when it belongs to another question."""
        id, _, number = pressed.partition(".")
        if id != self._id or not number.isdecimal() or int(number) >= len(self._choices):
            return False
        self.answer(self._choices[int(number)])
        return True

    async def wait(self) -> str:
        await self._answered.wait()
        return self._answer


def mark_handled(run: str, keys: Iterable[str], outcome: ChatOutcome) -> ChatHandled:
    return ChatHandled(run=run, keys=tuple(keys), outcome=outcome)


@dataclass
class ChatTurn:
    """A turn of a session, with the messages of the chat in it."""

    turn: int
    keys: list[str] = field(default_factory=list)
    answer: str = ""
    ended: TurnEnded | None = None
    handled: bool = False

    @property
    def text(self) -> str:
        """What the chat gets at the end of the turn."""
        if self.ended is None:
            return ""
        if self.ended.outcome == "interrupted":
            return STOPPED_TEXT
        if self.ended.outcome == "failed":
            return f"That did not work: {self.ended.reason or 'the turn failed'}"
        return self.answer or EMPTY_TEXT


class ChatTurns:
    """The turns of one run, folded from its events."""

    def __init__(self) -> None:
        self.turns: dict[int, ChatTurn] = {}
        self.keys: set[str] = set()
        """Every message of the chat that is part of the conversation."""
        self.last_seq = 0
        self.begun = False
        self.person = ""
        """Who began the last turn."""
        self._current: ChatTurn | None = None

    def apply(self, seq: int, event: Event | UnknownEvent) -> None:
        self.last_seq = seq
        match event:
            case RunStarted():
                self.begun = True
            case TurnStarted():
                self._current = self.turns[event.turn] = ChatTurn(event.turn)
                self.person = event.by
            case MessageAdded(message=message) if self._current is not None:
                if message.role == "user" and message.key:
                    self._current.keys.append(message.key)
                    self.keys.add(message.key)
                elif message.role == "assistant" and not message.calls:
                    self._current.answer = message.text
            case TurnEnded() if self._current is not None:
                self._current.ended = event
            case TurnUndone():
                self.turns.pop(event.turn, None)
            case ChatHandled(outcome="turn") if event.turn in self.turns:
                del self.turns[event.turn]
            case _:
                pass

    def unanswered(self) -> list[ChatTurn]:
        """Turns that have ended, and whose chat has not got the end yet."""
        return [turn for turn in self.turns.values() if turn.ended is not None and turn.keys]

    def is_open(self) -> bool:
        return self._current is not None and self._current.ended is None


def answer_events(
    run: str, to: str, turn: ChatTurn, text: str, files: Sequence[str]
) -> list[Event]:
    """Recorded together: the answer is queued, and its messages are handled."""
    notice = f"reply-{run}-{turn.turn}"
    handled = ChatHandled(run=run, keys=tuple(turn.keys), turn=turn.turn, notice=notice)
    if not text and not files:
        return [handled]
    return [queue_text(run, to, text, notice=notice, files=files), handled]


def human_delay_s(settings: TalkSettings, text: str, draw: random.Random) -> float:
    """The pause before an answer, as if a person typed it."""
    match settings.human_delay_mode:
        case "natural":
            base = draw.uniform(*NATURAL_DELAY_MS) + len(text) * TYPING_MS_PER_CHAR
            return min(base, MAX_NATURAL_DELAY_MS) / 1000
        case "custom":
            low, high = settings.human_delay_min_ms, settings.human_delay_max_ms
            return draw.uniform(low, max(low, high)) / 1000
        case _:
            return 0.0


def process_text(recorded: JournalRecord) -> str:
    """The text for a chat about a background process; empty for other events."""
    match recorded.event:
        case ProcessEnded(reason="lost") as ended:
            return f"⚙️ {ended.process} is lost: nobody knows how it ended."
        case ProcessEnded() as ended:
            code = "" if ended.exit_code is None else f" with exit code {ended.exit_code}"
            tail = ended.tail.strip()[-MAX_TAIL_CHARS:]
            shown = f"\n```\n{tail}\n```" if tail else ""
            return f"⚙️ {ended.process} {ended.reason}{code}.{shown}"
        case ProcessReported() as reported:
            tail = reported.output.strip()[-MAX_TAIL_CHARS:]
            shown = f"\n```\n{tail}\n```" if tail else " It printed nothing since."
            length = format_duration(reported.seconds)
            return f"⚙️ {reported.process} is running for {length}.{shown}"
        case ProcessMatched() as matched:
            return f"⚙️ {matched.process} printed: {matched.line[:MAX_TAIL_CHARS]}"
        case _:
            return ""
