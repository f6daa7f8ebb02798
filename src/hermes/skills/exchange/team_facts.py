"""Facts of scope `team` between homes: asserted, confirmed, retracted, each under a signature."""

from datetime import datetime
from typing import Literal

from hermes.core.events.memory import MemoryKind
from hermes.core.messages import Value
from hermes.skills.exchange.archive import Refused
from hermes.skills.exchange.keyring import Keyring
from hermes.skills.exchange.sealing import Check, Sealed, opened, short

MOST = 5_000


class Statement(Value, kw_only=True, frozen=True):
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
    """Each list has a higher one than the one before."""
    statements: tuple[Statement, ...] = ()


def open_facts(sealed: Sealed, keyring: Keyring, check: Check) -> TeamFacts | None:
    """None when it was seen already. Raises `Refused` for a publisher who is not pinned."""
    facts = opened(sealed, "facts", TeamFacts, check)
    publisher = keyring.find(facts.publisher)
    keyring.check_key(sealed.key)
    if sealed.key != publisher.key:
        raise Refused(
            f"facts of {facts.publisher!r} are signed by {short(sealed.key)}: not its key"
        )
    if len(facts.statements) > MOST:
        raise Refused(f"{len(facts.statements):,} facts at once are refused; at most {MOST:,}")
    return facts if facts.number > publisher.facts_number else None
