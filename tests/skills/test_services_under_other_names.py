"""The units, processes and logs of a service that its alert calls by another name are found by what
is observed on a host with supervisord."""

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from supervisor_host import SupervisorHost, needs_namespaces, needs_supervisord

from hermes.core.messages import ToolCall, ToolResult
from hermes.skills.supervisors.units import UnitListing, list_init_script, list_units, parse_units
from hermes.sre.escalation.host_lines import process_lines
from hermes.sre.escalation.host_scripts import (
    EscalationSubject,
    HostRows,
    parse_outputs,
    run_scripts,
)
from hermes.sre.escalation.service_identity import (
    LISTENS_BEFORE,
    foreign_holders,
    with_open_logs,
    with_processes,
    with_units,
)
from hermes.sre.probes.discovery import propose_probes
from hermes.sre.probes.host_scan import parse_scan, scan_script

pytestmark = [pytest.mark.anyio, needs_namespaces, needs_supervisord]
SERVER = """
import socket, time
server = socket.create_server(("127.0.0.1", 3306))
log = open("/var/log/mysql/error.log", "a", buffering=1)
while True:
    log.write("2026-11-19 10:00:00 0 [ERROR] Disk is full writing './binlog.000001'\\n")
    time.sleep(1)
"""
PROGRAM = f"""
[program:db]
command=/srv/sbin/mariadbd -u /srv/server.py
startsecs=0
environment=PYTHONHOME="{sys.base_prefix}"
"""
PYTHON = Path(sys.executable).resolve()


def start(host: SupervisorHost, *, linked: bool) -> None:
    """A program of supervisord named db, whose process is mariadbd; mysqld may be a link to it."""
    host.run(f"mkdir -p /srv/sbin /var/log/mysql; cp {PYTHON} /srv/sbin/mariadbd")
    if linked:
        host.run("ln -s mariadbd /srv/sbin/mysqld")
    host.path("/srv/server.py").write_text(SERVER)
    host.start_supervisord(PROGRAM)
    deadline = time.monotonic() + 60
    while not host.run("ss -Hltn sport = :3306"):
        assert time.monotonic() < deadline
        time.sleep(0.2)


async def look(
    host: SupervisorHost, subject: EscalationSubject, began_at: datetime
) -> tuple[EscalationSubject, HostRows]:
    async def execute(call: ToolCall) -> ToolResult:
        command = f"PATH=/srv/sbin:$PATH; {call.arguments['command']}"
        return ToolResult(call_id=call.id, content=host.run(command))

    async def scripts(wanted: EscalationSubject, names: tuple[str, ...]) -> HostRows:
        chosen = [*wanted.process_scripts, *wanted.scripts, ("ports", "ports=3306")]
        outputs = await run_scripts([each for each in chosen if each[0] in names], execute)
        return parse_outputs(outputs, {each.call: 1 for each in outputs})

    listing = await list_units(host.execute, service=subject.service)
    subject = with_units(subject, listing, (), began_at)
    found = await scripts(subject, ("processes",))
    listing = with_processes(listing, found, subject.service)
    subject = with_open_logs(with_units(subject, listing, (), began_at), found)
    found = await scripts(subject, ("processes", "ports", "logs"))
    return subject, replace(found, listing=listing)


@pytest.mark.parametrize("by", ["link", "port"])
async def test_an_alert_about_mysql_finds_mariadbd_its_unit_and_its_log(by: str) -> None:
    ports = (3306,) if by == "port" else ()
    later = datetime.now(UTC) + LISTENS_BEFORE + timedelta(minutes=5)
    with SupervisorHost() as host:
        start(host, linked=by == "link")
        subject = EscalationSubject(service="mysql", ports=ports)
        subject, found = await look(host, subject, later)
    assert [unit.name for unit in found.listing.find("mysql")] == ["db"]
    said = [each.text for each in process_lines(found, subject)]
    assert "mariadbd" in said[0] and "under supervisord" in said[0]
    assert not any("no process of mysql runs" in each for each in said)
    assert foreign_holders(found, replace(subject, ports=(3306,))) == []
    assert "/var/log/mysql/error.log" in subject.logs
    assert any("Disk is full" in row[2] for row in found.of("said"))


async def test_a_process_that_took_the_port_shortly_before_is_not_the_service() -> None:
    with SupervisorHost() as host:
        start(host, linked=False)
        subject = EscalationSubject(service="shop", ports=(3306,))
        subject, found = await look(host, subject, datetime.now(UTC))
    assert found.listing.find("shop") == ()
    said = [each.text for each in process_lines(found, subject)]
    assert said == ["no process of shop runs"]
    assert [row[3] for row in foreign_holders(found, subject)] == ["mariadbd"]


async def test_a_log_belongs_to_the_service_whose_process_writes_it() -> None:
    with SupervisorHost() as host:
        start(host, linked=False)
        scan = parse_scan(host.run(scan_script(0.4)))
    owners = {each.what: each.service for each in propose_probes(scan).probes if each.kind == "log"}
    assert owners["/var/log/mysql/error.log"] == "db"
    written = [path for path in scan.log_writers if "supervisor" in path]
    assert written == [], "supervisord writes the logs of its programs"


async def test_the_init_script_of_a_program_is_found_by_the_name_of_the_program() -> None:
    async def run(script: str) -> str:
        with SupervisorHost() as host:
            host.run("mount -t tmpfs tmpfs /etc/init.d; cp /bin/true /etc/init.d/mariadb")
            return host.run(script)

    (unit,) = (await list_init_script(run, "mariadbd")).units
    assert (unit.name, unit.kind) == ("mariadb", "sysvinit")


def test_the_other_names_of_a_systemd_unit_are_its_own() -> None:
    shown = "unit=mariadb.service\t{}\n"
    rows = ("kind\tsystemd", "state\tactive", "pid\t812", "alias\tmysql.service")
    listing: UnitListing = parse_units(["".join(shown.format(row) for row in rows)])
    assert [each.name for each in listing.find("mysql")] == ["mariadb.service"]
    assert listing.find("postgres") == ()
