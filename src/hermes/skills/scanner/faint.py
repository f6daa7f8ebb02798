"""Signs that decent authors give too: one is shown to a person, two of different kinds stop."""

import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from hermes.skills.scanner.finding import Finding

_HEAD = 5
"""Lines in which name and description stand."""


@cache
def _kinds() -> dict[str, str]:
    text = (Path(__file__).parent / "signs" / "faint.toml").read_text(encoding="utf-8")
    return {cause: kind for kind, causes in tomllib.loads(text).items() for cause in causes}


def taken_together(found: Iterable[Finding]) -> Iterator[Finding]:
    """The same findings; faint ones of a single kind are no bar."""
    findings = list(found)
    kinds = {_kinds().get(_cause(each), "plain") for each in findings if each.blocks}
    alone = len(kinds) == 1 and "plain" not in kinds
    for each in findings:
        yield replace(each, blocks=False) if alone and each.blocks else each


def _cause(finding: Finding) -> str:
    """None where a description gives orders: it is read with every task, whoever uses the skill."""
    described = finding.file == "SKILL.md" and finding.line <= _HEAD
    spoken = finding.kind == "prose" and not described
    return finding.cause.partition(":")[0] if spoken else ""
