"""Characters that stand for what cannot be written down: unknown text, live globs, word breaks.

A word is an ordinary string in which these private-use characters appear, so that it can be
joined, split and compared like any other. Text that brings such characters along is refused
before it gets here.
"""

import re

ANY = "\ue000"
"""Only known at run time, inside quotes: exactly one word, perhaps an empty one."""
LOOSE = "\ue001"
"""Only known at run time, outside quotes: no word, one word or several."""
SOME = "\ue002"
"""Only known at run time, but not empty."""
NAME = "\ue003"
"""A number or name of the system's making: never an option, never code."""
STAR, QUERY, SET = "\ue008", "\ue009", "\ue00a"
OPEN, COMMA, CLOSE = "\ue010", "\ue011", "\ue012"
SPLIT = "\ue013"
KEEP = "\ue014"
"""Here stood a quote, so an empty word stays a word."""
MAYBE = "\ue015"
"""What follows is one of several possibilities."""

UNKNOWN = re.compile(f"[{ANY}{LOOSE}{SOME}{NAME}]")
FOREIGN = re.compile(f"[{ANY}{LOOSE}{SOME}]")
GLOB = re.compile(f"[{STAR}{QUERY}{SET}]")
PRIVATE = re.compile("[\ue000-\uf8ff]")
TEMPORARY = re.compile(f"[{SPLIT}{KEEP}{MAYBE}]")

_SHOWN = str.maketrans(
    {ANY: "…", LOOSE: "…", SOME: "…", NAME: "…", STAR: "*", QUERY: "?", SET: "["}
    | {OPEN: "{", COMMA: ",", CLOSE: "}", SPLIT: " ", KEEP: None, MAYBE: None}
)
_LITERAL = str.maketrans({STAR: "*", QUERY: "?", SET: "[", OPEN: "{", COMMA: ",", CLOSE: "}"})
_SOURCE = {ANY: "${__any__}", LOOSE: "${__any__}", SOME: "${__any__}", NAME: "${__name__}"}
_GLOBBED = str.maketrans({"*": STAR, "?": QUERY, "[": SET})
REFERENCES = {"__any__": ANY, "__name__": NAME}
"""Variables of our own, by which unknown text survives being parsed once more."""


def shown(text: str) -> str:
    """For people."""
    return text.translate(_SHOWN)


def literal(text: str) -> str:
    """The text with globs as the characters they were; unknown parts stay marked."""
    return text.translate(_LITERAL)


def source(text: str) -> str:
    """Shell text to be parsed once more, in which unknown parts are variables."""
    return literal(UNKNOWN.sub(lambda found: _SOURCE[found.group()], text))


def globbed(text: str) -> str:
    """A value put down outside quotes: its wildcards are alive."""
    return text.translate(_GLOBBED)


def foreign(text: str) -> bool:
    """Whether part of it was chosen by nobody we can see."""
    return FOREIGN.search(text) is not None


def settled(text: str) -> bool:
    """Whether all of it is known now."""
    return text.isascii() or UNKNOWN.search(text) is None


def leads(text: str) -> bool:
    """Whether it begins with unknown text, and so could be an option."""
    return text[:1] in (ANY, LOOSE, SOME) and text != ""
