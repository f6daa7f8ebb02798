"""Turns the output of the scripts into lines: what was observed, and never what caused it."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from hermes.core.events.incidents import EscalationLine
from hermes.core.foreign_text import visible_line
from hermes.core.messages import Value
from hermes.plumbing.units import format_duration, format_size
from hermes.skills.supervisors.units import HostUnit, same_service
from hermes.sre.escalation.host_scripts import EscalationSubject, HostRow, HostRows
from hermes.sre.escalation.next_commands import (
    LOW_FILE_LIMIT,
    OWNER_WORDS,
    SETTINGS_FILE,
    foreign_holders,
    missing_listeners,
)

MAX_LINE_CHARS = 240
MAX_ERRORS_PER_LOG, MAX_LOGS, MAX_CHANGES, MAX_UNRELATED_CHANGES = 3, 3, 8, 3
MAX_NEIGHBOURS, MAX_NAMES = 4, 5
MIN_EQUAL_SESSIONS = 10
"""Sessions of one user in one state that are worth a line."""
_FOLDER_CHANGE, _CONTENT_CHANGE = "a file was added, removed or renamed in", "written:"
ACCOUNT_FILES = ("/etc/shadow", "/etc/gshadow", "/etc/passwd", "/etc/group")
CLOCK_TICKS = 100
HIGH_INODE_PERCENT = 80
CHANGE_DELAY_S = 5.0
"""How long after the first failure a change may be written that came before it."""
FRESH_LOG_S, WARNING_LEAD_S, RECENT_KILL_S, RECENT_CHANGE_S = 30.0, 10.0, 3600.0, 120.0
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
        for each in found.listing.units
        if each.state not in ("active", "") and not same_service(each.name, service)
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
        yield line("port", f"a firewall rule for port {row[0]}: {row[1]}", row)
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
            yield line("port", _holder_text(row, row in foreign) + _queue_text(row, waiting), row)
    users = {row[1] for row in found.of("limits")}
    for row in found.of("hidden"):
        text = f"port {row[0]} is open, user {row[1]}"
        if row[1] not in users:
            text += "; which process holds it is not visible to Hermes"
        yield line("port", text + _queue_text(row, waiting), row)


def _holder_text(row: HostRow, foreign: bool) -> str:
    who = f"{row[3]} (pid {row[1]}, user {row[2]})"
    if foreign:
        return f"port {row[0]} is held by another process: {who}: {row[4][:80]}"
    return f"port {row[0]}: {who} listens"


def _queue_text(row: HostRow, waiting: dict[str, int]) -> str:
    count = waiting.get(row[0])
    return f"; {count} connections wait to be accepted" if count else ""


def named_lines(found: HostRows, errors: str) -> Iterator[EscalationLine]:
    """About the files, pids and mounts that error lines name."""
    for row in found.of("absent"):
        more = f": there is no {row[1]}" if row[1] != row[0] else ""
        yield line("file", f"{row[0]} does not exist{more}", row)
    if OWNER_WORDS.search(errors):
        for row in found.of("closed"):
            text = f"{row[0]} is closed to other users: owner {row[1]}, mode {row[2]}"
            yield line("file", text, row)
        for row in found.of("path"):
            yield line("file", f"{row[0]}: {row[1]}, owner {row[2]}, mode {row[3]}", row)
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
    what: str
    """In words, up to the names."""
    folder: str
    name: str
    more: str
    row: HostRow

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"


def change_lines(found: HostRows, service: str, began_at: datetime) -> Iterator[EscalationLine]:
    """The last change of the service first, then what is nearest before the outage."""
    latest, now = began_at.timestamp() + CHANGE_DELAY_S, found.first("now")[0]
    changes = [each for each in map(_file_change, found.of("file")) if each is not None]
    before = [each for each in _without_parents(changes) if each.at <= latest]
    word = _service_word(service)
    own = [each for each in before if len(word) > 2 and word in each.path.lower()]
    others = [each for each in before if each not in own]
    groups = [*_grouped(own)[:MAX_CHANGES], *_grouped(others)[:MAX_UNRELATED_CHANGES]]
    for group in [*groups[:1], *sorted(groups[1:], key=lambda each: -each[0].at)]:
        yield line("change", _change_text(group, began_at.timestamp()), group[0].row)
    for row in found.of("package")[-MAX_UNRELATED_CHANGES:]:
        yield line("change", f"package: {row[0]}", row)
    for row in found.of("login")[:MAX_UNRELATED_CHANGES]:
        yield line("change", f"login: {row[0]}", row)
    future = [e for e in changes if now.isdigit() and e.at > float(now) + CHANGE_DELAY_S]
    if future:
        text = f"{future[0].path} has a time in the future: the clock was set back"
        yield line("change", text, future[0].row)
    if not (before or future or found.of("cut")) and "changes" in found.answered:
        seen = HostRow((), found.answered["changes"])
        yield line("change", "no file in /etc, /opt, /srv or /usr/local in the last hour", seen)


def changed_files(found: HostRows, service: str, began_at: datetime) -> list[str]:
    """Settings of the service that were written shortly before the outage, the last ones first. An
    installation that wrote other files at the same moment does not count."""
    latest = began_at.timestamp() + CHANGE_DELAY_S
    changes = [each for each in map(_file_change, found.of("file")) if each is not None]
    recent = [e for e in changes if e.what == _CONTENT_CHANGE and e.at <= latest]
    word, moments = _service_word(service), dict[int, list[_Change]]()
    for each in recent:
        moments.setdefault(int(each.at), []).append(each)
    return [
        each.path
        for at, group in moments.items()
        if at >= latest - RECENT_CHANGE_S and len(word) > 2
        for each in group
        if all(word in other.path.lower() for other in group) and SETTINGS_FILE.search(each.path)
    ]


def _service_word(service: str) -> str:
    return re.split(r"[-_.@]", service.lower())[0] if service else ""


def _without_parents(changes: Sequence[_Change]) -> list[_Change]:
    """Without folders of which a change inside is known: it explains theirs."""
    inside = {(each.folder, int(each.at) + shift) for each in changes for shift in (-1, 0, 1)}
    return [
        each
        for each in changes
        if each.what != _FOLDER_CHANGE or (each.path, int(each.at)) not in inside
    ]


def _grouped(changes: Sequence[_Change]) -> list[list[_Change]]:
    """Changes of one kind in one folder at the same moment."""
    groups: dict[tuple[str, str, str, int], list[_Change]] = {}
    for each in changes:
        groups.setdefault((each.folder, each.what, each.more, int(each.at)), []).append(each)
    return list(groups.values())


def _change_text(group: Sequence[_Change], began_s: float) -> str:
    first, names = group[0], sorted(each.name for each in group)
    ago = began_s - first.at
    when = f" ({format_duration(ago)} before it failed)" if ago >= 0 else ""
    listed = ", ".join(names[:MAX_NAMES]) + (" and others" if len(names) > MAX_NAMES else "")
    return f"{clock_text(first.at)}{when} {first.what} {first.folder}/{listed}{first.more}"


def _file_change(row: HostRow) -> _Change | None:
    if not (row[0].isdigit() and row[1].isdigit()):
        return None
    changed_at, content = float(row[0]), float(row[1]) >= float(row[0]) - 1
    folder, _, name = row[4].rpartition("/")
    if row[3].startswith("d") and content:
        return _Change(changed_at, _FOLDER_CHANGE, folder, name, "", row)
    if content:
        more = f" (owner {row[2]}{', empty now' if row[5] == '0' else ''})"
        return _Change(changed_at, _CONTENT_CHANGE, folder, name, more, row)
    if row[4].startswith(ACCOUNT_FILES):
        return None  # only its metadata: mounts and backups change that
    # A copy that keeps its times looks like this as well.
    what = "replaced by an older file, or owner, mode or name changed:"
    return _Change(changed_at, what, folder, name, f" (now {row[2]} {row[3]})", row)


def clock_text(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def _size(text: str, factor: int = 1) -> str:
    return format_size(factor * int(text)) if text.isdigit() else text
