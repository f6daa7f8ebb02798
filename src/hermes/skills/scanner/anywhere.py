"""Harm that no purpose excuses, in whatever file of a skill it stands."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from hermes.core.messages import Value
from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.purpose import Purpose
from hermes.skills.scanner.shell_text import bounded

LARGEST = 256 << 10
_PROSE = (".md", ".markdown", ".mdx", ".rst", ".txt", ".csv", ".tsv")
_REMARK = re.compile(r"^[ \t]*(?:#(?!!)|//)[^\n]*", re.MULTILINE)


class _Harm(Value, frozen=True):
    cause: str
    all: tuple[re.Pattern[str], ...]
    where: re.Pattern[str]
    """Over the path of the file."""


@cache
def _harms() -> tuple[_Harm, ...]:
    text = (Path(__file__).parent / "signs" / "anywhere.toml").read_text(encoding="utf-8")
    return tuple(
        _Harm(
            row["cause"],
            tuple(_compiled(each) for each in row["all"]),
            _compiled(row.get("where", "")),
        )
        for row in tomllib.loads(text)["harm"]
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("\n", ""), re.IGNORECASE | re.MULTILINE)


def look_anywhere(path: str, text: str, purpose: Purpose) -> Iterator[Finding]:
    """All patterns of a harm have to be there; a `thing` that the text speaks of excuses it."""
    if PurePosixPath(path).suffix.casefold() in _PROSE:
        return
    code = bounded(_REMARK.sub("", text[:LARGEST]))
    for harm in _harms():
        if not harm.where.search(path):
            continue
        places = [pattern.search(code) for pattern in harm.all]
        first = places[0]
        if first is None or not all(places):
            continue
        thing = first.groupdict().get("thing") or ""
        if thing and thing.casefold().rstrip("s") in purpose.prose:
            continue
        line = code.count("\n", 0, first.start()) + 1
        shown = " ".join(first[0].split())[:80]
        cause = f"{harm.cause}: {shown!r}"
        yield Finding(kind="capability", file=path, line=line, cause=cause)
