"""Statements that a key vouches for: who may say what is decided elsewhere, who said it is here."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from hermes.core.messages import Value
from hermes.skills.exchange.archive import Refused

Sign = Callable[[str, bytes], str]
"""A signature in hex by the key of this home, for a domain and over these bytes."""
Check = Callable[[str, str, str, bytes], bool]
"""Whether the holder of a public key (hex) made this signature for a domain over these bytes."""
T = TypeVar("T")


class Seal(Value, kw_only=True, frozen=True):
    """The private half stays behind `sign`; `key` is the public one in hex."""

    key: str
    sign: Sign


class Sealed(Value, kw_only=True, frozen=True):
    kind: str
    body: str
    key: str
    signature: str


def seal(kind: str, body: Value, by: Seal) -> Sealed:
    text = msgspec.json.encode(body).decode()
    return Sealed(kind=kind, body=text, key=by.key, signature=by.sign(_domain(kind), text.encode()))


def opened(sealed: Sealed, kind: str, into: type[T], check: Check) -> T:
    """Raises `Refused` when it is not what its key signed, or of another kind."""
    if sealed.kind != kind:
        raise Refused(f"a statement of kind {sealed.kind!r} stands where {kind!r} is wanted")
    if not check(sealed.key, sealed.signature, _domain(kind), sealed.body.encode()):
        raise Refused(f"the signature under this {kind} is not that of key {short(sealed.key)}")
    try:
        return msgspec.json.decode(sealed.body, type=into)
    except msgspec.DecodeError as error:
        raise Refused(f"this {kind} cannot be read: {error}") from error


def short(key: str) -> str:
    return key[:12]


def _domain(kind: str) -> str:
    # The kind is signed too: a statement of one kind can never be passed off as another.
    return f"exchange.{kind}"
