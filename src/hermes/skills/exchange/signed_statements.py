"""Statements that a key vouches for: who may say what is decided elsewhere, who said it is here."""

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import msgspec

from hermes.core.messages import Value
from hermes.skills.exchange.archive import ExchangeError

SignBytes = Callable[[str, bytes], str]
"""A signature in hex by the key of this home, for a domain and over these bytes."""
VerifySignature = Callable[[str, str, str, bytes], bool]
"""Whether the holder of a public key (hex) made this signature for a domain over these bytes."""
T = TypeVar("T")


class StatementSigner(Value, kw_only=True, frozen=True):
    """The private half stays behind `sign`; `key` is the public one in hex."""

    key: str
    sign: SignBytes


class SignedStatement(Value, kw_only=True, frozen=True):
    kind: str
    body: str
    key: str
    signature: str


def sign_statement(kind: str, body: Value, signer: StatementSigner) -> SignedStatement:
    text = msgspec.json.encode(body).decode()
    return SignedStatement(
        kind=kind,
        body=text,
        key=signer.key,
        signature=signer.sign(_signature_domain(kind), text.encode()),
    )


def open_statement(
    statement: SignedStatement, kind: str, into: type[T], check: VerifySignature
) -> T:
    """Raises `Refused` when it is not what its key signed, or of another kind."""
    if statement.kind != kind:
        raise ExchangeError(
            f"a statement of kind {statement.kind!r} stands where {kind!r} is wanted"
        )
    if not check(
        statement.key, statement.signature, _signature_domain(kind), statement.body.encode()
    ):
        raise ExchangeError(
            f"the signature under this {kind} is not that of key {shorten_key(statement.key)}"
        )
    try:
        return msgspec.json.decode(statement.body, type=into)
    except msgspec.DecodeError as error:
        raise ExchangeError(f"this {kind} cannot be read: {error}") from error


def shorten_key(key: str) -> str:
    return key[:12]


def _signature_domain(kind: str) -> str:
    # The kind is signed too: a statement of one kind can never be passed off as another.
    return f"exchange.{kind}"


class KeyRotation(Value, kw_only=True, frozen=True):
    """Said by the old key: from now on the other one speaks for this publisher."""

    publisher: str
    new: str
    at: datetime


class RevocationList(Value, kw_only=True, frozen=True):
    """Everything a publisher has taken back; each list is longer than the one before.

    Of its own keys and bundles its word counts everywhere; of those of others only where it was
    made an issuer.
    """

    publisher: str
    number: int
    digests: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    reason: str = ""
