"""Exports and imports facts of scope `team`: signed by a home, trusted less by others."""

from collections.abc import Iterable
from datetime import UTC, datetime

from hermes.app.skills.exchange import SkillExchange
from hermes.core.events.memory import FactConfirmed, FactEnded
from hermes.core.foreign_text import one_line, strip_hidden_characters
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.learning.exchange_publisher import check_signature
from hermes.memory.facts.fact import MAX_FACT_CHARS, Fact, FactCandidate, FactQuery
from hermes.memory.facts.prompt_injection import is_takeover_attempt
from hermes.memory.facts.recorder import FactRecorder
from hermes.skills.exchange.signed_statements import (
    SignedStatement,
    TeamFacts,
    TeamFactStatement,
    sign_statement,
)

NO_LIMIT = -1


class FactImportResult(Value, kw_only=True, frozen=True):
    asserted: int = 0
    confirmed: int = 0
    retracted: int = 0


def sign_team_facts(exchange: SkillExchange, facts: Iterable[Fact]) -> SignedStatement | None:
    """Facts of the team, and retractions of published facts that no longer hold. None if none.

    A fact from another home is marked as confirmed here, not as ours.
    """
    shared = [each for each in facts if each.scope == "team" and each.trust != "quarantined"]
    now = {each.id for each in shared if each.state == "current" and not each.origin}
    published = exchange.publisher_state().facts
    gone = [each for each in published if each not in {one.id for one in shared}]
    at = datetime.now(UTC)
    statements = [
        _statement_of(each) for each in shared if not each.origin or each.state == "current"
    ]
    statements += [TeamFactStatement(says="retract", fact=each, at=at) for each in gone]
    if not statements:
        return None
    exchange.record_shared_facts(tuple(sorted({*published, *now})))
    number = int(at.timestamp() * 1000)
    team_facts = TeamFacts(publisher=exchange.name(), number=number, statements=tuple(statements))
    return sign_statement("facts", team_facts, exchange.signer())


async def list_team_facts(recorder: FactRecorder) -> list[Fact]:
    await recorder.facts.catch_up()
    every = await recorder.facts.find(FactQuery(state=None, limit=NO_LIMIT))
    return [each for each in every if each.scope == "team" and each.state != "forgotten"]


async def import_team_facts(
    exchange: SkillExchange,
    sealed: SignedStatement,
    recorder: FactRecorder,
    journal: Journal,
    run: str,
) -> FactImportResult:
    """Raises `Refused`. A publisher may retract only its own facts."""
    facts = exchange.keyring.open_facts(sealed, check_signature)
    if facts is None:
        return FactImportResult()
    origin = f"{facts.publisher}@{sealed.key[:8]}"
    asserted = [each for each in facts.statements if each.says == "assert" and each.text.strip()]
    written = await recorder.record(run, [_candidate(each, origin) for each in asserted])
    await recorder.facts.catch_up()
    confirmed = retracted = 0
    for each in facts.statements:
        known = await recorder.facts.get(each.fact)
        if known is None or known.state != "current":
            continue
        if each.says == "confirm":
            await journal.append(FactConfirmed(run=run, fact=each.fact, actor=origin))
            confirmed += 1
        elif each.says == "retract" and known.origin.split("@")[0] == facts.publisher:
            ended = FactEnded(run=run, fact=each.fact, reason="retracted", actor=origin)
            await journal.append(ended)
            retracted += 1
    await recorder.facts.catch_up()
    exchange.keyring.record_facts_number(facts.publisher, facts.number)
    return FactImportResult(asserted=len(written), confirmed=confirmed, retracted=retracted)


def _statement_of(fact: Fact) -> TeamFactStatement:
    if fact.origin:
        return TeamFactStatement(says="confirm", fact=fact.id, at=fact.last_confirmed)
    return TeamFactStatement(
        says="retract" if fact.state == "ended" else "assert",
        fact=fact.id,
        memory=fact.memory,
        text=fact.text,
        about=fact.about,
        relation=fact.relation,
        key=fact.key,
        at=fact.last_confirmed,
    )


def _candidate(statement: TeamFactStatement, origin: str) -> FactCandidate:
    text = one_line(strip_hidden_characters(statement.text), MAX_FACT_CHARS)
    return FactCandidate(
        memory=statement.memory,
        text=text,
        about=statement.about[:32],
        relation=statement.relation[:60],
        key=statement.key[:200],
        trust="quarantined" if is_takeover_attempt(text) else "imported",
        actor=origin,
        origin=origin,
        at=statement.at,
    )
