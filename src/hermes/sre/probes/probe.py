"""Defines probes: what is checked periodically, how often, and when it fails."""

import hashlib
import re
from typing import Annotated, Literal

from msgspec import Meta, field

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.core.plugins import BUILT_IN, load_plugin
from hermes.skills.playbook.schema import PlaybookName, TimeoutSeconds

STATE_LABEL = "now"
"""The label with the state at discovery: `fine`, `failing`, or `full` for a disk."""
SUPPOSED_LABEL = "supposed"
"""The label of a port that a service named in its log but that is not open."""

PROVISIONAL_LABEL = "provisional"
"""The label of a process that may end at any time: its end is no alert."""
DISCOVERY_LABELS = (STATE_LABEL, SUPPOSED_LABEL, PROVISIONAL_LABEL)
"""Labels about the discovery; they are not part of the probe itself."""


def state_label(fine: bool) -> dict[str, str]:
    return {STATE_LABEL: "fine" if fine else "failing"}


def probe_name(kind: str, what: str) -> str:
    plain = re.sub(r"[^a-z0-9_]+", "-", what.lower()).strip("-")
    name = f"{kind}-{plain or 'root'}" if what else kind
    if len(name) <= 48:
        return name
    return f"{name[:41]}-{hashlib.sha256(what.encode()).hexdigest()[:6]}"


ProbeKind = str
"""A name in the group `hermes.probes`."""
ProbeSeverity = Literal["", "P0", "P1", "P2", "P3"]
ProbeText = Annotated[str, Meta(max_length=4000)]
HOST_KINDS = ("cpu", "load", "memory", "disk", "inodes", "processes", "zombies")
SUSTAINED_KINDS = (
    *("cpu", "load", "memory", "processes", "zombies", "log", "locks", "config", "forecast"),
)
"""Kinds that are confirmed by the next scheduled run: an immediate retry is useless."""
COMPARING_KINDS = ("log", "forecast")
"""Kinds that compare with an earlier run: a single run always passes."""
SERVICE_STATE_KINDS = ("port", "http", "unit", "postgres", "mysql", "redis", "command")
"""Kinds that tell whether a service works now."""
UNKNOWN_EXIT_CODE = 3
"""The exit code of a probe that could not be run."""
QUESTION_EXIT_CODE = 4
"""The exit code of a probe that found what may be intended."""
DEFAULT_LIMITS = {
    "cpu": 95.0,
    "load": 4.0,
    "memory": 95.0,
    "disk": 90.0,
    "inodes": 90.0,
    "zombies": 50.0,
}
"""The limits of host probes without a limit of their own, by kind."""


class Probe(Value, kw_only=True, frozen=True, forbid_unknown_fields=True):
    name: PlaybookName
    kind: ProbeKind
    what: ProbeText = ""
    """A path, `host:port`, a URL, a unit, a log; for `command` the shell text itself."""
    service: str = ""
    """The service that it belongs to; empty for the whole host."""
    interval: TimeoutSeconds = 15.0
    timeout: TimeoutSeconds = 5.0
    fails: Annotated[int, Meta(ge=1, le=100)] = 2
    """Failures in a row before an alert. A failed probe is repeated at once where useful."""
    limit: float | None = None
    """The limit: percent used, days left, seconds taken, lines a minute."""
    baseline: bool = False
    """Whether a value far above the usual values is a failure, once enough are known."""
    status: Annotated[str, Meta(max_length=100)] = ""
    """http: `200`, `2xx`, `<400`, or several with commas. unit: `ended-well` for a oneshot unit."""
    contains: Annotated[str, Meta(max_length=500)] = ""
    """http: text that the body must contain."""
    pattern: Annotated[str, Meta(max_length=500)] = ""
    """log: an extended regular expression for the lines that count."""
    severity: ProbeSeverity = ""
    """A hint for triage."""
    impact: Annotated[str, Meta(max_length=200)] = ""
    """Who is affected when it fails."""
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def runs_foreign_command(self) -> bool:
        """Whether its command is written by others, so that the policy decides on it."""
        return self.kind == "command" or self.kind not in BUILT_IN["probes"]


class PluginProbe(Probe, frozen=True, omit_defaults=True):
    """A probe whose kind may be a plug-in's. Files cannot declare its command."""

    command: str = ""
    """The shell text that the plug-in made when the file was read."""


def shell_command_of(probe: Probe, before: str | None = None) -> str:
    """`before`: what the last run kept; None for a single run.

    Raises `SettingsError` for an invalid probe.
    """
    if isinstance(probe, PluginProbe) and probe.command:
        return probe.command
    if "\0" in probe.what or (probe.kind in _TARGET_HELP and not probe.what.strip()):
        needed = _TARGET_HELP.get(probe.kind, "what to check")
        raise SettingsError(f"{probe.name}: a {probe.kind} needs `what`: {needed}")
    command: str = load_plugin("probes", probe.kind)(probe, before)
    return command


_TARGET_HELP = {
    "port": "8080 or host:port",
    "http": "a URL such as http://127.0.0.1:8080/health",
    "tls": "host:port, or host:port/name",
    "certificate": "the path of a certificate",
    "unit": "the name of a unit such as nginx.service",
    "cron": "the path of the program that the job runs",
    "locks": "postgres, or mysql: and the path of its socket",
    "sqlite": "the path of a database",
    "config": "a program such as nginx",
    "command": "the command itself; it may only read",
}
"""What the kinds that need `what` take there."""
