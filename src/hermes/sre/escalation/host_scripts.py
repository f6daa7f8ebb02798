"""Runs the fixed read-only scripts that collect facts about a failing service.

They need bash, awk, grep and /proc; with other programs they find more. All run concurrently and
have a timeout each, so that a supervisor that hangs does not delay the escalation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from shlex import quote

from hermes.core.incident import IncidentDetails
from hermes.core.messages import Value
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import (
    ExecuteCall,
    busy_timeout,
    incomplete_reason,
    run_command,
)
from hermes.skills.supervisors.units import UnitListing
from hermes.sre.checks import run_concurrently
from hermes.sre.probes.log_silence import LOG_KINDS

SCRIPTS_FOLDER = Path(__file__).parent / "scripts"
SCRIPT_TIMEOUT_S, TIMEOUT_GRACE_S = 10.0, 2.0
CHANGES_WINDOW_MIN = 60
MAX_PORTS, MAX_PATHS, MAX_PIDS = 6, 3, 12
LINE_KEYS = ("said", "last")
"""Keys of lines of a log; they follow the row with its path and the time of its last write."""
NEEDED_FIELDS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("absent", "crowded", "many", "queue", "sessions", "firewall", "killer"), (0, 1)
    ),
    **dict.fromkeys(("space", "inodes"), (0, 1, 2)),
    **dict.fromkeys(("cpu", "rss", "descriptors", "holder"), (0, 1, 3)),
    "process": (0, 6),
    "needs": (0, 1),
    "listener": (0, 1, 2),
    "file": (0, 1, 4),
    "path": (0, 1),
    "closed": (0, 3),
    "grows": (0, 2),
    "large": (0, 3),
    "deleted": (0, 3),
    **dict.fromkeys((*LINE_KEYS, "resolver", "missing"), ()),
}
"""The fields without which a row says nothing, by key; of others that is the first."""
FACT_CALL = "fact"
"""The prefix of the call ids."""
_SERVICE_NAME = re.compile(r"[A-Za-z0-9][\w@.:-]{0,63}")
_PROBE = re.compile(r"^asked by the probe (\S+) \((\w+) ?(.*)\)$", re.MULTILINE)
_PORT_KINDS = ("port", "postgres", "mysql", "redis")
"""Kinds of probes that have a port as `what`."""
_PORT = re.compile(r"(?:\d\.\d+|localhost|\]|//[\w.-]+):(\d{2,5})\b")
_CLIENT = re.compile(
    r"\[(?:remote|client) [^\]]*\]"
    r"|\b(?:client|peer|connection from|connect from|from client)[ =:]+[\[\w.:\]]+"
)
"""The address of a client, whose port is no port of a service."""
_PATH = re.compile(r"/[\w./@+-]+")
_NAMED_PORT = re.compile(rf"{_PORT.pattern}|\bport (\d{{2,5}})\b")
_QUOTED_PATH = re.compile(r"(?<![\w.:/])/(?:[\w.@+-]+/)*[\w.@+-]+")
_NAMED_PID = re.compile(r"\bpid[ =:]*(\d{2,7})\b", re.IGNORECASE)
_RIVAL_WORDS = re.compile(r"\b(?:another|already|held|locked|running)\b", re.IGNORECASE)
_OTHER_PATHS = ("/root/", "/home/", "/usr/lib", "/lib", "/proc/")
"""Homes, and the files of a program that a traceback names."""
_UNRESOLVED_WORDS = re.compile(
    r"name resolution|name or service not known|not resolve|no such host|host not found"
    r"|\bENOTFOUND|EAI_AGAIN|NXDOMAIN|translate host name",
    re.IGNORECASE,
)
_HOST_NAME = re.compile(
    r"(?:\b(?:host|name|upstream|lookup|on|ENOTFOUND|EAI_AGAIN):? )"
    r"['\"]?([A-Za-z][\w-]*(?:\.[\w-]+)*[A-Za-z0-9])(?=['\"\s:,(]|$)"
)
_READ_ONLY_WORDS = re.compile(r"read-only", re.IGNORECASE)
_LOG_TITLE_BEGIN = "a minute of "
_LOG_TITLE = re.compile(rf"{_LOG_TITLE_BEGIN}/[\w./@+-]+")
CONSUMER_KINDS = ("cpu", "load", "memory", "processes", "zombies")
_SLOW_WORDS = re.compile(r"no answer within|timed? ?out|slow|latency|took longer", re.IGNORECASE)
_REPLICA_WORDS = re.compile(
    r"is a replica and its master|read ?only (?:replica|slave)|MASTERDOWN", re.IGNORECASE
)
_TITLES = {
    "processes": "its processes",
    "ports": "who holds its port",
    "firewall": "the rules of the firewall",
    "named": "the files that its errors name",
    "logs": "its logs",
    "messages": "the system journal",
    "changes": "recent changes",
    "dependencies": "the services that it uses",
    "disk": "the files of the disk",
    "consumers": "what uses the processors and the memory",
}


class EscalationSubject(Value, kw_only=True, frozen=True):
    """What the facts are about, by the alert."""

    service: str = ""
    """Empty for an alert that names none, or a name that is no name of a service."""
    kind: str = ""
    """The kind of the probe that raised it."""
    ports: tuple[int, ...] = ()
    log: str = ""
    disk: str = ""
    config: str = ""
    """The program and the file of a configuration that would prevent its next start."""
    slow: bool = False
    replica: bool = False
    """A redis that is a replica does not take writes, or its master does not answer."""
    login_refused: bool = False
    """It does not accept the password of a service that uses it."""
    logs: tuple[str, ...] = ()
    """Log files that its supervisor names, or that its processes have open."""
    unit: str = ""
    """Its unit of systemd."""
    pids: tuple[int, ...] = ()
    """The main processes of its units."""
    listened_before: int = 0
    """Seconds since 1970: what listens at its ports since before then is the service; 0 where its
    units tell which processes it has."""

    @property
    def process_scripts(self) -> Iterator[tuple[str, str]]:
        """The script that finds its processes, which may have another name."""
        if self.service:
            pids, ports = " ".join(map(str, self.pids)), " ".join(map(str, self.ports))
            given = f"n={quote(self.service)} pids={quote(pids)} ports={quote(ports)}"
            yield "processes", f"{given} before={self.listened_before}"

    @property
    def scripts(self) -> Iterator[tuple[str, str]]:
        """The name of each further script, and its command."""
        name = quote(self.service)
        if self.service or self.log:
            own = quote("\n".join(self.logs))
            yield "logs", f"n={name} path={quote(self.log)} own={own}"
            yield "messages", f"n={quote(self.unit or self.service)}"
        if self.disk:
            yield "disk", f"p={quote(self.disk)} inodes={int(self.kind == 'inodes')}"
        if self.kind in CONSUMER_KINDS or self.slow:
            yield "consumers", ":"
        yield "changes", f"minutes={CHANGES_WINDOW_MIN}"

    def dependency_scripts(self, pids: Sequence[str]) -> Iterator[tuple[str, str]]:
        """The script about what its processes use; a service that does not run uses nothing."""
        if self.service and pids:
            given = quote(" ".join(pids[:MAX_PIDS]))
            yield "dependencies", f"n={quote(self.service)} pids={given}"


def escalation_subject(details: IncidentDetails) -> EscalationSubject:
    text = details.facts.combined_text
    probe = _PROBE.search(details.text)
    kind, what = (probe[2], probe[3]) if probe else (details.labels.get("kind", ""), "")
    found = [
        *([what] if kind in _PORT_KINDS else []),
        *_PORT.findall(f"{what}\n{_CLIENT.sub('', text)}"),
    ]
    ports = (int(each.rpartition(":")[2]) for each in found if each.rpartition(":")[2].isdigit())
    at = _PATH.match(what) or _LOG_TITLE.search(details.title)
    path = at[0].removeprefix(_LOG_TITLE_BEGIN) if at else ""
    service = details.service.removesuffix(".service")
    return EscalationSubject(
        service=service if _SERVICE_NAME.fullmatch(service) else "",
        kind=kind,
        ports=tuple(dict.fromkeys(port for port in ports if 0 < port < 65_536))[:MAX_PORTS],
        log=path if kind in LOG_KINDS else "",
        disk=(path or "/") if kind in ("disk", "inodes", "forecast") else "",
        config=what if kind == "config" else "",
        slow=_SLOW_WORDS.search(text) is not None,
        replica=_REPLICA_WORDS.search(text) is not None,
    )


def named_scripts(subject: EscalationSubject, errors: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Scripts about the ports of the alert, and the ports, paths and pids that error lines name."""
    text = "\n".join(errors)
    ports = tuple(dict.fromkeys((*subject.ports, *named_ports(text))))[:MAX_PORTS]
    if ports:
        yield "ports", (given := f"ports={quote(' '.join(map(str, ports)))}")
        yield "firewall", given
    known = dict.fromkeys(each.rstrip("./") for each in _QUOTED_PATH.findall(text))
    paths = [e for e in known if e.count("/") > 1 and not e.startswith(_OTHER_PATHS)][:MAX_PATHS]
    rivals = "\n".join(each for each in errors if _RIVAL_WORDS.search(each))
    pids = list(dict.fromkeys(_NAMED_PID.findall(rivals)))[:MAX_PATHS]
    mounts = int(_READ_ONLY_WORDS.search(text) is not None)
    unresolved = "\n".join(each for each in errors if _UNRESOLVED_WORDS.search(each))
    hosts = [e for e in dict.fromkeys(_HOST_NAME.findall(unresolved)) if "." in e][:MAX_PATHS]
    if paths or pids or mounts or unresolved:
        yield (
            "named",
            f"paths={quote(' '.join(paths))} pids={quote(' '.join(pids))} mounts={mounts}"
            f" resolver={int(bool(unresolved))} hosts={quote(' '.join(hosts))}",
        )


