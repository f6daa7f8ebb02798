"""One session of an editor: its conversation, turn by turn."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import anyio
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream

from hermes.acp.editor_files import EditorFiles
from hermes.acp.permissions import ASK_MODE, EditorApprover, EditorPolicy
from hermes.acp.updates import SessionUpdates
from hermes.core.actions import Policy
from hermes.core.bus import Bus, BusItem
from hermes.core.errors import HermesError, SettingsError
from hermes.core.events.runs import TurnEnded
from hermes.core.messages import AttachedText, Picture, Value

STOP_REASONS = {
    "answered": "end_turn",
    "interrupted": "cancelled",
    "exhausted": "max_turn_requests",
}
CLOSED = "the session was closed"


class EditorConversation(Protocol):
    """A conversation of the agent."""

    @property
    def ended(self) -> TurnEnded | None: ...

    async def say(
        self,
        text: str,
        *,
        attached: Sequence[AttachedText] = (),
        pictures: Sequence[Picture] = (),
    ) -> str: ...


@dataclass(frozen=True)
class OpenedConversation:
    conversation: EditorConversation
    bus: Bus
    keep_picture: Callable[[bytes], Awaitable[Picture]]
    """Raises `ToolError` for what is no picture."""


@dataclass(frozen=True)
class EditorPrompt:
    """The words of the person, and what they attached."""

    text: str
    attached: tuple[AttachedText, ...] = ()
    pictures: tuple[bytes, ...] = ()


class SessionSummary(Value, kw_only=True, frozen=True):
    id: str
    folder: str
    title: str = ""
    last_at: datetime


class EditorBackend(Protocol):
    """Opens and lists sessions. Raises `HermesError`."""

    def open(
        self, session: "EditorSession", *, resume: bool
    ) -> AbstractAsyncContextManager[OpenedConversation]:
        """The conversation of a session: a new one, or the one with its id."""

    async def sessions(self, folder: str) -> Sequence[SessionSummary]:
        """Sessions of the user of this process; in one folder, or (empty) in all."""


@dataclass
class _Turn:
    prompt: EditorPrompt
    stop_reason: str = "cancelled"
    problem: str = ""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)


class EditorSession:
    """A session and its permissions. `id` is that of its run."""

    def __init__(self, client: Any, id: str, folder: str, files: tuple[bool, bool]) -> None:
        """`files`: whether the editor lets an agent read and write them."""
        self.id = id
        self.folder = folder
        self.mode = ASK_MODE
        self.notice = ""
        """Notes that the person gets with the first turn."""
        self._client = client
        self._updates = SessionUpdates(id, folder)
        self._files = files
        self.approver = EditorApprover(client, id, self._updates)
        self._policy: EditorPolicy | None = None
        self._opened: OpenedConversation | None = None
        self._turn: _Turn | None = None
        self._send, self._receive = anyio.create_memory_object_stream[_Turn](1)
        self._scope = anyio.CancelScope()
        self._closed = anyio.Event()

    def guard(self, policy: Policy, look: Policy) -> Policy:
        """The rules with the mode of this session and what its person refused."""
        self._policy = EditorPolicy(policy, look)
        self._policy.mode = self.mode
        self.approver.refuse = self._policy.refuse
        return self._policy

    def files(self) -> EditorFiles:
        """The files that the editor has open."""
        reads, writes = self._files
        return EditorFiles(
            self._client,
            self.id,
            (self.folder,),
            reads=reads,
            writes=writes,
            note_written=self._updates.note_written,
        )

    @property
    def started(self) -> bool:
        return self._opened is not None

    def set_mode(self, mode: str) -> None:
        self.mode = mode
        if self._policy is not None:
            self._policy.mode = mode

    async def serve(
        self, backend: EditorBackend, *, resume: bool, task_status: TaskStatus[None]
    ) -> None:
        """Work on turns until closed."""
        try:
            with self._scope:
                async with backend.open(self, resume=resume) as self._opened:
                    task_status.started()
                    while True:
                        await self._work(await self._receive.receive(), self._opened)
        finally:
            if self._turn is not None:
                self._turn.problem = self._turn.problem or CLOSED
                self._turn.done.set()
            self._send.close()
            self._receive.close()
            self._closed.set()

    async def prompt(self, prompt: EditorPrompt) -> str:
        """Return why the turn stopped. Raises `SettingsError` while another turn runs, and
        `HermesError` when it fails."""
        if self._closed.is_set():
            raise SettingsError(CLOSED)
        if self._turn is not None:
            raise SettingsError("a prompt is being worked on: wait for its end, or cancel it")
        turn = self._turn = _Turn(prompt)
        try:
            self._send.send_nowait(turn)
            await turn.done.wait()
        finally:
            self._turn = None
        if turn.problem:
            raise HermesError(turn.problem)
        return turn.stop_reason

    def cancel(self) -> None:
        """Stop the running turn, if there is one."""
        if self._turn is not None:
            self._turn.scope.cancel()

    async def close(self) -> None:
        self._scope.cancel()
        await self._closed.wait()

    async def replay(self) -> None:
        """Show the editor everything that was said and done before."""
        assert self._opened is not None, "the session was not started"
        updates = SessionUpdates(self.id, self.folder)
        async for recorded in self._opened.bus.journal.read(run=self.id):
            for update in updates.from_item(recorded, replayed=True):
                await self._client.session_update(self.id, update)

    async def _work(self, turn: _Turn, opened: OpenedConversation) -> None:
        if self._policy is not None:
            self._policy.forget_refusals()
        try:
            async with opened.bus.subscribe() as items:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._show_all, items)
                    await self._say(turn, opened)
                    group.cancel_scope.cancel()
                async for item in _remaining(items):
                    await self._show(item)
        finally:
            turn.done.set()

    async def _say(self, turn: _Turn, opened: OpenedConversation) -> None:
        prompt, conversation = turn.prompt, opened.conversation
        try:
            await self._tell_notice()
            with turn.scope:
                pictures = [await opened.keep_picture(each) for each in prompt.pictures]
                await conversation.say(prompt.text, attached=prompt.attached, pictures=pictures)
                ended = conversation.ended
                outcome = ended.outcome if ended is not None else "answered"
                turn.stop_reason = STOP_REASONS.get(outcome, "end_turn")
        except HermesError as error:
            turn.problem = str(error)

    async def _tell_notice(self) -> None:
        if self.notice:
            text, self.notice = self.notice, ""
            await self._client.session_update(self.id, self._updates.notice(text))

    async def _show_all(self, items: MemoryObjectReceiveStream[BusItem]) -> None:
        async for item in items:
            await self._show(item)

    async def _show(self, item: BusItem) -> None:
        with suppress(ConnectionError):  # the turn ends with the input of the editor
            for update in self._updates.from_item(item):
                await self._client.session_update(self.id, update)


async def _remaining(items: MemoryObjectReceiveStream[BusItem]) -> AsyncIterator[BusItem]:
    with suppress(anyio.WouldBlock, anyio.EndOfStream):
        while True:
            yield items.receive_nowait()
