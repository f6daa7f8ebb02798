"""Puts what a playbook borrows in its place, so that whoever runs it sees whole commands."""

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from hermes.skills.format.skill_folder import SharedSnippets
from hermes.skills.format.yaml_document import LineNumberedYaml, SkillProblem, YamlFileError
from hermes.skills.playbook import parameters
from hermes.skills.playbook.schema import (
    UNDO_FOLDER_PARAMETER,
    Playbook,
    PlaybookCheck,
    PlaybookParameter,
    PlaybookProbe,
    PlaybookSignature,
    PlaybookStep,
)

PartProblem = tuple[tuple[str | int, ...], str, bool]
PartPath = tuple[str | int, ...]
P = TypeVar("P", PlaybookProbe, PlaybookCheck, PlaybookStep)


def expand_snippets(
    playbook: Playbook, snippets: SharedSnippets
) -> tuple[Playbook, list[PartProblem]]:
    """Whole commands, and what could not be found."""
    found: list[PartProblem] = []
    probes = [
        _expand_part(probe, ("signature", "probes", number), snippets, found)
        for number, probe in enumerate(playbook.signature.probes)
    ]
    steps = [
        _expand_part(step, ("steps", n), snippets, found) for n, step in enumerate(playbook.steps)
    ]
    checks = [
        _expand_part(each, ("verify", n), snippets, found) for n, each in enumerate(playbook.verify)
    ]
    whole = replace(
        playbook,
        signature=replace(playbook.signature, probes=tuple(probes)),
        steps=tuple(steps),
        verify=tuple(checks),
    )
    return whole, found


def _expand_part(part: P, place: PartPath, shelf: SharedSnippets, found: list[PartProblem]) -> P:
    use: str = getattr(part, "use", "")  # steps are always written out
    if use and part.command:
        found.append(((*place, "use"), "it has a command of its own: leave out one of them", True))
    for key in ("name", "command") if not use else ():
        if not getattr(part, key):
            found.append((place, f"{key} is missing, or `use` of a shared one", True))
    command = _read_snippet(use, (*place, "use"), shelf, found) if use else part.command
    before: list[str] = [
        _read_snippet(name, (*place, "with"), shelf, found) for name in part.shared
    ]
    whole = "\n".join(text.rstrip("\n") for text in [*before, command])
    # Written down again it is whole by itself, and borrows nothing.
    own = {"use": ""} if use else {}
    return replace(part, name=part.name or use, command=whole, shared=(), **own)


def _read_snippet(
    name: str, place: PartPath, shelf: SharedSnippets, found: list[PartProblem]
) -> str:
    text = shelf.read(name)
    if text is None:
        near = get_close_matches(name, shelf.names, n=1)
        known = ", ".join(shelf.names) or "none"
        hint = f"did you mean {near[0]}?" if near else f"there are: {known}"
        found.append((place, f"there is no shared {name!r} in _probes; {hint}", True))
    return text or ""


PLAYBOOK_FILE = "playbook.yaml"
MAX_PLAYBOOK_CHARS = 128 << 10
_TOP_LEVEL_KEYS = tuple(field.encode_name for field in msgspec.structs.fields(Playbook))
_LIST_KEYS: dict[str, Any] = {"steps": PlaybookStep, "verify": PlaybookCheck}
T = TypeVar("T")


def parse_playbook(
    text: str, file: str = PLAYBOOK_FILE, snippets: SharedSnippets | None = None
) -> tuple[Playbook | None, list[SkillProblem]]:
    """The playbook, unless a mistake is fatal; and all that was found. What it borrows is taken
    from the shelf, or from what comes with Hermes."""
    if len(text) > MAX_PLAYBOOK_CHARS:
        return None, [SkillProblem(file, 1, f"it is larger than {MAX_PLAYBOOK_CHARS >> 10} KiB")]
    try:
        document = LineNumberedYaml(text)
    except YamlFileError as mistake:
        return None, [SkillProblem(file, mistake.line, str(mistake))]
    found = [SkillProblem(file, line, cause) for line, cause in _find_schema_problems(document)]
    if found:
        return None, found
    playbook, missing = expand_snippets(
        msgspec.convert(document.data, Playbook), snippets or SharedSnippets()
    )
    problems = [
        SkillProblem(file, document.line_of(*place), cause, fatal)
        for place, cause, fatal in [*missing, *_find_semantic_problems(playbook)]
    ]
    return (None if any(each.fatal for each in problems) else playbook), problems