def named_ports(text: str) -> list[int]:
    """The ports of this host and of others that error lines name, without those of clients."""
    found = _NAMED_PORT.findall(_CLIENT.sub("", text))
    numbers = (int(first or second) for first, second in found)
    return [port for port in numbers if 0 < port < 65_536]


class HostRow(Value, frozen=True):
    """One line of a script: its fields, and the number of the event with its output."""

    fields: tuple[str, ...]
    seq: int = 0

    def __getitem__(self, number: int) -> str:
        return self.fields[number] if number < len(self.fields) else ""


class HostRows(Value, frozen=True):
    """The output of the scripts by the key of each line, and what could not be collected."""

    rows: dict[str, tuple[HostRow, ...]] = {}
    answered: dict[str, int] = {}
    """By script that ran to its end: the number of the event with its output."""
    unchecked: tuple[str, ...] = ()
    listing: UnitListing = UnitListing()
    """The units of all supervisors."""

    def of(self, key: str) -> tuple[HostRow, ...]:
        return self.rows.get(key, ())

    def first(self, key: str) -> HostRow:
        return next(iter(self.of(key)), HostRow(()))


class ScriptOutput(Value, frozen=True):
    script: str
    call: str
    text: str = ""
    incomplete: str = ""


def script_command(name: str, head: str) -> str:
    text = (SCRIPTS_FOLDER / f"{name}.sh").read_text(encoding="utf-8")
    return f"{head}\n{text}".strip()


