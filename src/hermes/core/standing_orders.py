"""Recognizes text that would be an order in every later session.

A note and the description of a tool are read by each session before anybody has spoken. So neither
may say what is to be run, what is approved, or what is kept from people, unless a person said it.
"""

import re
import unicodedata

from hermes.core.foreign_text import strip_hidden_characters
from hermes.plumbing.patterns import lazy_pattern

_ACTS = (
    r"(?:run|execute|invoke|launch|curl|wget|fetch|download|send|upload|post|forward|delete|remove"
    r"|erase|approve|disable|skip|ignore|touch|chmod|sudo)"
)
_STANDING_ORDER = lazy_pattern(
    r"\b(?:every|each|any|all|later|future|next)\s+(?:\w+\s+)?"
    r"(?:sessions?|answers?|conversations?|turns?|repl(?:y|ies))\b"
    r"|\bfrom now on\b|\bbefore (?:anything|everything|all) else\b|\bruns? first\b"
    rf"|\b{_ACTS}\b\s*:?\s*`"
    # what is said to be approved
    r"|\b(?:approv|permit|authori[sz]|consent)\w*\b.{0,60}"
    r"\b(?:good|always|all|every\w*|any\w*|permanent\w*|advance|standing|it|this|them)\b"
    r"|\b(?:all|every\w*|any\w*)\b.{0,40}"
    r"\b(?:is|are|was|were|be)\s+(?:pre-?)?(?:approved|allowed|authori[sz]ed)\b"
    r"|\b(?:no|without|never|not|skip)\b.{0,30}"
    r"\b(?:questions?|ask(?:ing|ed)?|approvals?|confirm(?:ation|ing|ed)?|permission)\b"
    # what is kept from people, or no longer checked
    r"|\b(?:never|not|no)\b.{0,20}"
    r"\b(?:mention|report|tell|told|inform|disclose|show)(?:ed|n|s|ing)?\b"
    r"|\b(?:without|no)\s+(?:checking|verif\w+|validat\w+)"
    r"|\bStrictHostKeyChecking\b|--(?:insecure|no-verify)\b",
    re.IGNORECASE,
)
_IMPERATIVE = lazy_pattern(
    rf"(?:^|[.:;!—–]\s*|\b(?:and|then|first|please|always|also)\s+){_ACTS}\b(?:[:`]|\s+\S)"
    r"|(?:^|[.:;!—–]\s*)(?:please\s+)?"
    r"(?:always|never|do not|don[’']t|make sure|ensure|you (?:must|should))\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\s\"'`“”‘’()<>,;]+")
_MIN_LETTERS = 4
"""Shorter words occur in every sentence."""
_MIN_SHARE = 0.75


def is_standing_order(text: str) -> bool:
    """True for text that says what later sessions must do, may do, or must keep to themselves."""
    return bool(_STANDING_ORDER.search(_plain(text)))


def is_order(text: str) -> bool:
    """True for a standing order, and for a sentence in the imperative that acts."""
    plain = _plain(text)
    return bool(_STANDING_ORDER.search(plain) or _IMPERATIVE.search(plain))


def is_said_in(text: str, spoken: str) -> bool:
    """Whether somebody said it: nearly all of its words, and everything that is no plain word."""
    known = {_stem(word) for word in _WORD.findall(spoken)}
    words = [word for word in _WORD.findall(text) if len(word.strip(".:!?")) >= _MIN_LETTERS]
    missing = [word for word in words if _stem(word) not in known]
    if any(not word.strip(".:!?").isalpha() for word in missing):
        return False
    return len(missing) <= (1 - _MIN_SHARE) * len(words)


def _plain(text: str) -> str:
    return strip_hidden_characters(unicodedata.normalize("NFKC", text))


def _stem(word: str) -> str:
    bare = word.strip(".:!?").casefold()
    return bare[:5] if bare.isalpha() else bare
