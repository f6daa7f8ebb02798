"""What a provider's refusal means, by kind, told so that a person knows what to do.

The same kind comes in many spellings; all of them are here. Keys never appear in an error: they
are cut out of whatever a provider sends back.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from hermes.core.errors import (
    BadKey,
    BadRequest,
    ContextTooLong,
    MalformedReply,
    ModelError,
    ModelTimedOut,
    OutOfCredit,
    Overloaded,
    RateLimited,
)
from hermes.core.messages import Value
from hermes.models.catalogue import nearest, references
from hermes.models.waits import asked_wait

_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|string_above_max_length|request_too_large"
    r"|maximum context length|context (length|window|size) (is |was |limit )?exceeded"
    r"|exceeds? the (available |model'?s? |maximum )*(context|input length)"
    r"|exceeds? (the )?context (limit|window|length)|prompt is too long|input is too long"
    r"|too many (input )?tokens|longer than the (maximum )?(model|context)"
    r"|reduce the length of the (messages|prompt)|larger than the max.{0,20}context"
    r"|input (token count|length).{0,60}exceeds?|max_model_len|maximum prompt length"
    r"|exceed(ed|s)? (the )?model token limit|context window exceeds",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(
    r"insufficient_quota|billing_error|insufficient (credits?|balance|funds)|credit balance"
    r"|exceeded your current quota|out of credits?|payment required|billing_hard_limit",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"authentication_error|invalid_api_key|(incorrect|invalid|expired|missing) api[ _-]?key"
    r"|api key not valid|no auth credentials|invalid x-api-key",
    re.IGNORECASE,
)
_FORBIDDEN_TEXT = re.compile(r"moderation|flagged|not available in your|unsupported_country", re.I)
_RATE = re.compile(r"rate_?limit|too many requests|throttl", re.IGNORECASE)
_SECRET = re.compile(r"\b(sk-|key-|Bearer\s+)[A-Za-z0-9_\-.]{8,}")


class Peer(Value, frozen=True, kw_only=True):
    """Whom we speak to, as far as an error message needs to know."""

    title: str
    reference: str = ""
    url: str = ""
    key_variable: str = ""
    hint: str = ""
    secrets: tuple[str, ...] = ()

    def clean(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "[key]")
        return _SECRET.sub("[key]", text)


def refusal(peer: Peer, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """The error behind an HTTP status that is not a success."""
    kind, detail = _said(body)
    what = f"{peer.title} answered {status}" + (f": {peer.clean(detail)}" if detail else "")
    return _error(_kind(status, f"{kind} {detail}"), peer, what, asked_wait(headers))


def reported(peer: Peer, error: Any) -> ModelError:
    """The error that came inside an answer which had begun with a success."""
    kind, detail = _described(error)
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    what = (
        f"{peer.title} broke off with an error: {peer.clean(detail or kind or 'no reason given')}"
    )
    return _error(_kind(status, f"{kind} {detail}"), peer, what, _wait_within(error))


def malformed(peer: Peer, what: str, sample: bytes = b"") -> MalformedReply:
    shown = peer.clean(sample[:200].decode("utf-8", "replace")).strip()
    return MalformedReply(f"{peer.title} {what}" + (f": {shown!r}" if shown else ""))


def missing_key(peer: Peer) -> BadKey:
    return BadKey(
        f"there is no key for {peer.title}: set {peer.key_variable} or run `hermes setup`"
    )


def unusable_key(peer: Peer) -> BadKey:
    return BadKey(
        f"the key in {peer.key_variable or 'the settings'} holds characters that no key has "
        "(a line break?); set it again, or run `hermes setup`"
    )


def _kind(status: int, text: str) -> type[ModelError]:
    if status == 403 and _FORBIDDEN_TEXT.search(text):
        return BadRequest
    if status in (401, 403):
        return BadKey
    if status not in (402, 429) and _TOO_LONG.search(text):
        return ContextTooLong
    if _NO_CREDIT.search(text):
        return OutOfCredit
    if status in (400, 500) and _BAD_KEY.search(text):
        return BadKey
    if status >= 500 and _RATE.search(text):
        return RateLimited
    plain: dict[int, type[ModelError]] = {
        402: OutOfCredit,
        408: ModelTimedOut,
        413: ContextTooLong,
        429: RateLimited,
    }
    return plain.get(status, Overloaded if status >= 500 else BadRequest)


def _error(kind: type[ModelError], peer: Peer, what: str, wait: float | None) -> ModelError:
    if kind is RateLimited:
        return RateLimited(what, wait=wait)
    if kind is BadKey:
        variable = peer.key_variable or "the key"
        return BadKey(f"{what}. Check {variable}, or run `hermes setup`.")
    if kind is OutOfCredit:
        return OutOfCredit(f"{what}. The account behind {peer.key_variable or 'it'} must be paid.")
    if kind is BadRequest:
        return BadRequest(what + _advice(peer, what))
    return kind(what)


def _advice(peer: Peer, what: str) -> str:
    if "answered 404" in what or re.search(r"model.{0,40}(not|unknown|invalid)", what, re.I):
        known = references()
        guess = "" if peer.reference in known else nearest(peer.reference, known)
        meant = f" Did you mean {guess}?" if guess else ""
        return f". Is the model's name right ({peer.reference}), and the address {peer.url}?{meant}"
    if re.search(r"answered 3\d\d", what):
        return f". {peer.url} points elsewhere: set the base_url of the provider to where it went."
    return ""


def _said(body: bytes) -> tuple[str, str]:
    if body.lstrip()[:1] == b"<":
        return "", "a web page instead of an answer (a proxy, or a wrong address?)"
    try:
        return _described(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "", body[:300].decode("utf-8", "replace").strip()


def _described(error: Any) -> tuple[str, str]:
    """Kind and text of an error object, whatever its nesting."""
    if isinstance(error, list) and error:
        error = error[0]
    if not isinstance(error, dict):
        return "", str(error or "")[:500]
    if inner := error.get("error") or error.get("detail"):
        return _described(inner)
    kind = " ".join(str(error[name]) for name in ("type", "code") if error.get(name))
    text = str(error.get("message") or "")
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(raw := metadata.get("raw"), str):
        text = f"{text} ({raw})"  # OpenRouter keeps the words of the one behind it here
    return kind, text[:500]


def _wait_within(error: Any) -> float | None:
    metadata = error.get("metadata") if isinstance(error, dict) else None
    headers = metadata.get("headers") if isinstance(metadata, dict) else None
    if not isinstance(headers, dict):
        return None
    return asked_wait({str(name).lower(): str(value) for name, value in headers.items()})
