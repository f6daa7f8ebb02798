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
    """Absolute; of a unit file its name is enough."""
    text: str = ""
    """The content."""
    content: bytes = b""
    """Of a binary file, in place of `text`."""
    mode: int = 0o644
    """Permissions."""
    owner: int = 0
    """The number of a user and of the group: 0 for root, 1001 for the first of `users`."""

    @property
    def data(self) -> bytes:
        return self.content or self.text.encode()


class HostFolder(Value, kw_only=True, frozen=True):
    """An empty folder with its own mode or owner."""

    path: str
    """Absolute."""
    mode: int = 0o755
    """Permissions."""
    owner: int = 0
    """The number of a user and of the group."""


class HostLink(Value, frozen=True):
    """A symbolic link, such as one to the current release."""

    path: str
    """Absolute."""
    target: str
    """As `ln -s` takes it: absolute, or relative to the folder of the link."""


class HostDisk(Value, frozen=True):
    """A folder that is a small file system."""

    path: str
    """Where it is mounted."""
    megabytes: int
    """Its size."""
    inodes: int = 0
    """The most files, folders and links on it; 0 for no separate limit."""


class HostSpec(Value, kw_only=True, frozen=True):
    name: str
    """The host name."""
    address: str = ""
    """Its IPv4 address; needed where there are several hosts."""
    files: tuple[HostFile, ...] = ()
    """Written before anything is started."""
    folders: tuple[str | HostFolder, ...] = ()
    """Made before the files; a path, or a folder with a mode and an owner."""
    links: tuple[HostLink, ...] = ()
    """Symbolic links, made after the files."""
    units: tuple[HostFile, ...] = ()
    """Unit files; enabled, and started in order of their `After=`."""
    users: tuple[str, ...] = ("www",)
    """Besides root; their ids begin with 1001, in this order."""
    disks: tuple[HostDisk, ...] = ()
    """Folders that are small file systems."""
    disk_mb: int = 192
    """Size of the root file system."""
    minute: float = 60.0
    """Length of a minute for cron, in seconds."""


class RequestSpec(Value, kw_only=True, frozen=True):
    """What `HttpCheck` and `LoadSpec` send."""

    port: int
    """TCP port."""
    path: str = "/"
    """With a query, if any."""
    method: str = "GET"
    """Sent as it is."""
    headers: tuple[tuple[str, str], ...] = ()
    """Names and values, besides Host, Connection and Content-Length."""
    body: str = ""
    """Text is sent as UTF-8."""

    def __post_init__(self) -> None:
        line = (self.method, self.path, *(part for pair in self.headers for part in pair))
        if any("\r" in part or "\n" in part for part in line):
            raise ValueError("a method, a path or a header has a line break")

    def payload(self, host_name: str = "localhost") -> bytes:
        body = self.body.encode()
        lines = [f"{self.method} {self.path} HTTP/1.1"]
        if not any(name.lower() == "host" for name, _ in self.headers):
            lines.append(f"Host: {host_name}")
        lines += ["Connection: close", *(f"{name}: {value}" for name, value in self.headers)]
        if body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join((*lines, "", "")).encode() + body


class HttpCheck(RequestSpec, kw_only=True, tag="http", frozen=True):
    """The reply has the right status and the right text, in time."""

    name: str
    """What is checked, for people: shown in results."""
    status: int = 200
    """The status that the reply must have."""
    contains: str = ""
    """Text that the body must contain."""
    within: float = 2.0
    """Seconds for the whole reply."""
    host: int = 0
    """The number of the host from which it is sent; the first is 0."""
    address: str = "127.0.0.1"
    """Where it is sent."""
    tls: str = ""
    """The host name that the certificate must be for; empty without TLS."""
    authority: str = ""
    """A file on the host with the certificates to trust."""


class PortCheck(Value, kw_only=True, tag="port", frozen=True):
    """A process listens on the port and, if `contains` is set, replies with that text."""

    name: str
    """What is checked, for people."""
    port: int
    """TCP port on 127.0.0.1."""
    send: str = ""
    """Text to send after the connection is made."""
    contains: str = ""
    """Text that the reply must contain."""
    within: float = 2.0
    """Seconds for the whole reply."""
    host: int = 0
    """The number of the host."""


class DiskSpaceCheck(Value, kw_only=True, tag="space", frozen=True):
    """The disk has room, and is no larger than before the fault."""

    name: str
    """What is checked, for people."""
    path: str
    """A path on the disk."""
    free_mb: float
    """The least that must be free."""
    free_inodes: int = 0
    """The least number of files that can still be made."""
    host: int = 0
    """The number of the host."""


