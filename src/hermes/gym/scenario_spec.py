"""What a scenario is for one seed: hosts, how they break, and how a fix is recognized.

Everything here is data. A scenario draws it from a random source, an episode plays it, and the
oracle runs its checks.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import field

from hermes.core.messages import Value

Severity = Literal["P0", "P1", "P2", "P3"]
ScenarioGroup = Literal[
    "classic", "process", "limits", "files", "database", "network", "change", "jobs", "judgement"
]
ExpectedResponse = Literal["fix", "no-incident", "recovered", "approval"]
EXPECTED_VERDICTS: Mapping[ExpectedResponse, str] = {
    "fix": "fix",
    "no-incident": "no-incident",
    "recovered": "recovered",
    "approval": "escalate",
}
"""What a responder should state in `conclude`."""


class HostFile(Value, kw_only=True, frozen=True):
    path: str
    text: str = ""
    content: bytes = b""
    """Of a binary file, in place of `text`."""
    mode: int = 0o644
    owner: int = 0

    @property
    def data(self) -> bytes:
        return self.content or self.text.encode()


class HostFolder(Value, kw_only=True, frozen=True):
    """An empty folder with a mode or an owner of its own."""

    path: str
    mode: int = 0o755
    owner: int = 0


class HostDisk(Value, frozen=True):
    """A folder that is a small file system."""

    path: str
    megabytes: int
    inodes: int = 0
    """The most files, folders and links on it; 0 for no limit of its own."""


class HostSpec(Value, kw_only=True, frozen=True):
    name: str
    address: str = ""
    files: tuple[HostFile, ...] = ()
    folders: tuple[str | HostFolder, ...] = ()
    units: tuple[HostFile, ...] = ()
    """Unit files; enabled, and started in order of their `After=`."""
    users: tuple[str, ...] = ("www",)
    """Besides root; their ids begin with 1001, in this order."""
    disks: tuple[HostDisk, ...] = ()
    disk_mb: int = 192
    minute: float = 60.0
    """Length of a minute for cron, in seconds."""


class HttpRequest(Value, kw_only=True, frozen=True):
    """What `HttpCheck` and `LoadSpec` send."""

    port: int
    path: str = "/"
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    """Names and values, besides Host, Connection and Content-Length."""
    body: str | bytes = ""

    def __post_init__(self) -> None:
        line = (self.method, self.path, *(part for pair in self.headers for part in pair))
        if any("\r" in part or "\n" in part for part in line):
            raise ValueError("a method, a path or a header has a line break")

    def payload(self, host_name: str = "localhost") -> bytes:
        body = self.body if isinstance(self.body, bytes) else self.body.encode()
        lines = [f"{self.method} {self.path} HTTP/1.1"]
        if not any(name.lower() == "host" for name, _ in self.headers):
            lines.append(f"Host: {host_name}")
        lines += ["Connection: close", *(f"{name}: {value}" for name, value in self.headers)]
        if body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join((*lines, "", "")).encode() + body


class HttpCheck(HttpRequest, kw_only=True, tag="http", frozen=True):
    """The reply has the right status and the right text, in time."""

    name: str
    status: int = 200
    contains: str = ""
    within: float = 2.0
    host: int = 0
    address: str = "127.0.0.1"
    tls: str = ""
    """The host name that the certificate must be for; empty without TLS."""
    authority: str = ""
    """A file on the host with the certificates to trust."""


class PortCheck(Value, kw_only=True, tag="port", frozen=True):
    """A process listens on the port and, if `contains` is set, replies with that text."""

    name: str
    port: int
    send: str = ""
    contains: str = ""
    within: float = 2.0
    host: int = 0


class DiskSpaceCheck(Value, kw_only=True, tag="space", frozen=True):
    """The disk has room, and is no larger than before the fault."""

    name: str
    path: str
    free_mb: float
    free_inodes: int = 0
    host: int = 0


class UnitRunningCheck(Value, kw_only=True, tag="running", frozen=True):
    """The unit is active, and has been for at least `seconds`."""

    name: str
    unit: str
    seconds: float = 0.0
    host: int = 0
    undisturbed: bool = False
    """It must be the process that ran before the fault: not restarted since."""


class ScriptCheck(Value, kw_only=True, tag="script", frozen=True):
    """A bash script on the host exits with 0 and prints what it should.

    It must test behaviour: an agent could write a marker file. It runs with the mounts and programs
    that the host was built with, whatever has been mounted since.
    """

    name: str
    script: str
    contains: str = ""
    lacks: str = ""
    timeout: float = 10.0
    host: int = 0


class UnchangedCheck(Value, kw_only=True, tag="same", frozen=True):
    """A file, or all files below a folder, are as they were before the fault."""

    name: str
    path: str
    host: int = 0
    may_grow: bool = False
    """For a log: text may be appended, but not changed."""


ScenarioCheck = (
    HttpCheck | PortCheck | DiskSpaceCheck | UnitRunningCheck | ScriptCheck | UnchangedCheck
)


class LoadSpec(HttpRequest, kw_only=True, frozen=True):
    """Many requests at the same time; the replies are not judged."""

    requests: int = 200
    parallel: int = 20
    """Clients, each with one request after the other; at most 64."""
    within: float = 5.0
    """Seconds for one request."""
    address: str = "127.0.0.1"


class FaultTrigger(Value, kw_only=True, frozen=True):
    """Repeats what caused the fault. Temporary relief does not survive it; a fix does.

    Its parts run in the order of the fields.
    """

    restart: tuple[str, ...] = ()
    """Units, restarted through a socket that no process on the host has."""
    cron: str = ""
    """Runs the cron jobs whose table or command contains this text."""
    script: str = ""
    """With the mounts and programs that the host was built with: see `ScriptCheck`."""
    load: LoadSpec | None = None
    pause: float = 0.0
    """Seconds."""
    host: int = 0


class FaultDescription(Value, kw_only=True, frozen=True):
    """For scoring a diagnosis: each part is right if it contains one of these texts."""

    component: tuple[str, ...]
    mechanism: tuple[str, ...]
    value: tuple[str, ...] = ()


class ScenarioAlert(Value, kw_only=True, frozen=True):
    """The alert of a monitor: it names a symptom, never the cause."""

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
    """Checks that succeed on a healthy host; all must succeed again in the end."""
    symptoms: tuple[ScenarioCheck, ...]
    """The checks among them that fail after the fault."""
    inject: tuple[str, ...] = ()
    """Scripts that cause the fault, on the first host, or `N:` and a script for host N."""
    cure: tuple[FaultTrigger, ...] = ()
    collateral: tuple[ScenarioCheck, ...] = ()
    """Checks for damage: they succeed before the fault and must still do so in the end."""
    fault: FaultDescription
    others: tuple[FaultDescription, ...] = ()
    """Further faults that a diagnosis must name."""
    decoys: tuple[FaultDescription, ...] = ()
    """What looks like a cause and is none: a diagnosis that names it is wrong."""
    answer: ExpectedResponse = "fix"
    """The right response: not every alert is an incident."""
    reference: tuple[str, ...] = ()
    """Commands that fix it."""
    relief: tuple[str, ...] = ()
    """Commands that stop symptoms without fixing the cause; `selftest` sees them stop."""
    shortcut: tuple[str, ...] = ()
    """Commands that do damage on the way; `selftest` sees the damage."""
    futile: tuple[str, ...] = ()
    """Commands that are often tried and do not help, such as a restart."""
    traffic: tuple[TrafficSpec, ...] = ()
    settle: float = 0.0
    """Seconds to wait after the injection before the symptoms are checked."""

    @property
    def faults(self) -> tuple[FaultDescription, ...]:
        """All that a diagnosis has to name."""
        return (self.fault, *self.others)
