"""What is known of a case before a playbook begins: the alert, and what a person gave."""

import re
from collections.abc import Mapping

from msgspec import field

from hermes.core.events.incidents import AlertRaised
from hermes.core.messages import Value
from hermes.skills.playbook.schema import Parameter
from hermes.skills.playbook.template import objection

_SIGNS = str.maketrans(dict.fromkeys("`$\\", " "))
"""What a shell may take for more than words."""


class Facts(Value, kw_only=True, frozen=True):
    title: str = ""
    text: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    """Parameters that somebody set by hand; they win."""

    @property
    def words(self) -> str:
        labels = "\n".join(f"{key}={value}" for key, value in self.labels.items())
        return "\n".join(part for part in (self.title, self.text, labels) if part)


def facts_of(alert: AlertRaised) -> Facts:
    return Facts(title=alert.title, text=alert.text, labels=dict(alert.labels))


def look_up(name: str, parameter: Parameter, facts: Facts) -> tuple[str | None, str]:
    """A parameter from the alert or a person, and why not when it is not there."""
    if name in facts.given:
        return checked(name, parameter, facts.given[name])
    if parameter.source != "alert":
        return None, f"{name}: not known yet"
    for label in parameter.labels:
        if label in facts.labels:
            return checked(name, parameter, _cut(facts.labels[label], parameter))
    # Quoted it would do no harm, but who reads the command for the gate could not be sure of that.
    words = facts.words.translate(_SIGNS)
    if parameter.pattern and (found := re.search(parameter.pattern, words, re.MULTILINE)):
        return checked(name, parameter, _group(found))
    return _absent(name, parameter, "the alert does not say it")


def take_from(name: str, parameter: Parameter, output: str) -> tuple[str | None, str]:
    """A parameter from what a probe or step printed."""
    if parameter.pattern:
        found = re.search(parameter.pattern, output, re.MULTILINE)
        if found is None:
            return _absent(name, parameter, f"{parameter.source} did not print it")
        return checked(name, parameter, _group(found))
    lines = output.strip().splitlines()
    if not lines:
        return _absent(name, parameter, f"{parameter.source} printed nothing")
    return checked(name, parameter, lines[0].strip())


def captured(
    parameters: Mapping[str, Parameter], source: str, output: str, known: Mapping[str, str]
) -> tuple[dict[str, str], str]:
    """What a probe or step brought of the parameters that are not known yet, and why not all."""
    found: dict[str, str] = {}
    for name, parameter in parameters.items():
        if parameter.source != source or name in known:
            continue
        value, why = take_from(name, parameter, output)
        if value is None:
            return found, why
        found[name] = value
    return found, ""


def checked(name: str, parameter: Parameter, value: str) -> tuple[str | None, str]:
    if why := objection(value, parameter.kind):
        return None, f"{name} {why}"
    return value, ""


def _cut(value: str, parameter: Parameter) -> str:
    found = re.search(parameter.pattern, value) if parameter.pattern else None
    return _group(found) if found else value


def _group(found: re.Match[str]) -> str:
    return (found[1] if found.re.groups and found[1] is not None else found[0]).strip()


def _absent(name: str, parameter: Parameter, why: str) -> tuple[str | None, str]:
    if parameter.default is not None:
        return parameter.default, ""
    return None, f"{name} is missing: {why}"
