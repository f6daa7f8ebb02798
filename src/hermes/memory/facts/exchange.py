"""Facts as lines of JSON, to be carried to another home: what arrives is believed less."""

from collections.abc import Iterable, Iterator

import msgspec

from hermes.core.errors import HermesError
from hermes.core.events.memory import MemoryKind, Trust
from hermes.memory.facts.fact import LONGEST, LONGEST_QUOTE, Candidate, Fact, one_line
from hermes.memory.facts.hostile import seizes, visible

LONGEST_LINE = 64 * 1024
_decoder = msgspec.json.Decoder(Fact)
_encoder = msgspec.json.Encoder()


def export_lines(facts: Iterable[Fact], home: str) -> Iterator[bytes]:
    for fact in facts:
        origin = fact.origin or home
        yield _encoder.encode({**msgspec.to_builtins(fact), "origin": origin}) + b"\n"


def read_lines(lines: Iterable[bytes], origin: str) -> Iterator[Candidate]:
    """Raises `HermesError` naming the first line that is no fact. Ended ones are passed over."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if len(line) > LONGEST_LINE:
            raise HermesError(f"line {number} has {len(line):,} bytes: that is no fact")
        try:
            fact = _decoder.decode(line)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise HermesError(f"line {number} is not a fact: {error}") from error
        if fact.state == "current" and fact.text.strip():
            yield _candidate(fact, origin)


def _candidate(fact: Fact, origin: str) -> Candidate:
    """Its event numbers are another journal's and stay behind."""
    text = one_line(visible(fact.text), LONGEST)
    hostile = fact.trust == "quarantined" or seizes(text)
    trust: Trust = "quarantined" if hostile else "imported"
    memory: MemoryKind = fact.memory
    return Candidate(
        memory=memory,
        text=text,
        quote=fact.quote[:LONGEST_QUOTE],
        about=fact.about,
        relation=fact.relation,
        key=fact.key,
        trust=trust,
        actor=fact.actor,
        origin=fact.origin or origin,
        at=fact.valid_from,
    )
