"""Tests in Python that ask the clock, and moments that are written into the code."""

import ast
import re
from collections.abc import Mapping

from hermes.skills.scanner.python_folding import Folded
from hermes.skills.scanner.python_tricks import dotted

_CLOCK = re.compile(
    r"\b(?:datetime|date|dt|time|pendulum|arrow|Timestamp|timezone|_?d)\b[\w.]*\."
    r"(?:now|today|utcnow|time|time_ns|localtime|gmtime|strftime|ctime|asctime)\(|"
    r"\b(?:now|today|utcnow|time_ns|localtime|gmtime)\(\)"
)
_YEAR = re.compile(r"\.year\b|tm_year|%[YyGjsU]|isocalendar|toordinal|isoformat|timetuple")
_DAYS = re.compile(r"86_?400|\b24 \* 3600\b|60 \* 60 \* 24")
_PART = re.compile(
    r"\.(?:month|day|hour|minute|weekday\(\)|isoweekday\(\)|tm_(?:mon|mday|wday|hour|yday))|%[mdHajw]"
)
_MOMENTS = {"datetime", "date", "fromisoformat", "strptime", "mktime", "Timestamp", "fromordinal",
            "fromtimestamp", "utcfromtimestamp"}  # fmt: skip
_WRITTEN = re.compile(r"20[2-9]\d(?:[-/.]?[01]\d)?(?:[-/.]?[0-3]\d)?(?:[T ].*)?")
_YEARS = range(2020, 2100)


def about_clock(value: ast.AST, text: str) -> set[str]:
    """What an expression has to do with time; `text` is the expression as it is written."""
    kinds = {
        kind
        for kind, pattern in (("clock", _CLOCK), ("year", _YEAR), ("days", _DAYS), ("part", _PART))
        if pattern.search(text)
    }
    if any(isinstance(each, ast.Call) and _is_moment(each) for each in ast.walk(value)):
        kinds.add("moment")
    return kinds


def _is_moment(call: ast.Call) -> bool:
    last = dotted(call.func).rpartition(".")[2]
    first = call.args[0] if call.args else None
    if last not in _MOMENTS or not isinstance(first, ast.Constant):
        return False
    return _absolute(first.value, frozenset({"year", "days"}))


def is_fixed(test: ast.AST, kinds: set[str], constants: Mapping[str, Folded]) -> bool:
    """The clock is held against one moment of all time."""
    if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Call | ast.Name):
        return False
    if "moment" in kinds:
        return True
    for each in ast.walk(test):
        if isinstance(each, ast.Constant) and _absolute(each.value, kinds):
            return True
        if isinstance(each, ast.Name) and _absolute(constants.get(each.id), kinds):
            return True
    return False


def _absolute(value: object, kinds: set[str] | frozenset[str]) -> bool:
    if isinstance(value, str):
        return bool(_WRITTEN.fullmatch(value))
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    if "year" in kinds and (value in _YEARS or 202_000 < value < 210_000):
        return True
    if "days" in kinds and 19_000 < value < 25_000:
        return True
    return (
        730_000 < value < 760_000
        or 20_200_000 < value < 21_000_000
        or 1_500_000_000 < value < 4_000_000_000
        or 1_500_000_000_000 < value < 4_000_000_000_000
    )


def recurs(test: ast.AST, kinds: set[str]) -> bool:
    """It is held against a weekday, a month or an hour."""
    return "part" in kinds and any(
        isinstance(each, ast.Compare)
        and any(isinstance(side, ast.Constant | ast.Tuple | ast.Set) for side in each.comparators)
        for each in ast.walk(test)
    )
