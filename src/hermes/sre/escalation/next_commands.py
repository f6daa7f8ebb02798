"""Chooses the commands that people may try next, the safest first."""

import re
from collections.abc import Iterator, Sequence
from shlex import quote

from hermes.core.messages import Value
from hermes.skills.supervisors.commands import HostSupervisors, UnsupportedActionError
from hermes.skills.supervisors.units import HostUnit, same_service
from hermes.sre.escalation.host_scripts import (
    CONSUMER_KINDS,
    EscalationSubject,
    HostRow,
    HostRows,
)
from hermes.sre.escalation.service_identity import (
    accepts_nothing,
    foreign_holders,
    hidden_holders,
    missing_listeners,
)
from hermes.sre.policies import is_read_only

MAX_COMMANDS, MAX_COMMAND_CHARS = 3, 180
LOW_FILE_LIMIT = 64
CONFIG_TESTS = {
    "nginx": "nginx -t",
    "apache2": "apachectl -t",
    "httpd": "apachectl -t",
    "haproxy": "haproxy -c -f /etc/haproxy/haproxy.cfg",
    "named": "named-checkconf",
    "sshd": "sshd -t",
    "ssh": "sshd -t",
}
_SESSIONS = "runuser -u postgres -- psql -xc 'select * from pg_stat_activity'"
STATE_VIEWS = {
    "redis": ("redis-cli info", "shows its role, memory and clients"),
    "postgres": (_SESSIONS, "shows its sessions, and what each waits for"),
}
"""What a service tells of itself while it answers."""
_ROLES = (
    'runuser -u postgres -- psql -xc "select rolname, rolcanlogin, rolvaliduntil from pg_roles'
    " where rolname !~ '^pg_'\""
)
LOGIN_VIEWS = {
    "redis": (
        "grep -noE '^ *(requirepass|aclfile|user|include)' /etc/redis/redis.conf",
        "shows whether its settings demand a password, without it",
    ),
    "postgres": (_ROLES, "shows who may log in, and until when"),
}
"""About logins, without secrets."""
OWNER_WORDS = re.compile(r"denied|permission|permitted|owner", re.IGNORECASE)
SETTINGS_FILE = re.compile(
    r"\.(?:conf|cnf|cfg|ini|ya?ml|toml|env|json|properties)$|/env$|^/etc/default/"
)
_SETTING_WORDS = re.compile(r"config|parameter|syntax|invalid|parse", re.IGNORECASE)
_KILLED_WORDS = re.compile(r"SIGKILL|signal 9\b|signal KILL")
_UNSAVED_WORDS = re.compile(r"MISCONF|Background saving error|unable to persist")
"""Redis has data that it cannot save: a restart would lose it."""
_SESSION_WORDS = re.compile(r"connection slots|too many clients|statement timeout|deadlock|lock t")


_SECRET_WORDS = "passw|secret|token|key"
_OBSTACLES = ("firewall", "absent", "readonly", "resolver")
"""Facts after which a restart changes nothing."""


class NextCommand(Value, frozen=True):
    command: str
    what: str
    restart: bool = False


def next_commands(
    found: HostRows,
    subject: EscalationSubject,
    supervisors: HostSupervisors,
    errors: Sequence[str] = (),
    changed: Sequence[str] = (),
    *,
    broken: bool = False,
) -> list[NextCommand]:
    """At most three. Only the last one may change something. `changed`: files that were written
    shortly before; `broken`: its configuration would prevent a start."""
    unit = next(iter(found.listing.find(subject.service)), None) if subject.service else None
    text = "\n".join(errors)
    held = foreign_holders(found, subject) or hidden_holders(found, subject, text)
    held += missing_listeners(found, subject)
    closed = bool(found.of("closed")) and OWNER_WORDS.search(text) is not None
    certificate = subject.kind == "tls" and bool(found.of("process"))
    helps = not (held or closed or certificate or _UNSAVED_WORDS.search(text))
    looks = [
        each
        for each in _reading_commands(found, subject, unit, supervisors, text)
        if is_read_only(each.command)
    ]
    tested = any(each.command in CONFIG_TESTS.values() for each in looks)
    for path in [] if tested else changed[:1]:
        looks.insert(0, settings_command(path, "shows the settings that were changed last"))
    looks.sort(key=lambda each: not each.command.startswith("cat /proc/"))  # a limit explains it
    program, _, file = subject.config.partition(":")
    if program in CONFIG_TESTS:
        named = f" -c {quote(file)}" if file and program == "nginx" else ""
        test = NextCommand(f"{CONFIG_TESTS[program]}{named}", "checks its configuration")
        looks.insert(0, test)
    distinct = list({each.command: each for each in looks}.values())
    helps = helps and not (broken or subject.config)
    ends = [*_removals(found), *_ends_of_holders(foreign_holders(found, subject))]
    ends += [*_replica_commands(subject)[1:], *_ends_of_killers(found)]
    last = next(iter(ends), None) or next(
        _changing_commands(found, unit if helps else None, supervisors), None
    )
    return [*distinct[: MAX_COMMANDS - (last is not None)], *([last] if last else [])]


