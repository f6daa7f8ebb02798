"""What people are told about services of real supervisors that hang, restart or share a service."""

import random
import shutil
import time

import anyio
import pytest
from msgspec.structs import replace
from supervisor_host import SupervisorHost, needs_namespaces

from hermes.core.messages import ToolCall, ToolResult
from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import PlainDaemon, UnitListing, list_units
from hermes.sre.escalation.host_lines import process_lines
from hermes.sre.escalation.host_scripts import (
    EscalationSubject,
    HostRows,
    parse_outputs,
    run_scripts,
)
from hermes.sre.escalation.next_commands import next_commands

pytestmark = [
    pytest.mark.anyio,
    needs_namespaces,
    pytest.mark.skipif(not shutil.which("supervisord"), reason="supervisor is not installed"),
]
SUPERVISORD = """
[unix_http_server]
file=/run/supervisor.sock
[supervisord]
logfile=/var/log/supervisor/supervisord.log
pidfile=/run/supervisord.pid
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix:///run/supervisor.sock
[program:api]
command=/srv/api 1000
stdout_logfile=/var/log/api.log
[program:loop]
command=/bin/sh -c "sleep 2.2; exit 3"
startsecs=1
stdout_logfile=/var/log/loop.log
"""


def start(host: SupervisorHost) -> None:
    host.path("/etc/supervisor/supervisord.conf").write_text(SUPERVISORD)
    host.run("cp /bin/sleep /srv/api; supervisord -c /etc/supervisor/supervisord.conf")


async def collect(host: SupervisorHost, service: str, listing: UnitListing) -> HostRows:
    async def execute(call: ToolCall) -> ToolResult:
        return ToolResult(call_id=call.id, content=host.run(str(call.arguments["command"])))

    subject = EscalationSubject(service=service)
    outputs = await run_scripts(
        [*subject.process_scripts, *(each for each in subject.scripts if each[0] == "logs")],
        execute,
    )
    found = parse_outputs(outputs, {each.call: 1 for each in outputs})
    return replace(found, listing=listing)


async def listed(host: SupervisorHost, name: str, restarts: int = 0) -> UnitListing:
    deadline = time.monotonic() + 120
    while True:
        listing = await list_units(host.execute, service=name)
        if any(each.pid and each.restarts >= restarts for each in listing.find(name)):
            return listing
        assert time.monotonic() < deadline, listing
        await anyio.sleep(random.uniform(0.05, 0.6))  # not in step with a service that loops


async def test_a_unit_that_restarts_forever_is_told_with_its_exits() -> None:
    with SupervisorHost() as host:
        start(host)
        listing = await listed(host, "loop", restarts=2)
        found = await collect(host, "loop", listing)
    said = [each.text for each in process_lines(found, EscalationSubject(service="loop"))]
    assert said[0].startswith("supervisord: loop ")
    assert "; it has ended " in said[0] and " times; it last ended at 20" in said[0]
    assert "(exit status 3; not expected)" in said[0]


async def test_a_supervisord_that_hangs_is_named_and_its_child_is_still_its_own() -> None:
    with SupervisorHost() as host:
        start(host)
        await listed(host, "api")
        host.run("pkill -STOP -x supervisord")
        listing = await list_units(host.execute, service="api")
        found = await collect(host, "api", listing)
        host.run("pkill -CONT -x supervisord")
    assert listing.notes == ("supervisord runs and does not answer",)
    assert [row[4] for row in found.of("process")] == ["supervisord"]


async def test_of_two_supervisors_the_one_with_the_process_is_asked() -> None:
    daemon = PlainDaemon(name="api", command=("/srv/api", "2000"), folder="/srv")
    with SupervisorHost() as host:
        start(host)
        await listed(host, "api")
        host.run("supervisorctl stop api; setsid /srv/api 2000 >/dev/null 2>&1 </dev/null &")
        listing = await list_units(host.execute, [daemon], service="api")
        found = await collect(host, "api", listing)
    assert "api runs under daemon, and supervisord knows it too" in listing.notes
    subject = EscalationSubject(service="api")
    supervisors = HostSupervisors(listing.units, [daemon])
    proposed = [each.command for each in next_commands(found, subject, supervisors)]
    assert not any("supervisorctl" in each for each in proposed), proposed
