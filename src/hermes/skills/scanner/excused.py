"""What a person reads for themselves, or what the description plainly names: shown, and no bar."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

import msgspec
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.purpose import Purpose
from hermes.skills.scanner.shell_text import CONCRETE
from hermes.skills.scanner.signs import signs

_PROSE = (".md", ".markdown", ".mdx", ".rst", ".txt")
_FETCHED = "what was fetched from an unknown address is run unseen"
_HOST = re.compile(r"https://([a-z0-9-]+(?:\.[a-z0-9-]+)+)", re.IGNORECASE)
_ROW = re.compile(r"\s*\|")
_LISTED = re.compile(r"^[ \t]*(?:\||[-*+] |\d+[.)] )[^\n]*$", re.MULTILINE)
_SET_APART = re.compile(r"^[ \t]*>[^\n]*$", re.MULTILINE)
_QUOTED = re.compile(r"[\"“«][^\"”»\n]{4,200}[\"”»]|`[^`\n]{4,200}`")


class _Excuse(Value, frozen=True):
    cause: str
    said: str
    """Over name, description and headings: it is the very thing that the skill is for."""
    where: str = ""
    """Over the path of the file."""
    bare: bool = False
    """Only on a line that names no real place, host or key."""


@cache
def _excuses() -> tuple[_Excuse, ...]:
    text = (Path(__file__).parent / "signs" / "excused.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["excused"], tuple[_Excuse, ...])


def weighed(
    found: Iterable[Finding], texts: Mapping[str, str], purpose: Purpose
) -> Iterator[Finding]:
    """The same findings, some of them as something that a person should look at."""
    for each in found:
        line = _line(texts.get(each.file, ""), each.line)
        if each.blocks and (
            _is_named(each, line, purpose)
            or _is_owned(each, line, purpose)
            or _is_taught(each, line, purpose)
        ):
            each = replace(each, blocks=False)
        yield each


def _line(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _is_named(each: Finding, line: str, purpose: Purpose) -> bool:
    told = f"{each.kind}: {each.cause}"
    return any(
        re.search(excuse.cause, told)
        and re.search(excuse.said, purpose.short)
        and re.search(excuse.where, each.file)
        and not (excuse.bare and CONCRETE.search(line))
        for excuse in _excuses()
    )


def _is_owned(each: Finding, line: str, purpose: Purpose) -> bool:
    """An installer from the place, or the file of a login, that the description itself names."""
    if each.cause == _FETCHED and each.file.endswith(_PROSE):
        hosts = [found.casefold() for found in _HOST.findall(line)]
        return bool(hosts) and all(_domain(host) in purpose.short for host in hosts)
    if each.cause.startswith("it reads ") and each.cause.endswith("talks to the network"):
        secret = signs("python", "secret")[0].pattern.search(each.cause)
        return secret is not None and secret[0].casefold() in purpose.short
    return False


def _domain(host: str) -> str:
    return ".".join(host.split(".")[-2:])


def _is_taught(each: Finding, line: str, purpose: Purpose) -> bool:
    """A text about attacks shows them: in a table, or in a list of patterns beside it."""
    if not purpose.owns_up_to("teaches", shortly=True) or not each.file.endswith(_PROSE):
        return False
    aside = PurePosixPath(each.file).parts[0] in ("references", "examples", "samples")
    kinds = ("shell", "encoded", "python", "capability")
    return each.kind in kinds and (bool(_ROW.match(line)) or aside)


def without_quotations(text: str, purpose: Purpose) -> str:
    """In a text about attacks, what others say is no order to its reader: where it is set apart,
    or quoted in a table or a list."""
    if not purpose.owns_up_to("teaches", shortly=True):
        return text
    return _LISTED.sub(lambda found: _QUOTED.sub("…", found[0]), _SET_APART.sub("…", text))
