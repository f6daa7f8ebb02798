"""What people are told when they are called, collected from real processes, logs and files."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from incident_house import Host, events

from hermes.core.actions import Action, Decision
from hermes.core.events.incidents import EscalationLine, IncidentDiagnosed
from hermes.core.events.tools import ToolFinished
from hermes.core.incident import Incident, IncidentDetails
from hermes.policy.command_analysis import analyse_command
from hermes.sre.assessment.symptoms import Assessment
from hermes.sre.commander import publish_escalation
from hermes.sre.context import IncidentWork
from hermes.sre.escalation.host_lines import (
    change_lines,
    digest,
    disk_lines,
    error_lines,
    port_lines,
    process_lines,
)
from hermes.sre.escalation.host_scripts import (
    EscalationSubject,
    HostRows,
    ScriptOutput,
    escalation_subject,
    parse_outputs,
    script_command,
)
from hermes.sre.escalation.service_owner import (
    ServiceOwner,
    find_owners,
    next_commands,
    restart_command,
)
from hermes.sre.policies import is_read_only
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal

BUSYBOX = Path("/usr/bin/busybox")
SUPERVISOR_LOG = """\
supervisorlog=2026-11-17 03:09:58,101 INFO spawned: 'shop-api' with pid 311
supervisorlog=2026-11-17 03:09:59,340 WARN exited: shop-api (exit status 1; not expected)
supervisorlog=2026-11-17 03:10:00,343 INFO spawned: 'shop-api' with pid 318
supervisorlog=2026-11-17 03:10:01,512 WARN exited: shop-api (exit status 1; not expected)
supervisorlog=2026-11-17 03:10:03,514 INFO spawned: 'shop-api' with pid 325
supervisorlog=2026-11-17 03:10:04,702 WARN exited: shop-api (exit status 1; not expected)
supervisorlog=2026-11-17 03:10:05,704 INFO gave up: shop-api entered FATAL state, too many \
start retries too quickly
"""
STATUS = """\
supervisord=nginx\tRUNNING\tpid 24, uptime 0:12:01
supervisord=redis\tSTOPPED\tNov 17 03:08 AM
supervisord=shop-api\tFATAL\tExited too quickly (process log may have details)
"""


def run_script(name: str, head: str, path: str | None = None) -> str:
    variables = {"PATH": path or os.environ["PATH"]}
    command = ["/bin/bash", "-c", script_command(name, head)]
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=True).stdout


def rows(**outputs: str) -> HostRows:
    given = [ScriptOutput(name, name, text) for name, text in outputs.items()]
    return parse_outputs(given, {name: number for number, name in enumerate(outputs, start=1)})


def texts(lines: Iterator[EscalationLine]) -> list[str]:
    return [each.text for each in lines]


@contextmanager
def process_named(name: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A real process whose program has this name."""
    program = folder / name
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    process = subprocess.Popen([str(program), "60"])
    try:
        while Path(f"/proc/{process.pid}/comm").read_text().strip() != name[:15]:
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.wait()


SUBJECTS = [
    EscalationSubject(service="web@1", kind="http", ports=(80, 443), slow=True),
    EscalationSubject(kind="inodes", disk="/var/lib"),
    EscalationSubject(kind="log", log="/var/log/a.log"),
    EscalationSubject(kind="cpu"),
]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda each: each.kind)
def test_every_script_only_reads(subject: EscalationSubject) -> None:
    assert list(subject.scripts)
    for name, head in subject.scripts:
        assert is_read_only(script_command(name, head)), name


@pytest.mark.parametrize("service", ["-rf", "web; reboot", "$(reboot)", "a b", "x" * 80])
def test_a_name_that_is_no_service_reaches_no_script(service: str) -> None:
    details = IncidentDetails(incident="i", run="i", title="t", service=service)
    assert escalation_subject(details).service == ""


def test_the_alert_of_a_probe_names_the_port_the_disk_or_the_log() -> None:
    def subject(text: str) -> EscalationSubject:
        return escalation_subject(IncidentDetails(incident="i", run="i", title="t", text=text))

    assert subject("x\nasked by the probe port-80 (port 80)").ports == (80,)
    page = "x\nasked by the probe http-8000-health (http http://127.0.0.1:8000/health)"
    assert subject(page).ports == (8000,)
    assert subject("x\nasked by the probe disk-srv (disk /srv)").disk == "/srv"
    assert subject("x\nasked by the probe log-a (log /var/log/a.log)").log == "/var/log/a.log"
    assert subject("x\nasked by the probe log-a (log /a; reboot)").log == "/a"
    assert subject("2026/11/17 04:04:45 [error] at 10.0.0.7:8000").ports == (8000,)
    assert subject("x\nasked by the probe disk-a (disk /$(reboot))").disk == "/"


