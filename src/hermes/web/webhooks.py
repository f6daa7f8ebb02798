"""Signed requests of other programs: `POST /hooks/NAME` and `/channels/whatsapp`.

The signature is checked over the bytes as they came, before anything reads them.
"""

import hashlib
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Protocol

import anyio

from hermes.plumbing.http_service import HttpRefusal, HttpReply, HttpRequest
from hermes.plumbing.signatures import (
    BODY_SIGNATURE_HEADER,
    MAX_CLOCK_DIFFERENCE_S,
    TIME_HEADER,
    TIMED_SIGNATURE_HEADER,
    body_signature_matches,
    is_current,
    timed_signature_matches,
)
from hermes.web.answer_types import StartedJob
from hermes.web.api_routes import ApiRoute, QueryParameter, UnknownIdError

MAX_HOOK_BODY_BYTES = 2**20
MAX_STARTS_PER_MINUTE = 30
"""Of one hook."""
START_WINDOW_S = 60.0
DELIVERY_HEADERS = ("x-hermes-delivery", "x-github-delivery")


class HookJobs(Protocol):
    """The hooks of the settings, and the jobs that they start."""

    def secret(self, hook: str) -> str | None:
        """Return None when there is no such hook; empty: its secret is not set."""
        ...

    async def start(self, hook: str, body: bytes, deliveries: Sequence[str]) -> StartedJob | None:
        """Return None when a request with one of these digests has come before. Raises
        `HermesError`."""
        ...


class ChannelDeliveries(Protocol):
    """The deliveries of a platform to one of our channels."""

    def challenge(self, query: Mapping[str, str]) -> str | None:
        """Return what is answered when the platform asks whether the address is ours."""
        ...

    async def receive(self, body: bytes, signature: str) -> bool:
        """Return False when the signature is wrong. It returns after the delivery is kept.

        Raises `HermesError`.
        """
        ...


class Webhooks:
    def __init__(self, hooks: HookJobs, whatsapp: ChannelDeliveries | None) -> None:
        self._hooks = hooks
        self._whatsapp = whatsapp
        self._starts: dict[str, deque[float]] = defaultdict(deque)
        self._starting = anyio.Lock()

    def routes(self) -> list[ApiRoute]:
        channel = "/channels/whatsapp"
        return [
            ApiRoute(
                method="POST", path="/hooks/{name}", signed=True, respond=self._start,
                check_head=self._check_hook_head, answer=StartedJob,
                about="Start the job of a hook of `web.hooks`, with the body as untrusted text.",
            ),
            ApiRoute(
                method="GET", path=channel, respond=self._challenge, content_type="text/plain",
                about="Meta asks whether this address is ours.",
                query=(
                    QueryParameter("hub.mode", "`subscribe`."),
                    QueryParameter("hub.verify_token", "The token that was configured there."),
                    QueryParameter("hub.challenge", "What is answered."),
                ),
            ),
            ApiRoute(
                method="POST", path=channel, signed=True, respond=self._receive,
                check_head=check_body_size, content_type="text/plain",
                about="WhatsApp delivers messages.",
            ),
        ]  # fmt: skip

    async def _check_hook_head(self, request: HttpRequest) -> None:
        if self._hooks.secret(request.params["name"]) is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, "there is no such hook; see web.hooks")
        await check_body_size(request)
        headers = request.headers
        if TIMED_SIGNATURE_HEADER.lower() in headers:
            if not is_current(headers.get(TIME_HEADER.lower(), ""), time.time()):
                minutes = MAX_CLOCK_DIFFERENCE_S / 60
                message = f"{TIME_HEADER} is not within {minutes:g} minutes of now"
                raise HttpRefusal(HTTPStatus.UNAUTHORIZED, message)
        elif BODY_SIGNATURE_HEADER.lower() not in headers:
            message = f"sign it: {TIMED_SIGNATURE_HEADER} and {TIME_HEADER}"
            raise HttpRefusal(HTTPStatus.UNAUTHORIZED, f"{message}, or {BODY_SIGNATURE_HEADER}")

    async def _start(self, request: HttpRequest) -> object:
        name = request.params["name"]
        signature = self._check_signature(request, self._hooks.secret(name) or "")
        given = [request.headers[each] for each in DELIVERY_HEADERS if each in request.headers]
        async with self._starting:  # the same request twice at once is still one
            self._count_start(name)
            started = await self._hooks.start(
                name, request.body, [_digest(f"{name}\n{each}") for each in (signature, *given)]
            )
        if started is None:
            raise HttpRefusal(HTTPStatus.CONFLICT, "this delivery has been received before")
        return started

    def _check_signature(self, request: HttpRequest, secret: str) -> str:
        headers, body = request.headers, request.body
        if (signature := headers.get(TIMED_SIGNATURE_HEADER.lower())) is not None:
            stamp = headers[TIME_HEADER.lower()]
            right = timed_signature_matches(secret, stamp, body, signature)
        else:
            signature = headers[BODY_SIGNATURE_HEADER.lower()]
            right = body_signature_matches(secret, body, signature)
        if not right:
            message = "the signature is not that of this body with the secret of the hook"
            raise HttpRefusal(HTTPStatus.UNAUTHORIZED, message)
        return signature

    def _count_start(self, name: str) -> None:
        now, times = anyio.current_time(), self._starts[name]
        while times and times[0] <= now - START_WINDOW_S:
            times.popleft()
        if len(times) >= MAX_STARTS_PER_MINUTE:
            wait_s = max(1, round(times[0] + START_WINDOW_S - now))
            message = f"a hook starts at most {MAX_STARTS_PER_MINUTE} jobs a minute"
            raise HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, message, retry_after=str(wait_s))
        times.append(now)

    async def _challenge(self, request: HttpRequest) -> HttpReply:
        answer = self._channel().challenge(request.query)
        if answer is None:
            raise HttpRefusal(HTTPStatus.FORBIDDEN, "the verify token is not ours")
        return HttpReply(body=answer.encode("utf-8", "replace"), content_type="text/plain")

    async def _receive(self, request: HttpRequest) -> HttpReply:
        signature = request.headers.get(BODY_SIGNATURE_HEADER.lower(), "")
        if not await self._channel().receive(request.body, signature):
            raise HttpRefusal(HTTPStatus.UNAUTHORIZED, "the signature is not that of our app")
        return HttpReply(body=b"", content_type="text/plain")

    def _channel(self) -> ChannelDeliveries:
        if self._whatsapp is None:
            raise UnknownIdError("WhatsApp is not configured: hermes channels list says what lacks")
        return self._whatsapp


async def check_body_size(request: HttpRequest) -> None:
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > MAX_HOOK_BODY_BYTES:
        message = f"say the length of the body; at most {MAX_HOOK_BODY_BYTES:,} bytes"
        raise HttpRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
