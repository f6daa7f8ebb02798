"""Turns the output of the scripts into lines: what was observed, and never what caused it."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from hermes.core.events.incidents import EscalationLine
from hermes.core.foreign_text import visible_line
from hermes.core.messages import Value
from hermes.plumbing.units import format_duration, format_size
from hermes.sre.escalation.host_scripts import EscalationSubject, HostRow, HostRows
from hermes.sre.escalation.service_owner import same_name

MAX_LINE_CHARS = 240
MAX_ERRORS_PER_LOG, MAX_LOGS, MAX_CHANGES, MAX_UNRELATED_CHANGES = 3, 3, 8, 3
MAX_NEIGHBOURS = 4
ACCOUNT_FILES = ("/etc/shadow", "/etc/gshadow", "/etc/passwd", "/etc/group")
CLOCK_TICKS = 100
CHANGE_DELAY_S = 5.0
"""How long after the first failure a change may be written that came before it."""
FRESH_LOG_S, RECENT_KILL_S = 120.0, 3600.0
_SIGNALS = {"1": "HUP", "2": "INT", "6": "ABRT", "9": "KILL", "11": "SEGV", "15": "TERM"}
_STATES = {
    "T": "stopped by a signal, until it gets SIGCONT",
    "t": "stopped by a debugger",
    "D": "waits for a disk or the kernel",
    "Z": "ended, its parent has not collected it",
}
_REQUEST_LINE = re.compile(r"\b(?:GET|POST|PUT|DELETE|PATCH|HEAD) /")
_RECORD_BEGIN = re.compile(r"[\d\[]|[A-Z][a-z]{2} +\d|\S+ \d{4}-|.*#")
_STRONG_WORD = re.compile(
    r"error|fatal|crit|emerg|exception|panic|fail|refused|timed? ?out|denied|no space|cannot|"
    r"could ?n[o']t|invalid|corrupt|expired|killed|out of memory|too many|read-only|in use|"
    r"not found|no such|unknown|misconf|exited",
    re.IGNORECASE,
)
_SUPERVISOR_EVENT = re.compile(
    r"^(\S+ [\d:]+)\S* \w+ (exited|gave up|stopped|spawnerr|spawned): (.*)"
)
_KILLED = re.compile(r"\[ *([\d.]+)\].*Killed process (\d+) \(([^)]+)\)")


def line(about: str, text: str, *rows: HostRow) -> EscalationLine:
    numbers = tuple(dict.fromkeys(row.seq for row in rows if row.seq))
    return EscalationLine(about=about, text=visible_line(text, MAX_LINE_CHARS), evidence=numbers)


def process_lines(found: HostRows, subject: EscalationSubject) -> Iterator[EscalationLine]:
    yield from _supervisor_lines(found, subject.service)
    limits = {row[0]: row for row in found.of("limits")}
    pids = {row[0] for row in found.of("process")}
    mains = [row for row in found.of("process") if row[1] not in pids]
    uptime = float(found.first("uptime")[0] or 0)
    for row in mains[:2]:
        yield line("process", _process_text(row, limits.get(row[0]), uptime), row)
    if not pids and "processes" in found.answered:
        seen = HostRow((), found.answered["processes"])
        yield line("process", f"no process of {subject.service} runs", seen)
    stuck = [row for row in found.of("process") if row[2] in _STATES and row not in mains[:2]]
    for row in stuck[:1]:
        yield line("process", f"pid {row[0]} {_STATES[row[2]]}: {row[6]}", row)
    yield from _killed_lines(found, subject.service)
    yield from _neighbour_lines(found, subject.service)


def _process_text(row: HostRow, limits: HostRow | None, uptime: float) -> str:
    age = max(0.0, uptime - float(row[3] or 0) / CLOCK_TICKS)
    state = _STATES.get(row[2], "runs")
    user = f", user {limits[1]}" if limits is not None and limits[1] else ""
    text = f"pid {row[0]} {state}, for {format_duration(age)}{user}: {row[6][:90]}"
    if limits is not None and limits[4].isdigit() and limits[3].isdigit():
        opened, most = int(limits[3]), int(limits[4])
        if opened and opened >= 0.9 * most:
            text = f"{opened} of {most} possible files are open; {text}"
    if limits is not None and limits[5].isdigit():
        text = f"memory limited to {format_size(int(limits[5]))}; {text}"
    return text


def _supervisor_lines(found: HostRows, service: str) -> Iterator[EscalationLine]:
    for row in found.of("supervisord"):
        if same_name(row[0], service):
            yield line("process", f"supervisord: {row[1]} {row[2]}".rstrip(), row)
    yield from _supervisor_event_lines(found)
    unit = dict(row[0].partition("=")[::2] for row in found.of("systemd"))
    if unit.get("LoadState") == "loaded":
        yield line("process", _unit_text(unit), found.first("systemd"))
    for engine in ("docker", "podman"):
        for row in found.of(engine):
            if same_name(row[0], service):
                yield line("process", f"{engine}: {row[1]}", row)
    for kind in ("openrc", "runit"):
        for row in found.of(kind):
            if row[1] and not row[1].startswith("fail: "):
                yield line("process", f"{kind}: {row[1]}", row)


def _unit_text(unit: dict[str, str]) -> str:
    text = f"systemd: {unit.get('ActiveState', '')} ({unit.get('SubState', '')})"
    status = unit.get("ExecMainStatus", "")
    if unit.get("ExecMainCode") in ("2", "3", "killed", "dumped"):
        text += f", ended by signal {_SIGNALS.get(status, status)}"
    elif status not in ("", "0"):
        text += f", exit status {status}"
    if at := unit.get("ExecMainExitTimestamp", ""):
        text += f" at {at}"
    if unit.get("NRestarts", "0") not in ("", "0"):
        text += f", restarted {unit['NRestarts']} times"
    return text


def _supervisor_event_lines(found: HostRows) -> Iterator[EscalationLine]:
    """The last exit by the log of supervisord, and how often it was started."""
    events = [(row, _SUPERVISOR_EVENT.match(row[0])) for row in found.of("supervisorlog")]
    known = [(row, match) for row, match in events if match is not None]
    starts = [(row, match) for row, match in known if match[2] == "spawned"]
    ends = [(row, match) for row, match in known if match[2] in ("exited", "stopped", "spawnerr")]
    if ends:
        row, match = ends[-1]
        words = match[3].partition(" (")[2].rstrip(")") or match[3]
        text = f"{match[2]} at {match[1]}: {words}"
        if len(starts) > 2:
            text += f"; started {len(starts)} times since {starts[0][1][1]}"
        yield line("process", text, row)


def _killed_lines(found: HostRows, service: str) -> Iterator[EscalationLine]:
    """Processes of this name that the kernel killed for lack of memory in the last hour."""
    uptime = float(found.first("uptime")[0] or 0)
    names = {row[5] for row in found.of("process")} | {service}
    for row in found.of("kernel"):
        match = _KILLED.search(row[0])
        if match is None or uptime - float(match[1]) > RECENT_KILL_S:
            continue
        if any(same_name(match[3], name) for name in names):
            ago = format_duration(max(0.0, uptime - float(match[1])))
            text = f"the kernel killed pid {match[2]} ({match[3]}) for lack of memory {ago} ago"
            yield line("process", text, row)


def _neighbour_lines(found: HostRows, service: str) -> Iterator[EscalationLine]:
    """Other programs that do not run: this one may need them."""
    down = [
        row
        for row in found.of("supervisord")
        if row[1] != "RUNNING" and not same_name(row[0], service)
    ]
    failed = [row for row in found.of("failedunit") if not same_name(row[0], service)]
    named = [f"{row[0]} ({row[1]})" for row in down] + [f"{row[0]} (failed)" for row in failed]
    if named:
        text = ", ".join(named[:MAX_NEIGHBOURS])
        yield line("process", f"also not running: {text}", *down[:1], *failed[:1])


def error_lines(found: HostRows, began_at: datetime) -> Iterator[EscalationLine]:
    """The last error lines of the logs that were written since shortly before the outage."""
    since = began_at.timestamp() - FRESH_LOG_S
    logs = list(dict.fromkeys(row.fields for row in found.of("log")))
    fresh = [e for e in logs if len(e) > 1 and e[1].isdigit() and float(e[1]) >= since]
    shown = 0
    for path, *_ in fresh:
        rows = [row for row in found.of("said") if row[0] == path]
        name = path.rpartition("/")[2]
        errors = digest([row[2] for row in rows])
        for each in errors[-MAX_ERRORS_PER_LOG:]:
            yield line("error", f"{name}: {each}", *rows[:1])
        shown += bool(errors)
        if shown >= MAX_LOGS:
            break
    if not shown:
        yield from _silent_log_lines(found, [each for each in logs if each not in fresh])


def _silent_log_lines(found: HostRows, logs: Sequence[tuple[str, ...]]) -> Iterator[EscalationLine]:
    for path, at, *_ in [each for each in logs if len(each) > 1 and each[1].isdigit()][:1]:
        row = next((row for row in found.of("last") if row[0] == path), HostRow(()))
        last = f"; its last line: {row[2]}" if row[2] else ""
        written = datetime.fromtimestamp(float(at), UTC)
        yield line("error", f"{path}: nothing since {written:%Y-%m-%d %H:%M:%S} UTC{last}", row)


def digest(lines: Sequence[str]) -> list[str]:
    """Distinct error lines in the order of their last occurrence, with continuation lines.

    Of a traceback the last place and the error itself are kept.
    """
    found: dict[str, tuple[int, str]] = {}
    place, more = "", 0
    for text in lines:
        words = text.strip()
        if words.startswith('File "') and ", line " in words:
            place, more = words.partition(", in ")[0], 0
            continue
        if (
            text[:1].isspace()
            or not any(map(str.isalnum, words))
            or words in ("--", "Traceback (most recent call last):")
        ):
            continue
        hit = _STRONG_WORD.search(words) is not None
        if not hit and (more <= 0 or _RECORD_BEGIN.match(words)):
            more = 0
            continue
        more = 3 if hit else more - 1
        if place and hit:
            words, place = f"{words} ({place})", ""
        key = re.sub(r"\d+|0x[0-9a-f]+", "", words)
        count = found.pop(key, (0, ""))[0] + 1
        found[key] = (count, words)
    requests = [key for key, (_, text) in found.items() if _REQUEST_LINE.search(text)]
    if len(requests) < len(found):
        found = {key: each for key, each in found.items() if key not in requests}
    return [f"{text} ({count} times)" if count > 1 else text for count, text in found.values()]


def port_lines(found: HostRows, service: str) -> Iterator[EscalationLine]:
    own = {row[0] for row in found.of("process")}
    for row in found.of("free"):
        yield line("port", f"nobody listens at port {row[0]}", row)
    queues: dict[str, int] = {}
    for row in found.of("queue"):
        queues[row[0]] = queues.get(row[0], 0) + int(row[1] or "0", 16)
    told: dict[tuple[str, bool], None] = {}
    for row in found.of("holder"):
        port, foreign = row[0], not (row[1] in own or same_name(row[3], service))
        if (port, foreign) in told:
            continue
        told[port, foreign] = None
        who = f"{row[3]} (pid {row[1]}, user {row[2]})"
        waiting = f"; {queues[port]} connections wait to be accepted" if queues.get(port) else ""
        if foreign and service:
            text = f"port {port} is held by another process: {who}: {row[4][:80]}{waiting}"
        else:
            text = f"port {port}: {who} listens{waiting}"
        yield line("port", text, row)
    for row in found.of("firewall"):
        yield line("port", f"a firewall rule for port {row[0]}: {row[1]}", row)


def disk_lines(found: HostRows) -> Iterator[EscalationLine]:
    for key, unit in (("space", "kB"), ("inodes", "inodes")):
        for row in found.of(key):
            yield line("disk", f"{row[0]}: {row[1]} used, {row[2]} {unit} free", row)
    for row in found.of("grows"):
        yield line("disk", f"grows by {_size(row[0])} a second: {row[2]} (owner {row[1]})", row)
    for row in found.of("deleted"):
        who = f"{row[2]} (pid {row[1]})"
        yield line("disk", f"deleted but still open: {_size(row[0])}, {row[3]}, by {who}", row)
    for row in found.of("large")[:5]:
        at = f", written {clock_text(float(row[1]))}" if row[1].isdigit() else ""
        yield line("disk", f"large: {_size(row[0])} {row[3]} (owner {row[2]}{at})", row)
    for row in found.of("crowded"):
        yield line("disk", f"{row[0]} entries in {row[1]}", row)


def consumer_lines(found: HostRows, kind: str) -> Iterator[EscalationLine]:
    for row in found.of("cpu"):
        if row[0].isdigit() and int(row[0]) >= 10:
            yield line(
                "consumer", f"{row[0]} % of a processor: pid {row[1]}, {row[2]}: {row[3]}", row
            )
    if kind not in ("memory", "processes", "zombies"):
        return
    for row in found.of("rss"):
        yield line(
            "consumer", f"{_size(row[0], 1024)} memory: pid {row[1]}, {row[2]}: {row[3]}", row
        )
    for row in found.of("many")[:1]:
        yield line("consumer", f"{row[0]} processes are called {row[1]}", row)
    for row in found.of("descriptors")[:2]:
        yield line("consumer", f"{row[0]} open files: pid {row[1]}, {row[2]}: {row[3]}", row)


class _Change(Value, frozen=True):
    at: float
    text: str
    path: str
    row: HostRow


def change_lines(found: HostRows, service: str, began_at: datetime) -> Iterator[EscalationLine]:
    """What concerns the service first, then what is nearest before the outage."""
    changes = [each for each in map(_file_change, found.of("file")) if each is not None]
    word = re.split(r"[-_.@]", service.lower())[0] if service else ""
    latest = began_at.timestamp() + CHANGE_DELAY_S
    before = [each for each in changes if each.at <= latest]
    own = [each for each in before if word and len(word) > 2 and word in each.path.lower()]
    others = [each for each in before if each not in own][:MAX_UNRELATED_CHANGES]
    for each in [*own[:MAX_CHANGES], *others]:
        yield line("change", f"{clock_text(each.at)} {each.text}", each.row)
    for row in found.of("package")[-MAX_UNRELATED_CHANGES:]:
        yield line("change", f"package: {row[0]}", row)
    for row in found.of("login")[:MAX_UNRELATED_CHANGES]:
        yield line("change", f"login: {row[0]}", row)
    if not before and "changes" in found.answered:
        seen = HostRow((), found.answered["changes"])
        yield line("change", "no file in /etc, /opt, /srv or /usr/local in the last hour", seen)


def _file_change(row: HostRow) -> _Change | None:
    if not (row[0].isdigit() and row[1].isdigit()):
        return None
    changed_at, written_at, path = float(row[0]), float(row[1]), row[4]
    if row[3].startswith("d"):
        what = "an entry was added to or removed from"
        what = what if written_at >= changed_at - 1 else f"owner or mode now {row[2]} {row[3]}:"
        return _Change(changed_at, f"{what} {path}", path, row)
    if path.startswith(ACCOUNT_FILES) and written_at < changed_at - 1:
        return None  # only its metadata: mounts and backups change that
    if written_at >= changed_at - 1:
        return _Change(changed_at, f"written: {path} (owner {row[2]})", path, row)
    return _Change(changed_at, f"owner, mode or name: {path} ({row[2]} {row[3]})", path, row)


def clock_text(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def _size(text: str, factor: int = 1) -> str:
    return format_size(factor * int(text)) if text.isdigit() else text
