"""Parameter expansion: `$X`, `${X:-r}`, `${X%%…}` and their kin, as far as values are known."""

import re
from collections.abc import Callable
from fnmatch import translate

from hermes.policy.commands.marks import ANY, LOOSE, MAYBE, NAME, SOME, literal, settled
from hermes.policy.commands.scope import Bound, Scope

_PARAMETER = re.compile(r"([!#]?)([A-Za-z_]\w*|\d+|[@*#?$!_-])(?:\[([^\]]*)\])?(.*)\Z", re.A | re.S)
_CHOICE = re.compile(r"(:?)([-=+?])(.*)\Z", re.S)
_SLICE = re.compile(r":\s*(-?\d+|\s-\d+)(?::\s*(-?\d+))?\Z")
_TRIM = re.compile(r"(##|#|%%|%)(.*)\Z", re.S)
_REPLACE = re.compile(r"/([/#%]?)((?:[^\\/]|\\.)*)(?:/(.*))?\Z", re.S)


def first(value: Bound) -> str:
    return (value[0] if value else "") if isinstance(value, tuple) else value


class Parameters:
    """Values of one shell's parameters, put through the operators of `${…}`."""

    def __init__(self, scope: Scope, piece: Callable[[str, bool], str]) -> None:
        self.scope = scope
        self.piece = piece

    def simple(self, name: str, quoted: bool) -> Bound:
        value = self.scope.value(name)
        if value is None:
            return ANY
        if name == "*" and quoted and isinstance(value, tuple):
            return " ".join(value)
        return value if name in "@*" else first(value)

    def braced(self, inside: str, quoted: bool) -> Bound:
        """The value of what stands between `${` and `}`."""
        found = _PARAMETER.match(inside)
        if not found:
            return ANY
        sigil, name, index, operator = found.groups()
        if sigil == "#" and not operator:
            return NAME
        value = self._element(name, index, quoted)
        if sigil == "!":
            value = self._indirect(value, index)
        if not operator:
            return ANY if value is None else value
        return self._operate(name, value, operator, quoted)

    def _element(self, name: str, index: str | None, quoted: bool) -> Bound | None:
        value = self.scope.value(name)
        if value is None or index is None:
            return value if value is None or name in "@*" else first(value)
        if index == "*" and quoted and isinstance(value, tuple):
            return " ".join(value)
        if index in ("@", "*"):
            return value
        array = value if isinstance(value, tuple) else (value,)
        number = int(index) if re.fullmatch(r"-?\d{1,4}", index) else None
        if number is None:
            return None
        return array[number] if -len(array) <= number < len(array) else ""

    def _indirect(self, value: Bound | None, index: str | None) -> Bound | None:
        if index in ("@", "*") or not isinstance(value, str) or not settled(value):
            return NAME if index in ("@", "*") else None
        return self.scope.value(value)

    def _operate(self, name: str, value: Bound | None, operator: str, quoted: bool) -> Bound:
        if choice := _CHOICE.match(operator):
            return self._choose(name, value, choice, quoted)
        if value is None:
            return ANY
        known = first(value)
        if not settled(known):
            return NAME if known == NAME else ANY
        for pattern, work in (
            (_SLICE, self._slice),
            (_TRIM, self._trim),
            (_REPLACE, self._replace),
        ):
            if found := pattern.match(operator):
                return work(known, found)
        return _changed_case(known, operator)

    def _choose(self, name: str, value: Bound | None, choice: re.Match[str], quoted: bool) -> Bound:
        colon, kind, word = choice.groups()
        if kind == "?":
            return SOME if value is None or first(value) in (ANY, LOOSE) else value
        other = self.piece(word, quoted)
        if kind == "=" and value is None:
            self.scope.variables[name] = MAYBE + other
        doubt = value is None or (first(value) != "" and not settled(first(value)))
        if doubt:
            return MAYBE + other
        empty = first(value or "") == "" and (colon or value is None)
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
        if not settled(pattern) or any(mark in pattern for mark in "\"'\\"):
            return ANY
        glob = re.compile(translate(literal(pattern)))
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
        if anchored or not settled(pattern) or any(mark in pattern for mark in "*?[\\\"'"):
            return ANY
        return value.replace(pattern, new, -1 if how else 1) if pattern else value


def _changed_case(value: str, operator: str) -> str:
    changes: dict[str, Callable[[str], str]] = {
        "^^": str.upper,
        ",,": str.lower,
        "^": lambda text: text[:1].upper() + text[1:],
        ",": lambda text: text[:1].lower() + text[1:],
        "@U": str.upper,
        "@L": str.lower,
    }
    return changes[operator](value) if operator in changes else ANY
