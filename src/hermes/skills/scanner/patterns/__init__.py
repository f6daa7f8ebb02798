"""Patterns of what foreign skills must not say or do, kept as data."""

import re
import tomllib
from functools import cache
from pathlib import Path

from hermes.core.messages import Value


class ScanPattern(Value, frozen=True):
    pattern: re.Pattern[str]
    cause: str


@cache
def load_patterns(file: str, table: str) -> tuple[ScanPattern, ...]:
    """The patterns of one table, read when they are first needed."""
    text = (Path(__file__).parent / f"{file}.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    fragments = {name: _join_lines(text) for name, text in data.get("fragments", {}).items()}
    return tuple(
        ScanPattern(
            re.compile(_fill_fragments(row["pattern"], fragments), re.IGNORECASE),
            row.get("cause", ""),
        )
        for row in data[table]
    )


def _join_lines(text: str) -> str:
    return text.replace("\n", "")


def _fill_fragments(pattern: str, fragments: dict[str, str]) -> str:
    named = re.compile(f"<<({'|'.join(fragments) or '-'})>>")
    pattern = _join_lines(pattern)
    while found := named.search(pattern):
        pattern = pattern[: found.start()] + fragments[found[1]] + pattern[found.end() :]
    return pattern
