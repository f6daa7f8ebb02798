"""Detects text that tries to give orders to its reader.

The content of logs, files and pages is data. Some of it is written to be remembered as a rule; such
text is kept as evidence, quarantined, and never shown to a model as advice.
"""

import re
import unicodedata

from hermes.core.foreign_text import strip_hidden_characters
from hermes.plumbing.patterns import lazy_pattern

MAX_SEARCHED_CHARS = 50_000
"""Characters of a text that are searched at each end."""

_TAKEOVER = lazy_pattern(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|rule|prompt|polic|guideline)"
    r"|\byou are now\b|\bsystem prompt\b|\bdeveloper mode\b|\bjailbreak"
    r"|<\|\w+\|>|</?(?:system|assistant|instructions?|tool_calls?)\b|\[/?INST\]|\[Hermes:"
    r"|\bnew instructions?\s*:"
    r"|\bdo not (?:tell|inform|alert|mention)\b.{0,30}\b(?:user|operator|human)"
    r"|\b(?:AI|LLM|assistants?|agents?|language models?|hermes)\b.{0,20}"
    r"\b(?:must|shall|should|has to|have to|is required to|needs? to|always|never)\b",
    re.IGNORECASE,
)
_ASKS_TO_BE_REMEMBERED = lazy_pattern(
    r"\b(?:remember|memori[sz]e|keep in mind|from now on|note to (?:the )?(?:ai|agent|assistant)"
    r"|(?:add|save|write|store|append|put)\b.{0,40}\b(?:memory|MEMORY\.md|USER\.md|long.term))",
    re.IGNORECASE,
)
_IMPERATIVE = lazy_pattern(
    r"\b(?:always|never|must|do not|don[’']t|should|shall|whenever|every time|from now on|ensure"
    r"|make sure|run|execute|allow|approve|disable|delete|send|upload|curl|wget)\b",
    re.IGNORECASE,
)


def is_takeover_attempt(text: str) -> bool:
    """True for text that tries to take over its reader."""
    return bool(_TAKEOVER.search(normalize_text(text)))


def asks_to_be_remembered(line: str) -> bool:
    """True for a line of data that asks to be remembered as a rule."""
    line = normalize_text(line)
    return bool(
        _TAKEOVER.search(line) or (_ASKS_TO_BE_REMEMBERED.search(line) and _IMPERATIVE.search(line))
    )


def is_imperative(text: str) -> bool:
    return bool(_IMPERATIVE.search(normalize_text(text)))


def normalize_text(text: str) -> str:
    """The text with look-alike letters folded and invisible characters removed."""
    return strip_hidden_characters(unicodedata.normalize("NFKC", text[:MAX_SEARCHED_CHARS]))


def head_and_tail(text: str) -> str:
    """Head and tail of a text that is too long to be searched whole."""
    if len(text) <= 2 * MAX_SEARCHED_CHARS:
        return text
    return f"{text[:MAX_SEARCHED_CHARS]}\n{text[-MAX_SEARCHED_CHARS:]}"


def repeats_source(text: str, sources: str) -> bool:
    """True when five consecutive words of the text are in the sources as well."""
    own_runs, known = _five_word_runs(text), _five_word_runs(head_and_tail(sources))
    return bool(own_runs & known)


def _five_word_runs(text: str) -> set[tuple[str, ...]]:
    spoken = (
        re.findall(r"\w+", normalize_text(text).casefold())
        if len(text) <= MAX_SEARCHED_CHARS
        else []
    )
    spoken = spoken or re.findall(r"\w+", text.casefold())
    return {tuple(spoken[at : at + 5]) for at in range(len(spoken) - 4)}
