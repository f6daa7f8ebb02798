"""The chats of a gateway: messages are recorded, assigned to sessions, and worked on.

A message is in the journal before its platform learns that it was received. Each gets exactly one
turn, or another outcome, also when the process ends in between.
"""

import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from hermes.app.chats.commands import (
    CommandCall,
    find_command,
    parse_command,
    unknown_command_text,
)
from hermes.app.chats.context import ChatContext
from hermes.app.chats.preparation import make_hints
from hermes.app.chats.replies import mark_handled, process_text, queue_text
from hermes.app.chats.sessions import ChatState, last_references, state_after
from hermes.app.chats.unheard import UnheardMessages
from hermes.app.chats.worker import RESTARTED_TEXT, SessionWorker
from hermes.core.channels import (
    Address,
    AnswersPresses,
    CatchesUp,
    Channel,
    InboundMessage,
    OpensThreads,
    parse_press,
)
from hermes.core.errors import DeliveryError, HermesError
from hermes.core.events import Event
from hermes.core.events.chats import (
    ChatOutcome,
    ChatReceived,
    ChatSessionEnded,
    ChatVoiceChosen,
    message_key,
)
from hermes.core.people import People
from hermes.core.run_ids import new_id
from hermes.gateway.inbox import Inbox, session_of
from hermes.gateway.outbox import Outbox
from hermes.gateway.settings import ChannelSettings
from hermes.plumbing.long_running import HeapTrim

SHUTDOWN_GRACE_S = 20.0
"""Seconds that running turns have to end, all together, when the gateway is stopped. The rest is
resumed by the next process, also turns that wait for a person."""
MAX_THREAD_TITLE_CHARS = 60


