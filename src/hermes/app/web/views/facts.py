"""Facts of the memory, searched and forgotten, without what others said in private."""

from collections.abc import Sequence

from hermes.app.facts import FactContext, open_facts
from hermes.app.incidents.views import PlainObject
from hermes.app.people import require_known
from hermes.app.web.views.private_runs import PrivateRuns
from hermes.core.errors import HermesError
from hermes.core.events.memory import FactTrust
from hermes.core.protocols import JournalRecord
from hermes.memory.facts.audit import SOURCE_KINDS, event_text
from hermes.memory.facts.fact import Fact, FactQuery
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings

HIDDEN_FACTOR = 3
"""How many more facts are looked for where some of them may not be shown."""
MAX_SOURCE_CHARS = 600
MAX_SEARCH_CHARS = 400
SPEAKERS: dict[FactTrust, str] = {
    "person": "a person",
    "system": "the system",
    "model": "a model",
    "imported": "another home",
    "quarantined": "nobody: it looks like an instruction",
}
"""Whose word a fact is."""


class JournalFacts:
    """Fulfils what the page of the memory shows and does."""

    def __init__(self, loaded: LoadedSettings, journal: JournalStore) -> None:
        self._loaded, self._journal = loaded, journal
        self._private_runs = PrivateRuns(journal)

    async def facts(
        self, words: str = "", *, person: str, state: str = "current", limit: int, skip: int = 0
    ) -> list[PlainObject]:
        """Facts with these words, best first; without words the latest confirmed first."""
        wanted = (skip + limit) * HIDDEN_FACTOR
        async with open_facts(self._loaded, self._journal) as context:
            store = context.recorder.facts
            if words.strip():
                found = await store.like(words[:MAX_SEARCH_CHARS], limit=wanted)
            else:
                known = {"current": "current", "ended": "ended"}.get(state)
                query = FactQuery(state=known, limit=wanted)  # type: ignore[arg-type]
                found = await store.find(query)
        shown = await self._readable(found, person)
        return [describe_fact(fact) for fact in shown[skip : skip + limit]]

    async def fact(self, id: str, *, person: str) -> PlainObject:
        """One fact, with the texts that it comes from. Raises `HermesError`."""
        async with open_facts(self._loaded, self._journal) as context:
            fact = await self._find(context, id, person)
        may_read = await self._private_runs.readable_by(person)
        sources = [
            {
                "seq": each.seq,
                "run": each.event.run,
                "at": each.event.at.isoformat(),
                "text": event_text(each.event)[:MAX_SOURCE_CHARS],
            }
            for each in await self._sources(fact)
            if may_read(each.event.run)
        ]
        return {**describe_fact(fact), "source_texts": sources}

    async def forget(self, id: str, *, person: str) -> str:
        """Raises `HermesError`."""
        who = await require_known(self._loaded, self._journal, person)
        async with open_facts(self._loaded, self._journal) as context:
            fact = await self._find(context, id, person)
            if fact.forgotten:
                raise HermesError(f"{fact.id} is already forgotten")
            await context.forget([fact], person=who)
        return f"{fact.id} is forgotten: recall and search leave it out"

    async def _find(self, context: FactContext, id: str, person: str) -> Fact:
        fact = await context.find_fact(id)
        if not await self._readable([fact], person):
            raise HermesError(f"there is no fact {id!r}")
        return fact

    async def _readable(self, facts: Sequence[Fact], person: str) -> list[Fact]:
        may_read = await self._private_runs.readable_by(person)
        return [fact for fact in facts if not fact.forgotten and may_read(fact.run)]

    async def _sources(self, fact: Fact) -> list[JournalRecord]:
        wanted = set(fact.sources)
        if not wanted:
            return []
        last, found = max(wanted), list[JournalRecord]()
        async for recorded in self._journal.read(after=min(wanted) - 1, kinds=SOURCE_KINDS):
            if recorded.seq in wanted:
                found.append(recorded)
            if recorded.seq >= last:
                break
        return found


def describe_fact(fact: Fact) -> PlainObject:
    return {
        "id": fact.id,
        "text": fact.text,
        "kind": fact.memory,
        "relation": fact.relation,
        "state": fact.state,
        "trust": fact.trust,
        "word_of": fact.actor or SPEAKERS[fact.trust],
        "about": list(fact.about),
        "quote": fact.quote,
        "since": fact.valid_from.isoformat(),
        "until": fact.valid_to.isoformat() if fact.valid_to else None,
        "last_confirmed": fact.last_confirmed.isoformat(),
        "seen": fact.confirmations + 1,
        "sources": list(fact.sources),
        "run": fact.run,
        "origin": fact.origin,
        "scope": fact.scope,
        "shown": fact.shown,
        "succeeded": fact.succeeded,
        "failed": fact.failed,
    }
