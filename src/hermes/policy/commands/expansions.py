"""Expands escapes, braces and parameters of words as bash does."""

import re
from collections.abc import Callable
from fnmatch import translate
from itertools import pairwise

from hermes.policy.commands.placeholders import (
    ANY_WORD,
    ANY_WORDS,
    BRACE_CLOSE,
    BRACE_COMMA,
    BRACE_OPEN,
    NON_EMPTY_WORD,
    ONE_OF_SEVERAL,
    SYSTEM_NAME,
    is_fully_known,
    literal_text,
)
from hermes.policy.commands.scope import ShellScope, VariableValue
from hermes.policy.commands.syntax import ShellSyntaxError

_SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r",
    "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_HEX_ESCAPE_PATTERN = r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|"
_ESCAPE = re.compile(_HEX_ESCAPE_PATTERN + r"([0-7]{1,3})|c(.)|(.))", re.S)
_ECHO_ESCAPE = re.compile(_HEX_ESCAPE_PATTERN + r"(0[0-7]{0,3}|[1-7][0-7]{0,2})|c(.)|(.))", re.S)


def _byte_character(number: int) -> str:
    return bytes([number & 0xFF]).decode("latin-1")


def _unicode_character(number: int) -> str:
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "?"


def _unescape(found: re.Match[str]) -> str:
    hexadecimal, short, long, octal, control, simple = found.groups()
    if hexadecimal:
        return _byte_character(int(hexadecimal, 16))
    if short or long:
        return _unicode_character(int(short or long, 16))
    if octal:
        return _byte_character(int(octal, 8))
    if control:
        return _byte_character(ord(control.upper()) ^ 64) if control.isascii() else control
    return _SIMPLE_ESCAPES.get(simple, "\\" + simple)


def unescape_ansi(body: str) -> str:
    r"""The text of `$'…'`; a NUL ends it, as in bash."""
    if "\\" not in body:
        return body
    return _ESCAPE.sub(_unescape, body).partition("\0")[0]


def unescape_echo(text: str) -> str:
    r"""The output of `echo -e` and `printf %b`; `\c` ends it."""
    return _ECHO_ESCAPE.sub(_unescape, text.split("\\c", 1)[0])


def format_printf(format_: str, words: list[str]) -> str | None:
    """The output of printf, for formats with text, %s, %b, %c, %d and %x; else None."""
    text, rest = _ESCAPE.sub(_unescape, format_), list(words)
    if text.count("%") != format_.count("%"):
        return None
    written = []
    for _ in range(64):
        count = len(rest)
        piece = _fill_format(text, rest)
        if piece is None:
            return None
        written.append(piece)
        if not rest or len(rest) == count:
            return "".join(written)
    return None


_FIELD = re.compile(r"%(%|[sbcdqioux]|-?\d*s)")


def _fill_format(text: str, rest: list[str]) -> str | None:
    failed = False

    def put(found: re.Match[str]) -> str:
        nonlocal failed
        kind = found.group(1)
        if kind == "%":
            return "%"
        word = rest.pop(0) if rest else ""
        if kind == "s":
            return word
        if kind == "b":
            return unescape_echo(word)
        if kind == "c":
            return word[:1]
        if kind in "di" and re.fullmatch(r"-?[1-9]\d*|0|", word):
            return word or "0"
        failed = True
        return ""

    filled = _FIELD.sub(put, text)
    leftover = _FIELD.sub("", text)
    return None if failed or "%" in leftover else filled


MAX_BRACE_WORDS = 256
_MAX_OPEN_BRACES = 32
_RANGE = re.compile(r"(-?\d{1,18}|[A-Za-z])\.\.(-?\d{1,18}|[A-Za-z])(?:\.\.(-?\d{1,18}))?\Z")


def expand_braces(word: str) -> list[str]:
    """Every word that the braces stand for. Raises `ShellSyntaxError` when there are too many."""
    found = (
        None if word.count(BRACE_OPEN) > _MAX_OPEN_BRACES else _expand_within(word, MAX_BRACE_WORDS)
    )
    if found is None:
        raise ShellSyntaxError(f"braces that stand for more than {MAX_BRACE_WORDS} words")
    return [restore_literal_braces(one) for one in found]


