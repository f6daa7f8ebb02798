"""What a person asked to be kept: "remember …", "never …", "always …", and their corrections.

By rule, not by a model: it works without one, and it cannot be talked into anything.
"""

import re
from collections.abc import Iterator
from datetime import datetime

from hermes.core.events.memory import Trust
from hermes.memory.facts.entities import about
from hermes.memory.facts.fact import LONGEST_QUOTE, Candidate, one_line, words
from hermes.memory.facts.hostile import seizes

LOOKED_AT = 20_000
_QUOTED = re.compile(r"```.*?(?:```|\Z)|^\s*>.*$", re.DOTALL | re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?。])\s+|\n+")
_POLITE = r"^(?:(?:ok(?:ay)?|please|hermes|and|also|but|so)[,:]?\s+)*"
_REMEMBER = re.compile(
    _POLITE + r"(?:remember|note|keep in mind|memori[sz]e|do not forget|don[’']t forget)"
    r"(?:\s+that\b|\s*[:,])?\s+(?P<what>(?!when\b|how\b|what\b|the time\b).+)",
    re.IGNORECASE,
)
_RULE = re.compile(
    _POLITE + r"(?P<how>never|always|from now on,?|do not ever|don[’']t ever"
    r"|under no circumstances)\s+(?P<what>.+)",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"^(?:no|nope|wrong|actually|not quite|correction"
    r"|that(?:[’']s| is| was) (?:wrong|not right|not true|incorrect))\b[,:.!;–-]*\s+"
    r"(?:actually,?\s+)?(?P<what>.+)",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"^(?:the\s+|our\s+|my\s+)?(?P<thing>[^,;]{1,80}?)\s+"
    r"(?P<verb>is|are|was|listens on|runs on|runs in|runs at|lives in|lives on|sits on|is at"
    r"|belongs to|is owned by|should be|happens? (?:at|on)|starts? at)\s+(?P<value>.+)",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(r"\b(?:never|not|no longer|don[’']t|doesn[’']t|isn[’']t)\b", re.IGNORECASE)
_POINTING = re.compile(r"^(?:it|that|this|they|he|she|there)\b", re.IGNORECASE)


def sayings(text: str, seq: int, at: datetime, before: str = "") -> Iterator[Candidate]:
    """Facts in what a person said; `before` is what the agent had said last."""
    spoken = _QUOTED.sub("\n", text[:LOOKED_AT])
    # Whoever pastes hostile text vouches for none of it.
    trust: Trust = "quarantined" if seizes(spoken) else "person"
    for sentence in _SENTENCE.split(spoken):
        sentence = one_line(sentence, LONGEST_QUOTE)
        if not sentence or sentence.endswith("?"):
            continue
        kept = _kept(sentence, before)
        if kept is not None:
            what, relation, key = kept
            yield Candidate(
                memory="semantic",
                text=what,
                quote=sentence,
                sources=(seq,),
                about=about(what),
                relation=relation,
                key=key,
                trust=trust,
                actor="user",
                at=at,
            )


def _kept(sentence: str, before: str) -> tuple[str, str, str] | None:
    """Text, relation and key of a sentence worth keeping."""
    if rule := _RULE.match(sentence):
        return _as_rule(rule)
    if found := _REMEMBER.match(sentence):
        what = found["what"].strip()
        rule = _RULE.match(what)
        return _as_rule(rule) if rule else (what, "", slot(what))
    if found := _CORRECTION.match(sentence):
        what = found["what"].strip()
        if not _STATES.match(what):
            return None
        if _POINTING.match(what):
            asked = one_line(before, 200)
            return (f"{what} (correcting: {asked})" if asked else what), "corrects", ""
        return what, "corrects", slot(what)
    return None


def _as_rule(rule: re.Match[str]) -> tuple[str, str, str]:
    what = rule["what"].strip()
    rest = " ".join(words(_NEGATIVE.sub(" ", what)))
    return f"{rule['how'].capitalize()} {what}", "rule", f"rule: {rest}"


def slot(statement: str) -> str:
    """What a statement gives a value to, so that another value takes its place."""
    found = _STATES.match(statement.strip())
    if not found or _POINTING.match(statement):
        return ""
    thing = " ".join(words(found["thing"]))
    verb = re.sub(r"^(?:is|are|was|should be)$", "is", found["verb"].casefold())
    return f"{thing} | {verb}" if thing else ""