def _reading_commands(
    found: HostRows,
    subject: EscalationSubject,
    unit: HostUnit | None,
    supervisors: HostSupervisors,
    errors: str,
) -> Iterator[NextCommand]:
    yield from _resource_commands(found, subject)
    yield from _replica_commands(subject)[:1]
    yield from _port_commands(found, subject, errors)
    yield from _certificate_commands(found, subject)
    yield from _named_commands(found, errors)
    killers = [row[0] for row in found.of("killer")]
    for pid in killers[:1]:
        command = f"ps -o pid,ppid,lstart,tty,user,args -p {pid}"
        yield NextCommand(command, "shows what kills it, and who started that")
    if unit is not None and not killers and _KILLED_WORDS.search(unit.exit):
        command = "ps -eo pid,lstart,user,args --sort=start_time | tail -n 25"
        yield NextCommand(command, "shows what was started last: something killed it")
        yield NextCommand("dmesg | grep -i 'killed process'", "shows whether the kernel did it")
    runs = bool(found.of("process"))
    if subject.login_refused:
        views = [LOGIN_VIEWS[each] for each in LOGIN_VIEWS if same_service(each, subject.service)]
        yield from (NextCommand(*view) for view in views)
    tests = [CONFIG_TESTS[each] for each in CONFIG_TESTS if same_service(each, subject.service)]
    views = [STATE_VIEWS[each] for each in STATE_VIEWS if same_service(each, subject.service)]
    if not runs:
        yield from (NextCommand(test, "checks its configuration") for test in tests)
    elif not accepts_nothing(found, subject):  # else they would wait, too
        yield from (NextCommand(*view) for view in views)
    yield from _log_commands(found, unit, supervisors)
    yield from (NextCommand(test, "checks its configuration") for test in tests)
    if unit is not None and (status := _render(supervisors, "status", unit)):
        yield NextCommand(status, "shows its state")
    for row in found.of("process")[:1]:
        yield NextCommand(f"ls -l /proc/{row[0]}/fd", "shows what it has open")
    for port in subject.ports[:1]:
        yield NextCommand(f"ss -tanp '( sport = :{port} )'", f"shows the users of port {port}")


def _resource_commands(found: HostRows, subject: EscalationSubject) -> Iterator[NextCommand]:
    if subject.disk:
        for row in found.of("large")[:1]:
            yield NextCommand(f"fuser -v {quote(row[3])}", "shows who uses the largest file")
        path = quote(subject.disk)
        yield NextCommand(f"du -xah {path} | sort -rh | head -n 20", "shows what uses the space")
        yield NextCommand(f"ls -lt {path} | head", "shows what was written last")
    if subject.kind in CONSUMER_KINDS:
        yield NextCommand("top -b -n 1 | head -n 20", "shows the busiest processes")
    for row in found.of("limits"):
        if row[5].isdigit() or (row[4].isdigit() and int(row[4]) <= LOW_FILE_LIMIT):
            yield NextCommand(f"cat /proc/{row[0]}/limits", "shows its limits")


def _port_commands(
    found: HostRows, subject: EscalationSubject, errors: str
) -> Iterator[NextCommand]:
    for row in found.of("process")[:1] if accepts_nothing(found, subject) else ():
        command = f"ps -L -o pid,stat,wchan:25,etime,args -p {row[0]}"
        yield NextCommand(command, "shows what it waits for: it accepts no connections")
    for row in foreign_holders(found, subject):
        shown = f"ps -o pid,ppid,lstart,tty,user,args -p {row[1]}"
        yield NextCommand(shown, f"shows who holds port {row[0]}")
    for row in hidden_holders(found, subject, errors):
        yield NextCommand(f"ss -ltnp '( sport = :{row[0]} )'", f"shows who holds port {row[0]}")
    for row in missing_listeners(found, subject):
        yield NextCommand("ss -ltnp", f"shows what listens, as nobody does at port {row[0]}")
    for row in found.of("firewall"):
        yield NextCommand("nft -a list ruleset", f"shows the rule for port {row[0]}")


def _certificate_commands(found: HostRows, subject: EscalationSubject) -> Iterator[NextCommand]:
    free = {row[0] for row in found.of("free")}
    for port in subject.ports[:1] if subject.kind == "tls" else ():
        if str(port) not in free:
            shown = f"openssl s_client -connect 127.0.0.1:{port} </dev/null 2>/dev/null"
            command = f"{shown} | openssl x509 -noout -subject -dates"
            yield NextCommand(command, "shows its certificate")
            if same_service(subject.service, "nginx"):
                command = "grep -rn ssl_certificate /etc/nginx"
                yield NextCommand(command, "shows which files it comes from")