class UnitRunningCheck(Value, kw_only=True, tag="running", frozen=True):
    """The unit is active, and has been for at least `seconds`."""

    name: str
    """What is checked, for people."""
    unit: str
    """Its name, with or without `.service`."""
    seconds: float = 0.0
    """How long it must have been active."""
    host: int = 0
    """The number of the host."""
    undisturbed: bool = False
    """It must be the process that ran before the fault: not restarted since."""


class ScriptCheck(Value, kw_only=True, tag="script", frozen=True):
    """A bash script on the host exits with 0 and prints what it should.

    It must test behaviour: an agent could write a marker file. It runs with the mounts and programs
    that the host was built with, whatever has been mounted since.
    """

    name: str
    """What is checked, for people."""
    script: str
    """For bash, as root; of any length."""
    contains: str = ""
    """Text that it must print."""
    lacks: str = ""
    """Text that it must not print."""
    timeout: float = 10.0
    """Seconds after which it is killed and fails."""
    host: int = 0
    """The number of the host."""


class UnchangedCheck(Value, kw_only=True, tag="same", frozen=True):
    """A file, or all files below a folder, are as they were before the fault."""

    name: str
    """What is checked, for people."""
    path: str
    """A file or a folder."""
    host: int = 0
    """The number of the host."""
    may_grow: bool = False
    """For a log: text may be appended, but not changed."""
    since_fault: bool = False
    """Compares with the state after the fault: for an edit beside the cause, which must stay."""


ScenarioCheck = (
    HttpCheck | PortCheck | DiskSpaceCheck | UnitRunningCheck | ScriptCheck | UnchangedCheck
)


class LoadSpec(RequestSpec, kw_only=True, frozen=True):
    """Many requests at the same time; the replies are not judged."""

    requests: int = 200
    """How many in all."""
    parallel: int = 20
    """Clients, each with one request after the other; at most 64."""
    within: float = 5.0
    """Seconds for one request."""
    address: str = "127.0.0.1"
    """Where they are sent."""


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
    """Many requests at the same time."""
    pause: float = 0.0
    """Seconds."""
    host: int = 0
    """The number of the host."""


class FaultDescription(Value, kw_only=True, frozen=True):
    """For scoring a diagnosis: each part is right if it contains one of these texts."""

    component: tuple[str, ...]
    """What is broken: files, units, tables. A name that the alert has too counts only together
    with the right value."""
    mechanism: tuple[str, ...]
    """How it broke the service."""
    value: tuple[str, ...] = ()
    """The concrete value that is wrong; empty where there is none."""


class ScenarioAlert(Value, kw_only=True, frozen=True):
    """The alert of a monitor: it names a symptom, never the cause."""

    title: str
    """One line."""
    text: str
    """What the monitor saw."""
    severity: Severity = "P2"
    """P0 is the most urgent."""
    labels: dict[str, str] = field(default_factory=dict)
    """As a monitor sends them: `service`, `instance`, `host`."""


class TrafficSpec(Value, kw_only=True, frozen=True):
    port: int
    """TCP port."""
    paths: tuple[str, ...] = ("/",)
    """Requested in random order."""
    pause: float = 0.3
    """Mean seconds between two requests."""
    host: int = 0
    """The number of the host."""


class ScenarioSpec(Value, kw_only=True, frozen=True):
    hosts: tuple[HostSpec, ...]
    """The first is the one on which the agent works."""
    alert: ScenarioAlert
    """The text that the agent gets."""
    healthy: tuple[ScenarioCheck, ...]
    """Checks that succeed on a healthy host; all must succeed again in the end."""
    symptoms: tuple[ScenarioCheck, ...]
    """The checks among them that fail after the fault."""
    inject: tuple[str, ...] = ()
    """Scripts that cause the fault, on the first host, or `N:` and a script for host N."""
    cure: tuple[FaultTrigger, ...] = ()
    """Triggers that a fix must survive, fired in order before it is judged."""
    collateral: tuple[ScenarioCheck, ...] = ()
    """Checks for damage: they succeed before the fault and must still do so in the end."""
    fault: FaultDescription
    """The right diagnosis."""
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
    """Requests of users, from before the fault until the end."""
    settle: float = 0.0
    """Seconds to wait after the injection before the symptoms are checked."""

    @property
    def faults(self) -> tuple[FaultDescription, ...]:
        """All that a diagnosis has to name."""
        return (self.fault, *self.others)
