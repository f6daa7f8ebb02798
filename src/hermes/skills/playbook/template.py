"""Commands with parameters in them: found, checked, and filled in so that no value can say more."""

import re
import shlex
from collections.abc import Mapping

from hermes.skills.playbook.schema import Kind

PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
LONGEST = 4096
SHAPES: dict[Kind, str] = {
    "text": r"[^\x00]*",
    "word": r"[A-Za-z0-9_][A-Za-z0-9_.:@/+%-]*",
    "number": r"-?\d+(\.\d+)?",
    "port": r"\d{1,5}",
    "path": r"/[^\x00-\x1f]*",
    "unit": r"[A-Za-z0-9_][A-Za-z0-9_.@:-]*\.(service|timer|socket|mount)",
    "host": r"[A-Za-z0-9][A-Za-z0-9.-]*",
}
_LARGEST_PORT = 65_535


def names_in(command: str) -> list[str]:
    return PLACEHOLDER.findall(command)


def fill(command: str, values: Mapping[str, str], *, partly: bool = False) -> str:
    """With `partly`, what is not known yet stays as it is written. Else raises `KeyError`."""

    def one(found: re.Match[str]) -> str:
        if partly and found[1] not in values:
            return found[0]
        return shlex.quote(values[found[1]])

    return PLACEHOLDER.sub(one, command)


def objection(value: str, kind: Kind) -> str:
    """Why this value does not fit its kind, in words; empty when it does."""
    if len(value) > LONGEST:
        return f"is longer than {LONGEST} characters"
    if not re.fullmatch(SHAPES[kind], value):
        return f"{value[:60]!r} is no {kind}"
    if kind == "path" and ".." in value.split("/"):
        return f"{value[:60]!r} climbs out of its folder"
    if kind == "port" and not 1 <= int(value) <= _LARGEST_PORT:
        return f"{value} is no port"
    return ""


def quoted_at(command: str) -> str:
    """The first placeholder that stands inside quotes, where it would be quoted twice; or ''.

    In a here-document, a comment or quotes a value would not be one word of its own.
    """
    for found in PLACEHOLDER.finditer(command):
        if _inside_quotes(command[: found.start()]):
            return found[1]
    return ""


def _inside_quotes(before: str) -> bool:
    quote, escaped = "", False
    for letter in before:
        if escaped:
            escaped = False
        elif letter == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
    return bool(quote)
