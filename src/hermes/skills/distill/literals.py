"""Turns literals of commands that came from the alert or a command output into parameters."""

import re
from collections.abc import Iterator, Sequence

from hermes.core.incident import AlertFacts
from hermes.core.messages import Value
from hermes.skills.distill.verified_run import RunCommand
from hermes.skills.playbook.parameters import PLACEHOLDER, VALUE_PATTERNS, open_quote
from hermes.skills.playbook.schema import ParameterKind

_PATH_LITERAL = re.compile(r"(?<![\w/.-])/(?!dev/null)[\w.@%+-]+(?:/[\w.@%+-]+)+")
_NUMBER_LITERAL = re.compile(r"(?<![\w.-])\d{2,}(?![\w.])")
_ASSIGNED_LITERAL = re.compile(r"[\w.-]+\s*=\s*([^\s'\"/;&|]+)")
_SYSTEM_PATHS = ("/usr/", "/bin/", "/sbin/", "/proc/", "/sys/", "/tmp/", "/lib/")
_ANCHOR_LENGTHS = (12, 24, 40, 80)
VALUE_GROUP_PATTERNS: dict[ParameterKind, str] = {
    "path": r"(/[^\s:'\",;)]+)",
    "number": r"(-?\d+(?:\.\d+)?)",
    "port": r"(\d{1,5})",
    "word": r"([^\s'\",;]+)",
    "host": r"([A-Za-z0-9.-]+)",
}


class DistilledParameter(Value, kw_only=True, frozen=True):
    """A value of this incident, and where to find it in the next one."""

    name: str
    value: str
    kind: ParameterKind
    source: str = "alert"
    """`alert`, or the command whose output has it."""
    labels: tuple[str, ...] = ()
    pattern: str = ""


def find_alert_parameters(facts: AlertFacts, commands: Sequence[str]) -> list[DistilledParameter]:
    """Labels whose value, or a part of it, occurs in a command; longest first."""
    found: dict[str, DistilledParameter] = {}
    for label, value in facts.labels.items():
        for name, part, kind, pattern in _split_label(label, value):
            if part in found or not any(_occurs_in(part, command) for command in commands):
                continue
            found[part] = DistilledParameter(
                name=_slug(name), value=part, kind=kind, labels=(label,), pattern=pattern
            )
    return sorted(found.values(), key=lambda parameter: -len(parameter.value))


def find_output_parameters(
    checks: Sequence[RunCommand],
    commands: Sequence[str],
    known: Sequence[DistilledParameter],
    names: Sequence[str] = (),
) -> list[DistilledParameter]:
    """Paths, numbers, assigned values and these names, that a check printed before their use."""
    values = {parameter.value for parameter in known}
    found: list[DistilledParameter] = []
    named: list[tuple[str, ParameterKind]] = [(name, "word") for name in names]
    # Names first: a value beside one of them is then found beside any name.
    for literal, kind in (*named, *_find_literals(commands)):
        if literal in values or any(literal in parameter.value for parameter in found):
            continue
        parameter = _find_in_output(literal, kind, checks, [*known, *found], len(found))
        if parameter is not None:
            found.append(parameter)
            values.add(literal)
    return sorted(found, key=lambda parameter: -len(parameter.value))


def insert_placeholders(command: str, parameters: Sequence[DistilledParameter]) -> str:
    """Replaces each value by `{{name}}`; quotes are closed before it and opened again."""
    for one in sorted(parameters, key=lambda each: -len(each.value)):
        bounds = rf"(?<![A-Za-z0-9{{]){re.escape(one.value)}(?![A-Za-z0-9}}])"
        command = re.sub(bounds, lambda _, name=one.name: f"{{{{{name}}}}}", command)  # type: ignore[misc]

    def unquote(found: re.Match[str]) -> str:
        quote = open_quote(command[: found.start()])
        return f"{quote}{found[0]}{quote}"

    return PLACEHOLDER.sub(unquote, command)


