"""SQL cut into tokens, far enough to see verbs, conditions and functions."""

import re
from typing import NamedTuple

from hermes.policy.commands.values import word_set

_STANDARD = r"""
    (?P<blank>\s+|--[^\n]*)
  | (?P<string>[eE]'(?:[^'\\]|\'\'|\\.)*'|[nNbBxX]?'(?:[^']|\'\')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
  | (?P<name>"(?:[^"]|"")*")
"""
_MYSQL = r"""
    (?P<blank>\s+|--(?=\s)[^\n]*|\#[^\n]*)
  | (?P<string>[nNbBxX]?'(?:[^'\\]|\'\'|\\.)*'|"(?:[^"\\]|""|\\.)*")
  | (?P<name>`[^`]*`)
"""
_COMMON = r"""
  | (?P<comment>/\*(?!!)(?:(?!/\*).)*?\*/)
  | (?P<hidden>/\*)
  | (?P<number>\d+(?:\.\d+)?)
  | (?P<word>[A-Za-z_][\w$]*)
  | (?P<end>;)
  | (?P<meta>\\\S*)
  | (?P<other><=|>=|<>|!=|\|\||::|@@|.)
"""
_READINGS = tuple(re.compile(own + _COMMON, re.X | re.S) for own in (_STANDARD, _MYSQL))
_DEBATABLE = re.compile(r"[\\#\"$`]|--")
"""Marks that servers read differently: text with one of them is read both ways."""


class Token(NamedTuple):
    kind: str
    text: str

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text


def tokens(text: str, reading: re.Pattern[str]) -> list[Token]:
    """Everything but blanks and comments; a comment that a server may run is `hidden`."""
    found = []
    for match in reading.finditer(text):
        kind = match.lastgroup or "other"
        if kind == "tag":
            kind = "string"
        if kind not in ("blank", "comment"):
            found.append(Token(kind, match.group()))
    return found


def statements(text: str) -> list[list[Token]]:
    """Tokens of each statement, without the semicolons; in every way a server may read it."""
    separated = re.sub(r"(?m)^(\s*\\.*)$", r";\1\n;", text)
    readings = _READINGS if _DEBATABLE.search(text) else _READINGS[:1]
    found: list[list[Token]] = []
    for reading in readings:
        found.append([])
        for token in tokens(separated, reading):
            if token.kind == "end":
                found.append([])
            else:
                found[-1].append(token)
    return [statement for statement in found if statement]


def condition(statement: list[Token]) -> list[Token] | None:
    """The outermost WHERE up to the clause that follows it; None when there is none."""
    depth, start = 0, None
    for at, token in enumerate(statement):
        if token.text == "(":
            depth += 1
        elif token.text == ")":
            depth -= 1
        elif depth == 0 and token.upper == "WHERE":
            start = at + 1
        elif depth == 0 and start is not None and token.upper in _AFTER_WHERE:
            return statement[start:at]
    return None if start is None else statement[start:]


_AFTER_WHERE = word_set("ORDER LIMIT RETURNING GROUP HAVING OFFSET FETCH")
_WORDS_OF_LOGIC = word_set("AND OR NOT TRUE FALSE NULL IS LIKE ILIKE BETWEEN IN XOR DIV")


def chooses(condition: list[Token]) -> bool:
    """Whether a condition really picks rows: some column is compared, and no OR undoes that."""
    arms = _split_or(condition)
    return bool(arms) and all(_narrows(arm) for arm in arms)


def _split_or(condition: list[Token]) -> list[list[Token]]:
    while len(condition) > 1 and condition[0].text == "(" and _wraps(condition):
        condition = condition[1:-1]
    arms: list[list[Token]] = [[]]
    depth = 0
    for token in condition:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and (token.upper == "OR" or token.text == "||"):
            arms.append([])
        else:
            arms[-1].append(token)
    return [arm for arm in arms if arm]


def _wraps(condition: list[Token]) -> bool:
    depth = 0
    for at, token in enumerate(condition):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            return at == len(condition) - 1
    return False


def _narrows(arm: list[Token]) -> bool:
    columns = [
        token.text.lower()
        for token in arm
        if token.kind == "name" or (token.kind == "word" and token.upper not in _WORDS_OF_LOGIC)
    ]
    if not columns:
        return False
    text = " ".join(token.upper for token in arm)
    if text.endswith("IS NOT NULL") or re.search(r"LIKE '%+'$", text):
        return False
    if re.search(r"(?:>=?|<>|!=) (?:0|- 1|-1|'')$", text) and len(arm) <= 4:
        return False
    sides = re.split(r" (?:=|<=|>=) ", text)
    return not (len(sides) == 2 and sides[0] == sides[1])
