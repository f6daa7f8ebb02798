"""Reads and writes <home>/.env, which holds secrets and other variables.

Nothing is expanded or executed. The syntax: `NAME=value`, `export NAME=value`, comments, single
quotes (literal), double quotes (with backslash escapes, may span lines).
"""

import re
from pathlib import Path

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.plumbing.problems import Problem
from hermes.settings.files import lock_settings, read_text, replace_text

ENV_FILE_NAME = ".env"
_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=[ \t]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_UNQUOTED = re.compile(r"[A-Za-z0-9_./:@%+,=~^*?!&<>-]+")


class EnvEntry(Value, frozen=True):
    name: str
    value: str
    first_line: int
    """First and last line, counted from 1."""
    last_line: int


class EnvFile(Value, frozen=True):
    entries: tuple[EnvEntry, ...] = ()
    problems: tuple[Problem, ...] = ()
    exposed: bool = False
    """True when other users may read it."""


def read_env_file(home: Path) -> EnvFile:
    path = home / ENV_FILE_NAME
    text = read_text(path)
    if text is None:
        return EnvFile()
    entries, problems = parse_env(text, path)
    return EnvFile(tuple(entries), tuple(problems), bool(path.stat().st_mode & 0o077))


def parse_env(text: str, path: Path) -> tuple[list[EnvEntry], list[Problem]]:
    entries: list[EnvEntry] = []
    problems: list[Problem] = []
    lines = _split_lines(text)
    at = 0
    while at < len(lines):
        first, line = at, lines[at]
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _ASSIGNMENT.match(line)
        if found is None:
            what = "expected NAME=value; put # before a comment"
            problems.append(Problem(str(path), first + 1, what))
            continue
        name, rest = found.groups()
        if rest[:1] in ("'", '"'):
            closing, at = _read_quoted(lines, at, rest)
            if closing is None:
                what = f"the quote of {name} is never closed"
                problems.append(Problem(str(path), first + 1, what))
                break
            entries.append(EnvEntry(name, closing, first + 1, at))
        else:
            entries.append(EnvEntry(name, re.split(r"(?:^|\s)#", rest)[0].strip(), first + 1, at))
    return entries, problems


def _read_quoted(lines: list[str], at: int, rest: str) -> tuple[str | None, int]:
    """Return the value up to the closing quote, and the index of the next line."""
    body = r"((?:[^\"\\]|\\.)*)" if rest[0] == '"' else r"([^']*)"
    pattern = re.compile(rest[0] + body + rest[0], re.DOTALL)
    while True:
        found = pattern.match(rest)
        if found is not None:
            inner = found.group(1)
            return (_ESCAPE.sub(_unescape, inner) if rest[0] == '"' else inner), at
        if at >= len(lines):
            return None, at
        rest += "\n" + lines[at]
        at += 1


def _unescape(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(found.group(1), found.group(1))


def set_variable(home: Path, name: str, value: str | None) -> None:
    """Set a variable, or remove it with None. Comments and other lines stay unchanged."""
    with lock_settings(home):
        path = home / ENV_FILE_NAME
        text = read_text(path) or ""
        entries, problems = parse_env(text, path)
        if problems:
            raise SettingsError(f"nothing was changed: {problems[0]}")
        lines = _split_lines(text)
        wanted = [] if value is None else [f"{name}={quote_value(value)}"]
        for entry in reversed([entry for entry in entries if entry.name == name]):
            lines[entry.first_line - 1 : entry.last_line] = wanted
            wanted = []  # only the last one is kept
        replace_text(path, "".join(f"{line}\n" for line in lines + wanted), private=True)


def _split_lines(text: str) -> list[str]:
    # Not `splitlines`: it also splits at form feeds and Unicode separators.
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def quote_value(value: str) -> str:
    if not value or _UNQUOTED.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
