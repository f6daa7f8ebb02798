"""Bundled playbooks end to end on hosts without systemd: a real supervisord, a plain daemon."""

import os
import sys
import time

import anyio
import pytest
from supervisor_host import SupervisorHost, needs_namespaces, needs_supervisord

from hermes.core.events.base import BaseEvent
from hermes.core.incident import AlertFacts
from hermes.core.messages import ToolCall, ToolResult
from hermes.skills.discovery import BUNDLED_SKILLS
from hermes.skills.playbook.commands import PlaybookContext
from hermes.skills.playbook.reader import parse_playbook
from hermes.skills.playbook.runner import PlaybookRunner, PlaybookRunResult
from hermes.skills.supervisors.units import PlainDaemon, list_units
from hermes.sre.escalation.host_scripts import script_command

pytestmark = [pytest.mark.anyio, needs_namespaces]
API = """
import sys, time
text = dict(line.strip().split("=") for line in open("/srv/api/api.conf"))
try:
    print("port", int(text["port"]), flush=True)
except ValueError:
    sys.exit("error: invalid port in /srv/api/api.conf: " + text["port"])
time.sleep(1000)
"""
API_PROGRAM = f"""
[program:api]
command={sys.executable} /srv/api/api.py /srv/api/api.conf
startretries=1
startsecs=2
redirect_stderr=true
stdout_logfile=/var/log/api.log
"""
# A process in the background has its command line some time after its number.
STARTED = "until grep -qx sleep /proc/$!/comm; do sleep 0.05; done"


def runner_on(host: SupervisorHost, name: str, *daemons: PlainDaemon) -> PlaybookRunner:
    file = next(BUNDLED_SKILLS.glob(f"*/{name}/playbook.yaml"))
    playbook, problems = parse_playbook(file.read_text())
    assert playbook is not None, problems

    async def execute(call: ToolCall) -> ToolResult:
        output, code = host.run_with_code(str(call.arguments["command"]))
        note = f"\n[exit {code} · 0.1 s]" if code else ""
        return ToolResult(call_id=call.id, content=f"{output}{note}")

    async def publish(*events: BaseEvent) -> tuple[int, ...]:
        return ()

    context = PlaybookContext(execute, publish, daemons=daemons)
    return PlaybookRunner(name, playbook, context)


async def play(
    host: SupervisorHost, name: str, alert: str, *daemons: PlainDaemon
) -> PlaybookRunResult:
    return await runner_on(host, name, *daemons).run(AlertFacts(title=alert, text=""))


async def matches(host: SupervisorHost, name: str, alert: str, *daemons: PlainDaemon) -> bool:
    """Whether a playbook is for it; nothing is changed."""
    facts = AlertFacts(title=alert, text="")
    found = await runner_on(host, name, *daemons).check_signature(facts)
    return found.early_outcome is None


@needs_supervisord
async def test_a_configuration_is_restored_under_supervisord() -> None:
    with SupervisorHost() as host:
        await start_api(host)
        host.run(
            "cp /srv/api/api.conf /srv/api/api.conf.bak; echo port=80OO > /srv/api/api.conf;"
            "supervisorctl restart api"
        )
        await wait_for_status(host, "FATAL")
        result = await play(host, "config-restore", "api: nothing answers")
        assert (result.outcome, result.detail) == ("applied", "")
        steps = [each.command.strip() for each in result.done if each.phase == "step"]
        assert "supervisorctl restart api" in steps[-1]
        assert host.path("/srv/api/api.conf").read_text() == "port=8000\n"
        assert "RUNNING" in host.run("supervisorctl status api")


@needs_supervisord
async def test_what_a_person_stopped_stays_stopped() -> None:
    with SupervisorHost() as host:
        await start_api(host)
        host.run("supervisorctl stop api")
        result = await play(host, "ended", "api is not running")
        assert result.outcome == "declined" and not result.changed


async def test_a_plain_daemon_that_is_gone_is_started_as_it_was() -> None:
    daemon = PlainDaemon(
        name="nap",
        command=("/bin/sleep", "98765"),
        user="nobody",
        folder="/srv",
        log="/var/log/nap.log",
        first_seen_s=5,
    )
    with SupervisorHost() as host:
        # A warning of its start is not the reason of its end.
        host.run("echo '# WARNING: a save may fail under low memory' > /var/log/nap.log")
        result = await play(host, "ended", "nap is not running", daemon)
        assert (result.outcome, result.detail) == ("applied", "")
        assert host.run("pgrep -u nobody -f -x '/bin/sleep 98765'").strip()


LOGGED = {
    "a file from before its last start": ("error: cannot bind\n", 1_000, True),
    "a line from before its last start": (
        "2020-01-02 03:04:05 FATAL: cannot bind\n  and gave up\n",
        2_000_000_000,
        True,
    ),
    "a line since then": ("2033-05-19 03:04:05 FATAL: cannot bind\n", 2_000_000_000, False),
    "a line without a time": ("FATAL: cannot bind\n", 2_000_000_000, False),
}


@pytest.mark.parametrize("what", LOGGED)
async def test_only_what_a_service_said_since_its_last_start_tells_why_it_ended(what: str) -> None:
    text, written_s, startable = LOGGED[what]
    daemon = PlainDaemon(
        name="nap",
        command=("/bin/sleep", "98765"),
        log="/var/log/nap.log",
        first_seen_s=5,
        started_s=1_600_000_000,
    )
    with SupervisorHost() as host:
        host.path("/var/log/nap.log").write_text(text)
        os.utime(host.path("/var/log/nap.log"), (written_s, written_s))
        assert await matches(host, "ended", "nap is not running", daemon) is startable