def _split_label(label: str, value: str) -> Iterator[tuple[str, str, ParameterKind, str]]:
    host, colon, port = value.rpartition(":")
    if colon and port.isdigit():
        yield "port", port, "port", r":(\d+)$"
        if host:
            yield "host", host, "host", r"^([^:]+)"
    elif len(value) >= 2 and re.fullmatch(VALUE_PATTERNS["word"], value):
        yield label, value, "number" if value.isdigit() else "word", ""


def _find_literals(commands: Sequence[str]) -> Iterator[tuple[str, ParameterKind]]:
    seen: set[str] = set()
    kinds: Sequence[tuple[re.Pattern[str], ParameterKind]] = (
        (_PATH_LITERAL, "path"),
        (_NUMBER_LITERAL, "number"),
        (_ASSIGNED_LITERAL, "word"),
    )
    for pattern, kind in kinds:
        for command in commands:
            for match in pattern.finditer(command):
                literal = match[match.re.groups]
                if (
                    literal in seen
                    or literal.startswith(_SYSTEM_PATHS)
                    or re.search(r"[*${]", literal)
                ):
                    continue
                seen.add(literal)
                yield literal, "number" if kind == "word" and literal.isdigit() else kind


def _find_in_output(
    literal: str,
    kind: ParameterKind,
    checks: Sequence[RunCommand],
    known: Sequence[DistilledParameter],
    count: int,
) -> DistilledParameter | None:
    for check in checks:
        if literal in check.command:
            continue  # it was known before this check
        for line in check.output.splitlines():
            at = re.search(rf"(?<![\w./-]){re.escape(literal)}(?![\w/-])", line)
            before = line[: at.start()] if at else ""
            pattern = _build_anchor(before, literal, kind, check.output, known) if at else ""
            if pattern:
                name = _parameter_name(before, kind, count)
                return DistilledParameter(
                    name=name, value=literal, kind=kind, source=check.command, pattern=pattern
                )
    return None


def _build_anchor(
    before: str, literal: str, kind: ParameterKind, output: str, known: Sequence[DistilledParameter]
) -> str:
    """A pattern whose first match in this output is exactly this literal."""
    for length in (*_ANCHOR_LENGTHS, len(before)):
        prefix = _whole_words(before, length)
        start = "^" if length >= len(before) else ""
        pattern = f"{start}{generalize_text(prefix, known)}{VALUE_GROUP_PATTERNS[kind]}"
        if len(pattern) > 400 or not (prefix.strip() or start):
            continue
        match = re.search(pattern, output, re.MULTILINE)
        if match is not None and match[1] == literal:
            return pattern
    return ""


def _whole_words(before: str, length: int) -> str:
    """The last `length` characters, without a part of a word: it may be part of a name."""
    prefix, rest = before[-length:], before[:-length]
    cut = re.search(r"\w$", rest) and re.match(r"\w", prefix)
    return re.sub(r"^\w+", "", prefix) if cut else prefix


def generalize_text(text: str, known: Sequence[DistilledParameter]) -> str:
    """The text as a pattern that also matches with other values."""
    values = sorted({parameter.value for parameter in known}, key=len, reverse=True)
    own = "|".join(map(re.escape, values)) or r"(?!)"
    parts = re.compile(rf"({own})|'([^']*)'|(\d+(?:[.:,]\d+)*)|(\s+)")
    pieces, last = [], 0
    for match in parts.finditer(text):
        pieces.append(re.escape(text[last : match.start()]))
        if match[1]:
            pieces.append(r"\S+?")
        elif match[2] is not None:
            pieces.append("'[^']*'")
        else:
            pieces.append(r"[\d.:,]+" if match[3] else r"\s+")
        last = match.end()
    return "".join([*pieces, re.escape(text[last:])])


def _occurs_in(value: str, command: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])", command) is not None


def _parameter_name(before: str, kind: ParameterKind, count: int) -> str:
    words = re.findall(r"[A-Za-z][A-Za-z_]{2,}", before)
    word = words[-1].lower() if words else kind
    return f"{_slug(word)[:30]}-{kind}" + (f"-{count + 1}" if count else "")


def _slug(text: str) -> str:
    slug = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")
    return slug if slug[:1].isalpha() else f"v-{slug}"
