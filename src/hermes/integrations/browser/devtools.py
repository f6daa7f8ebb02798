"""Speaks the DevTools protocol of Chromium: commands with answers, and events by session.

One JSON message follows the other, each ended by a NUL byte on a pipe. No library is needed for it.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import anyio
import msgspec

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.protocols import PipedProcess

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_LAST_WORDS_CHARS = 300
COMMAND_TIMEOUT_S = 15.0

Listener = Callable[[str, dict[str, Any]], None]
"""Gets the name and the parameters of an event; must not wait."""


class BrowserGone(ToolError):
    """The browser ended; the next call starts a new one."""


class CommandRefused(ToolError):
    """The browser refused a command."""


class PageUnresponsive(ToolError):
    """The page did not answer in time."""


class MessageTransport(Protocol):
    """Carries whole messages. Raises `EnvironmentFailed` when the other side is gone."""

    async def send(self, message: bytes) -> None: ...
    async def receive(self) -> bytes:
        """The next message; empty at the end."""

    def last_words(self) -> str:
        """Return what it said before it ended; empty when that is not known."""


class PipeTransport:
    """Messages over the pipes of a process, each ended by a NUL byte."""

    def __init__(self, process: PipedProcess) -> None:
        self._process, self._lock = process, anyio.Lock()
        self._pending = bytearray()

    async def send(self, message: bytes) -> None:
        async with self._lock:  # a long message is written in several parts
            await self._process.send(message + b"\0")

    async def receive(self) -> bytes:
        searched = 0
        while (end := self._pending.find(b"\0", searched)) < 0:
            searched = len(self._pending)
            if searched > MAX_MESSAGE_BYTES:
                raise EnvironmentFailed("the browser sent a message that is too long")
            data = await self._process.receive()
            if not data:
                return b""
            self._pending += data
        message = bytes(self._pending[:end])
        del self._pending[: end + 1]
        return message

    def last_words(self) -> str:
        lines = self._process.last_errors().splitlines()
        errors = [line for line in lines if line.strip() and "dbus" not in line]
        return errors[-1].strip()[-MAX_LAST_WORDS_CHARS:] if errors else ""


class _Answer:
    def __init__(self, session: str) -> None:
        self.session, self.arrived = session, anyio.Event()
        self.result: dict[str, Any] = {}
        self.error: ToolError | None = None

    def settle(self, result: dict[str, Any], error: ToolError | None = None) -> None:
        self.result, self.error = result, error
        self.arrived.set()


class DevTools:
    """A connection to one browser. `run` must be running while commands are sent."""

    def __init__(self, transport: MessageTransport) -> None:
        self._transport = transport
        self._answers: dict[int, _Answer] = {}
        self._listeners: dict[str, Listener] = {}
        self._number = 0
        self.ended = anyio.Event()

    def listen(self, session: str, listener: Listener) -> None:
        """`session` is empty for events of the browser itself."""
        self._listeners[session] = listener

    def forget(self, session: str, why: ToolError) -> None:
        """The session ended: nothing answers in it any more."""
        self._listeners.pop(session, None)
        self.fail(session, why)

    def fail(self, session: str, why: ToolError) -> None:
        """Ends the commands that wait in this session."""
        for answer in self._answers.values():
            if answer.session == session:
                answer.settle({}, why)

    async def post(
        self, method: str, parameters: Mapping[str, Any] | None = None, *, session: str = ""
    ) -> None:
        """Sends a command whose answer does not matter."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        with suppress(EnvironmentFailed):
            await self._transport.send(msgspec.json.encode(message))

    async def run(self) -> None:
        """Reads messages until the browser ends."""
        try:
            while message := await self._transport.receive():
                self._take(message)
        except EnvironmentFailed:
            pass
        finally:
            self.ended.set()
            for answer in self._answers.values():
                answer.settle({}, self._gone())

    def _gone(self) -> BrowserGone:
        words = self._transport.last_words()
        return BrowserGone(f"the browser has ended{f': {words}' if words else ''}")

    async def call(
        self,
        method: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        session: str = "",
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> dict[str, Any]:
        """Raises `BrowserGone`, `CommandRefused` and `PageUnresponsive`."""
        if self.ended.is_set():
            raise self._gone()
        self._number += 1
        number, answer = self._number, _Answer(session)
        self._answers[number] = answer
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        try:
            await self._transport.send(msgspec.json.encode(message))
            with anyio.move_on_after(timeout_s) as scope:
                await answer.arrived.wait()
        except EnvironmentFailed as error:
            raise self._gone() from error
        finally:
            self._answers.pop(number, None)
        if scope.cancelled_caught:
            raise PageUnresponsive(
                f"the page did not answer within {timeout_s:.0f} s ({method}); "
                "browser_navigate opens it again, or another one"
            )
        if answer.error is not None:
            raise answer.error
        return answer.result

    def _take(self, message: bytes) -> None:
        try:
            found = msgspec.json.decode(message)
        except msgspec.DecodeError:
            return  # not a message of the protocol
        if not isinstance(found, dict):
            return
        number, session = found.get("id"), found.get("sessionId", "")
        if isinstance(number, int):
            if (answer := self._answers.get(number)) is not None:
                answer.settle(found.get("result") or {}, _refusal(found.get("error")))
        elif (listener := self._listeners.get(session)) is not None:
            listener(str(found.get("method")), found.get("params") or {})


def _refusal(error: Any) -> ToolError | None:
    if not error:
        return None
    text = error.get("message", error) if isinstance(error, dict) else error
    return CommandRefused(f"the browser refused: {text}")
