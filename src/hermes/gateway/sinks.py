"""Sends notifications to webhooks, ntfy, the terminal and log files."""

import base64
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import anyio
import msgspec

from hermes.core.errors import DeliveryError, PluginError, SettingsError
from hermes.core.events.operations import NotificationQueued
from hermes.core.foreign_text import visible_line, visible_text
from hermes.core.notifications import (
    ChannelOpening,
    NotificationSink,
    SinkFilter,
    SinkListOptions,
    notification_payload,
    notification_title,
)
from hermes.core.plugins import BUILT_IN, call_plugin, load_plugin, own_settings
from hermes.plumbing.http_client import (
    GuardsConnections,
    HttpError,
    HttpLimits,
    PermanentHttpError,
    send_http_request,
)
from hermes.plumbing.signatures import TIME_HEADER, TIMED_SIGNATURE_HEADER, sign_timed_body

HEARTBEAT_LIMITS = HttpLimits(timeout_s=10.0, total_timeout_s=10.0)
NTFY_PRIORITIES = {"P0": "5", "P1": "4", "P2": "3", "P3": "2"}
NTFY_TAGS = {
    "declared": "rotating_light",
    "update": "hourglass",
    "approval-needed": "question",
    "resolved": "white_check_mark",
    "escalated": "loudspeaker",
    "briefing": "clipboard",
    "health": "zzz",
    "reply": "speech_balloon",
    "question": "question",
    "result": "page_facing_up",
}
RETRYABLE_STATUSES = frozenset({408, 425, 429})
"""Statuses below 500 after which a retry may succeed."""
MAX_NTFY_BYTES = 4_000
"""Bytes of a message; ntfy turns a longer one into an attachment."""
EVENT_NOTICE_PREFIX = "event:"
"""Ids of queued messages that are events for webhooks."""
MAX_LOG_BYTES = 5 * 2**20
MAX_OLD_LOGS = 3


class WebhookSink:
    """Posts JSON. With a secret the body is signed: `sha256=` HMAC of the time, a full stop and the
    body."""

    def __init__(self, url: str, *, name: str = "webhook", secret: str = "", timeout: float = 10.0):
        self.name, self._url, self._secret, self._timeout = name, url, secret, timeout

    async def send(self, notice: NotificationQueued, repeated: bool) -> None:
        body = msgspec.json.encode(notification_payload(notice, repeated))
        headers = _signed_headers(notice.notice, self._secret, body)
        await _post(self._url, body, headers, self._timeout)


class EventWebhookSink:
    """Posts events, as hooks get them, signed like notifications."""

    def __init__(self, url: str, *, name: str, secret: str = "", timeout: float = 10.0) -> None:
        self.name, self._url, self._secret, self._timeout = name, url, secret, timeout

    async def send(self, notice: NotificationQueued, repeated: bool) -> None:
        if not notice.notice.startswith(EVENT_NOTICE_PREFIX):  # a report about another sink
            return
        body = notice.text.encode()
        headers = _signed_headers(notice.notice, self._secret, body)
        await _post(
            self._url,
            body,
            headers | {"X-Hermes-Event": _ascii_header(notice.title)},
            self._timeout,
        )


def _signed_headers(key: str, secret: str, body: bytes) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "hermes-notices",
        "Idempotency-Key": _ascii_header(key),
    }
    if secret:
        stamp = str(int(time.time()))
        headers |= {
            TIME_HEADER: stamp,
            TIMED_SIGNATURE_HEADER: sign_timed_body(secret, stamp, body),
        }
    return headers


class NtfySink:
    def __init__(self, url: str, *, name: str = "ntfy", token: str = "", timeout: float = 10.0):
        self.name, self._url, self._token, self._timeout = name, url, token, timeout

    async def send(self, notice: NotificationQueued, repeated: bool) -> None:
        quiet = notice.about in ("update", "briefing")
        headers = {
            "Title": _encode_header(notification_title(notice, repeated)),
            "Priority": "2" if quiet else NTFY_PRIORITIES.get(notice.severity, "3"),
            "Tags": NTFY_TAGS[notice.about],
            "User-Agent": "hermes-notices",
            "Content-Type": "text/plain; charset=utf-8",
        }
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        text = visible_text(notice.text).encode()[:MAX_NTFY_BYTES].decode(errors="ignore")
        await _post(self._url, text.encode(), headers, self._timeout)