def restore_literal_braces(word: str) -> str:
    return word.replace(BRACE_OPEN, "{").replace(BRACE_COMMA, ",").replace(BRACE_CLOSE, "}")


def _expand_within(word: str, limit: int) -> list[str] | None:
    start = word.find(BRACE_OPEN)
    while start >= 0:
        end, commas = _find_closing_brace(word, start)
        inner = word[start + 1 : end]
        choices = _split_at_commas(word, start, end, commas) if commas else _expand_range(inner)
        if end > 0 and choices:
            return _combine(word[:start], choices, word[end + 1 :], limit)
        start = word.find(BRACE_OPEN, start + 1)
    return [word]


def _combine(before: str, choices: list[str], after: str, limit: int) -> list[str] | None:
    words: list[str] = []
    tails = _expand_within(after, limit)
    for choice in choices:
        heads = _expand_within(choice, limit)
        if heads is None or tails is None or len(words) + len(heads) * len(tails) > limit:
            return None
        words += [before + head + tail for head in heads for tail in tails]
    return words


def _find_closing_brace(word: str, start: int) -> tuple[int, list[int]]:
    depth = 0
    commas: list[int] = []
    for at in range(start, len(word)):
        letter = word[at]
        if letter == BRACE_OPEN:
            depth += 1
        elif letter == BRACE_CLOSE:
            depth -= 1
            if depth == 0:
                return at, commas
        elif letter == BRACE_COMMA and depth == 1:
            commas.append(at)
    return -1, []


def _split_at_commas(word: str, start: int, end: int, commas: list[int]) -> list[str]:
    edges = [start, *commas, end]
    return [word[left + 1 : right] for left, right in pairwise(edges)]


def _expand_range(inner: str) -> list[str]:
    if not (found := _RANGE.match(literal_text(inner))):
        return []
    first, last, stride = found.groups()
    step = abs(int(stride or 1)) or 1
    if first.isalpha() != last.isalpha():
        return []
    low, high = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    ends = range(low, high + 1, step) if low <= high else range(low, high - 1, -step)
    if len(ends) > MAX_BRACE_WORDS:
        # Negative numbers look like options, but are none.
        return [SYSTEM_NAME, SYSTEM_NAME] if min(low, high) >= 0 else [ANY_WORDS, ANY_WORDS]
    if first.isalpha():
        return [chr(number) for number in ends]
    width = max(len(first), len(last)) if first.startswith("0") or last.startswith("0") else 0
    return [str(number).zfill(width) for number in ends]


_PARAMETER = re.compile(r"([!#]?)([A-Za-z_]\w*|\d+|[@*#?$!_-])(?:\[([^\]]*)\])?(.*)\Z", re.A | re.S)
_CHOICE = re.compile(r"(:?)([-=+?])(.*)\Z", re.S)
_SLICE = re.compile(r":\s*(-?\d+|\s-\d+)(?::\s*(-?\d+))?\Z")
_TRIM = re.compile(r"(##|#|%%|%)(.*)\Z", re.S)
_REPLACE = re.compile(r"/([/#%]?)((?:[^\\/]|\\.)*)(?:/(.*))?\Z", re.S)


def first_value(value: VariableValue) -> str:
    return (value[0] if value else "") if isinstance(value, tuple) else value


