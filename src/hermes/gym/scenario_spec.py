"""What a scenario tells for one seed: a host, how it breaks, how one sees that it was mended.

Everything here is data. A scenario draws it from dice; the episode plays it; the oracle checks it.
"""

from typing import Literal

from msgspec import field

from hermes.core.messages import Value

Severity = Literal["P0", "P1", "P2", "P3"]
ScenarioGroup = Literal[
    "classic", "process", "limits", "files", "database", "network", "change", "jobs", "judgement"
]
ExpectedResponse = Literal["fix", "no-incident", "recovered", "approval"]


class HostFile(Value, kw_only=True, frozen=True):
    path: str
    text: str = ""
    mode: int = 0o644
    owner: int = 0


class HostFolder(Value, kw_only=True, frozen=True):
    """An empty folder that is not simply root's."""

    path: str
    mode: int = 0o755
    owner: int = 0


class HostDisk(Value, frozen=True):
    """A folder with a small file system of its own."""

    path: str
    megabytes: int


class HostSpec(Value, kw_only=True, frozen=True):
    name: str
    address: str = ""
    files: tuple[HostFile, ...] = ()
    folders: tuple[str | HostFolder, ...] = ()
    units: tuple[HostFile, ...] = ()
    """Unit files; enabled, and started in order of their `After=`."""
    users: tuple[str, ...] = ("www",)
    """Beside root; numbered from 1001 in this order."""
    disks: tuple[HostDisk, ...] = ()
    disk_mb: int = 192
    minute: float = 60.0
    """Seconds that cron takes for a minute."""


class HttpCheck(Value, kw_only=True, tag="http", frozen=True):
    """Right status, right words in the body, in time."""

    name: str
    port: int
    path: str = "/"
    status: int = 200
    contains: str = ""
    within: float = 2.0
    host: int = 0
    address: str = "127.0.0.1"
    tls: str = ""
    """The name that the certificate must be for; empty without TLS."""
    authority: str = ""
    """A file inside with the certificates to trust."""


class PortCheck(Value, kw_only=True, tag="port", frozen=True):
    """Something listens there and, if asked, answers with these words."""

    name: str
    port: int
    send: str = ""
    contains: str = ""
    within: float = 2.0
    host: int = 0


class DiskSpaceCheck(Value, kw_only=True, tag="space", frozen=True):
    name: str
    path: str
    free_mb: float
    host: int = 0


class UnitRunningCheck(Value, kw_only=True, tag="running", frozen=True):
    """The supervisor calls it active and its process has lived for a while."""

    name: str
    unit: str
    seconds: float = 0.0
    host: int = 0
    undisturbed: bool = False
    """Still the process that ran before the fault: nobody restarted it on the way."""


class ScriptCheck(Value, kw_only=True, tag="script", frozen=True):
    """A bash script inside ends well, and prints what it should. Never reads a marker file."""

    name: str
    script: str
    contains: str = ""
    lacks: str = ""
    timeout: float = 10.0
    host: int = 0


class UnchangedCheck(Value, kw_only=True, tag="same", frozen=True):
    """A file, or all files under a folder, as they were before the fault."""

    name: str
    path: str
    host: int = 0
    may_grow: bool = False
    """A log goes on; what was in it stays."""


ScenarioCheck = (
    HttpCheck | PortCheck | DiskSpaceCheck | UnitRunningCheck | ScriptCheck | UnchangedCheck
)


class FaultTrigger(Value, kw_only=True, frozen=True):
    """Do again what set the fault off: relief does not survive it, a cure does."""

    restart: tuple[str, ...] = ()
    """Units, restarted over a line that nobody inside can reach."""
    cron: str = ""
    """Jobs whose table or command has these words run now."""
    script: str = ""
    pause: float = 0.0
    host: int = 0


class FaultDescription(Value, kw_only=True, frozen=True):
    """For scoring a diagnosis: each part holds if one of its wordings is named."""

    component: tuple[str, ...]
    mechanism: tuple[str, ...]
    value: tuple[str, ...] = ()


class ScenarioAlert(Value, kw_only=True, frozen=True):
    """As a monitor words it: a symptom, never the answer."""

    title: str
    text: str
    severity: Severity = "P2"
    labels: dict[str, str] = field(default_factory=dict)


class TrafficSpec(Value, kw_only=True, frozen=True):
    port: int
    paths: tuple[str, ...] = ("/",)
    pause: float = 0.3
    host: int = 0


class ScenarioSpec(Value, kw_only=True, frozen=True):
    hosts: tuple[HostSpec, ...]
    alert: ScenarioAlert
    healthy: tuple[ScenarioCheck, ...]
    """What works on a host that works; all of it must work again in the end."""
    symptoms: tuple[ScenarioCheck, ...]
    """The part of it that the fault breaks, to begin with."""
    inject: tuple[str, ...] = ()
    """Scripts that break it, on the first host, or `N:` and a script for host N."""
    cure: tuple[FaultTrigger, ...] = ()
    collateral: tuple[ScenarioCheck, ...] = ()
    """What must not change on the way."""
    fault: FaultDescription
    others: tuple[FaultDescription, ...] = ()
    """Faults beside it that are to be found as well."""
    decoys: tuple[FaultDescription, ...] = ()
    """What looks like a cause and is none: whoever names it has not found the cause."""
    answer: ExpectedResponse = "fix"
    """What the right response is: not everything that rings is an incident."""
    reference: tuple[str, ...] = ()
    """Commands of one who knows."""
    relief: tuple[str, ...] = ()
    """Commands that make it quiet without curing it."""
    shortcut: tuple[str, ...] = ()
    """Commands that make it quiet by doing damage."""
    traffic: tuple[TrafficSpec, ...] = ()
    settle: float = 0.0
    """Seconds after the injection before the symptom must show."""

    @property
    def faults(self) -> tuple[FaultDescription, ...]:
        """All that a diagnosis has to name."""
        return (self.fault, *self.others)