def _find_schema_problems(document: LineNumberedYaml) -> Iterator[tuple[int, str]]:
    """Each part by itself, so that one mistake does not hide the next."""
    data = document.data
    if not isinstance(data, dict):
        yield document.line_of(), "expected the keys summary, signature, steps and verify"
        return
    for key in data:
        if key not in _TOP_LEVEL_KEYS:
            near = get_close_matches(key, _TOP_LEVEL_KEYS, n=1)
            hint = (
                f"did you mean {near[0]}?" if near else f"there are: {', '.join(_TOP_LEVEL_KEYS)}"
            )
            yield document.line_of(key), f"{key} is not known here; {hint}"
    before = len(found := list(_find_part_problems(document, data)))
    yield from found
    if not before and set(data) <= set(_TOP_LEVEL_KEYS):
        yield from _find_conversion_problems(document, data, Playbook)


def _find_part_problems(
    document: LineNumberedYaml, data: dict[str, Any]
) -> Iterator[tuple[int, str]]:
    signature = data.get("signature")
    if isinstance(signature, dict) and isinstance(signature.get("probes"), list):
        for number, probe in enumerate(signature["probes"]):
            yield from _find_conversion_problems(
                document, probe, PlaybookProbe, "signature", "probes", number
            )
        rest = {**signature, "probes": signature["probes"] and [_PLACEHOLDER_PROBE]}
        yield from _find_conversion_problems(document, rest, PlaybookSignature, "signature")
    elif signature is not None:
        yield from _find_conversion_problems(document, signature, PlaybookSignature, "signature")
    for key, kind in _LIST_KEYS.items():
        if isinstance(data.get(key), list):
            for number, item in enumerate(data[key]):
                yield from _find_conversion_problems(document, item, kind, key, number)
    parameters = data.get("parameters")
    if isinstance(parameters, dict):
        for name, item in parameters.items():
            yield from _find_conversion_problems(
                document, item, PlaybookParameter, "parameters", name
            )


_PLACEHOLDER_PROBE = {"name": "any", "command": "true"}


def _find_conversion_problems(
    document: LineNumberedYaml, value: object, kind: type[T], *place: str | int
) -> Iterator[tuple[int, str]]:
    try:
        document.convert(value, kind, *place)
    except YamlFileError as mistake:
        yield mistake.line, str(mistake)


def _find_semantic_problems(playbook: Playbook) -> Iterator[PartProblem]:
    yield from _find_name_problems(playbook)
    yield from _find_pattern_problems(playbook)
    yield from _find_parameter_problems(playbook)
    yield from _find_command_problems(playbook)


def _find_name_problems(playbook: Playbook) -> Iterator[PartProblem]:
    seen = {"alert"}
    for place, part in _iterate_parts(playbook):
        if part.name in seen:
            yield (*place, "name"), f"the name {part.name} is used twice", True
        seen.add(part.name)


def _find_pattern_problems(playbook: Playbook) -> Iterator[PartProblem]:
    for number, pattern in enumerate(playbook.signature.alert):
        yield from _find_regex_problems(pattern, ("signature", "alert", number))
    for name, parameter in playbook.parameters.items():
        yield from _find_regex_problems(parameter.pattern, ("parameters", name, "pattern"))
    for place, part in _iterate_parts(playbook):
        yield from _find_regex_problems(part.expect.regex, (*place, "expect", "regex"))


def _find_regex_problems(pattern: str, place: tuple[str | int, ...]) -> Iterator[PartProblem]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield place, f"not a regular expression: {error}", True


