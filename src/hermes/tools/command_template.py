"""A command with places for values, each of which reaches the shell as one plain word.

`{{name}}` becomes the quoted value. Quoting protects only where the shell reads words, so a place
inside quotes, a comment, a here-document, arithmetic and the like is refused when the template is
read, not when the hostile value comes. Pure.
"""

import re
import shlex
from collections.abc import Mapping, Sequence

from hermes.core.messages import Value

_PLACE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_WORD_START = " \t\n;&|()"
_RERUN = {"eval", "let", "ssh", "su", "watch", "parallel", "xargs", "-c"}


class TemplateMistake(Exception):
    def __init__(self, position: int, why: str) -> None:
        super().__init__(why)
        self.position = position


class Place(Value, frozen=True):
    name: str
    starts_word: bool
    """True when a value that begins with a dash would be taken for an option here."""


Part = str | Place


def parse(text: str) -> tuple[Part, ...]:
    """Raises `TemplateMistake` where a value could be read as anything but a word."""
    parts: list[Part] = []
    at = done = 0
    quote = ""
    guarded = bool(_PLACE.search(text))
    while at < len(text):
        match = _PLACE.match(text, at)
        if match is None:
            if guarded:
                _refuse_risky(text, at, quote)
            quote, at = _step(text, at, quote)
            continue
        _refuse_placed(text, at, quote)
        before = text[done:at]
        word = (not text[:at] or text[at - 1] in _WORD_START) and " -- " not in text[:at]
        parts += [before, Place(match[1], word)]
        at = done = match.end()
    if quote not in ("", "#"):
        raise TemplateMistake(len(text), f"a {quote} is never closed")
    return (*parts, text[done:])


def render(parts: Sequence[Part], words: Mapping[str, str]) -> str:
    """The command; `words` are shell words already."""
    return "".join(part if isinstance(part, str) else words[part.name] for part in parts)


def rerun_word(parts: Sequence[Part]) -> str:
    """A program in the command that reads its words as code once more; empty when none does."""
    literal = " ".join(part for part in parts if isinstance(part, str))
    return next((word for word in re.split(r"[\s;&|()]+", literal) if word in _RERUN), "")


def quoted(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return shlex.quote(str(value))


def _step(text: str, at: int, quote: str) -> tuple[str, int]:
    """Past one character of the shell's grammar: in which quote we are then, and where."""
    char = text[at]
    if quote == "#":
        return ("" if char == "\n" else quote), at + 1
    if quote == "'":
        return ("" if char == "'" else quote), at + 1
    if char == "\\":
        return quote, at + 2
    if quote:
        return ("" if char == quote[-1] else quote), at + 1
    if char == "'":
        return ("$'" if text[at - 1 : at] == "$" else "'"), at + 1
    if char in '"`':
        return char, at + 1
    comment = char == "#" and (at == 0 or text[at - 1] in _WORD_START)
    return ("#" if comment else ""), at + 1


def _refuse_risky(text: str, at: int, quote: str) -> None:
    """Things after which this simple reading of the shell's grammar could be wrong."""
    here = text[at:]
    if here.startswith("{{"):
        raise TemplateMistake(at, "{{ begins a parameter: write {{name}}")
    if here.startswith("\\{{"):
        raise TemplateMistake(at, "a backslash before {{ would undo the quoting of the value")
    if quote == '"' and (here[0] == "`" or here.startswith("$(")):
        raise TemplateMistake(
            at, "a command inside double quotes cannot be checked: put it into a variable first"
        )
    if quote == '"' and re.match(r"\$\{[^}]*[\"']", here):
        raise TemplateMistake(at, "quotes inside ${…} inside quotes cannot be checked")
    if quote:
        return
    for risky, why in (("((", "arithmetic"), ("[[", "[[ … ]]")):
        if here.startswith(risky):
            raise TemplateMistake(at, f"{why} would run code hidden in a value: use [ … ] or expr")
    if here.startswith("<<") and not here.startswith("<<<") and text[at - 1 : at] != "<":
        raise TemplateMistake(at, "a here-document does not protect values: use printf | …")


def _refuse_placed(text: str, at: int, quote: str) -> None:
    if quote == "#":
        raise TemplateMistake(at, "a value inside a comment could end it")
    if quote:
        raise TemplateMistake(
            at, f"a value inside {quote} is not safe: write it bare, it is quoted for you"
        )
    if text[at - 1 : at] in ("$", "\\") and at:
        raise TemplateMistake(at, f"{text[at - 1]} before a value would change its quoting")
