"""What people are told when they are called, collected from real processes, logs and files."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from incident_host import Host, events
from msgspec import structs

from hermes.core.actions import Action, Decision
from hermes.core.events.incidents import EscalationLine, IncidentChecked, IncidentDiagnosed
from hermes.core.events.tools import ToolFinished
from hermes.core.incident import Incident, IncidentDetails
from hermes.core.protocols import JournalRecord
from hermes.policy.redaction.redactor import Redactor
from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import HostUnit, UnitListing
from hermes.sre.assessment.symptoms import Assessment
from hermes.sre.context import IncidentWork
from hermes.sre.escalation.change_lines import change_lines
from hermes.sre.escalation.collect import publish_escalation, related_lines
from hermes.sre.escalation.host_lines import (
    digest,
    disk_lines,
    error_lines,
    named_lines,
    port_lines,
    process_lines,
)
from hermes.sre.escalation.host_scripts import (
    EscalationSubject,
    HostRows,
    ScriptOutput,
    escalation_subject,
    named_scripts,
    parse_outputs,
    script_command,
)
from hermes.sre.escalation.next_commands import next_commands
from hermes.sre.policies import is_read_only
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal

BUSYBOX = Path("/usr/bin/busybox")
REDIS = HostUnit(name="redis", kind="supervisord", state="inactive")
SHOP = HostUnit(
    name="shop-api",
    kind="supervisord",
    state="failed",
    restarts=4,
    exit="exit status 1; not expected",
    ended_at="2026-11-17 03:10:04",
)


def run_script(name: str, head: str, path: str | None = None) -> str:
    variables = {"PATH": path or os.environ["PATH"]}
    command = ["/bin/bash", "-c", script_command(name, head)]
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=True).stdout


def rows(**outputs: str) -> HostRows:
    given = [ScriptOutput(name, name, text) for name, text in outputs.items()]
    return parse_outputs(given, {name: number for number, name in enumerate(outputs, start=1)})


def with_units(found: HostRows, *units: HostUnit) -> HostRows:
    return structs.replace(found, listing=UnitListing(units=units))


def commands(found: HostRows, subject: EscalationSubject, *errors: str) -> list[str]:
    supervisors = HostSupervisors(found.listing.units)
    return [each.command for each in next_commands(found, subject, supervisors, errors)]


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
    errors = [
        'open() "/srv/a/b" failed (13: Permission denied), port 5432, locked by PID 77, Read-only'
    ]
    for name, head in (
        *subject.process_scripts,
        *subject.scripts,
        *named_scripts(subject, errors),
    ):
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
    assert commands(found, subject)[-1] == f"kill -CONT {process.pid}"


def test_another_process_that_holds_the_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = rows(ports=run_script("ports", f"ports={port}"))
    subject = EscalationSubject(service="nginx", ports=(port,))
    (said,) = texts(port_lines(found, subject))
    assert f"port {port} is held by another process:" in said and f"pid {os.getpid()}," in said
    free = rows(ports=run_script("ports", f"ports={port}"))
    assert texts(port_lines(free, subject)) == [f"nobody listens at port {port}"]


def test_a_log_of_a_terabyte_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "big.log"
    with log.open("wb") as file:
        file.truncate(2**40)
    error = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC ERROR cannot bind to port 8000"
    with log.open("ab") as file:
        file.write(f"\nfine\n{error}\n".encode())
    found = rows(logs=run_script("logs", f"n= path={log}"))
    (said,) = texts(error_lines(found, datetime.now(UTC)))
    assert said == f"big.log: {error}"


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
    assert "or owner, mode or name changed: /srv/www/static (now root drwx------)" in said[1]
    assert "a file was added, removed or renamed in /srv/shop" in said[2]


def test_the_supervisor_tells_the_exit_and_its_own_command_is_proposed() -> None:
    found = with_units(rows(processes="uptime=9.0\n"), REDIS, SHOP)
    subject = EscalationSubject(service="shop_api")
    said = texts(process_lines(found, subject))
    assert said == [
        "supervisord: shop-api has failed; it has ended 4 times; it last ended at "
        "2026-11-17 03:10:04 (exit status 1; not expected); no process of it was found",
        "other services: redis (does not run)",
    ]
    *looks, last = commands(found, subject)
    assert looks and all(map(is_read_only, looks))
    assert last == "supervisorctl start shop-api"


def test_a_firewall_rule_comes_first_and_its_removal_is_proposed_in_place_of_a_restart() -> None:
    rule = "firewall=6379\ttcp dport 6379 drop\tnft delete rule inet a input handle 4\n"
    unit = HostUnit(name="redis", kind="supervisord", state="active", pid=7)
    found = with_units(rows(ports=f"hidden=6379\tredis\n{rule}"), unit)
    subject = EscalationSubject(service="redis", ports=(6379,))
    lines = list(port_lines(found, subject))
    assert lines[0].about == "obstacle"
    assert lines[0].text == "a firewall rule for port 6379: tcp dport 6379 drop"
    *looks, last = commands(found, subject)
    assert looks[0] == "nft -a list ruleset" and all(map(is_read_only, looks))
    assert last == "nft delete rule inet a input handle 4"


def test_a_rule_about_several_ports_is_shown_and_its_removal_is_not_proposed() -> None:
    found = rows(ports="firewall=443\ttcp dport { 80, 443 } reject\t\n")
    subject = EscalationSubject(service="web", ports=(443,))
    proposed = commands(found, subject)
    assert proposed[0] == "nft -a list ruleset" and all(map(is_read_only, proposed))


def test_who_holds_a_port_that_only_the_error_names_is_told_with_its_start() -> None:
    at = datetime(2026, 11, 19, 10, 22, 6, tzinfo=UTC).timestamp()
    error = "[emerg] bind() to 127.0.0.1:80 failed (98: Address already in use)"
    held = (
        f"holder=80\t77\tdeploy\tpython\tpython -m http.server 80\t{at:.0f}\tpid 9, -bash\tanna\n"
    )
    found = rows(logs=f"log=/var/log/web.log\t{at:.0f}\nsaid={error}\n", ports=held)
    subject = EscalationSubject(service="nginx", ports=(443,))
    (line,) = [each for each in port_lines(found, subject) if each.about == "obstacle"]
    assert line.text == (
        "port 80 is held by another process: python (pid 77, user deploy, since 10:22:06, "
        "login anna, started by pid 9, -bash): python -m http.server 80"
    )
    *looks, last = commands(found, subject, error)
    assert looks[0].startswith("ps -o pid,ppid,lstart") and all(map(is_read_only, looks))
    assert last == "kill 77"


def test_a_service_that_something_kills_shows_what_was_started_last() -> None:
    killed = structs.replace(SHOP, exit="terminated by SIGKILL; not expected")
    found = with_units(rows(processes="uptime=9.0\n"), killed)
    proposed = commands(found, EscalationSubject(service="shop-api"))
    assert proposed[0].startswith("ps -eo pid,lstart") and is_read_only(proposed[0])


def test_a_loop_that_kills_the_service_is_told_and_its_end_proposed() -> None:
    loop = "while sleep 60; do pkill -9 -f [p]rices_4711.py; done"
    with subprocess.Popen(["bash", "-c", loop]) as killer:
        try:
            found = rows(processes=run_script("processes", "n=prices-4711"))
        finally:
            killer.kill()
    subject = EscalationSubject(service="prices-4711")
    lines = [each for each in process_lines(found, subject) if each.about == "obstacle"]
    assert [each.text for each in lines] == [
        f"pid {killer.pid} runs a command that kills it: bash -c {loop}"
    ]
    assert commands(found, subject)[-1] == f"kill {killer.pid}"
    assert not rows(processes=run_script("processes", "n=orders")).of("killer")


def test_a_port_that_only_an_error_names_is_looked_up_and_a_restart_cannot_help() -> None:
    error = 'connect() failed (111), upstream: "http://127.0.0.1:8001/"'
    subject = EscalationSubject(service="nginx", ports=(80,))
    (_, head), _ = named_scripts(subject, [error])
    assert head == "ports='80 8001'"
    unit = HostUnit(name="nginx", kind="sysvinit", state="active", pid=7)
    found = with_units(rows(ports="hidden=80\troot\nfree=8001\n"), unit)
    assert texts(port_lines(found, subject))[0] == "port 8001 of the error: nobody listens there"
    proposed = commands(found, subject, error)
    assert proposed[0] == "ss -ltnp" and all(map(is_read_only, proposed))


def test_what_was_not_seen_is_not_taken_for_gone() -> None:
    """The processes could not be listed in time, and the supervisor says that it runs."""
    unit = HostUnit(name="web", kind="supervisord", state="active", pid=7)
    found, subject = with_units(rows(), unit), EscalationSubject(service="web")
    assert texts(process_lines(found, subject)) == []
    assert commands(found, subject)[-1] == "supervisorctl restart web"


def test_a_service_that_runs_is_restarted_and_told_once() -> None:
    running = "process=39\t7\tS\t100\tsupervisord\tnginx\tnginx: master process\nuptime=9.0\n"
    unit = HostUnit(name="nginx", kind="supervisord", state="active", pid=39)
    found = with_units(rows(processes=running), unit)
    subject = EscalationSubject(service="nginx")
    assert texts(process_lines(found, subject)) == [
        "pid 39 runs, for 8.0 s, under supervisord: nginx: master process"
    ]
    assert commands(found, subject)[-1] == "supervisorctl restart nginx"


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


def test_a_count_of_no_errors_is_no_error() -> None:
    assert digest(["* Done loading RDB, keys loaded: 0, keys expired: 0.", "12 ok, 0 failed"]) == []


def test_lines_that_continue_an_error_are_kept() -> None:
    lines = [
        "*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***",
        "Reading the configuration file, at line 2",
        ">>> 'port six'",
        "argument couldn't be parsed into an integer",
        "12:M 17 Nov 2026 03:00:00.000 * Ready to accept connections",
    ]
    assert digest(lines) == lines[:4]


def test_a_failing_check_that_the_errors_name_is_related() -> None:
    text = "status 503\nasked by the probe http-18081 (http http://127.0.0.1:18081/)"
    details = IncidentDetails(incident="i", run="i", title="503", service="orders", text=text)
    checks = {"http-18081": False, "redis-16379": False, "port-5432": False, "redis-7000": True}
    records = [
        JournalRecord(seq, IncidentChecked(run="i", incident="i", check=name, ok=ok, detail="no"))
        for seq, (name, ok) in enumerate(checks.items(), start=1)
    ]
    (found,) = related_lines(records, details, ["redis: connection refused"])
    at = f"{records[1].event.at:%H:%M:%S} UTC"
    assert (found.text, found.evidence) == (f"redis-16379 failed, too: no (at {at})", (2,))
    assert not list(related_lines(records, details, ["ValueError"]))
    same = structs.replace(details, title="web: no")  # the title says it already
    assert not list(related_lines(records, same, ["redis: connection refused"]))


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
    with process_named("shopd", tmp_path) as process, socket.create_server(("127.0.0.1", 0)) as at:
        port = at.getsockname()[1]
        found = rows(
            ports=run_script("ports", f"ports={port}", str(bin)),
            named=run_script("named", f"paths={tmp_path}/gone/x pids=99 mounts=1", str(bin)),
            processes=run_script("processes", "n=shop", str(bin)),
            logs=run_script("logs", f"n= path={log}", str(bin)),
            disk=run_script("disk", f"p={tmp_path} inodes=1", str(bin)),
            messages=run_script("messages", "n=shop", str(bin)),
            changes=run_script("changes", "minutes=60", str(bin)),
            consumers=run_script("consumers", ":", str(bin)),
        )
    assert found.first("process")[0] == str(process.pid)
    assert found.first("holder").fields[:2] == (str(port), str(os.getpid()))
    assert found.first("absent").fields == (f"{tmp_path}/gone/x", f"{tmp_path}/gone")
    assert texts(error_lines(found, datetime.now(UTC))) == ["app.log: ERROR the disk is full"]
    assert found.of("missing")[0][0] == "journalctl"
    assert found.of("space") and found.of("rss")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_without_root_the_holder_of_a_port_is_not_visible_and_it_is_said() -> None:
    other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/bin/bash", "-c"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = [*other, script_command("ports", f"ports={port}")]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found, subject = rows(ports=text), EscalationSubject(service="web", ports=(port,))
    assert texts(port_lines(found, subject)) == [
        f"port {port} is open, user root; which process holds it is not visible to Hermes"
    ]
    missing = structs.replace(found, answered={"processes": 1})
    assert commands(missing, subject)[0] == f"ss -ltnp '( sport = :{port} )'"


def test_errors_from_before_the_outage_are_told_as_such() -> None:
    now = datetime.now(UTC)
    old, new = now - timedelta(hours=1), now
    log = f"log=/var/log/web/error.log\t{int(now.timestamp())}\n"
    before = f"said={old:%Y/%m/%d %H:%M:%S} [error] 7#7: cannot open the cache\n"
    after = (
        f"said={new:%Y/%m/%d %H:%M:%S} [error] 7#7: *3 connect() failed (111: Connection refused)"
    )
    after += ' while connecting to upstream, client: 10.0.0.9, request: "GET / HTTP/1.1", '
    after += 'upstream: "http://127.0.0.1:8001/", host: "a"\n'
    (said,) = texts(error_lines(rows(logs=log + before + "said=--\n" + after), now))
    assert "client" not in said and 'upstream: "http://127.0.0.1:8001/"' in said
    (said,) = texts(error_lines(rows(logs=log + before), now))
    assert said.startswith("error.log, before it failed: ")


def test_times_of_a_log_are_read_in_the_zone_of_the_host() -> None:
    now = datetime.now(UTC)
    there = now + timedelta(hours=2)
    log = f"log=/a.log\t{int(now.timestamp())}\nsaid={there - timedelta(hours=1):%Y-%m-%d %H:%M:%S}"
    (said,) = texts(error_lines(rows(logs=f"{log} ERROR x\nzone=+0200\n"), now))
    assert "before it failed" in said


def test_a_clock_that_was_set_back_is_told() -> None:
    now = datetime.now(UTC)
    at = int(now.timestamp())
    changes = f"now={at}\nfile={at + 3600}\t{at + 3600}\troot\t-rw-r--r--\t/etc/web.conf\n"
    assert texts(change_lines(rows(changes=changes), "web", now)) == [
        "/etc/web.conf has a time in the future: the clock was set back"
    ]


def test_a_search_that_was_cut_does_not_say_that_nothing_changed() -> None:
    cut = "cut=1\nunchecked=all changed files: the search took more than 5 s\n"
    found = rows(changes=cut)
    assert texts(change_lines(found, "web", datetime.now(UTC))) == []
    assert found.unchecked == ("all changed files: the search took more than 5 s",)


def test_files_written_at_once_are_one_line_without_their_folder() -> None:
    now = datetime.now(UTC)
    at = int(now.timestamp()) - 60
    names = ("/etc/web/b.conf", "/etc/web/a.conf")
    changes = "".join(f"file={at}\t{at}\troot\t-rw-r--r--\t{each}\n" for each in names)
    changes += f"file={at}\t{at}\troot\tdrwxr-xr-x\t/etc/web\n"
    (said,) = texts(change_lines(rows(changes=changes), "web", now))
    assert said.endswith("before it failed) written: /etc/web/a.conf, b.conf (owner root)")


def test_what_errors_name_is_looked_up(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "closed" / "page").write_text("x")
    subject = EscalationSubject(service="web")
    error = f'open() "{tmp_path}/closed/page" failed (13: Permission denied)'
    scripts = named_scripts(subject, [error, "another one runs: PID 4194999", "Read-only"])
    ((name, head),) = scripts
    found = rows(named=run_script(name, head))
    said = texts(named_lines(found, error))
    assert any(f"{tmp_path}/closed is closed to other users: owner" in each for each in said)
    assert "the process 4194999 of the error does not exist" in said
    assert f"namei -l {tmp_path}/closed/page" in commands(found, subject, error)


def test_an_address_in_an_error_is_no_path() -> None:
    subject = EscalationSubject(service="web")
    ((name, head),) = named_scripts(subject, ["GET /api/v1/items failed"])
    assert not rows(named=run_script(name, head)).of("absent")


class AllowsReads:
    def decide(self, action: Action) -> Decision:
        return Decision(verdict="allow", rule="test", effects=("read",))


@pytest.mark.anyio
async def test_a_password_that_a_service_logs_is_not_told(tmp_path: Path) -> None:
    log = tmp_path / "shop.log"
    log.write_text("ERROR cannot log in with password=Tr0ub4dor-and-3 at db:5432\n")
    host = Host(tmp_path)
    text = f"asked by the probe log-shop (log {log})"
    case = structs.replace(await host.open_incident(), service="", text=text)
    async with host.context() as context:
        executor = Executor(
            {"terminal": make_terminal()},
            AllowsReads(),
            host.person,
            context.bus,
            redact=Redactor().clean,
        )
        work = IncidentWork(replace(context, executor=executor), case)
        await publish_escalation(work, Incident(details=case), Assessment(verdict="unknown"), "x")
    (told,) = events(host, IncidentDiagnosed)
    (error,) = [each.text for each in told.escalation if each.about == "error"]
    assert "cannot log in with password=" in error
    assert not any("Tr0ub4dor" in each.text for each in told.escalation)


@pytest.mark.anyio
async def test_every_fact_refers_to_a_result_in_the_journal(tmp_path: Path) -> None:
    host = Host(tmp_path)
    case = await host.open_incident()
    async with host.context() as context:
        opened = Incident(details=case)
        executor = Executor({"terminal": make_terminal()}, AllowsReads(), host.person, context.bus)
        await publish_escalation(
            IncidentWork(replace(context, executor=executor), case),
            opened,
            Assessment(verdict="unknown"),
            "nobody knows it",
        )
        numbers = {
            each.seq: each.event.result.content
            async for each in context.bus.journal.read(run=case.run, kinds=("tool.finished",))
            if isinstance(each.event, ToolFinished)
        }
    (told,) = events(host, IncidentDiagnosed)
    facts = [each for each in told.escalation if each.about in ("process", "change", "port")]
    assert facts, told.escalation
    assert all(each.evidence and set(each.evidence) <= set(numbers) for each in facts)
    assert [each.about for each in told.escalation].count("command") <= 3


def test_a_disk_without_large_files_has_no_line_about_one(tmp_path: Path) -> None:
    output = run_script("disk", f"p={tmp_path} inodes=0")
    assert not [each for each in output.splitlines() if each.startswith(("large", "grows"))]
    found = rows(disk=output)
    assert not [each for each in texts(disk_lines(found)) if each.startswith("large")]
    named = commands(found, EscalationSubject(kind="forecast", disk=str(tmp_path)))
    assert not [each for each in named if "fuser" in each]
