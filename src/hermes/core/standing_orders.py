"""Recognizes text that would be an order in every later session.

The description of a tool is read by each session before anybody has spoken. So it may not say what
is to be run, what is approved, or what is kept from people.
"""

import re
import unicodedata

from hermes.core.foreign_text import strip_hidden_characters

_ACTS = (
    r"(?:run|execute|invoke|launch|curl|wget|fetch|download|send|upload|post|forward|delete|remove"
    r"|erase|approve|disable|skip|ignore|touch|chmod|sudo)"
)
_STANDING_ORDER = re.compile(
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


def gives_standing_order(text: str) -> bool:
    """Return True for text that says what later sessions must do, may do, or must keep to
    themselves."""
    plain = strip_hidden_characters(unicodedata.normalize("NFKC", text))
    return bool(_STANDING_ORDER.search(plain))
