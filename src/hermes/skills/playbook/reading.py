"""`playbook.yaml` into a checked `Playbook`; every mistake with its line, not only the first."""

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from hermes.skills.format.places import Document, Mistake
from hermes.skills.format.problem import Problem
from hermes.skills.format.shared import Shelf
from hermes.skills.playbook import template
from hermes.skills.playbook.borrowing import Finding, with_borrowed
from hermes.skills.playbook.schema import (
    KEPT,
    Check,
    Parameter,
    Playbook,
    Probe,
    Signature,
    Step,
)

FILE = "playbook.yaml"
LARGEST = 128 << 10
_TOP = tuple(field.encode_name for field in msgspec.structs.fields(Playbook))
_LISTS: dict[str, Any] = {"steps": Step, "verify": Check}
T = TypeVar("T")


def read_playbook(
    text: str, file: str = FILE, shelf: Shelf | None = None
) -> tuple[Playbook | None, list[Problem]]:
    """The playbook, unless a mistake is fatal; and all that was found. What it borrows is taken
    from the shelf, or from what comes with Hermes."""
    if len(text) > LARGEST:
        return None, [Problem(file, 1, f"it is larger than {LARGEST >> 10} KiB")]
    try:
        document = Document(text)
    except Mistake as mistake:
        return None, [Problem(file, mistake.line, str(mistake))]
    found = [Problem(file, line, cause) for line, cause in _shape(document)]
    if found:
        return None, found
    playbook, missing = with_borrowed(msgspec.convert(document.data, Playbook), shelf or Shelf())
    problems = [
        Problem(file, document.line(*place), cause, fatal)
        for place, cause, fatal in [*missing, *_meaning(playbook)]
    ]
    return (None if any(each.fatal for each in problems) else playbook), problems


def _shape(document: Document) -> Iterator[tuple[int, str]]:
    """Each part by itself, so that one mistake does not hide the next."""
    data = document.data
    if not isinstance(data, dict):
        yield document.line(), "expected the keys summary, signature, steps and verify"
        return
    for key in data:
        if key not in _TOP:
            near = get_close_matches(key, _TOP, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(_TOP)}"
            yield document.line(key), f"{key} is not known here; {hint}"
    before = len(found := list(_parts(document, data)))
    yield from found
    if not before and set(data) <= set(_TOP):
        yield from _tried(document, data, Playbook)


def _parts(document: Document, data: dict[str, Any]) -> Iterator[tuple[int, str]]:
    signature = data.get("signature")
    if isinstance(signature, dict) and isinstance(signature.get("probes"), list):
        for number, probe in enumerate(signature["probes"]):
            yield from _tried(document, probe, Probe, "signature", "probes", number)
        rest = {**signature, "probes": signature["probes"] and [_ANY_PROBE]}
        yield from _tried(document, rest, Signature, "signature")
    elif signature is not None:
        yield from _tried(document, signature, Signature, "signature")
    for key, kind in _LISTS.items():
        if isinstance(data.get(key), list):
            for number, item in enumerate(data[key]):
                yield from _tried(document, item, kind, key, number)
    parameters = data.get("parameters")
    if isinstance(parameters, dict):
        for name, item in parameters.items():
            yield from _tried(document, item, Parameter, "parameters", name)


_ANY_PROBE = {"name": "any", "command": "true"}


def _tried(
    document: Document, value: object, kind: type[T], *place: str | int
) -> Iterator[tuple[int, str]]:
    try:
        document.fit(value, kind, *place)
    except Mistake as mistake:
        yield mistake.line, str(mistake)


def _meaning(playbook: Playbook) -> Iterator[Finding]:
    yield from _names(playbook)
    yield from _patterns(playbook)
    yield from _parameters(playbook)
    yield from _commands(playbook)


def _names(playbook: Playbook) -> Iterator[Finding]:
    seen = {"alert"}
    for place, part in _all(playbook):
        if part.name in seen:
            yield (*place, "name"), f"the name {part.name} is used twice", True
        seen.add(part.name)


