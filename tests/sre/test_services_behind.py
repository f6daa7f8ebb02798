"""An escalation leads from a service that only shows errors to the one behind it."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from incident_host import Host, events
from msgspec import structs

from hermes.core.actions import Action, Decision
from hermes.core.events.incidents import EscalationLine, IncidentDiagnosed
from hermes.core.incident import Incident
from hermes.skills.supervisors.units import HostUnit, UnitListing
from hermes.sre.assessment.symptoms import Assessment
from hermes.sre.context import IncidentWork
from hermes.sre.escalation.collect import publish_escalation
from hermes.sre.escalation.dependencies import (
    CONNECTED,
    ERRORS,
    Dependency,
    find_dependencies,
    has_own_cause,
    is_named,
    points_to,
    ports_of_services,
    uses,
)
from hermes.sre.escalation.host_scripts import (
    EscalationSubject,
    HostRows,
    ScriptOutput,
    parse_outputs,
    script_command,
)
from hermes.sre.escalation.service_collector import ServiceCollector
from hermes.sre.escalation.services_behind import find_services_behind
from hermes.sre.triage.other_problems import OtherProblems
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal

BUSYBOX = Path("/usr/bin/busybox")
BACKEND = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
log = open(sys.argv[2], "a", buffering=1)
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        print(sys.argv[3], file=log)
        self.send_error(500)
    def log_message(self, *words): pass
server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("listens", flush=True)
server.serve_forever()
"""
NGINX = """
daemon off; pid {folder}/proxy.pid; error_log {folder}/proxy-error.log; user root;
events {{}}
http {{ access_log off; server {{ listen 127.0.0.1:{port};
  # proxy_pass http://127.0.0.1:9;
  location / {{ proxy_pass http://127.0.0.1:{backend}; }} }} }}
"""
DOWN = HostUnit(name="redis", kind="supervisord", state="failed")


class AllowsReads:
    def decide(self, action: Action) -> Decision:
        return Decision(verdict="allow", rule="test", effects=("read",))


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def rows(output: str = "", *units: HostUnit) -> HostRows:
    found = parse_outputs([ScriptOutput("dependencies", "d", output)], {"d": 1})
    return structs.replace(found, listing=UnitListing(units=units))