async def run_scripts(
    scripts: Iterable[tuple[str, str]], execute: ExecuteCall
) -> Sequence[ScriptOutput]:
    async def run(name: str, head: str) -> ScriptOutput:
        id = new_id(FACT_CALL)
        command = script_command(name, head)
        result = await run_command(
            execute, command, busy_timeout(SCRIPT_TIMEOUT_S), id=id, grace_s=TIMEOUT_GRACE_S
        )
        return ScriptOutput(name, id, result.output, incomplete_reason(result))

    jobs = [partial(run, name, head) for name, head in scripts]
    return await run_concurrently(jobs, at_once=len(jobs))


def parse_outputs(outputs: Sequence[ScriptOutput], numbers: dict[str, int]) -> HostRows:
    """`numbers`: those of the events with the results, by call."""
    rows: dict[str, tuple[HostRow, ...]] = {}
    answered, unchecked = dict[str, int](), list[str]()
    for output in outputs:
        seq = numbers.get(output.call, 0)
        if output.incomplete:
            why = output.incomplete.partition(": ")[0]  # the whole reason is in the journal
            unchecked.append(f"{_TITLES[output.script]}: {why}")
        elif seq:
            answered[output.script] = seq
        log: tuple[str, ...] = ()
        for line in output.text.splitlines() if seq else ():
            key, equals, rest = line.partition("=")
            if not equals or not key.isalpha():
                continue
            fields = (*log, rest) if key in LINE_KEYS else tuple(rest.split("\t"))
            log = fields if key == "log" else log
            row = HostRow(fields, seq)
            if all(row[number].strip() for number in NEEDED_FIELDS.get(key, (0,))):
                rows[key] = (*rows.get(key, ()), row)
    unchecked += [row[0] for row in rows.get("unchecked", ())]
    unchecked += [f"{row[0]} cannot be read" for row in rows.get("unread", ())]
    return HostRows(rows, answered, tuple(dict.fromkeys(unchecked)))
