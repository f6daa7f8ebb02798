"""Parameters of a playbook: where their values come from, how they are validated and quoted."""

import re
import shlex
from collections.abc import Mapping

from hermes.core.events.incidents import AlertRaised
from hermes.core.incident import AlertFacts
from hermes.skills.playbook.schema import (
    FUNCTIONS_PLACEHOLDER,
    KUBECTL_PLACEHOLDER,
    ParameterKind,
    PlaybookParameter,
)
from hermes.skills.supervisors.commands import HostSupervisors, parse_action

PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
MAX_VALUE_CHARS = 4096
VALUE_PATTERNS: dict[ParameterKind, str] = {
    "text": r"[^\x00]*",
    "word": r"[A-Za-z0-9_][A-Za-z0-9_.:@/+%-]*",
    "number": r"-?\d+(\.\d+)?",
    "port": r"\d{1,5}",
    "path": r"/[^\x00-\x1f]*",
    "unit": r"[A-Za-z0-9_][A-Za-z0-9_.@:-]*\.(service|timer|socket|mount)",
    "service": r"[A-Za-z0-9_][A-Za-z0-9_.@:+-]*",
    "host": r"[A-Za-z0-9][A-Za-z0-9.-]*",
}
_MAX_PORT = 65_535


def placeholder_names(command: str) -> list[str]:
    return PLACEHOLDER.findall(command)


def fill_template(
    command: str,
    values: Mapping[str, str],
    supervisors: HostSupervisors | None = None,
    *,
    partial: bool = False,
    kubectl: str = "kubectl",
) -> str:
    """With `partial`, unknown placeholders stay. Otherwise raises `KeyError` for them. `kubectl`:
    the program with the options of its connection, as a shell reads them.

    `{{restart}}` and the other actions become the command of the unit's supervisor. Raises
    `UnsupportedActionError` when it has none.
    """

    known = supervisors or HostSupervisors()

    def one(found: re.Match[str]) -> str:
        name = found[1]
        if name == FUNCTIONS_PLACEHOLDER:
            return known.functions(command)
        if name == KUBECTL_PLACEHOLDER:
            return kubectl
        if name not in values and (action := parse_action(name)) and action[1] in values:
            return known.render(action[0], values[action[1]])
        if partial and name not in values:
            return found[0]
        return shlex.quote(values[name])

    return PLACEHOLDER.sub(one, command)


def find_value_problem(value: str, kind: ParameterKind) -> str:
    """Return why the value does not fit its kind; empty when it does."""
    if len(value) > MAX_VALUE_CHARS:
        return f"is longer than {MAX_VALUE_CHARS} characters"
    if not re.fullmatch(VALUE_PATTERNS[kind], value):
        return f"{value[:60]!r} is not a valid {kind}"
    if kind == "path" and ".." in value.split("/"):
        return f"{value[:60]!r} leads out of its folder"
    if kind == "port" and not 1 <= int(value) <= _MAX_PORT:
        return f"{value} is not a valid port"
    return ""


def find_quoted_placeholder(command: str) -> str:
    """The first placeholder inside quotes, where its value would be quoted twice; or ''."""
    found = PLACEHOLDER.finditer(command)
    return next((each[1] for each in found if open_quote(command[: each.start()])), "")


def open_quote(before: str) -> str:
    """The kind of quotes that a shell text leaves open; or ''."""
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
    return quote


_SHELL_CHARACTERS = str.maketrans(dict.fromkeys("`$\\", " "))
"""Characters with a meaning in a shell."""


def facts_from_alert(alert: AlertRaised) -> AlertFacts:
    return AlertFacts(title=alert.title, text=alert.text, labels=dict(alert.labels))


def resolve_parameter(
    name: str, parameter: PlaybookParameter, facts: AlertFacts
) -> tuple[str | None, str]:
    """A parameter from the alert or set by hand; None and the reason when it is missing."""
    if name in facts.given:
        return validate_parameter(name, parameter, facts.given[name])
    if parameter.source != "alert":
        return None, f"{name}: not known yet"
    for label in parameter.labels:
        if label in facts.labels:
            return validate_parameter(
                name, parameter, _apply_pattern(facts.labels[label], parameter)
            )
    # Quoted values are harmless, but the command analysis of the policy cannot rely on that.
    words = facts.combined_text.translate(_SHELL_CHARACTERS)
    if parameter.pattern and (found := re.search(parameter.pattern, words, re.MULTILINE)):
        return validate_parameter(name, parameter, _matched_group(found))
    return _default_or_missing(name, parameter, "the alert does not have it")


def parse_parameter(name: str, parameter: PlaybookParameter, output: str) -> tuple[str | None, str]:
    """A parameter from the output of a probe or step; None and the reason when it is missing."""
    if parameter.pattern:
        found = re.search(parameter.pattern, output, re.MULTILINE)
        if found is None:
            return _default_or_missing(name, parameter, f"{parameter.source} did not print it")
        return validate_parameter(name, parameter, _matched_group(found))
    lines = output.strip().splitlines()
    if not lines:
        return _default_or_missing(name, parameter, f"{parameter.source} printed nothing")
    return validate_parameter(name, parameter, lines[0].strip())


def capture_parameters(
    parameters: Mapping[str, PlaybookParameter], source: str, output: str, known: Mapping[str, str]
) -> tuple[dict[str, str], str]:
    """Parameters, not known yet, from the output of a probe or step; and why one is missing."""
    found: dict[str, str] = {}
    for name, parameter in parameters.items():
        if parameter.source != source or name in known:
            continue
        value, why = parse_parameter(name, parameter, output)
        if value is None:
            return found, why
        found[name] = value
    return found, ""


def validate_parameter(
    name: str, parameter: PlaybookParameter, value: str
) -> tuple[str | None, str]:
    if why := find_value_problem(value, parameter.kind):
        return None, f"{name} {why}"
    return value, ""


def _apply_pattern(value: str, parameter: PlaybookParameter) -> str:
    found = re.search(parameter.pattern, value) if parameter.pattern else None
    return _matched_group(found) if found else value


def _matched_group(found: re.Match[str]) -> str:
    return (found[1] if found.re.groups and found[1] is not None else found[0]).strip()


def _default_or_missing(
    name: str, parameter: PlaybookParameter, why: str
) -> tuple[str | None, str]:
    if parameter.default is not None:
        return parameter.default, ""
    return None, f"{name} is missing: {why}"
