"""Reads policy files: every mistake with file, line and cause, and never a silent fall back."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.messages import Value
from hermes.policy import schema
from hermes.policy.meaning import flaws_of
from hermes.policy.rules import end_of
from hermes.policy.schema import KINDS, VERSION, Document
from hermes.policy.shape import flaws, suggest
from hermes.policy.yaml_places import Raw, read

_BIGGEST = 2 * 1024 * 1024


class Problem(Value, kw_only=True, frozen=True):
    file: str
    line: int
    cause: str
    fatal: bool = True
    """False for what is worth knowing and changes no verdict, such as an expired exception."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.cause}"


class Placed(Value, frozen=True):
    """A document and where it stands."""

    document: Document
    file: str
    line: int

    @property
    def source(self) -> str:
        return f"{self.file}:{self.line}"


class Loaded(Value, kw_only=True, frozen=True):
    documents: tuple[Placed, ...] = ()
    problems: tuple[Problem, ...] = ()

    def __add__(self, other: "Loaded") -> "Loaded":
        return Loaded(
            documents=self.documents + other.documents, problems=self.problems + other.problems
        )


def load_folder(folder: Path, *, tighten_only: bool = False) -> Loaded:
    """All `*.yaml` and `*.yml` of a folder and of the folders in it; none if it is not there."""
    found = Loaded()
    if folder.is_dir():
        for file in sorted([*folder.rglob("*.yaml"), *folder.rglob("*.yml")]):
            found += load_file(file, tighten_only=tighten_only)
    return found


def load_file(file: Path, *, tighten_only: bool = False) -> Loaded:
    try:
        data = file.read_bytes()
        if len(data) > _BIGGEST:
            raise ValueError("larger than any policy a person wrote")
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        return Loaded(problems=(Problem(file=str(file), line=1, cause=f"cannot be read: {error}"),))
    return load_text(text, str(file), tighten_only=tighten_only)


def load_text(text: str, file: str, *, tighten_only: bool = False) -> Loaded:
    raws, mistakes = read(text)
    documents: list[Placed] = []
    problems = [Problem(file=file, line=each.line, cause=each.cause) for each in mistakes]
    for raw in raws:
        found = [
            Problem(file=file, line=line, cause=cause)
            for line, cause in _mistakes(raw, tighten_only=tighten_only)
        ]
        problems += found
        if not found:
            kind = KINDS[raw.data["kind"]]
            documents.append(Placed(msgspec.convert(raw.data, kind), file, raw.line))
    return Loaded(documents=tuple(documents), problems=tuple(problems))


def check_together(documents: Sequence[Placed], now: datetime | None = None) -> Iterator[Problem]:
    """What is only wrong because of another document, or of the calendar."""
    now = now or datetime.now(UTC)
    seen: dict[tuple[str, str], Placed] = {}
    for placed in documents:
        document = placed.document
        name = (document.kind, document.metadata.name)
        if name in seen:
            cause = f"{name[0]} {name[1]!r} is there already: {seen[name].source}"
            yield Problem(file=placed.file, line=placed.line, cause=cause)
        seen.setdefault(name, placed)
        if isinstance(document, schema.PolicyException) and end_of(document.spec.expires) <= now:
            cause = f"the exception {name[1]!r} has expired and counts no more: renew or remove it"
            yield Problem(file=placed.file, line=placed.line, cause=cause, fatal=False)


def _mistakes(raw: Raw, *, tighten_only: bool) -> Iterator[tuple[int, str]]:
    data = raw.data
    if not isinstance(data, dict):
        yield raw.line, "expected a document with apiVersion, kind, metadata and spec"
        return
    kind = KINDS.get(str(data.get("kind", "")))
    if kind is None:
        given = str(data.get("kind", "nothing"))
        cause = f"kind: {given} is not one we know; {suggest(given, list(KINDS))}"
        yield raw.line_of(("kind",)), cause
        return
    if data.get("apiVersion") != VERSION:
        yield raw.line_of(("apiVersion",)), f"apiVersion: must be {VERSION}"
    _fill_in(data.get("spec"))
    shape = list(flaws(kind, data))
    for path, cause in shape:
        yield raw.line_of(path), cause
    if shape:
        return
    document = msgspec.convert(data, kind)
    for path, cause in flaws_of(document, tighten_only=tighten_only):
        yield raw.line_of(path), cause


def _fill_in(spec: Any) -> None:
    """A day as the end of it, and what a PolicyTest says once for all its cases."""
    if not isinstance(spec, dict):
        return
    expires = spec.get("expires")
    if isinstance(expires, date):
        spec["expires"] = end_of(expires)
    defaults, cases = spec.get("defaults"), spec.get("cases")
    if isinstance(defaults, dict) and isinstance(cases, list):
        spec["cases"] = [{**defaults, **case} if isinstance(case, dict) else case for case in cases]