def _patterns(playbook: Playbook) -> Iterator[Finding]:
    for number, pattern in enumerate(playbook.signature.alert):
        yield from _compiles(pattern, ("signature", "alert", number))
    for name, parameter in playbook.parameters.items():
        yield from _compiles(parameter.pattern, ("parameters", name, "pattern"))
    for place, part in _all(playbook):
        yield from _compiles(part.expect.regex, (*place, "expect", "regex"))


def _compiles(pattern: str, place: tuple[str | int, ...]) -> Iterator[Finding]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield place, f"not a regular expression: {error}", True


def _parameters(playbook: Playbook) -> Iterator[Finding]:
    sources = ["alert", *(part.name for _, part in _all(playbook) if not isinstance(part, Check))]
    for name, parameter in playbook.parameters.items():
        place = ("parameters", name)
        if name == KEPT:
            yield place, f"{KEPT} is there by itself: take another name", True
        if parameter.source not in sources:
            near = get_close_matches(parameter.source, sources, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sources)}"
            yield (*place, "from"), f"there is no probe or step {parameter.source!r}; {hint}", True
        if parameter.labels and parameter.source != "alert":
            yield (*place, "labels"), "only an alert has labels", True
        if parameter.default and (why := template.objection(parameter.default, parameter.kind)):
            yield (*place, "default"), f"the default {why}", True
        if not any(name in template.names_in(text) for _, text, _ in _texts(playbook)):
            yield place, f"{name} is not used anywhere", False


def _commands(playbook: Playbook) -> Iterator[Finding]:
    ready = {"alert"}
    for place, part in _all(playbook):
        before = _looked(playbook) if isinstance(part, Check) and part.symptom else ready
        known = {name for name, one in playbook.parameters.items() if one.source in before}
        yield from _placeholders((*place, "command"), part.command, known, playbook)
        ready.add(part.name)
        if isinstance(part, Step):
            after = {name for name, one in playbook.parameters.items() if one.source in ready}
            yield from _placeholders((*place, "undo"), part.undo, after, playbook)
            if not part.undo and part.risk != "read":
                cause = f"{part.name} changes something and has no undo"
                yield (*place, "name"), cause, False


def _looked(playbook: Playbook) -> set[str]:
    """Where values come from that are known before the first step."""
    return {"alert", *(probe.name for probe in playbook.signature.probes)}


def _placeholders(
    place: tuple[str | int, ...], command: str, known: set[str], playbook: Playbook
) -> Iterator[Finding]:
    for name in template.names_in(command):
        if name == KEPT and place[0] != "signature":  # a probe has nothing to keep
            continue
        if name not in playbook.parameters:
            near = get_close_matches(name, playbook.parameters, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield place, f"there is no parameter {name!r}{hint}", True
        elif name not in known:
            source = playbook.parameters[name].source
            yield place, f"{name} is not known yet here: it comes from {source}", True
    if inside := template.quoted_at(command):
        yield place, f"{{{{{inside}}}}} stands inside quotes: values are quoted by themselves", True


def _all(playbook: Playbook) -> Iterator[tuple[tuple[str | int, ...], Probe | Step | Check]]:
    for number, probe in enumerate(playbook.signature.probes):
        yield ("signature", "probes", number), probe
    for number, step in enumerate(playbook.steps):
        yield ("steps", number), step
    for number, check in enumerate(playbook.verify):
        yield ("verify", number), check


def _texts(playbook: Playbook) -> Iterator[tuple[tuple[str | int, ...], str, bool]]:
    for place, part in _all(playbook):
        yield place, part.command, isinstance(part, Step)
        if isinstance(part, Step):
            yield place, part.undo, True


Looks = Callable[[str], str]
"""What a command would change, in words; empty when it only looks. Joined in by the app."""


def doubts(text: str, playbook: Playbook, changes: Looks, file: str = FILE) -> list[Problem]:
    """Probes and checks that would change something, told by who can read commands."""
    document = Document(text)
    found = []
    for place, part in _all(playbook):
        reads = not isinstance(part, Step) or part.risk == "read"
        if reads and (what := changes(template.fill(part.command, {}, partly=True))):
            line = document.line(*place, "command")
            found.append(Problem(file, line, f"{part.name} should only look, but: {what}"))
    return found
