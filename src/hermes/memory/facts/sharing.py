"""Who may hear of a fact: a person says so, and nothing else about it changes."""

from hermes.core.events.memory import FactNoted
from hermes.memory.facts.fact import Fact, Scope


def scoped(fact: Fact, scope: Scope, *, run: str, actor: str) -> FactNoted:
    """The event that changes its scope. It is no confirmation: nobody has seen it again."""
    return FactNoted(
        run=run,
        fact=fact.id,
        memory=fact.memory,
        text=fact.text,
        about=fact.about,
        relation=fact.relation,
        key=fact.key,
        trust="person",
        actor=actor,
        origin=fact.origin,
        scope=scope,
        valid_from=fact.last_confirmed,
    )