async def test_a_suspended_daemon_goes_on() -> None:
    daemon = PlainDaemon(name="nap", command=("/bin/sleep", "98765"), first_seen_s=5)
    with SupervisorHost() as host:
        host.run(f"setsid /bin/sleep 98765 >/dev/null 2>&1 </dev/null & {STARTED}; kill -STOP $!")
        result = await play(host, "suspended", "nap does not answer", daemon)
        assert (result.outcome, result.detail) == ("applied", "")
        assert host.run("ps -o stat= -C sleep | grep -c T").strip() == "0"


async def test_what_only_systemd_can_express_is_said_in_words() -> None:
    daemon = PlainDaemon(name="nap", command=("/bin/sleep", "98765"), log="/var/log/nap.log")
    with SupervisorHost() as host:
        host.run("printf 'oom-kill\\noom-kill\\n' > /var/log/nap.log")
        result = await play(host, "memory-limit-raised", "nap keeps dying", daemon)
        assert result.outcome == "declined"
        assert result.unchecked == (
            "nap is not a unit of systemd, and MemoryMax is a setting of systemd"
        )


async def start_api(host: SupervisorHost) -> None:
    host.run("mkdir -p /srv/api; echo port=8000 > /srv/api/api.conf")
    host.path("/srv/api/api.py").write_text(API)
    host.start_supervisord(API_PROGRAM)
    await wait_for_status(host, "RUNNING")


async def wait_for_status(host: SupervisorHost, state: str) -> None:
    deadline = time.monotonic() + 120
    while state not in host.run("supervisorctl status api"):
        assert time.monotonic() < deadline, host.run("supervisorctl status; cat /var/log/api.log")
        await anyio.sleep(0.5)


@pytest.mark.parametrize("limit", ["--nofile=6:6", "--as=1000000:1000000"])
async def test_a_process_at_a_lowered_limit_is_restarted(limit: str) -> None:
    command = (
        "/bin/bash",
        "-c",
        "exec 5</dev/null 6</dev/null 7</dev/null; read x < <(sleep 9876)",
    )
    daemon = PlainDaemon(name="holder", command=command, first_seen_s=5)
    with SupervisorHost() as host:
        started = (
            "setsid /bin/bash -c '{}' >/dev/null 2>&1 </dev/null & "
            "until [ -e /proc/$!/fd/7 ] && grep -q . /proc/$!/task/$!/children; do sleep 1; done; "
            "prlimit --pid $! {}"
        )
        host.run(started.format(command[2], limit))
        result = await play(host, "process-limit", "holder does not answer", daemon)
        assert (result.outcome, result.detail) == ("applied", "")


async def test_a_process_below_its_limit_is_left_alone() -> None:
    daemon = PlainDaemon(name="nap", command=("/bin/sleep", "98765"), first_seen_s=5)
    with SupervisorHost() as host:
        host.run(
            "setsid /bin/sleep 98765 >/dev/null 2>&1 </dev/null & prlimit --pid $! --nofile=99:99"
        )
        result = await play(host, "process-limit", "nap does not answer", daemon)
        assert result.outcome == "declined" and not result.changed


@needs_supervisord
async def test_what_did_not_come_back_with_its_supervisor_is_started() -> None:
    with SupervisorHost() as host:
        host.run("mkdir -p /srv/api; echo port=8000 > /srv/api/api.conf")
        host.path("/srv/api/api.py").write_text(API)
        host.start_supervisord(f"{API_PROGRAM}autostart=false\n")
        await wait_for_status(host, "Not started")
        result = await play(host, "ended", "api: nothing answers")
        assert (result.outcome, result.detail) == ("applied", "")
        assert "RUNNING" in host.run("supervisorctl status api")


@pytest.mark.parametrize(("written", "outcome"), [("1 hour ago", True), ("now", False)])
async def test_what_a_daemon_wrote_before_it_was_seen_running_is_no_reason_for_its_end(
    written: str, outcome: bool
) -> None:
    seen_s = int(time.time()) - 600
    daemon = PlainDaemon(name="nap", command=("/bin/sleep", "98765"), first_seen_s=seen_s)
    with SupervisorHost() as host:
        log = "/var/log/nap.log"
        host.run(f"echo 'could not open the pid file' > {log}; touch -d '{written}' {log}")
        assert await matches(host, "ended", "nap: nothing answers", daemon) is outcome


async def test_a_process_of_a_copy_of_the_host_is_none_of_the_host() -> None:
    daemon = PlainDaemon(name="nap", command=("/bin/sleep", "98765"), first_seen_s=5)
    with SupervisorHost() as host:
        inner = "unshare -pf --kill-child /bin/sleep 98765 >/dev/null 2>&1 </dev/null &"
        host.run(f"{inner} until pgrep -fx '/bin/sleep 98765'; do sleep 0.05; done")
        (unit,) = (await list_units(host.execute, [daemon])).find("nap")
        assert (unit.state, unit.pid) == ("failed", 0)
        assert "98765" not in host.run(script_command("processes", "n=sleep"))
        host.run(f"setsid /bin/sleep 98765 >/dev/null 2>&1 </dev/null & {STARTED}")
        (unit,) = (await list_units(host.execute, [daemon])).find("nap")
        assert unit.state == "active"
        assert host.run(script_command("processes", "n=sleep")).count("sleep 98765") == 1