@contextmanager
def backend(folder: Path, port: int, error: str) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "stockroom.py").write_text(BACKEND)
    command = [sys.executable, str(folder / "stockroom.py"), str(port)]
    command += [str(folder / "stockroom.log"), error]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"listens\n"
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def proxy(folder: Path, port: int, backend_port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A real nginx, as a program of another name: there may be others on this host."""
    program = folder / "frontgate"
    shutil.copy("/usr/sbin/nginx", program)
    text = NGINX.format(folder=folder, port=port, backend=backend_port)
    (folder / "proxy.conf").write_text(text)
    with subprocess.Popen([str(program), "-c", str(folder / "proxy.conf")]) as process:
        try:
            while True:
                with socket.socket() as client:
                    if client.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.02)
            yield process
        finally:
            process.terminate()


@contextmanager
def process_named(name: str, folder: Path) -> Iterator[None]:
    program = folder / name
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([str(program), "60"]) as process:
        yield
        process.kill()


def get(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return client.recv(100)


async def escalate(
    host: Host, service: str, port: int, *failing: str
) -> tuple[EscalationLine, ...]:
    text = f"status 500\nasked by the probe http-{port} (http http://127.0.0.1:{port}/)"
    case = structs.replace(await host.open_incident(), service=service, text=text)
    async with host.context() as context:
        tools = {"terminal": make_terminal()}
        executor = Executor(tools, AllowsReads(), host.person, context.bus)
        others = OtherProblems(services=frozenset(failing))
        context = replace(context, executor=executor, other_problems=lambda case: others)
        work = IncidentWork(context, case)
        await publish_escalation(work, Incident(details=case), Assessment(verdict="unknown"), "x")
    (told,) = events(host, IncidentDiagnosed)
    return told.escalation


@pytest.mark.anyio
async def test_the_error_of_the_service_behind_a_proxy_is_told_with_its_log(tmp_path: Path) -> None:
    port, behind = free_port(), free_port()
    error = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z ERROR /: KeyError: no {tmp_path}/price.txt"
    with backend(tmp_path, behind, error), proxy(tmp_path, port, behind):
        assert b" 500 " in get(port)
        told = await escalate(Host(tmp_path), "frontgate", port)
    shown = [each for each in told if each.about == "dependency"]
    texts = [each.text for each in shown]
    title = f"stockroom, port {behind} (named in {tmp_path}/proxy.conf): pid "
    assert texts[0].startswith(title), told
    assert "KeyError: no " in texts[1]
    assert texts[2] == f"{tmp_path}/price.txt does not exist"
    assert all(each.evidence for each in shown)
    commands = [each.text.split("  # ") for each in told if each.about == "command"]
    assert commands[0] == [f"ls -la {tmp_path}", "stockroom: shows what is there instead"]
    assert commands[1] == [
        f"tail -n 50 {tmp_path}/stockroom.log",
        "stockroom: shows more of its log",
    ]


@pytest.mark.anyio
async def test_what_only_fails_at_the_same_time_is_not_called_the_service_behind(
    tmp_path: Path,
) -> None:
    port, other = free_port(), free_port()
    error = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z ERROR /: KeyError: 'price'"
    with backend(tmp_path, other, error), process_named("frontgate", tmp_path):
        get(other)
        told = await escalate(Host(tmp_path), "frontgate", port, "stockroom")
    assert not [each for each in told if each.about == "dependency"]
    texts = [each.text for each in told if each.about == "failing"]
    assert texts[0].startswith("stockroom: pid ") and "KeyError" in texts[1]


@pytest.mark.anyio
async def test_an_address_in_its_configuration_where_nobody_listens_is_told(tmp_path: Path) -> None:
    port, behind = free_port(), free_port()
    with proxy(tmp_path, port, behind):
        told = await escalate(Host(tmp_path), "frontgate", port)
    texts = [each.text for each in told if each.about == "dependency"]
    assert texts == [f"port {behind} (named in {tmp_path}/proxy.conf): nobody listens there"]


def test_an_open_connection_names_the_service_at_its_end_and_not_its_clients(
    tmp_path: Path,
) -> None:
    port = free_port()
    with backend(tmp_path, port, "x") as process:
        script = f"import socket, sys; s = socket.create_connection(('127.0.0.1', {port}))"
        command = [sys.executable, "-c", f"{script}; print(1, flush=True); sys.stdin.read()"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe) as client:
            assert client.stdout is not None and client.stdout.readline()
            used = run_script("shop", client.pid)
            served = run_script("stockroom", process.pid)
            client.communicate()
    assert f"needs={port}\tconnected\tyes\t{process.pid}\tstockroom" in used.splitlines()
    assert "needs=" not in served


def run_script(service: str, pid: int, path: str = os.environ["PATH"]) -> str:
    text = script_command("dependencies", f"n={service} pids={pid}")
    command, variables = ["/bin/bash", "-c", text], {"PATH": path}
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=True).stdout


@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox")
def test_a_host_with_nothing_but_busybox_finds_the_addresses_in_a_file(tmp_path: Path) -> None:
    (bin := tmp_path / "bin").mkdir()
    tools = "awk cat cut find grep head ls sed sleep sort stat tr"
    for name in tools.split():
        (bin / name).symlink_to(BUSYBOX)
    port, settings = free_port(), tmp_path / "shop.conf"
    settings.write_text(f"db = localhost:{port}\n# db = localhost:1\nsocket = unix:/run/no.sock\n")
    with subprocess.Popen(["tail", "-f", str(settings)], stdout=subprocess.DEVNULL) as process:
        found = run_script("shop", process.pid, str(bin)).splitlines()
        process.kill()
    needs = [each for each in found if each.startswith("needs=")]
    assert sorted(needs) == sorted(
        [f"needs=/run/no.sock\t{settings}\t\t\t", f"needs={port}\t{settings}\t\t\t"]
    )


def test_an_error_about_something_else_leads_to_no_other_service() -> None:
    shop = EscalationSubject(service="shop", kind="http")
    down = Dependency(service="redis", down=True)
    used = Dependency(service="postgres", at="5432", source=CONNECTED)
    for each in (down, used):
        assert not points_to(each, shop, ["shop.log: KeyError: 'price'"])
        assert points_to(each, shop, ["shop.log: connection refused"])
    assert used.subject(["OSError: redis: -NOAUTH Authentication required."]).login_refused
    assert not used.subject(["connection refused"]).login_refused
    assert points_to(used, shop, ["shop.log: FATAL at port 5432: no pg_hba.conf entry"])
    assert not points_to(Dependency(service="nginx"), shop, ["shop.log: connection refused"])


def test_a_service_that_does_not_answer_itself_is_not_behind_what_fails_with_it() -> None:
    """Whether the shop fails because of it cannot be told without a tie between the two."""
    redis, shop = EscalationSubject(service="redis", kind="redis"), Dependency(service="shop")
    assert not points_to(shop, redis, [])
    assert points_to(shop, EscalationSubject(service="nginx", kind="http"), [])


def test_a_service_that_uses_the_failing_one_only_shows_its_errors() -> None:
    backend = EscalationSubject(service="shop", ports=(8000,))
    assert uses(rows("needs=8000\t/etc/nginx/nginx.conf\tyes\t7\tpython"), [], backend)
    assert uses(rows(), ["error.log: upstream http://127.0.0.1:8000/ timed out"], backend)
    assert not uses(rows("needs=6379\tconnected\tyes\t8\tredis-server"), [], backend)


def test_a_listener_that_only_an_error_names_is_found() -> None:
    shop = EscalationSubject(service="shop", ports=(8000,))
    found = rows("listener=6379\t9\tredis-server\nlistener=5432\t10\tpostgres")
    errors = ["shop.log: OSError: redis: -NOAUTH Authentication required."]
    (known,) = find_dependencies(found, shop, {}, errors)
    assert (known.service, known.at, known.source) == ("redis-server", "6379", ERRORS)


def test_what_does_not_run_comes_first_unless_nothing_says_that_it_should() -> None:
    shop = EscalationSubject(service="shop")
    idle = HostUnit(name="ssh", kind="sysvinit", state="inactive")
    found = rows("needs=5432\tconnected\tyes\t10\tpostgres", idle, DOWN)
    others = {"nginx": "80", "redis": "6379"}
    known = [each.service for each in find_dependencies(found, shop, others, [])]
    assert known == ["redis", "postgres", "nginx"]
    assert [each.service for each in find_dependencies(found, shop, {}, [])] == ["postgres"]


def test_a_service_that_accepts_no_connections_has_its_own_cause() -> None:
    shop = EscalationSubject(service="shop", ports=(8000,))
    process = "process=7\t1\tS\t9\tinit\tpython\tpython shop.py\n"
    assert not has_own_cause(rows(f"{process}queue=8000\t00000003\nqueue=80\t00000017"), shop)
    assert has_own_cause(rows(f"{process}queue=8000\t00000041"), shop)


def test_the_port_of_a_service_that_does_not_run_is_that_of_its_checks() -> None:
    checks = {"postgres-5432", "port-5432", "http-8000-health", "redis-6379"}
    failing = ports_of_services({"postgres", "nginx", "redis-server"}, checks)
    assert failing == {"postgres": "5432", "nginx": "", "redis-server": "6379"}
    errors = ["shop.log: connection to server at 127.0.0.1, port 5432 failed: Connection refused"]
    gone = HostUnit(name="postgres", kind="daemon", state="inactive")
    known = find_dependencies(rows("", gone), EscalationSubject(service="shop"), failing, errors)
    assert (known[0].service, known[0].at, known[0].down) == ("postgres", "5432", True)
    assert is_named(known[0], errors)


def test_a_replica_without_a_master_does_not_fail_because_of_others() -> None:
    process = "process=7\t1\tS\t9\tinit\tredis-server\tredis-server\n"
    redis = EscalationSubject(service="redis", kind="redis", ports=(6379,))
    assert not has_own_cause(rows(process), redis)
    assert has_own_cause(rows(process), structs.replace(redis, replica=True))


@pytest.mark.anyio
@pytest.mark.parametrize("down", [True, False])
async def test_a_listener_that_is_not_visible_without_root_is_not_shown_as_a_fault(
    tmp_path: Path, *, down: bool
) -> None:
    """A port where no process listens is shown."""
    host = Host(tmp_path)
    case = await host.open_incident()
    subject = EscalationSubject(service="web", kind="http", ports=(80,))

    def make(other: EscalationSubject) -> ServiceCollector:
        raise AssertionError("a service without a name was examined")

    async with host.context() as context:
        first = ServiceCollector(
            IncidentWork(context, case), context.execute_for_run("r"), (), subject
        )
        listens = "" if down else "yes"
        first.found = rows(
            f"process=7\t1\tS\t9\tinit\tweb\tweb\nneeds=8000\t/etc/web.conf\t{listens}\t\t"
        )
        found = await find_services_behind(first, make, {})
    texts = [each.text for service in found for each in service.lines()]
    expected = ["port 8000 (named in /etc/web.conf): nobody listens there"] if down else []
    assert texts == expected
