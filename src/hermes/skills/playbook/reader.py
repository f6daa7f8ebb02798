"""Parses `playbook.yaml`, inserts shared snippets, and reports every problem with its line."""

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from hermes.plumbing.problems import Problem, closest_name, suggest_name
from hermes.plumbing.yaml_document import YamlDocument, YamlFileError, load_yaml
from hermes.skills.format import SharedSnippets
from hermes.skills.playbook.parameters import (
    fill_template,
    find_quoted_placeholder,
    find_value_problem,
    placeholder_names,
)
from hermes.skills.playbook.schema import (
    FUNCTIONS_PLACEHOLDER,
    KUBECTL_PLACEHOLDER,
    UNDO_FOLDER_PARAMETER,
    Playbook,
    PlaybookCheck,
    PlaybookParameter,
    PlaybookProbe,
    PlaybookSignature,
    PlaybookStep,
)
from hermes.skills.supervisors.commands import QUERIES, parse_action
from hermes.skills.supervisors.units import drop_unused_functions

PartPath = tuple[str | int, ...]
PartProblem = tuple[PartPath, str, bool]
"""Where, what, and whether it is fatal."""
DescribeChanges = Callable[[str], str]
"""What a command would change, in words; empty when it only reads."""
P = TypeVar("P", PlaybookProbe, PlaybookCheck, PlaybookStep)
PLAYBOOK_FILE = "playbook.yaml"
MAX_PLAYBOOK_CHARS = 128 << 10
_TOP_LEVEL_KEYS = tuple(field.encode_name for field in msgspec.structs.fields(Playbook))
_LIST_KEYS: dict[str, Any] = {"steps": PlaybookStep, "verify": PlaybookCheck}
T = TypeVar("T")


def parse_playbook(
    text: str, file: str = PLAYBOOK_FILE, snippets: SharedSnippets | None = None
) -> tuple[Playbook | None, list[Problem]]:
    """The playbook, or None when a problem is fatal; and all problems.

    Without `snippets`, only the bundled ones can be used.
    """
    if len(text) > MAX_PLAYBOOK_CHARS:
        return None, [Problem(file, 1, f"it is larger than {MAX_PLAYBOOK_CHARS >> 10} KiB")]
    try:
        document = load_yaml(text, file)
    except YamlFileError as error:
        return None, [error.problem]
    found = list(_find_schema_problems(document))
    if found:
        return None, found
    playbook, missing = expand_snippets(
        msgspec.convert(document.data, Playbook), snippets or SharedSnippets()
    )
    problems = [
        document.problem(path, cause, fatal=fatal)
        for path, cause, fatal in [
            *missing,
            *_find_name_problems(playbook),
            *_find_pattern_problems(playbook),
            *_find_parameter_problems(playbook),
            *_find_command_problems(playbook),
        ]
    ]
    return (None if any(each.fatal for each in problems) else playbook), problems


def _find_schema_problems(document: YamlDocument) -> Iterator[Problem]:
    """Checks each part separately, so that one problem does not hide the next."""
    data = document.data
    if not isinstance(data, dict):
        yield document.problem((), "expected the keys summary, signature, steps and verify")
        return
    for key in data:
        if key not in _TOP_LEVEL_KEYS:
            hint = suggest_name(key, _TOP_LEVEL_KEYS)
            yield document.problem((key,), f"{key} is not known here; {hint}")
    before = len(found := list(_find_part_problems(document, data)))
    yield from found
    if not before and set(data) <= set(_TOP_LEVEL_KEYS):
        yield from _find_conversion_problems(document, data, Playbook)


def _find_part_problems(document: YamlDocument, data: dict[str, Any]) -> Iterator[Problem]:
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
    document: YamlDocument, value: object, kind: type[T], *path: str | int
) -> Iterator[Problem]:
    try:
        document.convert(value, kind, *path)
    except YamlFileError as error:
        yield error.problem


def _find_name_problems(playbook: Playbook) -> Iterator[PartProblem]:
    seen = {"alert"}
    for path, part in _iterate_parts(playbook):
        if part.name in seen:
            yield (*path, "name"), f"the name {part.name} is used twice", True
        seen.add(part.name)


def _find_pattern_problems(playbook: Playbook) -> Iterator[PartProblem]:
    for number, pattern in enumerate(playbook.signature.alert):
        yield from _find_regex_problems(pattern, ("signature", "alert", number))
    for name, parameter in playbook.parameters.items():
        yield from _find_regex_problems(parameter.pattern, ("parameters", name, "pattern"))
    for path, part in _iterate_parts(playbook):
        yield from _find_regex_problems(part.expect.regex, (*path, "expect", "regex"))


def _find_regex_problems(pattern: str, path: PartPath) -> Iterator[PartProblem]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield path, f"not a regular expression: {error}", True


def _find_parameter_problems(playbook: Playbook) -> Iterator[PartProblem]:
    parts = [part for _, part in _iterate_parts(playbook)]
    sources = ["alert", *(part.name for part in parts if not isinstance(part, PlaybookCheck))]
    commands = [*(part.command for part in parts), *(step.undo for step in playbook.steps)]
    used = {
        _parameter_name(name, playbook)
        for command in commands
        for name in placeholder_names(command)
    }
    for name, parameter in playbook.parameters.items():
        path = ("parameters", name)
        if name in (UNDO_FOLDER_PARAMETER, FUNCTIONS_PLACEHOLDER, KUBECTL_PLACEHOLDER):
            yield path, f"{name} is predefined: use another name", True
        if parameter.source not in sources:
            hint = suggest_name(parameter.source, sources)
            yield (*path, "from"), f"there is no probe or step {parameter.source!r}; {hint}", True
        if parameter.labels and parameter.source != "alert":
            yield (*path, "labels"), "only an alert has labels", True
        if parameter.default and (why := find_value_problem(parameter.default, parameter.kind)):
            yield (*path, "default"), f"the default {why}", True
        if name not in used:
            yield path, f"{name} is used in no command: it is only shown", False