class ParameterExpander:
    """Applies the operators of `${…}` to the parameters of one shell."""

    def __init__(self, scope: ShellScope, piece: Callable[[str, bool], str]) -> None:
        self.scope = scope
        self.piece = piece

    def simple(self, name: str, quoted: bool) -> VariableValue:
        value = self.scope.value(name)
        if value is None:
            return ANY_WORD
        if name == "*" and quoted and isinstance(value, tuple):
            return " ".join(value)
        return value if name in "@*" else first_value(value)

    def braced(self, inside: str, quoted: bool) -> VariableValue:
        """The value of the text between `${` and `}`."""
        found = _PARAMETER.match(inside)
        if not found:
            return ANY_WORD
        sigil, name, index, operator = found.groups()
        if sigil == "#" and not operator:
            return SYSTEM_NAME
        value = self._element(name, index, quoted)
        if sigil == "!":
            value = self._indirect(value, index)
        if not operator:
            return ANY_WORD if value is None else value
        return self._operate(name, value, operator, quoted)

    def _element(self, name: str, index: str | None, quoted: bool) -> VariableValue | None:
        value = self.scope.value(name)
        if value is None or index is None:
            return value if value is None or name in "@*" else first_value(value)
        if index == "*" and quoted and isinstance(value, tuple):
            return " ".join(value)
        if index in ("@", "*"):
            return value
        array = value if isinstance(value, tuple) else (value,)
        number = int(index) if re.fullmatch(r"-?\d{1,4}", index) else None
        if number is None:
            return None
        return array[number] if -len(array) <= number < len(array) else ""

    def _indirect(self, value: VariableValue | None, index: str | None) -> VariableValue | None:
        if index in ("@", "*") or not isinstance(value, str) or not is_fully_known(value):
            return SYSTEM_NAME if index in ("@", "*") else None
        return self.scope.value(value)

    def _operate(
        self, name: str, value: VariableValue | None, operator: str, quoted: bool
    ) -> VariableValue:
        if choice := _CHOICE.match(operator):
            return self._choose(name, value, choice, quoted)
        if value is None:
            return ANY_WORD
        known = first_value(value)
        if not is_fully_known(known):
            return SYSTEM_NAME if known == SYSTEM_NAME else ANY_WORD
        for pattern, work in (
            (_SLICE, self._slice),
            (_TRIM, self._trim),
            (_REPLACE, self._replace),
        ):
            if found := pattern.match(operator):
                return work(known, found)
        return _change_case(known, operator)

    def _choose(
        self, name: str, value: VariableValue | None, choice: re.Match[str], quoted: bool
    ) -> VariableValue:
        colon, kind, word = choice.groups()
        if kind == "?":
            return (
                NON_EMPTY_WORD
                if value is None or first_value(value) in (ANY_WORD, ANY_WORDS)
                else value
            )
        other = self.piece(word, quoted)
        if kind == "=" and value is None:
            self.scope.variables[name] = ONE_OF_SEVERAL + other
        doubt = value is None or (
            first_value(value) != "" and not is_fully_known(first_value(value))
        )
        if doubt and self.scope.ignores_defaults:
            return "" if kind == "+" else ANY_WORD
        if doubt:
            return ONE_OF_SEVERAL + other
        empty = first_value(value or "") == "" and (colon or value is None)
        if kind == "+":
            return "" if empty else other
        return other if empty else value or ""

    def _slice(self, value: str, found: re.Match[str]) -> str:
        offset = int(found.group(1))
        rest = value[offset:] if offset >= 0 or -offset <= len(value) else ""
        if found.group(2) is None:
            return rest
        return rest[: int(found.group(2))]

    def _trim(self, value: str, found: re.Match[str]) -> str:
        operator, word = found.groups()
        pattern = self.piece(word, True)
        if not is_fully_known(pattern) or any(mark in pattern for mark in "\"'\\"):
            return ANY_WORD
        glob = re.compile(translate(literal_text(pattern)))
        cuts = range(len(value) + 1)
        if operator in ("##", "%"):
            cuts = range(len(value), -1, -1)
        for cut in cuts:
            head, tail = value[:cut], value[cut:]
            if glob.match(head if operator[0] == "#" else tail):
                return tail if operator[0] == "#" else head
        return value

    def _replace(self, value: str, found: re.Match[str]) -> str:
        how, word, new = found.groups()
        pattern, new = self.piece(word, True), self.piece(new or "", True)
        anchored = how in ("#", "%")
        if anchored or not is_fully_known(pattern) or any(mark in pattern for mark in "*?[\\\"'"):
            return ANY_WORD
        return value.replace(pattern, new, -1 if how else 1) if pattern else value


def _change_case(value: str, operator: str) -> str:
    changes: dict[str, Callable[[str], str]] = {
        "^^": str.upper,
        ",,": str.lower,
        "^": lambda text: text[:1].upper() + text[1:],
        ",": lambda text: text[:1].lower() + text[1:],
        "@U": str.upper,
        "@L": str.lower,
    }
    return changes[operator](value) if operator in changes else ANY_WORD
