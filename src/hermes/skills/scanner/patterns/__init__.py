"""Loads the patterns of the scanner from TOML files, and the names of well-known packages."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from hermes.core.messages import Value


class ScanPattern(Value, frozen=True):
    pattern: re.Pattern[str]
    cause: str


def read_pattern_file(file: str) -> dict[str, Any]:
    text = (Path(__file__).parent / f"{file}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def load_patterns(file: str, table: str) -> tuple[ScanPattern, ...]:
    data = read_pattern_file(file)
    fragments = {name: _join_lines(text) for name, text in data.get("fragments", {}).items()}
    return tuple(
        ScanPattern(
            re.compile(_fill_fragments(row["pattern"], fragments), re.IGNORECASE),
            row.get("cause", ""),
        )
        for row in data[table]
    )


def load_pattern(file: str, table: str) -> re.Pattern[str]:
    """The pattern of a table that has only one."""
    return load_patterns(file, table)[0].pattern


@cache
def read_popular_packages() -> dict[str, str]:
    """Well-known package names, by the name without separators."""
    text = (Path(__file__).parent / "popular_packages.txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return {replace_separators(name): name for line in lines for name in line.split()}


def replace_separators(name: str, separator: str = "") -> str:
    return re.sub(r"[-_.]+", separator, name.casefold())


def _join_lines(text: str) -> str:
    return text.replace("\n", "")


def _fill_fragments(pattern: str, fragments: dict[str, str]) -> str:
    named = re.compile(f"<<({'|'.join(fragments) or '-'})>>")
    pattern = _join_lines(pattern)
    while found := named.search(pattern):
        pattern = pattern[: found.start()] + fragments[found[1]] + pattern[found.end() :]
    return pattern