def _find_command_problems(playbook: Playbook) -> Iterator[PartProblem]:
    ready = {"alert"}
    for path, part in _iterate_parts(playbook):
        before = ready
        if isinstance(part, PlaybookCheck) and part.symptom:  # checked before the first step
            before = {"alert", *(probe.name for probe in playbook.signature.probes)}
        known = {name for name, one in playbook.parameters.items() if one.source in before}
        yield from _find_placeholder_problems((*path, "command"), part.command, known, playbook)
        ready.add(part.name)
        if isinstance(part, PlaybookStep):
            after = {name for name, one in playbook.parameters.items() if one.source in ready}
            yield from _find_placeholder_problems((*path, "undo"), part.undo, after, playbook)
            if not part.undo and part.risk != "read":
                cause = f"{part.name} changes something and has no undo"
                yield (*path, "name"), cause, False


def _find_placeholder_problems(
    path: PartPath, command: str, known: set[str], playbook: Playbook
) -> Iterator[PartProblem]:
    for placeholder in placeholder_names(command):
        name = _parameter_name(placeholder, playbook)
        reads = placeholder.partition(" ")[0] in QUERIES
        if name != placeholder and not reads and path[0] != "steps":
            yield path, f"{{{{{placeholder}}}}} changes something: only a step may do that", True
        if name in (FUNCTIONS_PLACEHOLDER, KUBECTL_PLACEHOLDER):
            continue
        if name == UNDO_FOLDER_PARAMETER and path[0] != "signature":  # a probe has nothing to undo
            continue
        if name not in playbook.parameters:
            near = closest_name(name, playbook.parameters)
            hint = f"; did you mean {near}?" if near else ""
            yield path, f"there is no parameter {name!r}{hint}", True
        elif name not in known:
            source = playbook.parameters[name].source
            yield path, f"{name} is not known yet here: it comes from {source}", True
    if inside := find_quoted_placeholder(command):
        yield path, f"{{{{{inside}}}}} stands inside quotes: values are quoted automatically", True


def _parameter_name(placeholder: str, playbook: Playbook) -> str:
    """The parameter that it needs: of an action of a supervisor, the one that names the unit."""
    action = None if placeholder in playbook.parameters else parse_action(placeholder)
    return action[1] if action else placeholder


def _iterate_parts(
    playbook: Playbook,
) -> Iterator[tuple[PartPath, PlaybookProbe | PlaybookStep]]:
    for number, probe in enumerate(playbook.signature.probes):
        yield ("signature", "probes", number), probe
    for number, step in enumerate(playbook.steps):
        yield ("steps", number), step
    for number, check in enumerate(playbook.verify):
        yield ("verify", number), check


def find_changing_probes(
    text: str, playbook: Playbook, describe_changes: DescribeChanges, file: str = PLAYBOOK_FILE
) -> list[Problem]:
    """Probes and checks that would change something, according to `describe_changes`."""
    document = load_yaml(text, file)
    found = []
    for path, part in _iterate_parts(playbook):
        reads = not isinstance(part, PlaybookStep) or part.risk == "read"
        if reads and (what := describe_changes(_example_command(part.command))):
            cause = f"{part.name} should only read, but: {what}"
            found.append(document.problem((*path, "command"), cause))
    return found


def _example_command(command: str) -> str:
    """The command as it is under systemd."""
    actions = (parse_action(name) for name in placeholder_names(command))
    units = {each[1]: "example.service" for each in actions if each}
    return fill_template(command, units, partial=True)


def expand_snippets(
    playbook: Playbook, snippets: SharedSnippets
) -> tuple[Playbook, list[PartProblem]]:
    """The playbook with complete commands, and the snippets that were not found."""
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


def _expand_part(part: P, path: PartPath, snippets: SharedSnippets, found: list[PartProblem]) -> P:
    use: str = getattr(part, "use", "")  # steps are always written out
    if use and part.command:
        found.append(
            ((*path, "use"), "`use` and `command` exclude each other: leave out one of them", True)
        )
    for key in ("name", "command") if not use else ():
        if not getattr(part, key):
            found.append((path, f"{key} is missing, or `use` of a shared one", True))
    used = {name: "with" for name in part.shared} | ({use: "use"} if use else {})
    texts = [
        _read_snippet(name, (*path, used.get(name, "with")), snippets, found)
        for name in snippets.order(used)
    ]
    own_text = texts.pop() if use and texts else part.command
    shared = drop_unused_functions("\n".join(texts), own_text)
    whole = "\n".join(text.strip("\n") for text in (shared, own_text) if text)
    # Written to a file again, the part is complete and refers to no snippet.
    own = {"use": ""} if use else {}
    return replace(part, name=part.name or use, command=whole, shared=(), **own)


def _read_snippet(
    name: str, path: PartPath, snippets: SharedSnippets, found: list[PartProblem]
) -> str:
    text = snippets.read(name)
    if text is None:
        hint = suggest_name(name, snippets.names) or "there are: none"
        found.append((path, f"there is no shared {name!r} in _probes; {hint}", True))
    return text or ""