def _find_parameter_problems(playbook: Playbook) -> Iterator[PartProblem]:
    sources = [
        "alert",
        *(part.name for _, part in _iterate_parts(playbook) if not isinstance(part, PlaybookCheck)),
    ]
    for name, parameter in playbook.parameters.items():
        place = ("parameters", name)
        if name == UNDO_FOLDER_PARAMETER:
            yield place, f"{UNDO_FOLDER_PARAMETER} is there by itself: take another name", True
        if parameter.source not in sources:
            near = get_close_matches(parameter.source, sources, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sources)}"
            yield (*place, "from"), f"there is no probe or step {parameter.source!r}; {hint}", True
        if parameter.labels and parameter.source != "alert":
            yield (*place, "labels"), "only an alert has labels", True
        if parameter.default and (
            why := parameters.find_value_problem(parameter.default, parameter.kind)
        ):
            yield (*place, "default"), f"the default {why}", True
        if not any(
            name in parameters.placeholder_names(text) for _, text, _ in _iterate_commands(playbook)
        ):
            yield place, f"{name} is not used anywhere", False


def _find_command_problems(playbook: Playbook) -> Iterator[PartProblem]:
    ready = {"alert"}
    for place, part in _iterate_parts(playbook):
        before = (
            _sources_before_steps(playbook)
            if isinstance(part, PlaybookCheck) and part.symptom
            else ready
        )
        known = {name for name, one in playbook.parameters.items() if one.source in before}
        yield from _find_placeholder_problems((*place, "command"), part.command, known, playbook)
        ready.add(part.name)
        if isinstance(part, PlaybookStep):
            after = {name for name, one in playbook.parameters.items() if one.source in ready}
            yield from _find_placeholder_problems((*place, "undo"), part.undo, after, playbook)
            if not part.undo and part.risk != "read":
                cause = f"{part.name} changes something and has no undo"
                yield (*place, "name"), cause, False


def _sources_before_steps(playbook: Playbook) -> set[str]:
    """Where values come from that are known before the first step."""
    return {"alert", *(probe.name for probe in playbook.signature.probes)}


def _find_placeholder_problems(
    place: tuple[str | int, ...], command: str, known: set[str], playbook: Playbook
) -> Iterator[PartProblem]:
    for name in parameters.placeholder_names(command):
        if name == UNDO_FOLDER_PARAMETER and place[0] != "signature":  # a probe has nothing to keep
            continue
        if name not in playbook.parameters:
            near = get_close_matches(name, playbook.parameters, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield place, f"there is no parameter {name!r}{hint}", True
        elif name not in known:
            source = playbook.parameters[name].source
            yield place, f"{name} is not known yet here: it comes from {source}", True
    if inside := parameters.find_quoted_placeholder(command):
        yield place, f"{{{{{inside}}}}} stands inside quotes: values are quoted by themselves", True


def _iterate_parts(
    playbook: Playbook,
) -> Iterator[tuple[tuple[str | int, ...], PlaybookProbe | PlaybookStep | PlaybookCheck]]:
    for number, probe in enumerate(playbook.signature.probes):
        yield ("signature", "probes", number), probe
    for number, step in enumerate(playbook.steps):
        yield ("steps", number), step
    for number, check in enumerate(playbook.verify):
        yield ("verify", number), check


def _iterate_commands(playbook: Playbook) -> Iterator[tuple[tuple[str | int, ...], str, bool]]:
    for place, part in _iterate_parts(playbook):
        yield place, part.command, isinstance(part, PlaybookStep)
        if isinstance(part, PlaybookStep):
            yield place, part.undo, True


DescribeChanges = Callable[[str], str]
"""What a command would change, in words; empty when it only looks. Joined in by the app."""


def find_changing_probes(
    text: str, playbook: Playbook, describe_changes: DescribeChanges, file: str = PLAYBOOK_FILE
) -> list[SkillProblem]:
    """Probes and checks that would change something, told by who can read commands."""
    document = LineNumberedYaml(text)
    found = []
    for place, part in _iterate_parts(playbook):
        reads = not isinstance(part, PlaybookStep) or part.risk == "read"
        if reads and (
            what := describe_changes(parameters.fill_template(part.command, {}, partial=True))
        ):
            line = document.line_of(*place, "command")
            found.append(SkillProblem(file, line, f"{part.name} should only look, but: {what}"))
    return found
