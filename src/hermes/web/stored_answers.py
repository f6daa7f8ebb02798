"""Answers kept for `Idempotency-Key`: the same request, sent again, gets the same answer.

A file says that a request was begun, before anything is done for it; so a request is not done twice
either when Hermes ends in the middle of it.
"""

import dataclasses
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path

import anyio.to_thread
import msgspec

from hermes.core.messages import Value
from hermes.plumbing.files import write_atomically
from hermes.plumbing.http_service import HttpRefusal, HttpReply, HttpRequest

ANSWER_LIFETIME = timedelta(hours=24)
CLEANING_INTERVAL = timedelta(hours=1)
MAX_KEY_CHARS = 255
RETRY_AFTER_S = "2"
REPEATED_HEADER = {"idempotent-replayed": "true"}

Responder = Callable[[HttpRequest], Awaitable[HttpReply]]


class StoredAnswer(Value, kw_only=True, frozen=True):
    """The file of one key."""

    request: str
    """Digest of method, path, query and body."""
    begun_at: datetime
    status: int = 0
    """0 while there is no answer."""
    content_type: str = ""
    headers: dict[str, str] = {}
    body: bytes = b""


class AnswerStore:
    """Stores answers in one folder for one server. It reads and writes in threads."""

    def __init__(
        self, folder: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._folder = folder
        self._now = now
        self._running: set[Path] = set()
        self._cleaned_at = datetime.min.replace(tzinfo=UTC)

    async def answer_once(self, request: HttpRequest, token: str, respond: Responder) -> HttpReply:
        """The answer of the first such request. Raises `HttpRefusal`.

        A request that was refused has done nothing, and may be sent again.
        """
        file = self._folder / f"{_key_digest(token, _check_key(request))}.json"
        wanted = _request_digest(request)
        if file in self._running:
            message = "the first request with this Idempotency-Key is still being worked on"
            raise HttpRefusal(HTTPStatus.CONFLICT, message, retry_after=RETRY_AFTER_S)
        self._running.add(file)
        streaming = False
        try:
            known = await anyio.to_thread.run_sync(self._read, file)
            if known is not None:
                return _repeat(known, wanted)
            begun = StoredAnswer(request=wanted, begun_at=self._now())
            await anyio.to_thread.run_sync(self._write, file, begun)
            # A client that hangs up may come back for its answer.
            kept = dataclasses.replace(request, disconnected=anyio.sleep_forever)
            reply = await self._respond(file, kept, respond)
            if reply.stream is not None:
                streaming = True
                return dataclasses.replace(
                    reply, stream=self._record(file, begun, reply, reply.stream)
                )
            await self._keep(file, begun, reply, reply.body)
            return reply
        finally:
            if not streaming:
                self._running.discard(file)

    async def _respond(self, file: Path, request: HttpRequest, respond: Responder) -> HttpReply:
        try:
            return await respond(request)
        except HttpRefusal:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_remove, file)
            raise

    async def _record(
        self, file: Path, begun: StoredAnswer, reply: HttpReply, stream: AsyncIterator[bytes]
    ) -> AsyncGenerator[bytes, None]:
        """Pass a stream on, and keep it when it was read to its end."""
        parts = bytearray()
        try:
            async for part in stream:
                parts += part
                yield part
            await self._keep(file, begun, reply, bytes(parts))
        finally:
            self._running.discard(file)
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    async def _keep(self, file: Path, begun: StoredAnswer, reply: HttpReply, body: bytes) -> None:
        answer = msgspec.structs.replace(
            begun,
            status=int(reply.status),
            content_type=reply.content_type,
            headers=dict(reply.headers),
            body=body,
        )
        # What was asked for is done: it is answered, also where the answer cannot be kept.
        with anyio.CancelScope(shield=True), suppress(HttpRefusal):
            await anyio.to_thread.run_sync(self._write, file, answer)

    def _read(self, file: Path) -> StoredAnswer | None:
        """Return None where there is none that is still valid."""
        self._remove_old()
        try:
            known = msgspec.json.decode(file.read_bytes(), type=StoredAnswer)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            message = "the answers to earlier requests cannot be read; look at them first"
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message) from error
        return known if known.begun_at > self._now() - ANSWER_LIFETIME else None

    def _write(self, file: Path, answer: StoredAnswer) -> None:
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(file, msgspec.json.encode(answer))
        except OSError as error:
            message = "the answer cannot be kept for a repeated request; is the disk full?"
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message, retry_after="5") from error

    def _remove_old(self) -> None:
        now = self._now()
        if now - self._cleaned_at < CLEANING_INTERVAL:
            return
        self._cleaned_at = now
        oldest_s = (now - ANSWER_LIFETIME).timestamp()
        with suppress(OSError):
            for file in list(self._folder.iterdir()):
                if file.stat().st_mtime < oldest_s:
                    file.unlink(missing_ok=True)


def _check_key(request: HttpRequest) -> str:
    key = request.headers["idempotency-key"]
    if not 1 <= len(key) <= MAX_KEY_CHARS or not key.isascii() or not key.isprintable():
        message = f"an Idempotency-Key has 1 to {MAX_KEY_CHARS} printable ASCII characters"
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, message)
    return key


def _repeat(known: StoredAnswer, wanted: str) -> HttpReply:
    """Raises `HttpRefusal`."""
    if known.request != wanted:
        message = "this Idempotency-Key was used for another request; choose a new one"
        raise HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, message)
    if not known.status:
        message = (
            "the first request with this Idempotency-Key was interrupted, and nobody knows how far "
            "it came; look at the result before you send it with a new key"
        )
        raise HttpRefusal(HTTPStatus.CONFLICT, message)
    return HttpReply(
        status=HTTPStatus(known.status),
        body=known.body,
        content_type=known.content_type,
        headers={**known.headers, **REPEATED_HEADER},
    )


def _remove(file: Path) -> None:
    with suppress(OSError):
        file.unlink(missing_ok=True)


def _key_digest(token: str, key: str) -> str:
    return hashlib.sha256(f"{token}\n{key}".encode()).hexdigest()


def _request_digest(request: HttpRequest) -> str:
    head = [request.method, request.path, sorted(request.query.items())]
    return hashlib.sha256(msgspec.json.encode(head) + request.body).hexdigest()
