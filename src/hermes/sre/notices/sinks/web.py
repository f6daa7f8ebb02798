"""Notices over HTTP: as signed JSON for programs, and in the manner of ntfy for phones."""

import base64
import hashlib
import hmac
import time

import msgspec

from hermes.core.events.watching import NoticeQueued
from hermes.sre.notices.sink import title_of
from hermes.sre.notices.sinks.post import post
from hermes.sre.notices.sinks.shape import shape
from hermes.sre.report.markdown import one_line, visible

PRIORITY = {"P0": "5", "P1": "4", "P2": "3", "P3": "2"}
TAGS = {
    "declared": "rotating_light",
    "update": "hourglass",
    "approval-needed": "question",
    "resolved": "white_check_mark",
    "escalated": "loudspeaker",
    "briefing": "clipboard",
    "health": "zzz",
}
LONGEST = 4_000
"""Bytes of a message; ntfy makes a file of what is longer."""


class WebhookSink:
    """With a secret the body is signed: `sha256=` HMAC of the time, a full stop, and the body."""

    def __init__(self, url: str, *, name: str = "webhook", secret: str = "", timeout: float = 10.0):
        self.name, self._url, self._secret, self._timeout = name, url, secret, timeout

    async def send(self, notice: NoticeQueued, repeated: bool) -> None:
        body = msgspec.json.encode(shape(notice, repeated))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "hermes-notices",
            "Idempotency-Key": _ascii(notice.notice),
        }
        if self._secret:
            stamp = str(int(time.time()))
            headers |= {
                "X-Hermes-Timestamp": stamp,
                "X-Hermes-Signature": signature(self._secret, stamp, body),
            }
        await post(self._url, body, headers, timeout=self._timeout)


class NtfySink:
    def __init__(self, url: str, *, name: str = "ntfy", token: str = "", timeout: float = 10.0):
        self.name, self._url, self._token, self._timeout = name, url, token, timeout

    async def send(self, notice: NoticeQueued, repeated: bool) -> None:
        quiet = notice.about in ("update", "briefing")
        headers = {
            "Title": _header(title_of(notice, repeated)),
            "Priority": "2" if quiet else PRIORITY.get(notice.severity, "3"),
            "Tags": TAGS[notice.about],
            "User-Agent": "hermes-notices",
            "Content-Type": "text/plain; charset=utf-8",
        }
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        text = visible(notice.text).encode()[:LONGEST].decode(errors="ignore")
        await post(self._url, text.encode(), headers, timeout=self._timeout)


def signature(secret: str, stamp: str, body: bytes) -> str:
    mark = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={mark.hexdigest()}"


def _header(text: str) -> str:
    """A header is one line of ASCII; anything else travels as an encoded word."""
    line = one_line(text, 250)
    if line.isascii():
        return line
    return f"=?UTF-8?B?{base64.b64encode(line.encode()).decode()}?="


def _ascii(text: str) -> str:
    return one_line(text, 200).encode("ascii", "replace").decode()
