"""Works on one session: one turn after the other, in an environment of its own.

It lives while the session is in use. Later the next message begins another one, from the journal.
"""

import random
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from hermes.agent.conversation import Conversation
from hermes.app.application import Application
from hermes.app.chats.media import ChatMedia, MessageParts, split_sendable_media
from hermes.app.chats.progress import TurnDisplay, chat_progress_mode
from hermes.app.chats.replies import (
    ChatTurn,
    ChatTurns,
    answer_events,
    human_delay_s,
    mark_handled,
    queue_text,
)
from hermes.app.chats.sessions import ChatSessions, TurnLimits
from hermes.app.chats.voice import ChatVoice
from hermes.app.tools.tooling import configured_environment
from hermes.core.channels import Address, Button, Channel, press_data
from hermes.core.errors import HermesError, StoreError
from hermes.core.events import Event
from hermes.core.events.chats import ChatOutcome, ChatReceived, message_key
from hermes.core.messages import AttachedText, Picture
from hermes.core.tool_calls import OpenToolCalls
from hermes.gateway.inbox import speaker_label
from hermes.gateway.settings import TalkSettings

if TYPE_CHECKING:
    from hermes.app.chats.incident_threads import IncidentThread

IDLE_CLOSE_S = 600.0
"""Seconds without a message after which a session gives back its environment and its run."""
QUESTION_TIMEOUT_S = 1800.0
"""Seconds that a question of the agent waits for an answer."""
MAX_LABEL_CHARS = 40
FULL_TEXT = "{count} messages wait already, so this one is not answered; send it again later."
LIMIT_TEXT = "Other turns are running. This one begins when one of them ends."
RESTARTED_TEXT = "Hermes was restarted before it could do this; send it again."


@dataclass(frozen=True)
class PreparedMessage:
    """A received message as the conversation gets it."""

    key: str
    person: str
    text: str
    attached: tuple[AttachedText, ...] = ()
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class IdleCommand:
    """A command of a chat that needs the conversation between two turns."""

    key: str
    run: Callable[[Conversation], Awaitable[str]]


class OpenQuestion:
    """A question of the agent to the people of a chat, until it is answered."""

    def __init__(self, id: str, choices: tuple[str, ...]) -> None:
        self.id, self._choices = id, choices
        self._answer = ""
        self._answered = anyio.Event()

    def buttons(self) -> tuple[tuple[Button, ...], ...]:
        return tuple(
            (Button(each[:MAX_LABEL_CHARS], press_data("answer", f"{self.id}.{number}")),)
            for number, each in enumerate(self._choices)
        )

    def answer(self, text: str) -> None:
        self._answer = text
        self._answered.set()

    def choose(self, number: int) -> bool:
        if number >= len(self._choices):
            return False
        self.answer(self._choices[number])
        return True

    async def wait(self) -> str:
        await self._answered.wait()
        return self._answer


@dataclass
class ChatContext:
    """Everything that the sessions of a gateway share."""

    application: Application
    sessions: ChatSessions
    settings: TalkSettings
    folder: Path
    """Where sessions begin to work."""
    limits: TurnLimits
    media: ChatMedia
    voice: ChatVoice
    channels: dict[str, Channel] = field(default_factory=dict)
    """The channels that are connected now."""
    restricted: Mapping[str, Application] = field(default_factory=dict)
    """By channel: the application with the tools that chats there may use."""
    idle_close_s: float = IDLE_CLOSE_S
    draw: random.Random = field(default_factory=random.Random)


def _open_thread(context: ChatContext, incident: str) -> "IncidentThread":
    from hermes.app.chats.incident_threads import IncidentThread

    return IncidentThread(context.application.journal, incident)