def test_a_stopped_process_is_named_with_the_command_that_lets_it_run_on(tmp_path: Path) -> None:
    with process_named("shopd", tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        found = rows(processes=run_script("processes", "n=shop"))
    subject = EscalationSubject(service="shop")
    (said,) = texts(process_lines(found, subject))
    assert f"pid {process.pid} stopped by a signal, until it gets SIGCONT" in said
    proposed = next_commands(found, subject, ServiceOwner())
    assert proposed[-1].command == f"kill -CONT {process.pid}"


def test_another_process_that_holds_the_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = rows(ports=run_script("ports", f"ports={port}"))
    (said,) = texts(port_lines(found, "nginx"))
    assert f"port {port} is held by another process:" in said and f"pid {os.getpid()}," in said
    free = rows(ports=run_script("ports", f"ports={port}"))
    assert texts(port_lines(free, "nginx")) == [f"nobody listens at port {port}"]


def test_a_log_of_ten_gigabytes_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "big.log"
    with log.open("wb") as file:
        file.truncate(10 * 2**30)
    with log.open("ab") as file:
        file.write(b"\nfine\n2026-11-17 03:00:00 ERROR cannot bind to port 8000\n")
    began = time.monotonic()
    found = rows(logs=run_script("logs", f"n= path={log}"))
    assert time.monotonic() - began < 20
    (said,) = texts(error_lines(found, datetime.now(UTC)))
    assert said == "big.log: 2026-11-17 03:00:00 ERROR cannot bind to port 8000"


def test_large_growing_and_deleted_files_of_a_disk_are_named(tmp_path: Path) -> None:
    (tmp_path / "old.dat").write_bytes(b"x" * 300_000)
    writer = f"while sleep 0.1; do head -c 50000 /dev/zero >> {tmp_path}/new.log; done"
    with (tmp_path / "gone").open("wb") as gone:
        gone.write(b"x" * 200_000)
        gone.flush()
        (tmp_path / "gone").unlink()
        process = subprocess.Popen(["bash", "-c", writer])
        try:
            while not (tmp_path / "new.log").exists():
                time.sleep(0.02)
            found = rows(disk=run_script("disk", f"p={tmp_path} inodes=0"))
        finally:
            process.kill()
            process.wait()
    said = "\n".join(texts(disk_lines(found)))
    assert f"{tmp_path}/old.dat (owner" in said
    assert "deleted but still open" in said and f"{tmp_path}/gone, by" in said
    assert "grows by" in said and "new.log" in said


def test_a_change_of_content_of_mode_and_of_a_folder_are_told_apart() -> None:
    now = datetime.now(UTC)
    at = int(now.timestamp())
    said = texts(
        change_lines(
            rows(
                changes=f"file={at}\t{at}\troot\t-rw-r--r--\t/etc/nginx/nginx.conf\n"
                f"file={at}\t{at - 900}\troot\tdrwx------\t/srv/www/static\n"
                f"file={at}\t{at}\troot\tdrwxr-xr-x\t/srv/shop\n"
            ),
            "nginx",
            now,
        )
    )
    assert "written: /etc/nginx/nginx.conf (owner root)" in said[0]
    assert "owner or mode now root drwx------: /srv/www/static" in said[1]
    assert "an entry was added to or removed from /srv/shop" in said[2]


def test_supervisord_tells_the_exit_and_its_own_command_is_proposed() -> None:
    found = rows(supervisor=STATUS + "systemd=LoadState=not-found\n", logs=SUPERVISOR_LOG)
    subject = EscalationSubject(service="shop_api")
    said = texts(process_lines(found, subject))
    assert said[0] == "supervisord: FATAL Exited too quickly (process log may have details)"
    assert said[1] == (
        "exited at 2026-11-17 03:10:04: exit status 1; not expected; "
        "started 3 times since 2026-11-17 03:09:58"
    )
    assert "also not running: redis (STOPPED)" in said
    (owner,) = find_owners(found, "shop_api")
    assert restart_command(owner) == "supervisorctl restart shop-api"
    proposed = next_commands(found, subject, owner)
    assert [is_read_only(each.command) for each in proposed[:-1]] == [True] * (len(proposed) - 1)
    assert analyse_command(proposed[-1].command, cwd="/").effects == {"service-change"}
    assert not any("systemctl" in each.command for each in proposed)


def test_without_a_list_of_supervisord_its_child_is_not_restarted_by_an_init_script() -> None:
    child = "process=39\t7\tS\t100\tsupervisord\tnginx\tnginx: master process\nuptime=9.0\n"
    found = rows(processes=child, supervisor="initscript=nginx\n")
    (owner,) = find_owners(found, "nginx")
    assert restart_command(owner) == "supervisorctl restart nginx"


def test_a_unit_of_systemd_tells_its_exit_status_and_restarts() -> None:
    shown = (
        "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=exit-code\nExecMainCode=2\n"
        "ExecMainStatus=9\nNRestarts=5\nMainPID=0\n"
    )
    found = rows(supervisor="".join(f"systemd={each}\n" for each in shown.splitlines()))
    said = texts(process_lines(found, EscalationSubject(service="web")))
    assert said == ["systemd: failed (failed), ended by signal KILL, restarted 5 times"]
    assert restart_command(find_owners(found, "web")[0]) == "systemctl restart web"


def test_of_a_traceback_the_place_and_the_error_are_kept_and_repetitions_counted() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/srv/shop/shop_api.py", line 12, in <module>',
        "    PORT = int(settings['PORT'])",
        "ValueError: invalid literal for int() with base 10: '80OO'",
    ]
    assert digest(lines * 3) == [
        "ValueError: invalid literal for int() with base 10: '80OO' "
        '(File "/srv/shop/shop_api.py", line 12) (3 times)'
    ]


