"""How finds are named, and what is noted on them about the moment they were found."""

import hashlib
import re
from typing import Annotated, Literal

from msgspec import Meta, field

from hermes.core.messages import Value
from hermes.skills.playbook.schema import PlaybookName, TimeoutSeconds

STATE_LABEL = "now"
"""The label that says how it was when it was found: `fine`, `failing`, or a disk `full`."""
SUPPOSED_LABEL = "supposed"
"""The label of what should be there by what a service once said of itself."""

PROVISIONAL_LABEL = "provisional"
"""The label of what runs now and may end at any time: its end is no alert."""
DISCOVERY_LABELS = (STATE_LABEL, SUPPOSED_LABEL, PROVISIONAL_LABEL)
"""Labels about the moment of the survey, which say nothing about the probe."""


def state_label(fine: bool) -> dict[str, str]:
    return {STATE_LABEL: "fine" if fine else "failing"}


def probe_name(kind: str, what: str) -> str:
    plain = re.sub(r"[^a-z0-9_]+", "-", what.lower()).strip("-")
    name = f"{kind}-{plain or 'root'}" if what else kind
    if len(name) <= 48:
        return name
    return f"{name[:41]}-{hashlib.sha256(what.encode()).hexdigest()[:6]}"


ProbeKind = Literal[
    "cpu",
    "load",
    "memory",
    "disk",
    "inodes",
    "processes",
    "zombies",
    "port",
    "http",
    "tls",
    "certificate",
    "unit",
    "cron",
    "log",
    "answers",
    "postgres",
    "mysql",
    "redis",
    "sqlite",
    "config",
    "forecast",
    "command",
]
ProbeSeverity = Literal["", "P0", "P1", "P2", "P3"]
ProbeText = Annotated[str, Meta(max_length=4000)]
HOST_KINDS = ("cpu", "load", "memory", "disk", "inodes", "processes", "zombies")
SUSTAINED_KINDS = ("cpu", "load", "memory", "processes", "zombies", "log", "config", "forecast")
"""A second look at once would say nothing new: these are confirmed on their rhythm."""
UNKNOWN_EXIT_CODE = 3
"""The exit code of a look that could not be had."""
QUESTION_EXIT_CODE = 4
"""The exit code of a look that found what a person may have done on purpose."""
DEFAULT_LIMITS = {
    "cpu": 95.0,
    "load": 4.0,
    "memory": 95.0,
    "disk": 90.0,
    "inodes": 90.0,
    "zombies": 50.0,
}
"""Where bad begins for a probe of the host that names no limit, by kind; in what it measures."""


class Probe(Value, kw_only=True, frozen=True, forbid_unknown_fields=True):
    name: PlaybookName
    kind: ProbeKind
    what: ProbeText = ""
    """A path, `host:port`, a URL, a unit, a log; for `command` the shell text itself."""
    service: str = ""
    """Whose trouble it is; empty for the whole host."""
    interval: TimeoutSeconds = 15.0
    timeout: TimeoutSeconds = 5.0
    fails: Annotated[int, Meta(ge=1, le=100)] = 2
    """Bad looks in a row before an alert. A second look comes at once where that says something."""
    limit: float | None = None
    """Where bad begins: percent used, days left, seconds taken, lines a minute."""
    baseline: bool = False
    """Whether a value far from what was usual is bad, once enough is known."""
    status: Annotated[str, Meta(max_length=100)] = ""
    """http: `200`, `2xx`, `<400` or several with commas. unit: `ended-well` for one that ends."""
    contains: Annotated[str, Meta(max_length=500)] = ""
    """http: words of the body."""
    pattern: Annotated[str, Meta(max_length=500)] = ""
    """log: an extended regular expression of lines that count."""
    severity: ProbeSeverity = ""
    """A hint for triage."""
    impact: Annotated[str, Meta(max_length=200)] = ""
    """Who notices when it is bad."""
    trigger: ProbeText = ""
    """What may be set off again to tell a cure from relief. Takes the common road when it is."""
    labels: dict[str, str] = field(default_factory=dict)
