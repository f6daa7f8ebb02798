"""What a person asked to be kept: "remember …", "never …", "always …", and their corrections.

By rules, not by a model: it works without one, and it cannot be persuaded.
"""

import re
from collections.abc import Iterator
from datetime import datetime

from hermes.core.events.memory import FactTrust
from hermes.core.foreign_text import one_line
from hermes.memory.facts.entities import entities_in, services_in
from hermes.memory.facts.fact import MAX_QUOTE_CHARS, FactCandidate, split_words
from hermes.memory.facts.prompt_injection import is_takeover_attempt

MAX_STATEMENT_CHARS = 20_000
_QUOTED_TEXT = re.compile(r"```.*?(?:```|\Z)|^\s*>.*$", re.DOTALL | re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?。])\s+|\n+")
_POLITE_PREFIX = r"^(?:(?:ok(?:ay)?|please|hermes|and|also|but|so)[,:]?\s+)*"
_REMEMBER = re.compile(
    _POLITE_PREFIX + r"(?:remember|note|keep in mind|memori[sz]e|do not forget|don[’']t forget)"
    r"(?:\s+that\b|\s*[:,])?\s+(?P<what>(?!when\b|how\b|what\b|the time\b).+)",
    re.IGNORECASE,
)
_RULE = re.compile(
    _POLITE_PREFIX + r"(?P<how>never|always|from now on,?|do not ever|don[’']t ever"
    r"|under no circumstances)\s+(?P<what>.+)",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"^(?:no|nope|wrong|actually|not quite|correction"
    r"|that(?:[’']s| is| was) (?:wrong|not right|not true|incorrect))\b[,:.!;–-]*\s+"
    r"(?:actually,?\s+)?(?P<what>.+)",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"^(?:the\s+|our\s+|my\s+)?(?P<thing>[^,;]{1,80}?)\s+"
    r"(?P<verb>is|are|was|listens on|runs on|runs in|runs at|lives in|lives on|sits on|is at"
    r"|belongs to|is owned by|should be|happens? (?:at|on)|starts? at)\s+(?P<value>.+)",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:never|not|no longer|don[’']t|doesn[’']t|isn[’']t)\b", re.IGNORECASE)
_PRONOUN_START = re.compile(r"^(?:it|that|this|they|he|she|there)\b", re.IGNORECASE)


def user_statements(
    text: str, seq: int, at: datetime, previous_answer: str = ""
) -> Iterator[FactCandidate]:
    """Facts in what a person said; `before` is the last text of the agent."""
    spoken = _QUOTED_TEXT.sub("\n", text[:MAX_STATEMENT_CHARS])
    # A person who pastes hostile text does not confirm it.
    trust: FactTrust = "quarantined" if is_takeover_attempt(spoken) else "person"
    for sentence in _SENTENCE.split(spoken):
        sentence = one_line(sentence, MAX_QUOTE_CHARS)
        if not sentence or sentence.endswith("?"):
            continue
        kept = _parse_statement(sentence, previous_answer)
        if kept is not None:
            what, relation, key = kept
            yield FactCandidate(
                memory="semantic",
                text=what,
                quote=sentence,
                sources=(seq,),
                about=entities_in(what),
                relation=relation,
                key=key,
                trust=trust,
                actor="user",
                at=at,
            )


def _parse_statement(sentence: str, previous_answer: str) -> tuple[str, str, str] | None:
    """Text, relation and key of a sentence worth keeping."""
    if rule := _RULE.match(sentence):
        return _rule_statement(rule)
    if found := _REMEMBER.match(sentence):
        what = found["what"].strip()
        rule = _RULE.match(what)
        return _rule_statement(rule) if rule else (what, "", statement_key(what))
    if found := _CORRECTION.match(sentence):
        what = found["what"].strip()
        if not _STATEMENT.match(what):
            return None
        if _PRONOUN_START.match(what):
            asked = one_line(previous_answer, 200)
            return (f"{what} (correcting: {asked})" if asked else what), "corrects", ""
        return what, "corrects", statement_key(what)
    return None


def _rule_statement(rule: re.Match[str]) -> tuple[str, str, str]:
    what = rule["what"].strip()
    rest = " ".join(split_words(_NEGATION.sub(" ", what)))
    return f"{rule['how'].capitalize()} {what}", "rule", f"rule: {rest}"


def statement_key(statement: str) -> str:
    """The subject of a statement with a value, so that another value replaces it."""
    found = _STATEMENT.match(statement.strip())
    if not found or _PRONOUN_START.match(statement):
        return ""
    subject = " ".join(split_words(found["thing"]))
    verb = re.sub(r"^(?:is|are|was|should be)$", "is", found["verb"].casefold())
    return f"{subject} | {verb}" if subject else ""


_NAME_PATTERN = r"(/[\w./-]{2,80}|[A-Za-z][\w.-]{0,60}\w)"
_ADDRESS_PATTERN = r"([A-Za-z0-9][\w.-]{0,80}:\d{2,5})"
_DEPENDS = re.compile(rf"\b{_NAME_PATTERN},?\s+(?:which\s+|that\s+)?depends\s+on\s+{_NAME_PATTERN}")
_DEPENDS_CHAIN = re.compile(rf"^,?\s*(?:and\s+)?(?:which|that)\s+depends\s+on\s+{_NAME_PATTERN}")
_CONNECTS = re.compile(
    rf"\b{_NAME_PATTERN}\s+(?:connects|talks)\s+to\s+(?:{_ADDRESS_PATTERN}|{_NAME_PATTERN})"
)
_PROXY = re.compile(
    rf"^\s*(?:proxy_pass|fastcgi_pass|grpc_pass)\s+(?:\w+://)?{_ADDRESS_PATTERN}", re.M
)
_UPSTREAM = re.compile(rf"\bupstream:\s*\"\w+://{_ADDRESS_PATTERN}")
_UPSTREAM_POOL = re.compile(r"\bupstream\s+([\w.-]+)\s*\{([^}]{1,2000})\}")
_SERVER = re.compile(rf"\bserver\s+{_ADDRESS_PATTERN}")
_NON_NAMES = frozenset(
    split_words(
        "it this that they he she there which what who everything something nothing one each all "
        "none also always only often mostly really still usually never directly heavily the a an "
        "and or but while when if then than so you we i everyone nobody success"
    )
)


def dependency_facts(
    text: str, seq: int, at: datetime, trust: FactTrust
) -> Iterator[FactCandidate]:
    """Dependencies in a text, each with its line."""
    seen: set[str] = set()
    for one, relation, other, quote in _find_links(text):
        statement = f"{one} {_RELATION_TEXT[relation]} {other}"
        if {one.casefold(), other.casefold()} & _NON_NAMES or one == other or statement in seen:
            continue
        if trust != "person" and not (_is_technical_name(one) or _is_technical_name(other)):
            continue  # prose with similar words
        seen.add(statement)
        yield FactCandidate(
            memory="semantic",
            text=statement,
            quote=quote,
            sources=(seq,),
            about=(one, other.partition(":")[0]),
            relation=relation,
            trust=trust,
            at=at,
        )


def _is_technical_name(name: str) -> bool:
    return bool(re.search(r"[\d:/_.-]", name) or services_in(name))


_RELATION_TEXT = {
    "depends-on": "depends on",
    "connects-to": "connects to",
    "forwards-to": "forwards to",
}


def _find_links(text: str) -> Iterator[tuple[str, str, str, str]]:
    for line in text.splitlines():
        line = line[:1_000]
        yield from _dependency_links(line)
        for found in _CONNECTS.finditer(line):
            yield found[1], "connects-to", found[2] or found[3].rstrip("."), one_line(line, 300)
        for found in (*_PROXY.finditer(line), *_UPSTREAM.finditer(line)):
            yield "nginx", "forwards-to", found[1], one_line(line, 300)
    for pool in _UPSTREAM_POOL.finditer(text):
        for server in _SERVER.finditer(pool[2]):
            yield pool[1], "forwards-to", server[1], one_line(pool[0], 300)


def _dependency_links(line: str) -> Iterator[tuple[str, str, str, str]]:
    for found in _DEPENDS.finditer(line):
        one, other, end = found[1], found[2], found.end()
        yield one, "depends-on", other, one_line(line, 300)
        while more := _DEPENDS_CHAIN.match(line[end:]):
            one, other, end = other, more[1], end + more.end()
            yield one, "depends-on", other, one_line(line, 300)
