"""Signed facts of scope `team`, exchanged between homes: asserted, confirmed, retracted."""

from datetime import datetime
from typing import Literal

from hermes.core.events.memory import MemoryKind
from hermes.core.messages import Value
from hermes.skills.exchange.archive import ExchangeError
from hermes.skills.exchange.keyring import Keyring
from hermes.skills.exchange.signed_statements import (
    SignedStatement,
    VerifySignature,
    open_statement,
    shorten_key,
)

MAX_TEAM_FACTS = 5_000


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
    publisher: str
    number: int
    """Higher than in every earlier list."""
    statements: tuple[TeamFactStatement, ...] = ()


def open_team_facts(
    statement: SignedStatement, keyring: Keyring, check: VerifySignature
) -> TeamFacts | None:
    """None when it is known already. Raises `ExchangeError` for a publisher that is not pinned."""
    facts = open_statement(statement, "facts", TeamFacts, check)
    publisher = keyring.find(facts.publisher)
    keyring.check_key(statement.key)
    if statement.key != publisher.key:
        raise ExchangeError(
            f"facts of {facts.publisher!r} are signed by {shorten_key(statement.key)}: not its key"
        )
    if len(facts.statements) > MAX_TEAM_FACTS:
        raise ExchangeError(
            f"{len(facts.statements):,} facts at once are refused; at most {MAX_TEAM_FACTS:,}"
        )
    return facts if facts.number > publisher.facts_number else None