def test_lines_that_continue_an_error_are_kept() -> None:
    lines = [
        "*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***",
        "Reading the configuration file, at line 2",
        ">>> 'port six'",
        "argument couldn't be parsed into an integer",
        "12:M 17 Nov 2026 03:00:00.000 * Ready to accept connections",
    ]
    assert digest(lines) == lines[:4]


def test_a_supervisor_that_hangs_is_named_and_delays_nothing(tmp_path: Path) -> None:
    """A stand-in for a supervisorctl that waits for its supervisord."""
    control = tmp_path / "supervisorctl"
    control.write_text("#!/bin/bash\nsleep 60\n")
    control.chmod(0o755)
    began = time.monotonic()
    found = rows(supervisord=run_script("supervisord", ":", f"{tmp_path}:/usr/bin:/bin"))
    assert time.monotonic() - began < 20
    assert "supervisorctl gave no answer within 2 s" in found.unchecked


@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox")
def test_a_host_with_nothing_but_busybox_answers_the_same(tmp_path: Path) -> None:
    tools = "awk cat cut date df dmesg find grep head id ls sed sleep sort stat tail timeout tr"
    tools += " uniq wc xargs"
    bin = tmp_path / "bin"
    bin.mkdir()
    for name in tools.split():
        (bin / name).symlink_to(BUSYBOX)
    log = tmp_path / "app.log"
    log.write_text("ok\nERROR the disk is full\n")
    with process_named("shopd", tmp_path) as process:
        found = rows(
            processes=run_script("processes", "n=shop", str(bin)),
            logs=run_script("logs", f"n= path={log}", str(bin)),
            disk=run_script("disk", f"p={tmp_path} inodes=1", str(bin)),
            messages=run_script("messages", "n=shop", str(bin)),
            changes=run_script("changes", "minutes=60", str(bin)),
            consumers=run_script("consumers", ":", str(bin)),
        )
    assert found.first("process")[0] == str(process.pid)
    assert texts(error_lines(found, datetime.now(UTC))) == ["app.log: ERROR the disk is full"]
    assert found.of("missing")[0][0] == "journalctl"
    assert found.of("space") and found.of("rss")


class AllowsReads:
    def decide(self, action: Action) -> Decision:
        return Decision(verdict="allow", rule="test", effects=("read",))


@pytest.mark.anyio
async def test_every_fact_refers_to_a_result_in_the_journal(tmp_path: Path) -> None:
    host = Host(tmp_path)
    case = await host.opened()
    async with host.ground() as ground:
        opened = Incident(details=case)
        executor = Executor({"terminal": make_terminal()}, AllowsReads(), host.person, ground.bus)
        await publish_escalation(
            IncidentWork(replace(ground, executor=executor), case),
            opened,
            Assessment(verdict="unknown"),
            "nobody knows it",
        )
        numbers = {
            each.seq: each.event.result.content
            async for each in ground.bus.journal.read(run=case.run, kinds=("tool.finished",))
            if isinstance(each.event, ToolFinished)
        }
    (told,) = events(host, IncidentDiagnosed)
    facts = [each for each in told.escalation if each.about in ("process", "change", "port")]
    assert facts, told.escalation
    assert all(each.evidence and set(each.evidence) <= set(numbers) for each in facts)
    assert [each.about for each in told.escalation].count("command") <= 3
