"""Turns the output of the scripts into lines: what was observed, and never what caused it."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from hermes.core.events.incidents import EscalationLine
from hermes.core.foreign_text import visible_line
from hermes.plumbing.units import format_duration, format_size
from hermes.skills.supervisors.units import HostUnit, same_service
from hermes.sre.escalation.dependencies import down_units
from hermes.sre.escalation.host_scripts import EscalationSubject, HostRow, HostRows
from hermes.sre.escalation.next_commands import (
    LOW_FILE_LIMIT,
    OWNER_WORDS,
)
from hermes.sre.escalation.service_identity import foreign_holders, missing_listeners

MAX_LINE_CHARS = 240
MAX_ERRORS_PER_LOG, MAX_LOGS, MAX_NEIGHBOURS = 3, 3, 4
MIN_EQUAL_SESSIONS = 10
"""Sessions of one user in one state that are worth a line."""
CLOCK_TICKS = 100
WAITING = "wait to be accepted"
HIGH_INODE_PERCENT = 80
FRESH_LOG_S, WARNING_LEAD_S, RECENT_KILL_S = 30.0, 10.0, 3600.0
INTERPRETERS = ("python", "node", "ruby", "perl", "php", "java", "bash", "sh", "dash")
_UNIT_STATES = {
    "active": "runs",
    "activating": "is starting or restarting",
    "deactivating": "is being stopped",
    "failed": "has failed",
    "inactive": "does not run",
}
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
    r"not found|no such|unknown|misconf|exited|\bhint: |\bdetail: ",
    re.IGNORECASE,
)
_LINE_TIME = re.compile(
    r"(?:(?P<iso>\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d)"
    r"|(?P<words>\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d)"
    r"|\[[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2} [ \d]?\d) (?P<clock>\d\d:\d\d:\d\d)(?:\.\d+)?"
    r" (?P<year>\d{4})\])(?:[.,]\d+)?(?P<utc> ?(?:UTC|Z)\b)?"
)
_CLIENT_GONE = re.compile(r"broken ?pipe|exception occurred during processing", re.IGNORECASE)
_ZERO_COUNT = re.compile(
    r"\b(?:expired|errors?|failed|failures)\s*[:=]\s*0\b|\b0 (?:errors|failed|failures|expired)\b",
    re.IGNORECASE,
)
_WARNING = re.compile(r"\bWARN(?:ING)?\b")
_REQUEST_DETAILS = re.compile(
    r', (?:client|server|host|referrer|request): (?:"[^"]*"|[^,"]*)|\d+#\d+: (?:\*\d+ )?'
    r"|\[(?:remote|client) [^\]]*\] ?|\[pid \d+(?::tid \d+)?\] ?"
    r"|(?<=^\[)[A-Z][a-z]{2} (?=[A-Z][a-z]{2} )|(?<=:\d\d)\.\d{6}(?= \d{4}\])"
)
"""What nginx and Apache add to each error; its cause and its upstream stay."""
_KILLED = re.compile(r"\[ *([\d.]+)\].*Killed process (\d+) \(([^)]+)\)")


def line(about: str, text: str, *rows: HostRow) -> EscalationLine:
    numbers = tuple(dict.fromkeys(row.seq for row in rows if row.seq))
    return EscalationLine(about=about, text=visible_line(text, MAX_LINE_CHARS), evidence=numbers)


def words_with(before: str, value: str, after: str = "") -> str:
    """Words around a value; empty where it is not known."""
    return f"{before}{value}{after}" if value else ""


def joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def process_lines(found: HostRows, subject: EscalationSubject) -> Iterator[EscalationLine]:
    units = found.listing.find(subject.service)
    limits = {row[0]: row for row in found.of("limits")}
    pids = {row[0] for row in found.of("process")}
    mains = [row for row in found.of("process") if row[1] not in pids]
    listed = HostRow((), found.answered.get("units", 0))
    # Its supervisor may know a process that does not have the name of the service.
    gone = not pids and "processes" in found.answered and not any(each.pid for each in units)
    unit_texts = [text for unit in units[:2] if (text := _unit_text(unit, runs=not gone))]
    for text in unit_texts:
        yield line("process", f"{text}; no process of it was found" if gone else text, listed)
    for row in found.of("killer")[:2]:
        yield line("obstacle", f"pid {row[0]} runs a command that kills it: {row[1]}", row)
    uptime = float(found.first("uptime")[0] or 0)
    under = f", under {units[0].kind}" if units and units[0].kind != "daemon" else ""
    for row in mains[:2]:
        yield line("process", _process_text(row, limits.get(row[0]), uptime, under), row)
    if gone and not unit_texts:
        seen = HostRow((), found.answered["processes"])
        yield line("process", f"no process of {subject.service} runs", seen)
    stuck = [row for row in found.of("process") if row[2] in _STATES and row not in mains[:2]]
    for row in stuck[:1]:
        yield line("process", f"pid {row[0]} {_STATES[row[2]]}: {row[6]}", row)
    for row in found.of("sessions"):
        if row[0].isdigit() and int(row[0]) >= MIN_EQUAL_SESSIONS:
            yield line(
                "process", f"{row[0]} sessions (user, database, client, state): {row[1]}", row
            )
    yield from _killed_lines(found, subject.service)
    yield from _neighbour_lines(found, subject.service)


def _unit_text(unit: HostUnit, *, runs: bool) -> str:
    """Empty where the line about its process says as much."""
    if unit.state in ("active", "") and runs and not unit.restarts:
        return ""
    if not unit.state:
        return f"{unit.kind}: {unit.file or unit.name}; its state is not known"
    text = f"{unit.kind}: {unit.name} {_UNIT_STATES.get(unit.state, unit.state)}"
    if unit.kind == "daemon":
        ended = "has ended" if unit.state == "failed" else "was shut down, by its log"
        text = f"{unit.name} (no supervisor) {'runs' if unit.state == 'active' else ended}"
    if unit.state == "active" and not runs:
        text = f"{unit.kind} said that {unit.name} runs"
    if unit.restarts:
        verb = "it has ended" if unit.kind == "supervisord" else "it was restarted"
        text += f"; {verb} {unit.restarts} times"
    if unit.ended_at or unit.exit:
        how = f" ({unit.exit})" if unit.exit and unit.ended_at else unit.exit
        text += f"; it last ended{f' at {unit.ended_at}' if unit.ended_at else ': '}{how}"
    return text


def _process_text(row: HostRow, limits: HostRow | None, uptime: float, under: str) -> str:
    age = max(0.0, uptime - float(row[3] or 0) / CLOCK_TICKS)
    state = _STATES.get(row[2], "runs")
    user = f", user {limits[1]}" if limits is not None and limits[1] else ""
    text = f"pid {row[0]} {state}, for {format_duration(age)}{user}{under}: {row[6][:90]}"
    if limits is not None and limits[4].isdigit() and limits[3].isdigit():
        opened, most = int(limits[3]), int(limits[4])
        if opened and opened >= 0.9 * most:
            text = f"{opened} of {most} possible files are open; {text}"
        elif most <= LOW_FILE_LIMIT:
            text = f"it may open only {most} files; {text}"
    if limits is not None and limits[5].isdigit():
        text = f"memory limited to {format_size(int(limits[5]))}; {text}"
    return text


def _killed_lines(found: HostRows, service: str) -> Iterator[EscalationLine]:
    """Processes of this name that the kernel killed for lack of memory in the last hour."""
    uptime = float(found.first("uptime")[0] or 0)
    own = {row[5] for row in found.of("process")} | {service}
    names = {each for each in own if each.rstrip("0123456789.") not in INTERPRETERS}
    for row in found.of("kernel"):
        match = _KILLED.search(row[0])
        if match is None or uptime - float(match[1]) > RECENT_KILL_S:
            continue
        if any(same_service(match[3], name) for name in names):
            ago = format_duration(max(0.0, uptime - float(match[1])))
            text = f"the kernel killed pid {match[2]} ({match[3]}) for lack of memory {ago} ago"
            yield line("process", text, row)


def _neighbour_lines(found: HostRows, service: str) -> Iterator[EscalationLine]:
    """Other programs that do not run: this one may need them."""
    down = [
        f"{each.name} ({_UNIT_STATES.get(each.state, each.state)})"
        for each in down_units(found.listing, service)
    ]
    if down:
        seen = HostRow((), found.answered.get("units", 0))
        yield line("process", f"other services: {', '.join(down[:MAX_NEIGHBOURS])}", seen)


def error_lines(found: HostRows, began_at: datetime) -> Iterator[EscalationLine]:
    """The last error lines of the logs since shortly before the outage; else the last before."""
    since = began_at.timestamp() - FRESH_LOG_S
    logs = list(dict.fromkeys(row.fields for row in found.of("log")))
    zone_s = _zone_seconds(found.first("zone")[0])
    shown, before = 0, list[EscalationLine]()
    for path, *written in logs:
        rows = [row for row in found.of("said") if row[0] == path]
        name = path.rpartition("/")[2]
        older, recent = _split_by_time([row[2] for row in rows], since, zone_s)
        if written and written[0].isdigit() and float(written[0]) < since:
            older, recent = [*older, *recent], []
        errors = digest(recent)
        if all(map(_WARNING.search, errors)):  # warnings count only if they came with the outage
            errors = digest(_split_by_time(recent, since + FRESH_LOG_S - WARNING_LEAD_S, zone_s)[1])
        for each in errors[-MAX_ERRORS_PER_LOG:]:
            yield line("error", f"{name}: {each}", *rows[:1])
        past = [each for each in digest(older) if not _WARNING.search(each)]
        before += [line("log", f"{name}, before it failed: {e}", *rows[:1]) for e in past[-1:]]
        shown += bool(errors)
        if shown >= MAX_LOGS:
            break
    if not shown:
        yield from before[:1]
        dated = [each for each in logs if len(each) > 1 and each[1].isdigit()]
        if all(float(each[1]) < since for each in dated):
            yield from _silent_log_lines(found, dated[:1])


def _zone_seconds(text: str) -> int:
    """`+0530` as seconds east of UTC."""
    if not re.fullmatch(r"[+-]\d{4}", text):
        return 0
    return int(text[0] + "1") * (int(text[1:3]) * 3600 + int(text[3:]) * 60)


def _split_by_time(lines: Sequence[str], since: float, zone_s: int) -> tuple[list[str], list[str]]:
    """The lines before a time and those since; a line without a time belongs to the one above."""
    older, recent = list[str](), list[str]()
    at: float | None = None
    for text in lines:
        own = _line_time(text, zone_s)
        at = None if text == "--" else at if own is None else own
        (older if at is not None and at < since else recent).append(text)
    return older, recent


def _line_time(text: str, zone_s: int) -> float | None:
    found = _LINE_TIME.search(text[:80])
    if found is None:
        return None
    words, form = found["words"], "%d %b %Y %H:%M:%S"
    if found["iso"]:
        words, form = found["iso"].replace("/", "-").replace("T", " "), "%Y-%m-%d %H:%M:%S"
    elif found["month"]:  # Apache
        words, form = f"{found['month']} {found['year']} {found['clock']}", "%b %d %Y %H:%M:%S"
    try:
        at = datetime.strptime(words, form).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return at if found["utc"] else at - zone_s


def _silent_log_lines(found: HostRows, logs: Sequence[tuple[str, ...]]) -> Iterator[EscalationLine]:
    for path, at, *_ in logs:
        row = next((row for row in found.of("last") if row[0] == path), HostRow(()))
        last = f"; its last line: {row[2]}" if row[2] else ""
        written = datetime.fromtimestamp(float(at), UTC)
        yield line("log", f"{path}: nothing since {written:%Y-%m-%d %H:%M:%S} UTC{last}", row)


def digest(lines: Sequence[str]) -> list[str]:
    """Distinct error lines in the order of their last occurrence, with continuation lines.

    Of a traceback the last place and the error itself are kept.
    """
    found: dict[str, tuple[int, str]] = {}
    place, more = "", 0
    for text in lines:
        words = _REQUEST_DETAILS.sub("", text.strip())
        if words.startswith('File "') and ", line " in words:
            place, more = words.partition(", in ")[0], 0
            continue
        if (
            text[:1].isspace()
            or not any(map(str.isalnum, words))
            or words in ("--", "Traceback (most recent call last):")
        ):
            continue
        hit = _STRONG_WORD.search(words) is not None and not _ZERO_COUNT.search(words)
        if not hit and (more <= 0 or _RECORD_BEGIN.match(words)):
            more = 0
            continue
        more = 3 if hit else more - 1
        if place and hit:
            words, place = f"{words} ({place})", ""
        key = re.sub(r"\d+|0x[0-9a-f]+| /\S*(?=[: ])|\"[^\"]*/[^\"]*\"", "", words)
        count = found.pop(key, (0, ""))[0] + 1
        found[key] = (count, words)
    for noise in (_REQUEST_LINE, _WARNING, _CLIENT_GONE):
        noisy = [key for key, (_, text) in found.items() if noise.search(text)]
        if len(noisy) < len(found):
            found = {key: each for key, each in found.items() if key not in noisy}
    return [f"{text} ({count} times)" if count > 1 else text for count, text in found.values()]


def port_lines(found: HostRows, subject: EscalationSubject) -> Iterator[EscalationLine]:
    """Of the ports of the alert, and of those that error lines name."""
    for row in found.of("firewall"):
        yield line("obstacle", f"a firewall rule for port {row[0]}: {row[1]}", row)
    missing = missing_listeners(found, subject)
    free = [row for row in found.of("free") if row not in missing]
    if free:
        ports = " and ".join(row[0] for row in free)
        yield line("port", f"nobody listens at port {ports}", *free)
    for row in missing:
        yield line("port", f"port {row[0]} of the error: nobody listens there", row)
    waiting: dict[str, int] = {}
    for row in found.of("queue"):
        waiting[row[0]] = waiting.get(row[0], 0) + int(row[1] or "0", 16)
    foreign, named = foreign_holders(found, subject), dict[tuple[str, bool], None]()
    for row in found.of("holder"):
        if (row[0], row in foreign) not in named:
            named[row[0], row in foreign] = None
            about = "obstacle" if row in foreign else "port"
            yield line(about, _holder_text(row, row in foreign) + _queue_text(row, waiting), row)
    users = {row[1] for row in found.of("limits")}
    for row in found.of("hidden"):
        text = f"port {row[0]} is open{words_with(', user ', row[1])}"
        if row[1] not in users:
            text += "; which process holds it is not visible to Hermes"
        yield line("port", text + _queue_text(row, waiting), row)


def _holder_text(row: HostRow, foreign: bool) -> str:
    known = joined(f"pid {row[1]}", words_with("user ", row[2]))
    if not foreign:
        return f"port {row[0]}: {row[3]} ({known}) listens"
    since = words_with("since ", clock_text(float(row[5])) if row[5].isdigit() else "")
    starter = words_with("started by ", row[6][:60]) or "its starter has ended" * bool(row[5])
    known = joined(known, since, words_with("login ", row[7]), starter)
    command = words_with(": ", row[4][:80])
    return f"port {row[0]} is held by another process: {row[3]} ({known}){command}"


def _queue_text(row: HostRow, waiting: dict[str, int]) -> str:
    count = waiting.get(row[0])
    return f"; {count} connections {WAITING}" if count else ""


def named_lines(found: HostRows, errors: str) -> Iterator[EscalationLine]:
    """About the files, pids and mounts that error lines name."""
    for row in found.of("absent"):
        more = f": there is no {row[1]}" if row[1] != row[0] else ""
        yield line("file", f"{row[0]} does not exist{more}", row)
    if OWNER_WORDS.search(errors):
        for row in found.of("closed"):
            mode = joined(words_with("owner ", row[1]), words_with("mode ", row[2]))
            text = f"{row[0]} is closed to other users{words_with(': ', mode)}"
            yield line("file", text, row)
        for row in found.of("path"):
            known = joined(row[1], words_with("owner ", row[2]), words_with("mode ", row[3]))
            yield line("file", f"{row[0]}: {known}", row)
    for row in found.of("resolver"):
        servers = row[0].replace(" ", ", ") or "none"
        nobody = ", where nothing listens at port 53" if row[1] else ""
        names = ", ".join(each[0] for each in found.of("unresolved"))
        text = f"{names} cannot be resolved" if names else "a name could not be resolved"
        yield line("file", f"{text}; name servers of /etc/resolv.conf: {servers}{nobody}", row)
    for row in found.of("readonly"):
        yield line("file", f"{row[0]} is mounted read-only", row)
    for row in found.of("pid"):
        what = f"is: {row[1]}" if row[1] else "does not exist"
        yield line("file", f"the process {row[0]} of the error {what}", row)


def disk_lines(found: HostRows) -> Iterator[EscalationLine]:
    for key, unit in (("space", "kB"), ("inodes", "inodes")):
        for row in found.of(key):
            if key == "space" or int(row[1].rstrip("%") or 0) >= HIGH_INODE_PERCENT:
                yield line("disk", f"{row[0]}: {row[1]} used, {row[2]} {unit} free", row)
    for row in found.of("grows"):
        owner = words_with(" (owner ", row[1], ")")
        yield line("disk", f"grows by {_size(row[0])} a second: {row[2]}{owner}", row)
    for row in found.of("deleted"):
        pid = words_with("pid ", row[1])
        who = words_with(", by ", f"{row[2]} ({pid})" if row[2] and pid else row[2] or pid)
        yield line("disk", f"deleted but still open: {_size(row[0])}, {row[3]}{who}", row)
    for row in found.of("large")[:5]:
        at = f"written {clock_text(float(row[1]))}" if row[1].isdigit() else ""
        known = words_with(" (", joined(words_with("owner ", row[2]), at), ")")
        yield line("disk", f"large: {_size(row[0])} {row[3]}{known}", row)
    for row in found.of("crowded"):
        yield line("disk", f"{row[0]} entries in {row[1]}", row)


def consumer_lines(found: HostRows, kind: str) -> Iterator[EscalationLine]:
    for row in found.of("cpu"):
        if row[0].isdigit() and int(row[0]) >= 10:
            yield line("consumer", f"{row[0]} % of a processor: {_program_text(row)}", row)
    if kind not in ("memory", "processes", "zombies"):
        return
    for row in found.of("rss"):
        yield line("consumer", f"{_size(row[0], 1024)} memory: {_program_text(row)}", row)
    for row in found.of("many")[:1]:
        yield line("consumer", f"{row[0]} processes are called {row[1]}", row)
    for row in found.of("descriptors")[:2]:
        yield line("consumer", f"{row[0]} open files: {_program_text(row)}", row)


def _program_text(row: HostRow) -> str:
    return f"{joined(f'pid {row[1]}', row[2])}: {row[3]}"


def clock_text(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def _size(text: str, factor: int = 1) -> str:
    return format_size(factor * int(text)) if text.isdigit() else text
