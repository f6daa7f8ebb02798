"""Works on one session: one turn after the other, in an environment of its own.

It lives while the session is in use. Later the next message begins another one, from the journal.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio

from hermes.agent.conversation import Conversation
from hermes.app.chats.context import ChatContext
from hermes.app.chats.media import split_sendable_media
from hermes.app.chats.preparation import MessagePreparation, PreparedMessage
from hermes.app.chats.progress import TurnDisplay, chat_progress_mode
from hermes.app.chats.replies import (
    ChatTurn,
    ChatTurns,
    OpenQuestion,
    answer_events,
    human_delay_s,
    mark_handled,
    queue_text,
)
from hermes.app.tools.tooling import configured_environment
from hermes.core.channels import Address
from hermes.core.errors import HermesError, StoreError
from hermes.core.events.chats import ChatOutcome, ChatReceived, message_key
from hermes.core.tool_calls import OpenToolCalls

if TYPE_CHECKING:
    from hermes.app.chats.incident_threads import IncidentThread

QUESTION_TIMEOUT_S = 1800.0
"""Seconds that a question of the agent waits for an answer."""
FULL_TEXT = "{count} messages wait already, so this one is not answered; send it again later."
LIMIT_TEXT = "Other turns are running. This one begins when one of them ends."
RESTARTED_TEXT = "Hermes was restarted before it could do this; send it again."


@dataclass(frozen=True)
class IdleCommand:
    """A command of a chat that needs the conversation between two turns."""

    key: str
    run: Callable[[Conversation], Awaitable[str]]


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
        self.idle_since = 0.0
        """On the clock of the event loop; 0 while there is work."""
        self._context = context
        self._incoming: deque[ChatReceived] = deque()
        self._ready: deque[PreparedMessage | IdleCommand] = deque()
        self._changed = anyio.Event()
        self._turns = ChatTurns()
        self._preparing = 0
        self._interrupted_by_message = False
        self._question: OpenQuestion | None = None
        self._thread = _open_thread(context, incident) if incident else None
        self._preparation = MessagePreparation(context, run, to)

    @property
    def waiting(self) -> int:
        steered = self.conversation.waiting if self.conversation is not None else 0
        return len(self._incoming) + len(self._ready) + self._preparing + steered

    @property
    def may_close(self) -> bool:
        """Return whether nobody waits for this session and nothing of it runs."""
        return self.idle_since > 0 and not (self.waiting or self.closing or self._has_processes())

    def _has_processes(self) -> bool:
        return self._context.application.has_running_processes(self.run_id)

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
        preparation = self._preparation
        parts = await preparation.hear(event) if event.message.voice else None
        if parts is None and event.message.voice:
            return
        own_turn = self.turn_running and event.person == self._turn_person
        addressed = event.message.direct or bool(event.message.quoted)
        if self._question is not None and own_turn and addressed:
            self._question.answer(parts.heard if parts else event.message.text)
            await self._context.publish(mark_handled(self.run_id, (key,), "answer"))
            return
        if self.waiting > settings.max_waiting:
            text = FULL_TEXT.format(count=settings.max_waiting)
            await self._tell(text, (key,), "refused")
            return
        message = await preparation.prepare(event, parts or await preparation.read_parts(event))
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
        self.idle_since = anyio.current_time()
        with anyio.move_on_after(self._context.idle_close_s):
            await changed.wait()
        self.idle_since = 0.0
        if self._ready or self._incoming or self._preparing or self.closing:
            return True
        if changed.is_set() or self._has_processes():
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
            await self._context.publish(queue_text(self.run_id, self.to, LIMIT_TEXT))
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
        asked = self._question = OpenQuestion(question, tuple(choices))
        try:
            await self._context.publish(asked.queue(self.run_id, self.to))
            with anyio.move_on_after(QUESTION_TIMEOUT_S):
                return await asked.wait()
            return None
        finally:
            self._question = None

    def answer_question(self, id: str) -> bool:
        """A button of a question was pressed; False when it is not open any more."""
        return self._question is not None and self._question.choose(id)

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
            await self._context.publish(*answer_events(self.run_id, self.to, turn, text, files))
        await self._update_turns()
        self._context.sessions.touch(self.run_id, datetime.now(UTC))

    def _answer_text(self, turn: ChatTurn) -> str:
        replaced = self._interrupted_by_message
        self._interrupted_by_message = False
        if replaced and turn.ended is not None and turn.ended.outcome == "interrupted":
            return ""  # the next message is answered instead
        return turn.text

    async def _tell(self, text: str, keys: Sequence[str], outcome: ChatOutcome) -> None:
        await self._context.publish(
            queue_text(self.run_id, self.to, text), mark_handled(self.run_id, keys, outcome)
        )

    async def _refuse_all(self, text: str) -> None:
        waiting = [message_key(event.message) for event in self._incoming]
        waiting += [item.key for item in self._ready]
        if waiting:
            await self._tell(text, waiting, "refused")

    async def _update_turns(self) -> None:
        journal, turns = self._context.application.journal, self._turns
        async for recorded in journal.read(after=turns.last_seq, run=self.run_id):
            turns.apply(recorded.seq, recorded.event)