async def _post(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> None:
    """Redirects are not followed: a redirected POST becomes a GET, or reaches another host."""
    limits = HttpLimits(timeout_s=timeout_s, total_timeout_s=timeout_s)
    try:
        answer = await send_http_request("POST", url, limits, headers=headers, body=body)
    except HttpError as error:
        permanent = isinstance(error, PermanentHttpError)
        raise DeliveryError(
            str(error), permanent=permanent, may_have_arrived=error.may_have_arrived
        ) from error
    if answer.status >= 300:
        raise DeliveryError(
            f"answered {answer.status} {answer.reason}",
            permanent=answer.status < 500 and answer.status not in RETRYABLE_STATUSES,
            may_have_arrived=answer.status >= 500,
        )


def _encode_header(text: str) -> str:
    """A header is one line of ASCII; other text is sent as an encoded word."""
    line = visible_line(text, 250)
    if line.isascii():
        return line
    return f"=?UTF-8?B?{base64.b64encode(line.encode()).decode()}?="


def _ascii_header(text: str) -> str:
    return visible_line(text, 200).encode("ascii", "replace").decode()


class TerminalSink:
    """Writes in a thread: `write` blocks while the terminal is stopped."""

    name = "terminal"

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    async def send(self, notice: NotificationQueued, repeated: bool) -> None:
        title = visible_line(notification_title(notice, repeated), 300)
        lines = [f"{notice.at.astimezone():%H:%M:%S}  {title}"]
        if notice.about != "update":
            lines += [f"          {line}" for line in visible_text(notice.text).splitlines()]
        text = "\n".join(lines) + "\n"
        try:
            await anyio.to_thread.run_sync(self._write, text, abandon_on_cancel=True)
        except (OSError, ValueError) as error:  # closed, or its other end is gone
            raise DeliveryError(f"the terminal is gone: {error}", permanent=True) from error


class LogSink:
    """Appends JSON lines to a file and rotates it; `NAME.1` is the newest old file."""

    def __init__(self, path: Path, *, name: str = "log", max_bytes: int = MAX_LOG_BYTES) -> None:
        self.name, self._path, self._max_bytes = name, path, max_bytes

    async def send(self, notice: NotificationQueued, repeated: bool) -> None:
        line = msgspec.json.encode(notification_payload(notice, repeated)) + b"\n"
        try:
            await anyio.to_thread.run_sync(partial(self._append, line))
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise DeliveryError(f"{self._path.name} cannot be written: {why}") from error

    def _append(self, line: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._rotate(len(line))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            before = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, line) != len(line):
                    raise OSError(28, "no space left for a whole line")
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)

    def _rotate(self, more: int) -> None:
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return
        if size + more <= self._max_bytes:
            return
        for number in range(MAX_OLD_LOGS - 1, 0, -1):
            older = self._older(number)
            if older.exists():
                older.replace(self._older(number + 1))
        self._path.replace(self._older(1))

    def _older(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def open_sinks(
    settings: SinkListOptions,
    *,
    home: Path,
    secret: Callable[[str], str | None],
    write: Callable[[str], object] | None = None,
    report: Callable[[str], object] | None = None,
) -> Sequence[tuple[NotificationSink, SinkFilter]]:
    """`write` prints a text on this terminal; None without a terminal.

    Raises `SettingsError` for a sink that can never work. A sink of a broken plug-in is left out
    and passed to `report`, so that the others still work.
    """
    found: list[tuple[NotificationSink, SinkFilter]] = []
    if write is not None:
        found.append((TerminalSink(write), SinkFilter(sink=TerminalSink.name)))
    if settings.log:
        found.append((LogSink(home / settings.log), SinkFilter(sink="log")))
    for each in settings.sinks:
        opening = ChannelOpening(
            name=each.name or each.kind,
            settings=each,
            home=home,
            secret=secret,
            timeout=settings.timeout,
        )
        try:
            sink = _open_channel(opening)
        except PluginError as error:
            if report is not None:
                report(f"sre.notices.sinks: {opening.name!r} is not used: {error}")
            continue
        least = "P3" if each.kind == "log" else each.severity
        found.append((sink, SinkFilter(sink=opening.name, severity=least, about=tuple(each.about))))
    names = [sink.name for sink, _ in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SettingsError(
            f"sre.notices.sinks: duplicate name {', '.join(twice)}; give each its own `name`"
        )
    return tuple(found)


def _open_channel(opening: ChannelOpening) -> NotificationSink:
    kind = opening.settings.kind
    channel = load_plugin("notifications", kind, opening.home)
    if kind in BUILT_IN["notifications"]:
        return cast(NotificationSink, channel(opening))
    section = getattr(opening.settings, kind, None)
    own = own_settings(channel, section, f"sre.notices.sinks: {opening.name!r}: {kind}")
    sink = cast(NotificationSink, call_plugin(kind, channel, replace(opening, own=own)))
    if getattr(sink, "name", None) != opening.name or not hasattr(sink, "send"):
        raise PluginError(f"{kind} gave no sink with the name {opening.name!r} and `send`")
    return sink


def open_log(opening: ChannelOpening) -> LogSink:
    if not opening.settings.path:
        raise SettingsError(f"sre.notices.sinks: the log {opening.name!r} needs a `path`")
    return LogSink(opening.home / opening.settings.path, name=opening.name)


def open_webhook(opening: ChannelOpening) -> WebhookSink:
    url, secret = _address(opening)
    return WebhookSink(url, name=opening.name, secret=secret, timeout=opening.timeout)


def open_ntfy(opening: ChannelOpening) -> NtfySink:
    url, token = _address(opening)
    return NtfySink(url, name=opening.name, token=token, timeout=opening.timeout)


def _address(opening: ChannelOpening) -> tuple[str, str]:
    """The URL, and the secret; empty when none is named."""
    url, variable = opening.settings.url, opening.settings.secret_variable
    if urlsplit(url).scheme not in ("http", "https"):
        raise SettingsError(
            f"sre.notices.sinks: {opening.name!r} needs a `url` that begins with http:// or "
            "https://"
        )
    secret = opening.secret(variable) if variable else ""
    if secret is None:
        raise SettingsError(
            f"sre.notices.sinks: {opening.name!r} needs the secret {variable}; "
            "put it into the environment or the file .env of the home folder"
        )
    return url, secret


async def send_heartbeat(url: str, guard: GuardsConnections | None = None) -> bool:
    """Tell a monitor that all is well. Whether it arrived: one that cannot be reached is no
    failure of what went well. `guard`: for an address that is not from the settings."""
    try:
        answer = await send_http_request("GET", url, HEARTBEAT_LIMITS, guard=guard)
    except HttpError:
        return False
    return answer.status < HTTPStatus.BAD_REQUEST
