"""What is refused before parsing: text made to be read differently by people and by the shell."""

import re
import unicodedata

LIMIT = 20_000
"""Bytes. Longer commands are not read, they are asked about."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ODD = re.compile(
    "[\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180e\u2000-\u200f"
    "\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0e\ufeff\uff01-\uff5e\uffa0\uffe0-\uffef\ufff0-\uffff"
    "\ue000-\uf8ff\U000e0000-\U000e0fff]"
)
_EXPENSIVE = {
    "<<": 24, "${": 120, "[[": 60, "|": 200, "((": 200, "`": 200, ">": 300, "(": 300, ")": 300,
    "<": 120, "$": 600, "for ": 100, "function ": 100, "case ": 40, "{": 400, "}": 400,
}  # fmt: skip
"""Marks that make the parser slow when there are very many of them, and how many are normal."""


def suspicious(command: str) -> list[str]:
    """Reasons not to trust what the text looks like."""
    found = []
    if control := _CONTROL.search(command):
        found.append(f"a control character (U+{ord(control.group()):04X}) in the text")
    if command.isascii():
        return found
    if odd := _ODD.search(command):
        name = unicodedata.name(odd.group(), "private use")
        found.append(f"a character made to deceive (U+{ord(odd.group()):04X} {name.lower()})")
    if any("\ud800" <= letter <= "\udfff" for letter in command):
        found.append("bytes that are not UTF-8")
    return found


def unreadable(command: str) -> str:
    """Why it cannot be parsed at all, or an empty string."""
    if len(command) > LIMIT:
        return f"longer than {LIMIT} characters"
    if "\0" in command:
        return "a NUL character"
    for mark, normal in _EXPENSIVE.items():
        if command.count(mark) > normal:
            return f"more than {normal} times {mark!r}"
    return ""


def private(command: str) -> bool:
    """Whether it holds characters that we use as marks of our own."""
    return not command.isascii() and any("\ue000" <= letter <= "\uf8ff" for letter in command)
