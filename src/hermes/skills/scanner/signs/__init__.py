"""Patterns of what foreign skills must not say or do, kept as data."""

import re
import tomllib
from functools import cache
from pathlib import Path

from hermes.core.messages import Value


class Sign(Value, frozen=True):
    pattern: re.Pattern[str]
    cause: str


@cache
def signs(file: str, table: str) -> tuple[Sign, ...]:
    """The patterns of one table, read when they are first needed."""
    text = (Path(__file__).parent / f"{file}.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    fragments = {name: _joined(text) for name, text in data.get("fragments", {}).items()}
    return tuple(
        Sign(re.compile(_filled(row["pattern"], fragments), re.IGNORECASE), row.get("cause", ""))
        for row in data[table]
    )


def _joined(text: str) -> str:
    return text.replace("\n", "")


def _filled(pattern: str, fragments: dict[str, str]) -> str:
    named = re.compile(f"<<({'|'.join(fragments) or '-'})>>")
    pattern = _joined(pattern)
    while found := named.search(pattern):
        pattern = pattern[: found.start()] + fragments[found[1]] + pattern[found.end() :]
    return pattern
