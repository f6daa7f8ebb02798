"""Finds out which supervisor a service has on this host, and the commands for people."""

import re
from collections.abc import Iterator
from shlex import quote

from hermes.core.messages import Value
from hermes.policy.command_analysis import analyse_command
from hermes.sre.escalation.host_scripts import (
    CONSUMER_KINDS,
    EscalationSubject,
    HostRows,
)
from hermes.sre.policies import is_read_only

RESTART_EFFECTS = frozenset({"service-change", "read"})
CONFIG_TESTS = {
    "nginx": "nginx -t",
    "apache2": "apachectl -t",
    "httpd": "apachectl -t",
    "haproxy": "haproxy -c -f /etc/haproxy/haproxy.cfg",
    "named": "named-checkconf",
    "sshd": "sshd -t",
    "ssh": "sshd -t",
}
_SUFFIXES = ("-server", "d", "ql")


class ServiceOwner(Value, frozen=True):
    kind: str = ""
    """supervisord, systemd, docker, podman, openrc, runit, initscript; empty: none was found."""
    name: str = ""
    """Its name there."""


class NextCommand(Value, frozen=True):
    command: str
    what: str


def same_name(one: str, other: str) -> bool:
    """`redis` is redis-server, `shop_api` is shop-api, `shop:web_00` is web."""
    first, second = _plain(one), _plain(other)
    if not first or not second:
        return False
    return first == second or any(
        first == second + suffix or second == first + suffix for suffix in _SUFFIXES
    )


def _plain(name: str) -> str:
    text = name.rpartition(":")[2].lower().replace("_", "-").removesuffix(".service")
    return re.sub(r"-\d+$", "", text)


def find_owners(found: HostRows, service: str) -> list[ServiceOwner]:
    """All that know the service; the one that is asked first is the first."""
    owners = [
        ServiceOwner("supervisord", row[0])
        for row in found.of("supervisord")
        if same_name(row[0], service)
    ]
    if not owners and (
        found.of("supervisorlog") or any(row[4] == "supervisord" for row in found.of("process"))
    ):
        owners.append(ServiceOwner("supervisord", service))  # supervisorctl gave no list
    if any(row[0] == "LoadState=loaded" for row in found.of("systemd")):
        owners.append(ServiceOwner("systemd", service))
    owners += [
        ServiceOwner(engine, row[0])
        for engine in ("docker", "podman")
        for row in found.of(engine)
        if same_name(row[0], service)
    ]
    owners += [ServiceOwner("openrc", row[0]) for row in found.of("openrc")]
    owners += [
        ServiceOwner("runit", row[0])
        for row in found.of("runit")
        if row[1] and not row[1].startswith("fail: ")
    ]
    if not owners:
        owners = [ServiceOwner("initscript", row[0]) for row in found.of("initscript")]
    return owners


def restart_command(owner: ServiceOwner) -> str:
    """The command of its supervisor that restarts a service; empty where none is known."""
    name = quote(owner.name)
    return {
        "supervisord": f"supervisorctl restart {name}",
        "systemd": f"systemctl restart {name}",
        "docker": f"docker restart {name}",
        "podman": f"podman restart {name}",
        "openrc": f"rc-service {name} restart",
        "runit": f"sv restart {name}",
        "initscript": f"/etc/init.d/{name} restart",
    }.get(owner.kind, "")


def next_commands(
    found: HostRows, subject: EscalationSubject, owner: ServiceOwner
) -> list[NextCommand]:
    """At most three, the safest first; each is what its text says, by the policy."""
    looks = [
        each for each in _reading_commands(found, subject, owner) if is_read_only(each.command)
    ]
    distinct = list({each.command: each for each in looks}.values())
    last = next((each for each in _changing_commands(found, owner) if _is_restart(each)), None)
    return [*distinct[: 2 if last else 3], *([last] if last else [])]


def _is_restart(each: NextCommand) -> bool:
    analysis = analyse_command(each.command, cwd="/")
    return analysis.effects <= RESTART_EFFECTS and not analysis.problems


def _reading_commands(
    found: HostRows, subject: EscalationSubject, owner: ServiceOwner
) -> Iterator[NextCommand]:
    yield from _resource_commands(subject)
    yield from _port_commands(found, subject)
    yield from _log_commands(found, owner)
    tests = (CONFIG_TESTS[each] for each in CONFIG_TESTS if same_name(each, subject.service))
    for test in tests:
        yield NextCommand(test, "checks its configuration")
    if status := status_command(owner):
        yield NextCommand(status, "shows its state")
    for row in found.of("process")[:1]:
        yield NextCommand(f"ls -l /proc/{row[0]}/fd", "shows what it has open")
    for port in subject.ports[:1]:
        yield NextCommand(f"ss -tanp '( sport = :{port} )'", f"shows the users of port {port}")


def _resource_commands(subject: EscalationSubject) -> Iterator[NextCommand]:
    if subject.disk:
        path = quote(subject.disk)
        yield NextCommand(f"du -xah {path} | sort -rh | head -n 20", "shows what uses the space")
        yield NextCommand(f"ls -lt {path} | head", "shows what was written last")
    if subject.kind in CONSUMER_KINDS:
        yield NextCommand("top -b -n 1 | head -n 20", "shows the busiest processes")


def _port_commands(found: HostRows, subject: EscalationSubject) -> Iterator[NextCommand]:
    own = {row[0] for row in found.of("process")}
    for row in found.of("holder"):
        if subject.service and row[1] not in own and not same_name(row[3], subject.service):
            yield NextCommand(f"ps -fp {row[1]}", f"shows who holds port {row[0]}")
    for row in found.of("firewall"):
        yield NextCommand("nft list ruleset", f"shows the rule for port {row[0]}")


def _log_commands(found: HostRows, owner: ServiceOwner) -> Iterator[NextCommand]:
    name, log = quote(owner.name), found.first("log")[0]
    command = f"tail -n 50 {quote(log)}" if log.startswith("/") else ""
    if not command and owner.kind == "systemd":
        command = f"journalctl -u {name} -n 50 --no-pager"
    if not command and owner.kind in ("docker", "podman"):
        command = f"{owner.kind} logs --tail 50 {name}"
    if command:
        yield NextCommand(command, "shows more of its log")


def status_command(owner: ServiceOwner) -> str:
    name = quote(owner.name)
    return {
        "supervisord": f"supervisorctl status {name}",
        "systemd": f"systemctl status {name} --no-pager",
        "docker": f"docker ps -a --filter name={name}",
        "podman": f"podman ps -a --filter name={name}",
        "openrc": f"rc-service {name} status",
        "runit": f"sv status {name}",
        "initscript": f"/etc/init.d/{name} status",
    }.get(owner.kind, "")


def _changing_commands(found: HostRows, owner: ServiceOwner) -> Iterator[NextCommand]:
    stopped = [row for row in found.of("process") if row[2] == "T"]
    if stopped:
        pids = " ".join(row[0] for row in stopped[:6])
        yield NextCommand(f"kill -CONT {pids}", "lets the stopped process run on")
    if command := restart_command(owner):
        yield NextCommand(command, "restarts it")
