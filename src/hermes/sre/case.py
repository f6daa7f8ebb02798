"""An incident as those who work on it are told it: what was heard, and where."""

import re
from datetime import UTC, datetime

from msgspec import field
from msgspec.structs import replace

from hermes.core.events.incidents import IncidentOpened, Severity
from hermes.core.messages import Value
from hermes.skills.playbook.facts import Facts

TEXT = "text"
"""Under this name the words of the alert stand among the facts of `incident.opened`."""
QUESTION = "question"
"""The label of an alert that asks people instead of being worked on."""
WITHDRAWN = "withdrawn"
"""The label of an alert that ended because its probe is not asked any more: no recovery."""


class Case(Value, kw_only=True, frozen=True):
    incident: str
    run: str
    title: str
    text: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    severity: Severity = "P2"
    service: str = ""
    fingerprint: str = ""
    seen_before: int = 0
    opened_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    since: datetime | None = None

    @property
    def facts(self) -> Facts:
        return Facts(title=self.title, text=self.text, labels=self.labels)


def case_of(opened: IncidentOpened) -> Case:
    facts = dict(opened.facts)
    return Case(
        incident=opened.incident,
        run=opened.run,
        title=opened.title,
        text=facts.pop(TEXT, ""),
        labels=facts,
        severity=opened.severity,
        service=opened.service,
        fingerprint=opened.fingerprint,
        seen_before=opened.seen_before,
        opened_at=opened.at,
        since=opened.since,
    )


def without(facts: Facts, name: str) -> Facts:
    """The alert as it would be if this unit were not in it."""
    if not name:
        return facts
    word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    return replace(
        facts,
        title=word.sub("", facts.title),
        text=word.sub("", facts.text),
        labels={key: value for key, value in facts.labels.items() if not word.search(value)},
    )
