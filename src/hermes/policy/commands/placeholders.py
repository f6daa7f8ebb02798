"""Characters that stand for what cannot be written down: unknown text, live globs, word breaks.

A word is an ordinary string in which these private-use characters appear, so that it can be
joined, split and compared like any other. Text that brings such characters along is refused
before it gets here.
"""

import re

ANY_WORD = "\ue000"
"""Only known at run time, inside quotes: exactly one word, perhaps an empty one."""
ANY_WORDS = "\ue001"
"""Only known at run time, outside quotes: no word, one word or several."""
NON_EMPTY_WORD = "\ue002"
"""Only known at run time, but not empty."""
SYSTEM_NAME = "\ue003"
"""A number or name of the system's making: never an option, never code."""
GLOB_STAR, GLOB_QUESTION, GLOB_SET = "\ue008", "\ue009", "\ue00a"
BRACE_OPEN, BRACE_COMMA, BRACE_CLOSE = "\ue010", "\ue011", "\ue012"
WORD_BREAK = "\ue013"
EMPTY_QUOTE = "\ue014"
"""Here stood a quote, so an empty word stays a word."""
ONE_OF_SEVERAL = "\ue015"
"""What follows is one of several possibilities."""

UNKNOWN_TEXT = re.compile(f"[{ANY_WORD}{ANY_WORDS}{NON_EMPTY_WORD}{SYSTEM_NAME}]")
UNTRUSTED_UNKNOWN = re.compile(f"[{ANY_WORD}{ANY_WORDS}{NON_EMPTY_WORD}]")
LIVE_GLOB = re.compile(f"[{GLOB_STAR}{GLOB_QUESTION}{GLOB_SET}]")
PLACEHOLDER = re.compile("[\ue000-\uf8ff]")
TEMPORARY_PLACEHOLDER = re.compile(f"[{WORD_BREAK}{EMPTY_QUOTE}{ONE_OF_SEVERAL}]")

_DISPLAY_TABLE = str.maketrans(
    {
        ANY_WORD: "…",
        ANY_WORDS: "…",
        NON_EMPTY_WORD: "…",
        SYSTEM_NAME: "…",
        GLOB_STAR: "*",
        GLOB_QUESTION: "?",
        GLOB_SET: "[",
    }
    | {
        BRACE_OPEN: "{",
        BRACE_COMMA: ",",
        BRACE_CLOSE: "}",
        WORD_BREAK: " ",
        EMPTY_QUOTE: None,
        ONE_OF_SEVERAL: None,
    }
)
_LITERAL_TABLE = str.maketrans(
    {
        GLOB_STAR: "*",
        GLOB_QUESTION: "?",
        GLOB_SET: "[",
        BRACE_OPEN: "{",
        BRACE_COMMA: ",",
        BRACE_CLOSE: "}",
    }
)
_SOURCE_TABLE = {
    ANY_WORD: "${__any__}",
    ANY_WORDS: "${__any__}",
    NON_EMPTY_WORD: "${__any__}",
    SYSTEM_NAME: "${__name__}",
}
_GLOB_TABLE = str.maketrans({"*": GLOB_STAR, "?": GLOB_QUESTION, "[": GLOB_SET})
PLACEHOLDER_VARIABLES = {"__any__": ANY_WORD, "__name__": SYSTEM_NAME}
"""Variables of our own, by which unknown text survives being parsed once more."""


def display_text(text: str) -> str:
    """For people."""
    return text.translate(_DISPLAY_TABLE)


def literal_text(text: str) -> str:
    """The text with globs as the characters they were; unknown parts stay marked."""
    return text.translate(_LITERAL_TABLE)


def shell_source(text: str) -> str:
    """Shell text to be parsed once more, in which unknown parts are variables."""
    return literal_text(UNKNOWN_TEXT.sub(lambda found: _SOURCE_TABLE[found.group()], text))


def with_live_globs(text: str) -> str:
    """A value put down outside quotes: its wildcards are alive."""
    return text.translate(_GLOB_TABLE)


def has_untrusted_text(text: str) -> bool:
    """Whether part of it was chosen by nobody we can see."""
    return UNTRUSTED_UNKNOWN.search(text) is not None


def is_fully_known(text: str) -> bool:
    """Whether all of it is known now."""
    return text.isascii() or UNKNOWN_TEXT.search(text) is None


def starts_unknown(text: str) -> bool:
    """Whether it begins with unknown text, and so could be an option."""
    return text[:1] in (ANY_WORD, ANY_WORDS, NON_EMPTY_WORD) and text != ""
