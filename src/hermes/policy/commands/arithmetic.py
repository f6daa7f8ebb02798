"""Tells whether an arithmetic expression can run code.

Bash evaluates the text of a variable as an expression again, and a subscript in it may hold a
command substitution: `x='a[$(reboot)]'; echo $((x))`. An expression is harmless only when every
value in it is known to be a number.
"""

import re
from collections.abc import Iterable

from hermes.policy.commands.marks import MAYBE, NAME
from hermes.policy.commands.scope import Bound, Scope
from hermes.policy.commands.tables import decides_code

_NUMBER = re.compile(rf"[\s{NAME}{MAYBE}0-9+-]*\Z")
_LENGTH = re.compile(r"\$\{#[^}]*\}")
_IDENTIFIER = re.compile(r"(?<![\w#])[A-Za-z_]\w*", re.A)
_BASE = re.compile(r"\b(?:0[xX][0-9a-fA-F]+|\d+#[0-9A-Za-z@_]+)")
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:=(?!=)|[-+*/%]=|\+\+|--)", re.A)
_STATEMENT = re.compile(r"[=\[]|\+\+|--")
_COMPARISON = re.compile(r"\s-(?:eq|ne|lt|le|gt|ge)\s")
_OPERAND = re.compile(r"(\S+)\s+-(?:eq|ne|lt|le|gt|ge)\s+(\S+)")
_VARIABLE_TEST = re.compile(r"-v\s+(\S+)")
_SUBSTITUTION = re.compile(r"\$\((?!\()|`")


def is_number(value: Bound | None) -> bool:
    if value is None:
        return False
    texts = value if isinstance(value, tuple) else (value,)
    return all(_NUMBER.match(text) for text in texts)


def unknown_operand(text: str, scope: Scope, outputs: Iterable[str] = ()) -> str:
    """What in an expression may be anything; empty when all of it is numbers.

    `outputs` is what the command substitutions inside it print.
    """
    if any(not is_number(output) for output in outputs):
        return "the output of a command"
    plain = _BASE.sub("0", _LENGTH.sub("0", _outside_substitutions(text)))
    names = dict.fromkeys(_IDENTIFIER.findall(plain))
    counters = frozenset(_ASSIGNED.findall(plain))
    if steering := next(filter(decides_code, map(str, names)), ""):
        return f"{steering}, which decides what code runs and"
    for name in map(str, names):
        value = scope.value(name)
        if not is_number(value) and not (value is None and name in counters):
            return name
    return ""


def assigned_names(text: str) -> list[str]:
    """Variables that an expression sets; they hold numbers afterwards."""
    return _ASSIGNED.findall(_outside_substitutions(text))


def unknown_in_test(text: str, scope: Scope, outputs: Iterable[str]) -> str:
    """The same for `[[ … ]]`, where only numeric comparisons and `-v` evaluate their operands."""
    if not text.startswith("[["):
        operands = _VARIABLE_TEST.findall(text)
    elif _COMPARISON.search(text):
        if unknown := unknown_operand("", scope, outputs):
            return unknown
        operands = [each for pair in _OPERAND.findall(text) for each in pair]
        operands += _VARIABLE_TEST.findall(text)
    else:
        operands = _VARIABLE_TEST.findall(text)
    for operand in operands:
        bare = operand.strip("\"'")
        evaluated = "$" in bare or bare in scope.variables or _STATEMENT.search(bare)
        if evaluated and (unknown := unknown_operand(bare, scope)):
            return unknown
    return ""


def _outside_substitutions(text: str) -> str:
    """The text without its command substitutions, whose output is judged apart."""
    kept, at = [], 0
    while found := _SUBSTITUTION.search(text, at):
        kept.append(text[at : found.start()])
        at = _end(text, found)
    return "".join([*kept, text[at:]])


def _end(text: str, found: re.Match[str]) -> int:
    if found.group() == "`":
        close = text.find("`", found.end())
        return close + 1 if close >= 0 else len(text)
    depth, at = 1, found.end()
    while at < len(text) and depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at
