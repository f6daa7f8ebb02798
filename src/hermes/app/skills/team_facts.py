"""Facts of scope `team` on their way out and in: signed by a home, believed less by others."""

from collections.abc import Iterable
from datetime import UTC, datetime

from hermes.app.skills.exchange import SkillExchange
from hermes.core.events.memory import FactConfirmed, FactEnded
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.learning.exchange_publisher import check_signature
from hermes.memory.facts.fact import MAX_FACT_CHARS, Fact, FactCandidate, FactQuery, one_line
from hermes.memory.facts.prompt_injection import is_takeover_attempt, strip_hidden_characters
from hermes.memory.facts.recorder import FactRecorder
from hermes.skills.exchange.signed_statements import SignedStatement, sign_statement
from hermes.skills.exchange.team_facts import TeamFacts, TeamFactStatement, open_team_facts

NO_LIMIT = -1


class FactImportResult(Value, kw_only=True, frozen=True):
    asserted: int = 0
    confirmed: int = 0
    retracted: int = 0


def sign_team_facts(exchange: SkillExchange, facts: Iterable[Fact]) -> SignedStatement | None:
    """Facts of the team; also that others have from here and that hold no longer. None if none.

    Of what came from somebody else it is said that it is confirmed here, not that it is ours.
    """
    shared = [each for each in facts if each.scope == "team" and each.trust != "quarantined"]
    now = {each.id for each in shared if each.state == "current" and not each.origin}
    told = exchange.publisher_state().facts
    gone = [each for each in told if each not in {one.id for one in shared}]
    at = datetime.now(UTC)
    statements = [
        _statement_of(each) for each in shared if not each.origin or each.state == "current"
    ]
    statements += [TeamFactStatement(says="retract", fact=each, at=at) for each in gone]
    if not statements:
        return None
    exchange.record_shared_facts(tuple(sorted({*told, *now})))
    number = int(at.timestamp() * 1000)
    said = TeamFacts(publisher=exchange.name(), number=number, statements=tuple(statements))
    return sign_statement("facts", said, exchange.signer())


async def list_team_facts(keeper: FactRecorder) -> list[Fact]:
    await keeper.facts.catch_up()
    every = await keeper.facts.find(FactQuery(state=None, limit=NO_LIMIT))
    return [each for each in every if each.scope == "team" and each.state != "forgotten"]


async def import_team_facts(
    exchange: SkillExchange,
    sealed: SignedStatement,
    keeper: FactRecorder,
    journal: Journal,
    run: str,
) -> FactImportResult:
    """Raises `Refused`. What a publisher retracts must be its own word, not that of another."""
    facts = open_team_facts(sealed, exchange.keyring, check_signature)
    if facts is None:
        return FactImportResult()
    origin = f"{facts.publisher}@{sealed.key[:8]}"
    asserted = [each for each in facts.statements if each.says == "assert" and each.text.strip()]
    written = await keeper.record(run, [_candidate(each, origin) for each in asserted])
    await keeper.facts.catch_up()
    confirmed = retracted = 0
    for each in facts.statements:
        known = await keeper.facts.get(each.fact)
        if known is None or known.state != "current":
            continue
        if each.says == "confirm":
            await journal.append(FactConfirmed(run=run, fact=each.fact, actor=origin))
            confirmed += 1
        elif each.says == "retract" and known.origin.split("@")[0] == facts.publisher:
            ended = FactEnded(run=run, fact=each.fact, reason="retracted", actor=origin)
            await journal.append(ended)
            retracted += 1
    await keeper.facts.catch_up()
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


def _candidate(said: TeamFactStatement, origin: str) -> FactCandidate:
    text = one_line(strip_hidden_characters(said.text), MAX_FACT_CHARS)
    return FactCandidate(
        memory=said.memory,
        text=text,
        about=said.about[:32],
        relation=said.relation[:60],
        key=said.key[:200],
        trust="quarantined" if is_takeover_attempt(text) else "imported",
        actor=origin,
        origin=origin,
        at=said.at,
    )
