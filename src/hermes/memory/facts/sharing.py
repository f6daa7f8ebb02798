"""Exports and imports facts as lines of JSON: imported facts are trusted less."""

from collections.abc import Iterable, Iterator

import msgspec

from hermes.core.errors import HermesError
from hermes.core.events.memory import FactNoted
from hermes.core.foreign_text import one_line, strip_hidden_characters
from hermes.memory.facts.fact import (
    MAX_FACT_CHARS,
    MAX_QUOTE_CHARS,
    Fact,
    FactCandidate,
    FactScope,
    content_fields,
)
from hermes.memory.facts.prompt_injection import is_takeover_attempt

MAX_LINE_BYTES = 64 * 1024
_decoder = msgspec.json.Decoder(Fact)
_encoder = msgspec.json.Encoder()


def export_facts(facts: Iterable[Fact], home: str) -> Iterator[bytes]:
    for fact in facts:
        origin = fact.origin or home
        yield _encoder.encode({**msgspec.to_builtins(fact), "origin": origin}) + b"\n"


def read_exported_facts(lines: Iterable[bytes], origin: str) -> Iterator[FactCandidate]:
    """Raises `HermesError` naming the first line that is no fact. Ended facts are skipped."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if len(line) > MAX_LINE_BYTES:
            raise HermesError(f"line {number} has {len(line):,} bytes: that is no fact")
        try:
            fact = _decoder.decode(line)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise HermesError(f"line {number} is not a fact: {error}") from error
        if fact.state == "current" and fact.text.strip():
            yield _imported_candidate(fact, origin)


def _imported_candidate(fact: Fact, origin: str) -> FactCandidate:
    """Its event numbers belong to another journal and are dropped."""
    text = one_line(strip_hidden_characters(fact.text), MAX_FACT_CHARS)
    hostile = fact.trust == "quarantined" or is_takeover_attempt(text)
    content = content_fields(fact) | {
        "text": text,
        "quote": fact.quote[:MAX_QUOTE_CHARS],
        "sources": (),
        "trust": "quarantined" if hostile else "imported",
        "origin": fact.origin or origin,
        "scope": "own",
    }
    return FactCandidate(**content, at=fact.valid_from)


def scope_change(fact: Fact, scope: FactScope, *, run: str, actor: str) -> FactNoted:
    """The event that changes its scope. It is no confirmation."""
    by_person = {"quote": "", "sources": (), "trust": "person", "actor": actor, "scope": scope}
    content = content_fields(fact) | by_person
    return FactNoted(**content, run=run, fact=fact.id, valid_from=fact.last_confirmed)
