"""Signs and verifies statements of publishers: manifests, key rotations, revocations, facts."""

from collections.abc import Callable
from datetime import datetime
from typing import Literal, TypeVar

import msgspec

from hermes.core.errors import HermesError
from hermes.core.events.memory import MemoryKind
from hermes.core.messages import Value

SignBytes = Callable[[str, bytes], str]
"""A signature in hex by the key of this home, for a domain and over these bytes."""
VerifySignature = Callable[[str, str, str, bytes], bool]
"""Whether the holder of a public key (hex) made this signature for a domain over these bytes."""
T = TypeVar("T")


class ExchangeError(HermesError):
    """A bundle, key or list is refused; the text gives the reason."""


class StatementSigner(Value, kw_only=True, frozen=True):
    """`sign` uses the private key; `key` is the public key in hex."""

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
    """Raises `ExchangeError` for a wrong signature or another kind."""
    if statement.kind != kind:
        raise ExchangeError(f"expected a statement of kind {kind!r}, found {statement.kind!r}")
    body = statement.body.encode()
    if not check(statement.key, statement.signature, _signature_domain(kind), body):
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
    # The kind is signed too, so that a statement cannot be used as one of another kind.
    return f"exchange.{kind}"


class KeyRotation(Value, kw_only=True, frozen=True):
    """Signed by the old key: from now on the new key signs for this publisher."""

    publisher: str
    new: str
    at: datetime


class RevocationList(Value, kw_only=True, frozen=True):
    """Everything a publisher has revoked; each list includes the one before.

    It applies to its own keys and bundles everywhere, and to those of others only where the
    publisher is an issuer.
    """

    publisher: str
    number: int
    digests: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    reason: str = ""


class TeamFactStatement(Value, kw_only=True, frozen=True):
    says: Literal["assert", "confirm", "retract"]
    fact: str
    memory: MemoryKind = "semantic"
    text: str = ""
    about: tuple[str, ...] = ()
    relation: str = ""
    key: str = ""
    at: datetime


class TeamFacts(Value, kw_only=True, frozen=True):
    """Facts of scope `team`, exchanged between homes: asserted, confirmed, retracted."""

    publisher: str
    number: int
    """Higher than in every earlier list."""
    statements: tuple[TeamFactStatement, ...] = ()
