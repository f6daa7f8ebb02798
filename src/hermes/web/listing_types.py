"""Lists of the API: services, skills, facts, drills, actions, people and channels."""

from typing import Any

import msgspec


class ListedValue(msgspec.Struct, kw_only=True, frozen=True):
    """Base of the rows. Times are text by ISO 8601."""


class ListedService(ListedValue, frozen=True):
    name: str
    state: str
    """incident, failing, unknown, fine or unchecked."""
    since: str | None
    checks: list[dict[str, Any]]
    open_incidents: int
    incidents: int
    last_incident: dict[str, Any] | None
    maintenance: list[dict[str, Any]]
    needs: list[str]
    needed_by: list[str]


class ServicePage(ListedValue, frozen=True):
    services: list[ListedService]
    round: dict[str, Any] | None
    """The last round of checks."""
    maintenance: list[dict[str, Any]]
    links: list[dict[str, str]]
    """Which service needs which, and who says so."""


class ListedSkill(ListedValue, frozen=True):
    name: str
    description: str
    category: str
    origin: str
    state: str
    """draft, compiled, validated, trusted or retired."""
    playbook: bool
    measured: dict[str, Any] | None
    """The last evaluation."""
    live_uses: int
    live_failed: int
    applied: int
    undone: int
    declined: int
    shown: int
    seconds: float | None


class SkillPage(ListedValue, frozen=True):
    skills: list[ListedSkill]


class ListedFact(ListedValue, frozen=True):
    id: str
    text: str
    kind: str
    relation: str
    state: str
    trust: str
    word_of: str
    """Whose word it is."""
    about: list[str]
    quote: str
    since: str
    until: str | None
    last_confirmed: str
    seen: int
    """How often it was found."""
    run: str


class FactPage(ListedValue, frozen=True):
    facts: list[ListedFact]


class ListedDrill(ListedValue, frozen=True):
    name: str
    group: str
    summary: str
    missing: list[str]
    """What this machine lacks to play it."""
    played: int
    resolved: int
    trend: list[float]
    last_at: str
    last: dict[str, Any] | None


class DrillPage(ListedValue, frozen=True):
    scenarios: list[ListedDrill]


class ListedAction(ListedValue, frozen=True):
    seq: int
    """The number of its event."""
    at: str
    run: str
    origin: str
    tool: str
    what: str
    verdict: str
    rule: str
    reason: str
    effects: list[str]
    tainted: str
    people: list[str]
    started: bool
    result: str
    seconds: float


class AuditPage(ListedValue, frozen=True):
    actions: list[ListedAction]
    next: int
    """Pass it as `before` for older ones; 0: there are none."""


class ListedPerson(ListedValue, frozen=True):
    name: str
    channels: list[str]
    groups: list[str]
    source: str
    """Where the person is declared."""


class PeoplePage(ListedValue, frozen=True):
    people: list[ListedPerson]


class ListedChannel(ListedValue, frozen=True):
    name: str
    kind: str
    status: str
    """not configured, incomplete, idle, open or failed."""
    listens: bool
    home: str
    detail: str
    since: str | None
    waiting: int
    """Messages that no process has tried to deliver for a minute."""


class ChannelPage(ListedValue, frozen=True):
    channels: list[ListedChannel]