class SessionWorker:
    def __init__(
        self, context: ChatContext, run: str, session: str, to: str, *, incident: str = ""
    ) -> None:
        """`incident`: whose thread the chat is."""
        self.run_id, self.session, self.to = run, session, to
        self.conversation: Conversation | None = None
        self.turn_running = False
        self._turn_person = ""
        """Who began the running turn: approvals count them as the requester."""
        self.done = anyio.Event()
        """Set when the run is given back."""
        self.closing = False
        self._context = context
        self._incoming: deque[ChatReceived] = deque()
        self._ready: deque[PreparedMessage | IdleCommand] = deque()
        self._changed = anyio.Event()
        self._turns = ChatTurns()
        self._preparing = 0
        self._interrupted_by_message = False
        self._question: OpenQuestion | None = None
        self._thread = _open_thread(context, incident) if incident else None

    @property
    def waiting(self) -> int:
        steered = self.conversation.waiting if self.conversation is not None else 0
        return len(self._incoming) + len(self._ready) + self._preparing + steered

    def submit(self, event: ChatReceived) -> None:
        self._incoming.append(event)
        self._wake()

    def submit_command(self, command: IdleCommand) -> None:
        self._ready.append(command)
        self._wake()

    def stop_turn(self) -> bool:
        """Interrupt the running turn; False when there is none."""
        if self.conversation is None or not self.turn_running:
            return False
        self.conversation.interrupt()
        return True

    def close(self) -> None:
        """End after the running turn, which is interrupted."""
        self.closing = True
        self.stop_turn()
        self._wake()

    def finish(self) -> None:
        """End after the running turn; what waits is left to the next process."""
        self.closing = True
        self._wake()

    async def wait_for_end(self) -> None:
        """Wait until the worker is done, or until its turn only waits for a person."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._wait_for_people, group.cancel_scope)
            await self.done.wait()
            group.cancel_scope.cancel()

    async def _wait_for_people(self, scope: anyio.CancelScope) -> None:
        """Cancel the scope when the running turn only waits for people."""
        journal, calls, last = self._context.application.journal, OpenToolCalls(), 0
        async for recorded in journal.read(run=self.run_id, kinds=("turn.started",)):
            last = recorded.seq
        while not calls.only_wait_for_people(self.run_id):
            await journal.changed(last)
            async for recorded in journal.read(after=last):
                last = recorded.seq
                calls.apply(recorded.event)
        scope.cancel()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def work(self, after: "SessionWorker | None" = None) -> None:
        """Take turns until the session is idle or closed. `after` is an earlier worker of the same
        run, which has to release the run first."""
        if after is not None:
            await after.done.wait()
        try:
            await self._open_and_work()
        except HermesError as error:
            await self._refuse_all(f"This session cannot go on: {error}. /new begins another one.")
        finally:
            self.closing = True
            self.done.set()

    async def _open_and_work(self) -> None:
        channel = Address.parse(self.to).channel
        application = self._context.restricted.get(channel, self._context.application)
        if self._thread is not None:
            application = self._thread.restrict(application)
        loaded, folder = application.loaded, self._context.folder
        shared = application.agent_dependencies.environment
        failure: HermesError | None = None
        async with (
            configured_environment(loaded, folder, beside=shared) as environment,
            anyio.create_task_group() as group,
        ):
            try:
                await self._update_turns()
                if self._turns.begun:
                    conversation = await application.resume(
                        self.run_id, environment=environment, ask=self._ask
                    )
                else:
                    first = self._incoming[0] if self._incoming else None
                    conversation = await application.begin(
                        first.message.text if first else "",
                        run=self.run_id,
                        by=first.person if first else "",
                        audience=first.to if first and first.message.direct else "",
                        environment=environment,
                        ask=self._ask,
                    )
                conversation.resumable = True
                self.conversation = conversation
                group.start_soon(self._take_messages)
                await self._take_turns(conversation)
            except HermesError as error:
                failure = error
            # Not after a cancellation: the application is closing, and does it itself.
            await application.release(self.run_id)
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _take_messages(self) -> None:
        """Prepare messages in order: they steer their person's running turn, or wait for a turn."""
        while True:
            while self._incoming:
                event = self._incoming.popleft()
                self._preparing += 1
                try:
                    await self._take_message(event)
                finally:
                    self._preparing -= 1
            await self._changed.wait()

    async def _take_message(self, event: ChatReceived) -> None:
        settings, key = self._context.settings, message_key(event.message)
        if key in self._turns.keys:  # part of a turn that an earlier process began
            return
        parts = await self._hear(event) if event.message.voice else None
        if parts is None and event.message.voice:
            return
        own_turn = self.turn_running and event.person == self._turn_person
        addressed = event.message.direct or bool(event.message.quoted)
        if self._question is not None and own_turn and addressed:
            self._question.answer(parts.heard if parts else event.message.text)
            await self._publish(mark_handled(self.run_id, (key,), "answer"))
            return
        if self.waiting > settings.max_waiting:
            text = FULL_TEXT.format(count=settings.max_waiting)
            await self._tell(text, (key,), "refused")
            return
        parts = parts or await self._prepare(event)
        text = parts.text
        if not event.message.direct and text:
            text = f"{speaker_label(event.person, event.message.sender_name)}: {text}"
        attached = parts.attached
        if self._thread is not None:
            attached = (*attached, *await self._thread.describe(event.person))
        message = PreparedMessage(key, event.person, text, attached, parts.pictures)
        conversation = self.conversation
        # Otherwise one person could approve what they asked for in the turn of another.
        own_turn = self.turn_running and event.person == self._turn_person
        if own_turn and conversation is not None and settings.busy == "steer":
            conversation.steer(
                message.text,
                attached=message.attached,
                pictures=message.pictures,
                key=message.key,
            )
            return
        self._ready.append(message)
        if self.turn_running and settings.busy == "interrupt":
            self._interrupted_by_message = True
            self.stop_turn()
        self._wake()

    async def _prepare(self, event: ChatReceived) -> MessageParts:
        channel = self._context.channels.get(event.message.address.channel)
        return await self._context.media.prepare(event, channel, self._keep_picture)

    async def _hear(self, event: ChatReceived) -> MessageParts | None:
        """A voice message in words that the person has seen; None: they got the reason."""
        voice, parts = self._context.voice, await self._prepare(event)
        if parts.heard:
            refused = await voice.show_heard(event, self.to, parts.heard)
        elif parts.text or parts.attached:
            return parts
        else:
            refused = voice.refuse_unheard(event, self.to, parts.unheard)
        if refused is not None:
            await self._publish(*refused)
            return None
        await self._publish(*await voice.hint_for_incident(event, parts))
        return parts

    async def _keep_picture(self, data: bytes, alt: str) -> Picture:
        from hermes.tools.picture_storage import store_picture

        artifacts = self._context.application.agent_dependencies.artifacts
        return await store_picture(artifacts, self.run_id, "photo", data, alt)

    async def _take_turns(self, conversation: Conversation) -> None:
        if conversation.open:  # it was cut off
            await self._run_turn(conversation.finish_open_turn, self._turns.person)
            self._take_back_steering(conversation, self._turns.person)
        await self._queue_answers()
        while not self.closing:
            if not self._ready:
                if not await self._wait_for_more():
                    return
                continue
            item = self._ready.popleft()
            if isinstance(item, IdleCommand):
                await self._run_command(conversation, item)
            elif item.key not in self._turns.keys:
                await self._take_turn(conversation, item)

    async def _wait_for_more(self) -> bool:
        """Return False when the session is idle and nothing of it runs in the background."""
        changed = self._changed
        with anyio.move_on_after(self._context.idle_close_s):
            await changed.wait()
        if self._ready or self._incoming or self._preparing or self.closing:
            return True
        if changed.is_set() or self._context.application.has_running_processes(self.run_id):
            return True
        self.closing = True
        return False

    async def _take_turn(self, conversation: Conversation, message: PreparedMessage) -> None:
        async def say() -> str:
            return await conversation.say(
                message.text,
                attached=message.attached,
                pictures=message.pictures,
                by=message.person,
                key=message.key,
            )

        if self._context.limits.is_full(message.person):
            await self._publish(queue_text(self.run_id, self.to, LIMIT_TEXT))
        async with self._context.limits.slot(message.person):
            await self._run_turn(say, message.person)
        self._take_back_steering(conversation, message.person)
        await self._queue_answers()

    async def _run_turn(self, work: Callable[[], Awaitable[object]], person: str) -> None:
        display = self._display()
        if self._thread is not None:
            await self._thread.update()
        async with anyio.create_task_group() as group:
            group.start_soon(display.run)
            self.turn_running, self._turn_person = True, person
            try:
                await work()
            except StoreError:
                raise
            except HermesError:
                pass  # the end of the turn says so in the journal
            finally:
                self.turn_running = False
                group.cancel_scope.cancel()

    def _take_back_steering(self, conversation: Conversation, person: str) -> None:
        """Messages that came too late for a turn that was stopped or failed get their own."""
        for left in reversed(conversation.take_waiting()):
            self._ready.appendleft(
                PreparedMessage(left.key, person, left.text, left.attached, left.pictures)
            )

    async def _run_command(self, conversation: Conversation, command: IdleCommand) -> None:
        try:
            text = await command.run(conversation)
        except HermesError as error:
            text = str(error)
        await self._tell(text, (command.key,), "command")

    async def _ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask the people of the chat; None when no one answers in time."""
        asked = self._question = OpenQuestion(secrets.token_hex(4), tuple(choices))
        listed = "".join(f"\n{number}. {each}" for number, each in enumerate(choices, 1))
        text = f"❓ {question}{listed}"
        try:
            await self._publish(
                queue_text(self.run_id, self.to, text, about="question", buttons=asked.buttons())
            )
            with anyio.move_on_after(QUESTION_TIMEOUT_S):
                return await asked.wait()
            return None
        finally:
            self._question = None

    def answer_question(self, id: str) -> bool:
        """A button of a question was pressed; False when it is not open any more."""
        question, _, number = id.partition(".")
        if self._question is None or self._question.id != question or not number.isdecimal():
            return False
        return self._question.choose(int(number))

    def _display(self) -> TurnDisplay:
        to = Address.parse(self.to)
        application = self._context.application
        return TurnDisplay(
            lambda: self._context.channels.get(to.channel),
            to,
            application.bus,
            self.run_id,
            mode=chat_progress_mode(application.loaded.settings.display),
            interval_s=self._context.settings.progress_every,
        )

    async def _queue_answers(self) -> None:
        """Queue the answers of all turns that have ended since, also before a crash."""
        await self._update_turns()
        for turn in self._turns.unanswered():
            text, files = split_sendable_media(
                self._answer_text(turn),
                self._context.application,
                self._context.folder,
                self.run_id,
            )
            if self._context.sessions.is_spoken(self.session):
                spoken, problem = await self._context.voice.speak_answer(text)
                files = (*files, spoken) if spoken else files
                text = f"{text}\n\n{problem}" if problem else text
            await anyio.sleep(human_delay_s(self._context.settings, text, self._context.draw))
            await self._publish(*answer_events(self.run_id, self.to, turn, text, files))
        await self._update_turns()
        self._context.sessions.touch(self.run_id, datetime.now(UTC))

    def _answer_text(self, turn: ChatTurn) -> str:
        replaced = self._interrupted_by_message
        self._interrupted_by_message = False
        if replaced and turn.ended is not None and turn.ended.outcome == "interrupted":
            return ""  # the next message is answered instead
        return turn.text

    async def _tell(self, text: str, keys: Sequence[str], outcome: ChatOutcome) -> None:
        await self._publish(
            queue_text(self.run_id, self.to, text), mark_handled(self.run_id, keys, outcome)
        )

    async def _refuse_all(self, text: str) -> None:
        waiting = [message_key(event.message) for event in self._incoming]
        waiting += [item.key for item in self._ready]
        if waiting:
            await self._tell(text, waiting, "refused")

    async def _publish(self, *events: Event) -> None:
        for _, event in await self._context.application.bus.record(*events):
            self._context.sessions.apply(event)

    async def _update_turns(self) -> None:
        journal, turns = self._context.application.journal, self._turns
        async for recorded in journal.read(after=turns.last_seq, run=self.run_id):
            turns.apply(recorded.seq, recorded.event)