def _named_commands(found: HostRows, errors: str) -> Iterator[NextCommand]:
    """About what the error lines name: files, pids, mounts, the sessions of a database."""
    owner = OWNER_WORDS.search(errors) is not None
    yield from _resolver_commands(found)
    closed = [row[3] for row in found.of("closed")] if owner else []
    for path in dict.fromkeys(closed):
        yield NextCommand(f"namei -l {quote(path)}", "shows owner and mode of each folder")
    for row in found.of("absent"):
        folder = row[1].rpartition("/")[0] or "/"
        yield NextCommand(f"ls -la {quote(folder)}", "shows what is there instead")
    for row in found.of("pid"):
        yield NextCommand(f"ps -fp {row[0]}", f"shows the process {row[0]} of the error")
    if found.of("readonly"):
        yield NextCommand("findmnt -O ro", "shows what is mounted read-only")
        yield NextCommand("dmesg | tail -n 30", "shows why, if the kernel did it")
    if _SESSION_WORDS.search(errors):
        yield NextCommand(*STATE_VIEWS["postgres"])
    refused = [line for line in errors.splitlines() if OWNER_WORDS.search(line)]
    paths = sorted(found.of("path"), key=lambda row: not any(row[0] in line for line in refused))
    for row in paths:
        if SETTINGS_FILE.search(row[0]) and _SETTING_WORDS.search(errors):
            yield settings_command(row[0], "shows the settings that the error names")
        elif owner and row[0] not in closed:
            yield NextCommand(f"ls -ld {quote(row[0])}", "shows owner and mode")


def _resolver_commands(found: HostRows) -> Iterator[NextCommand]:
    if found.of("resolver"):
        yield NextCommand("cat /etc/resolv.conf", "shows the name servers")
    for row in found.of("unresolved")[:1]:
        yield NextCommand(f"getent hosts {quote(row[0])}", "resolves the name as programs do")


def settings_command(path: str, what: str) -> NextCommand:
    """Lines with secrets are left out, so that they are not on the screen."""
    return NextCommand(f"grep -nviE '^ *(#|$)|{_SECRET_WORDS}' {quote(path)}", what)


def _log_commands(
    found: HostRows, unit: HostUnit | None, supervisors: HostSupervisors
) -> Iterator[NextCommand]:
    said = {row[0] for row in found.of("said")}
    logs = [row[0] for row in found.of("log") if row[0].startswith("/")]
    logs.sort(key=lambda path: path not in said)
    command = f"tail -n 50 {quote(logs[0])}" if logs else ""
    if not command and unit is not None:
        command = _render(supervisors, "log", unit)
    if command:
        yield NextCommand(command, "shows more of its log")


def _replica_commands(subject: EscalationSubject) -> list[NextCommand]:
    """Which server is to take writes only people know."""
    if not subject.replica or not same_service(subject.service, "redis"):
        return []
    client = f"redis-cli -p {subject.ports[0]}" if subject.ports else "redis-cli"
    shows = "shows its master, and since when that does not answer"
    ends = "makes it take writes again, if no other server is meant to"
    return [
        NextCommand(f"{client} info replication", shows),
        NextCommand(f"{client} replicaof no one", ends),
    ]


def _ends_of_killers(found: HostRows) -> Iterator[NextCommand]:
    if pids := [row[0] for row in found.of("killer")]:
        what = "ends what kills it, if nobody needs that; then start the service"
        yield NextCommand(f"kill {' '.join(pids)}", what)


def _ends_of_holders(holders: Sequence[HostRow]) -> Iterator[NextCommand]:
    pids = list(dict.fromkeys(row[1] for row in holders))
    ports = " and ".join(dict.fromkeys(row[0] for row in holders))
    if pids:
        what = f"ends what holds port {ports}, if nobody needs it; then start the service"
        yield NextCommand(f"kill {' '.join(pids)}", what)


def _removals(found: HostRows) -> Iterator[NextCommand]:
    """Only of a rule that is about one port: another one may protect more than this service."""
    for row in found.of("firewall"):
        if row[2]:
            what = f"removes that rule for port {row[0]}, if whoever set it agrees"
            yield NextCommand(row[2], what)


def _changing_commands(
    found: HostRows, unit: HostUnit | None, supervisors: HostSupervisors
) -> Iterator[NextCommand]:
    """Return None where a restart cannot help: what keeps it from running is still there."""
    stopped = [row for row in found.of("process") if row[2] == "T"]
    if stopped:
        pids = " ".join(row[0] for row in stopped[:6])
        yield NextCommand(f"kill -CONT {pids}", "lets the stopped process run on")
    if unit is None or any(map(found.of, _OBSTACLES)):
        return
    runs = bool(found.of("process")) or unit.state == "active"
    if command := _render(supervisors, "restart" if runs else "start", unit):
        what = "restarts it, which interrupts its users" if runs else "starts it"
        if unit.state in ("failed", "activating") or unit.restarts:
            what = f"{'restarts' if runs else 'starts'} it, once the error is corrected"
        yield NextCommand(command, what, runs)


def _render(supervisors: HostSupervisors, action: str, unit: HostUnit) -> str:
    """Empty where its supervisor has no such command, or none that a person would type."""
    if unit.kind == "sysvinit" and action != "log":
        return f"service {quote(unit.name)} {action}"
    try:
        command = supervisors.render(action, unit.name)
    except UnsupportedActionError:
        return ""
    return command if len(command) <= MAX_COMMAND_CHARS else ""