class ChatService:
    """`run` resumes what an earlier process left, then works until it is cancelled."""

    def __init__(
        self,
        context: ChatContext,
        unheard: UnheardMessages,
        outbox: Outbox,
    ) -> None:
        self.application = context.application
        self._context = context
        self._unheard = unheard
        self._outbox = outbox
        self._inboxes: dict[str, Inbox] = {}
        self._workers: dict[str, SessionWorker] = {}
        self._heap_trim = HeapTrim()
        self._group: TaskGroup | None = None
        self._receiving = anyio.Lock()
        self.shutdown_grace_s = SHUTDOWN_GRACE_S
        self._finish_at: float | None = None
        """When running turns are cut off; None while messages are received."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """When it is cancelled, running turns have some time to end; the rest stays resumable."""
        await self._context.sessions.load(self.application.journal, datetime.now(UTC))
        async with anyio.create_task_group() as group:
            scope = await group.start(self._work)
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await self.finish()
                scope.cancel()

    async def _work(self, *, task_status: TaskStatus[anyio.CancelScope]) -> None:
        with anyio.CancelScope(shield=True) as scope:
            async with anyio.create_task_group() as self._group:
                self._group.start_soon(self._report_processes)
                for event in list(self._context.sessions.waiting.values()):
                    await self._dispatch(event, resumed=True)
                task_status.started(scope)
                await anyio.sleep_forever()

    async def finish(self) -> None:
        """Receive nothing more, and give running turns some time to end, once."""
        if self._finish_at is None:
            self._finish_at = anyio.current_time() + self.shutdown_grace_s
        with anyio.CancelScope(deadline=self._finish_at):
            await self._finish_turns()

    async def _finish_turns(self) -> None:
        working = [worker for worker in self._workers.values() if worker.turn_running]
        for worker in working:
            worker.finish()
        async with anyio.create_task_group() as group:
            for worker in working:
                group.start_soon(worker.wait_for_end)

    async def listen(self, channel: Channel, settings: ChannelSettings) -> None:
        """Receive messages of a connected channel. Raises `ChannelFailed` when it ends."""
        if isinstance(channel, CatchesUp):
            channel.resume(await last_references(self.application.journal, channel.name))
        async for message in channel.listen():
            await self.receive(channel, settings, message)

    async def receive(
        self, channel: Channel, settings: ChannelSettings, message: InboundMessage
    ) -> None:
        """Record a message if it is for Hermes; the caller acknowledges it afterwards."""
        if self._finish_at is not None:
            await anyio.sleep_forever()  # not acknowledged, so the platform sends it again
        async with self._receiving:
            if self._context.sessions.is_known(message_key(message)):
                return
            people = await self.application.people.current()
            decision = self._inbox(channel.name, settings, people).decide(message, time.monotonic())
            if decision.verdict != "heard":
                # Others must not wait for the answer to a stranger.
                assert self._group is not None
                self._group.start_soon(self._unheard.answer, message, decision)
                return
            event = await self._assign(channel, settings, message, people)
            # Recorded together: after a crash the hint is neither missing nor there twice.
            hints = await self._hints(event)
            (_, recorded), *_ = await self.application.bus.record(event, *hints)
            assert isinstance(recorded, ChatReceived)
            self._context.sessions.apply(recorded)
        await self._dispatch(recorded)

    def _inbox(self, channel: str, settings: ChannelSettings, people: People) -> Inbox:
        inbox = self._inboxes.get(channel)
        if inbox is None:
            inbox = self._inboxes[channel] = Inbox(
                settings,
                people,
                self._is_own_thread,
                max_messages_per_minute=self._context.settings.max_messages_per_minute,
            )
        inbox.people = people
        return inbox

    def _is_own_thread(self, address: Address) -> bool:
        return self._context.sessions.has_thread(address) or bool(
            self._outbox.incident_of_thread(address)
        )

    async def _hints(self, event: ChatReceived) -> list[Event]:
        message = event.message
        answers = bool(message.quoted) and self._looks_like_answer(message)
        if message.pressed or parse_command(message.text) or answers:
            return []
        return await make_hints(self.application.journal, event, message.text)

    async def _assign(
        self,
        channel: Channel,
        settings: ChannelSettings,
        message: InboundMessage,
        people: People,
    ) -> ChatReceived:
        """The message with its session, its run and its person."""
        thread = await self._thread_for(channel, message)
        session = session_of(message, thread)
        now = datetime.now(UTC)
        return ChatReceived(
            run=await self._run_for(session, now),
            at=now,
            message=message,
            session=session,
            to=str(thread or message.address),
            person=people.actor_of(channel.name, message.sender),
            incident=self._incident_of(message, settings.home_chat),
        )

    def _incident_of(self, message: InboundMessage, home_chat: str) -> str:
        """The incident whose thread it is in; without threads, the one that it answers."""
        address = message.address
        if address.thread:
            return self._outbox.incident_of_thread(address)
        if message.quoted and not message.pressed:
            return self._outbox.incident_of_message(address, message.quoted, home_chat)
        return ""

    async def _thread_for(self, channel: Channel, message: InboundMessage) -> Address | None:
        """A mention in a group opens a thread, where the platform has threads."""
        if message.direct or message.address.thread or message.pressed:
            return None
        if parse_command(message.text) or not isinstance(channel, OpensThreads):
            return None
        title = " ".join(message.text.split())[:MAX_THREAD_TITLE_CHARS] or "Hermes"
        try:
            opened = await channel.open_thread(message.address, title, message.reference)
        except DeliveryError:
            return None
        return opened if opened != message.address else None

    async def _run_for(self, session: str, now: datetime) -> str:
        sessions = self._context.sessions
        state = sessions.current(session)
        if state is None:
            return new_id("run")
        reason = sessions.why_over(state, now)
        worker = self._workers.get(session)
        working = worker is not None and (worker.turn_running or worker.waiting > 0)
        if not reason or working or self.application.has_running_processes(state.run):
            return state.run
        await self._context.publish(ChatSessionEnded(run=state.run, session=session, reason=reason))
        if worker is not None:
            worker.close()
        return new_id("run")

    async def _dispatch(self, event: ChatReceived, *, resumed: bool = False) -> None:
        message = event.message
        plain = not (message.voice or message.edited)
        command = parse_command(message.text) if plain and not message.attached else None
        if message.pressed:
            self._start(self._take_press, event)
        elif command and resumed:
            await self._tell(event, RESTARTED_TEXT, "expired")
        elif command:
            self._start(self._run_command, event)
        elif message.quoted and self._looks_like_answer(message):
            self._start(self._take_text_answer, event)
        else:
            self.worker_for(event).submit(event)

    def _start(
        self, work: Callable[[ChatReceived], Coroutine[Any, Any, None]], event: ChatReceived
    ) -> None:
        assert self._group is not None
        self._group.start_soon(work, event)

    def worker_for(self, event: ChatReceived) -> SessionWorker:
        return self.worker_of(state_after(event))

    def worker_of(self, state: ChatState) -> SessionWorker:
        before = self._workers.get(state.session)
        if before is not None and not before.closing and before.run_id == state.run:
            return before
        incident = self._outbox.incident_of_thread(Address.parse(state.to))
        worker = SessionWorker(self._context, state.run, state.session, state.to, incident=incident)
        self._workers[state.session] = worker
        self._limit_open_sessions()
        assert self._group is not None
        self._group.start_soon(self._keep_worker, worker, before)
        return worker

    def _limit_open_sessions(self) -> None:
        """Close the session that has been idle for longest; its next message opens it again."""
        if len(self._workers) > self._context.max_open:
            idle = [worker for worker in self._workers.values() if worker.may_close]
            if idle:
                min(idle, key=lambda worker: worker.idle_since).finish()

    async def _keep_worker(self, worker: SessionWorker, before: SessionWorker | None) -> None:
        """Run the task of one session; its failure ends no other session."""
        try:
            await worker.work(before)
        finally:
            if self._workers.get(worker.session) is worker:
                del self._workers[worker.session]
            self._heap_trim.note_release()

    def running_worker(self, session: str) -> SessionWorker | None:
        return self._workers.get(session)

    async def end_session(self, state: ChatState, by: str) -> None:
        await self._context.publish(ChatSessionEnded(run=state.run, session=state.session, by=by))
        worker = self._workers.get(state.session)
        if worker is not None:
            worker.close()

    async def _run_command(self, event: ChatReceived) -> None:
        found = parse_command(event.message.text)
        assert found is not None
        name, argument = found
        command = find_command(name)
        if command is None:
            await self._tell(event, unknown_command_text(name), "command")
            return
        state = self._context.sessions.current(event.session)
        begun = state if state is not None and await self._has_begun(state.run) else None
        try:
            text = await command.run(CommandCall(self, event, argument, begun))
        except HermesError as error:
            text = str(error)
        if text is not None:
            await self._tell(event, text, "command")
        elif name == "stop":  # the end of the turn is reported
            handled = mark_handled(event.run, (message_key(event.message),), "command")
            await self._context.publish(handled)

    async def _has_begun(self, run: str) -> bool:
        async for _ in self.application.journal.read(run=run, kinds=("run.started",)):
            return True
        return False

    async def _take_press(self, event: ChatReceived) -> None:
        text = await self._answer_press(event)
        channel = self._context.channels.get(event.message.address.channel)
        handled = mark_handled(event.run, (message_key(event.message),), "press")
        if event.message.press and isinstance(channel, AnswersPresses):
            try:
                await channel.answer_press(event.message.press, text)
                await self._context.publish(handled)
                return
            except HermesError:
                pass  # too late for a private answer
        await self._context.publish(queue_text(event.run, event.to, text), handled)

    async def _answer_press(self, event: ChatReceived) -> str:
        from hermes.app.chats.presses import OLD_BUTTON_TEXT, answer_press

        pressed = parse_press(event.message.pressed)
        if pressed is not None and pressed[0] == "answer":
            worker = self._workers.get(event.session)
            taken = worker is not None and worker.answer_question(pressed[1])
            return "Thank you." if taken else OLD_BUTTON_TEXT
        try:
            return await answer_press(self.application, event)
        except HermesError as error:
            return str(error)

    def _looks_like_answer(self, message: InboundMessage) -> bool:
        from hermes.gateway.answers import read_answer

        return read_answer(message, "") is not None

    async def _take_text_answer(self, event: ChatReceived) -> None:
        from hermes.app.chats.presses import answer_in_words

        text = await answer_in_words(self.application, event)
        if text is None:
            self.worker_for(event).submit(event)
        else:
            await self._tell(event, text, "press")

    async def answer_approval(self, event: ChatReceived, approval: str, verb: str) -> str:
        from hermes.app.chats.presses import answer_by_command

        return await answer_by_command(self.application, event, approval, verb)

    async def acknowledge(self, event: ChatReceived, incident: str) -> str:
        from hermes.app.incidents.actions import acknowledge_incident

        application = self.application
        outcome = await acknowledge_incident(
            application.loaded, application.journal, incident, person=event.person
        )
        return outcome.text

    async def choose_voice(self, event: ChatReceived, *, on: bool) -> None:
        chosen = ChatVoiceChosen(run=event.run, session=event.session, on=on, by=event.person)
        await self._context.publish(chosen)

    async def _report_processes(self) -> None:
        """Tell a chat about the processes that its session started."""
        after = await self.application.journal.last()
        async for recorded in self.application.bus.follow(after=after):
            text = process_text(recorded)
            state = self._context.sessions.by_run(recorded.event.run) if text else None
            if state is not None:
                await self._context.publish(queue_text(state.run, state.to, text, about="result"))

    async def _tell(self, event: ChatReceived, text: str, outcome: ChatOutcome) -> None:
        await self._context.publish(
            queue_text(event.run, event.to, text),
            mark_handled(event.run, (message_key(event.message),), outcome),
        )
