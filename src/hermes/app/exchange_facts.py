"""Facts of scope `team` on their way out and in: signed by a home, believed less by others."""

from collections.abc import Iterable
from datetime import UTC, datetime

from hermes.app.exchange import Exchange
from hermes.app.exchange_checks import check_signature
from hermes.core.events.memory import FactConfirmed, FactEnded
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.memory.facts.fact import LONGEST, Candidate, Fact, one_line
from hermes.memory.facts.hostile import seizes, visible
from hermes.memory.facts.keeping import FactKeeper
from hermes.memory.facts.store import Wanted
from hermes.skills.exchange.sealing import Sealed, seal
from hermes.skills.exchange.team_facts import Statement, TeamFacts, open_facts

EVERY = -1


class Taken(Value, kw_only=True, frozen=True):
    asserted: int = 0
    confirmed: int = 0
    retracted: int = 0


def say_facts(exchange: Exchange, facts: Iterable[Fact]) -> Sealed | None:
    """Facts of the team; also that others have from here and that hold no longer. None if none.

    Of what came from somebody else it is said that it is confirmed here, not that it is ours.
    """
    shared = [each for each in facts if each.scope == "team" and each.trust != "quarantined"]
    now = {each.id for each in shared if each.state == "current" and not each.origin}
    told = exchange.own().facts
    gone = [each for each in told if each not in {one.id for one in shared}]
    at = datetime.now(UTC)
    statements = [_said(each) for each in shared if not each.origin or each.state == "current"]
    statements += [Statement(says="retract", fact=each, at=at) for each in gone]
    if not statements:
        return None
    exchange.tell_facts(tuple(sorted({*told, *now})))
    number = int(at.timestamp() * 1000)
    said = TeamFacts(publisher=exchange.name(), number=number, statements=tuple(statements))
    return seal("facts", said, exchange.seal())


async def team_facts(keeper: FactKeeper) -> list[Fact]:
    await keeper.facts.catch_up()
    every = await keeper.facts.find(Wanted(state=None, limit=EVERY))
    return [each for each in every if each.scope == "team" and each.state != "forgotten"]


async def hear_facts(
    exchange: Exchange, sealed: Sealed, keeper: FactKeeper, journal: Journal, run: str
) -> Taken:
    """Raises `Refused`. What a publisher retracts must be its own word, not that of another."""
    facts = open_facts(sealed, exchange.keyring, check_signature)
    if facts is None:
        return Taken()
    origin = f"{facts.publisher}@{sealed.key[:8]}"
    asserted = [each for each in facts.statements if each.says == "assert" and each.text.strip()]
    written = await keeper.keep(run, [_candidate(each, origin) for each in asserted])
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
    exchange.keyring.facts_seen(facts.publisher, facts.number)
    return Taken(asserted=len(written), confirmed=confirmed, retracted=retracted)


def _said(fact: Fact) -> Statement:
    if fact.origin:
        return Statement(says="confirm", fact=fact.id, at=fact.last_confirmed)
    return Statement(
        says="retract" if fact.state == "ended" else "assert",
        fact=fact.id,
        memory=fact.memory,
        text=fact.text,
        about=fact.about,
        relation=fact.relation,
        key=fact.key,
        at=fact.last_confirmed,
    )


def _candidate(said: Statement, origin: str) -> Candidate:
    text = one_line(visible(said.text), LONGEST)
    return Candidate(
        memory=said.memory,
        text=text,
        about=said.about[:32],
        relation=said.relation[:60],
        key=said.key[:200],
        trust="quarantined" if seizes(text) else "imported",
        actor=origin,
        origin=origin,
        at=said.at,
    )
