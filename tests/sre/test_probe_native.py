"""Probes of this host without a shell: the same verdict as in a shell, and no process started."""

import itertools
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from probe_house import PATH, Pages, eventually, free_port, this_host, web_server

from hermes.core.protocols import CommandResult
from hermes.environments.local import LocalEnvironment
from hermes.sre.probes.evaluation import judge_probe
from hermes.sre.probes.kinds.native_services import RESTART_QUIET_S, ListenerHistory
from hermes.sre.probes.native import TIMEOUT_EXIT_CODE, NativeProbes, _cpu_times
from hermes.sre.probes.probe import Probe, ProbeKind
from hermes.sre.probes.probe_runner import ProbeResult, run_probes
from hermes.sre.settings import ProbeSettings

pytestmark = pytest.mark.anyio


class OtherHost(LocalEnvironment):
    """This host under another name, so that every probe goes through the shell."""

    name = "elsewhere"


class NoShell(LocalEnvironment):
    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        raise AssertionError(f"a shell was started: {command[:200]}")


async def both(folder: Path, probe: Probe, keep: str = "") -> tuple[ProbeResult, ProbeResult]:
    """The reading without a shell, and the one in a shell."""
    before = {probe.name: keep}
    async with NoShell(folder, {"PATH": PATH}) as here:
        native = (await run_probes(here, [probe], before))[probe.name]
    async with OtherHost(folder, {"PATH": PATH}) as there:
        shell = (await run_probes(there, [probe], before))[probe.name]
    return native, shell


async def states(folder: Path, probe: Probe, keep: str = "") -> str:
    native, shell = await both(folder, probe, keep)
    one, other = (judge_probe(probe, each, (), ProbeSettings()) for each in (native, shell))
    assert one.state == other.state, (one, other)
    assert (one.value is None) == (other.value is None), (one, other)
    return one.state


@pytest.mark.parametrize("kind", ["cpu", "load", "memory", "processes", "zombies"])
@pytest.mark.parametrize(("limit", "state"), [(-1.0, "failing"), (1e6, "fine")])
async def test_the_host_is_judged_alike(
    tmp_path: Path, kind: ProbeKind, limit: float, state: str
) -> None:
    assert await states(tmp_path, Probe(name="host", kind=kind, limit=limit)) == state


@pytest.mark.parametrize("kind", ["disk", "inodes"])
async def test_a_file_system_has_the_same_figures(tmp_path: Path, kind: ProbeKind) -> None:
    native, shell = await both(tmp_path, Probe(name="d", kind=kind, what="/dev/shm", limit=101))
    assert native.value == shell.value
    missing = Probe(name="d", kind=kind, what=str(tmp_path / "no such folder"))
    assert await states(tmp_path, missing) == "failing"


@pytest.mark.parametrize("kind", ["disk", "inodes", "processes"])
async def test_without_a_limit_of_its_own_the_usual_one_holds(
    tmp_path: Path, kind: ProbeKind
) -> None:
    what = "" if kind == "processes" else "/dev/shm"
    native, shell = await both(tmp_path, Probe(name="d", kind=kind, what=what))
    assert (native.code, native.keep) == (shell.code, shell.keep)


@pytest.mark.parametrize("kind", ["disk", "inodes"])
async def test_a_file_system_that_was_unmounted_is_the_same_question(
    tmp_path: Path, kind: ProbeKind
) -> None:
    native, shell = await both(tmp_path, Probe(name="d", kind=kind, what=str(tmp_path)), "mounted")
    assert (native.code, native.text, native.keep) == (shell.code, shell.text, shell.keep)
    assert "is not mounted any more" in native.text


@contextmanager
def restarted_every(seconds: float) -> Iterator[int]:
    """A port whose listener is replaced again and again, and that nearly always answers."""
    port, ended, begun = free_port(), threading.Event(), threading.Event()

    def listen() -> None:
        while not ended.is_set():
            with socket.create_server(("127.0.0.1", port)):
                begun.set()
                ended.wait(seconds)

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        assert begun.wait(120)
        yield port
    finally:
        ended.set()
        thread.join()


async def port_reading(folder: Path, port: int, keep: str) -> ProbeResult:
    probe = Probe(name="p", kind="port", what=str(port))
    async with NoShell(folder, {"PATH": PATH}) as here:
        return (await run_probes(here, [probe], {"p": keep}))["p"]


async def test_a_service_that_restarts_in_a_loop_is_failing_while_its_port_answers(
    tmp_path: Path,
) -> None:
    with restarted_every(0.2) as port:
        reading = await port_reading(tmp_path, port, "")
        with anyio.fail_after(120):
            while "was replaced" not in reading.text:  # between two listeners nobody answers
                await anyio.sleep(0.3)
                reading = await port_reading(tmp_path, port, reading.keep)
        assert reading.code == 1 and "within 60 s" in reading.text
    with restarted_every(60.0) as port:  # one restart is none
        again = await port_reading(tmp_path, port, f"1;{time.time() - 30:.1f}")
        assert (again.code, again.text) == (0, f"127.0.0.1:{port} takes connections")


def test_a_loop_is_over_when_no_restart_follows() -> None:
    history = ListenerHistory()
    for at in (0.0, 5.0, 10.0, 15.0, 20.0):
        history = history.with_sockets(f"socket-{at}", at)
    assert len(history.changes) == 4 and history.is_loop(21.0)
    assert not history.is_loop(20.0 + RESTART_QUIET_S)
    assert ListenerHistory.read(history.text()) == history
    assert ListenerHistory.read("something else;x") == ListenerHistory()
    assert history.with_sockets("socket-20.0", 100.0).changes == ()


async def test_a_port_is_judged_alike(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        probe = Probe(name="p", kind="port", what=str(server.getsockname()[1]))
        assert await states(tmp_path, probe) == "fine"
    assert await states(tmp_path, probe) == "failing"


@pytest.mark.parametrize(
    ("more", "status", "state"),
    [
        ({}, 200, "fine"),
        ({}, 404, "fine"),
        ({}, 503, "failing"),
        ({"status": "2xx"}, 404, "failing"),
        ({"status": "<400,404"}, 404, "fine"),
        ({"contains": "is well"}, 200, "fine"),
        ({"contains": "is broken"}, 200, "failing"),
        ({"limit": 0.0}, 200, "failing"),
    ],
)
async def test_a_page_is_judged_alike(
    tmp_path: Path, more: dict[str, str], status: int, state: str
) -> None:
    pages = Pages()
    pages.status = status
    with web_server(pages) as port:
        url = f"http://127.0.0.1:{port}/items?all=1"
        probe = Probe(name="p", kind="http", what=url, **more)  # type: ignore[arg-type]
        assert await states(tmp_path, probe) == state
    assert pages.asked == ["/items?all=1"] * 2


async def test_a_page_in_chunks_and_one_without_a_length_are_read_whole(tmp_path: Path) -> None:
    answers = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"4\r\nall \r\n7\r\nis well\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nall is well",
    )
    for answer in answers:
        with one_answer(answer) as port:
            url = f"http://127.0.0.1:{port}/"
            probe = Probe(name="p", kind="http", what=url, contains="all is well")
            assert await states(tmp_path, probe) == "fine"


async def test_what_does_not_speak_http_is_no_answer(tmp_path: Path) -> None:
    with one_answer(b"220 mail.example ESMTP\r\n\r\n") as port:
        probe = Probe(name="p", kind="http", what=f"http://127.0.0.1:{port}/")
        async with NoShell(tmp_path, {"PATH": PATH}) as here:
            found = await run_probes(here, [probe])
    assert found["p"].code == 1
    assert "HTTP" in found["p"].text


async def test_a_page_that_hangs_has_timed_out(tmp_path: Path) -> None:
    pages = Pages()
    pages.gate.clear()
    with web_server(pages) as port:
        probe = Probe(name="p", kind="http", what=f"http://127.0.0.1:{port}/", timeout=0.3)
        async with NoShell(tmp_path, {"PATH": PATH}) as here:
            found = await run_probes(here, [probe])
    assert found["p"].timed_out


@contextmanager
def one_answer(data: bytes) -> Iterator[int]:
    """Answers every connection with these bytes."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                one, _ = server.accept()
            except OSError:
                return
            with one:
                one.recv(4096)
                one.sendall(data)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis is not installed")
async def test_a_redis_is_judged_alike_also_when_full_locked_or_gone(tmp_path: Path) -> None:
    port = free_port()
    probe = Probe(name="r", kind="redis", what=str(port))
    with redis(port):
        assert await states(tmp_path, probe) == "fine"
    assert await states(tmp_path, probe) == "failing"
    with redis(port, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction"):
        full = Probe(name="r", kind="redis", what=str(port), limit=1)
        assert await states(tmp_path, full) == "failing"
    with redis(port, "--requirepass", "geheim"):
        assert await states(tmp_path, probe) == "fine"
    with redis(port, "--replicaof", "127.0.0.1", str(free_port())):
        assert await states(tmp_path, probe) == "failing"


@contextmanager
def redis(port: int, *more: str) -> Iterator[None]:
    argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", *more]
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield
    finally:
        child.terminate()
        child.wait(120)


async def test_a_port_that_is_no_postgres_does_not_accept_connections(tmp_path: Path) -> None:
    probe = Probe(name="db", kind="postgres", what=str(free_port()))
    async with NoShell(tmp_path, {"PATH": PATH}) as here:
        assert (await run_probes(here, [probe]))["db"].code == 2
        for answer, code in (
            (b"R\0\0\0\x08\0\0\0\0", 0),
            (b"E\0\0\0\x40SFATAL\0C57P03\0Mthe database system is starting up\0\0", 1),
            (b"E\0\0\0\x40SFATAL\0C53300\0Msorry, too many clients already\0\0", 1),
            (b"E\0\0\0\x40SFATAL\0C28000\0Mrole does not exist\0\0", 0),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", 1),
        ):
            with one_answer(answer) as port:
                asked = Probe(name="db", kind="postgres", what=str(port))
                assert (await run_probes(here, [asked]))["db"].code == code, answer


@pytest.mark.parametrize(
    ("text", "state"),
    [("INFO all is well\n" * 50, "fine"), ("ERROR it broke\n" * 50, "failing"), ("", "fine")],
)
async def test_new_lines_of_a_log_are_judged_alike(tmp_path: Path, text: str, state: str) -> None:
    log = tmp_path / "app.log"
    log.write_text("ERROR old\n" * 100)
    before = f"{log.stat().st_ino}:{log.stat().st_size}:{int(time.time()) - 60}"
    with log.open("a") as file:
        file.write(text)
    probe = Probe(name="l", kind="log", what=str(log))
    assert await states(tmp_path, probe, before) == state
    native, shell = await both(tmp_path, probe, before)
    assert native.keep.split(":")[:2] == shell.keep.split(":")[:2]


async def test_a_log_that_was_rotated_is_read_to_its_end_first(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("INFO\n")
    before = f"{log.stat().st_ino}:{log.stat().st_size}:{int(time.time()) - 60}"
    with log.open("a") as file:
        file.write("ERROR last words\n" * 20)
    log.rename(tmp_path / "app.log.1")
    log.write_text("INFO a new day\n")
    probe = Probe(name="l", kind="log", what=str(log))
    assert await states(tmp_path, probe, before) == "failing"


async def test_a_pattern_of_a_person_is_left_to_grep(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("")
    before = f"{log.stat().st_ino}:0:{int(time.time()) - 60}"
    log.write_text("payment 7 lost\n" * 30)
    probe = Probe(name="l", kind="log", what=str(log), pattern="payment [[:digit:]] lost")
    async with this_host(tmp_path) as here:
        assert (await run_probes(here, [probe], {"l": before}))["l"].code == 1


@pytest.mark.parametrize(("status", "state"), [(200, "fine"), (503, "failing"), (429, "failing")])
async def test_answers_in_a_log_are_judged_alike(tmp_path: Path, status: int, state: str) -> None:
    log = tmp_path / "access.log"
    line = '10.0.0.1 - - [15/Nov/2026:10:00:00] "GET /items?q=1 HTTP/1.1" {} 12 "-" "curl/8.5.0"\n'
    log.write_text(line.format(200) * 3 + line.format(status) * 3)
    probe = Probe(name="a", kind="answers", what=str(log))
    assert await states(tmp_path, probe) == state
    native, shell = await both(tmp_path, probe)
    assert native.value == shell.value


async def test_a_look_that_never_comes_back_holds_one_thread_only(tmp_path: Path) -> None:
    """A log that is a pipe nobody writes to stands for a mount that hangs."""

    pipe = tmp_path / "pipe.log"
    os.mkfifo(pipe)
    looks = NativeProbes()
    probe = Probe(name="a", kind="answers", what=str(pipe))
    for _ in range(3):
        assert (await looks.run(probe, "", 0.2))[0] == TIMEOUT_EXIT_CODE
    assert len(looks.stuck) == 1
    descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    os.close(descriptor)

    async def over() -> bool:
        return not looks.stuck

    await eventually(over)


NO_PROCESS = 4_194_305
"""Above the highest number that a process can have: it ended just now."""
SYSTEMCTL = """\
#!/bin/bash
echo x >> {count}
[ "$1" = show ] || exit 1
while [ "$1" != -- ]; do shift; done; shift
for unit; do
  case $unit in
    web*) state="loaded active running success 0" ;;
    flaps*) state="loaded active running success 7" ;;
    down*) state="loaded failed failed exit-code 0" ;;
    once*) state="loaded inactive dead success 0" ;;
    *) state="not-found inactive dead success 0" ;;
  esac
  set -- $state; [ -n "$first" ] && echo; first=no
  printf 'Id=%s\\nLoadState=%s\\nActiveState=%s\\nSubState=%s\\n' "$unit" "$1" "$2" "$3"
  printf 'Result=%s\\nNRestarts=%s\\nMainPID=%s\\n' "$4" "$5" "{pid}"
done
"""


async def test_units_are_judged_alike_and_asked_in_one_question(tmp_path: Path) -> None:
    """By a service manager of the test's own: this host may have none."""
    count, tools = tmp_path / "count", tmp_path / "bin"
    tools.mkdir()
    (tools / "systemctl").write_text(SYSTEMCTL.format(count=count, pid=NO_PROCESS))
    (tools / "systemctl").chmod(0o755)
    probes = [
        Probe(name=name, kind="unit", what=f"{name}.service", status=status)
        for name, status in (
            *(("web", ""), ("flaps", ""), ("down", ""), ("gone", "")),
            *(("once", "ended-well"), ("once-idle", "")),
        )
    ]
    variables = {"PATH": f"{tools}:{PATH}"}
    async with LocalEnvironment(tmp_path, variables) as here:
        native = await run_probes(here, probes)
    assert count.read_text().count("x") == 1
    async with OtherHost(tmp_path, variables) as there:
        shell = await run_probes(there, probes)
    assert {name: each.code for name, each in native.items()} == {
        "web": 0, "flaps": 1, "down": 1, "gone": 1, "once": 0, "once-idle": 1,
    }  # fmt: skip
    assert [each.code for each in native.values()] == [shell[name].code for name in native]
    assert [each.value for each in native.values()] == [shell[name].value for name in native]


async def run_against_a_silent_server(processor_wait: Callable[[], float]) -> tuple[int, float]:
    """The exit code of a probe with a timeout of 0.2 s, and how long it ran."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        probe = Probe(name="page", kind="http", what=f"http://127.0.0.1:{port}/")
        began = time.monotonic()
        code, *_ = await NativeProbes(processor_wait).run(probe, "", 0.2)
        return code, time.monotonic() - began


async def test_time_without_a_processor_is_not_counted_as_time_without_an_answer() -> None:
    waits = itertools.count()  # a second more at each call
    code, seconds = await run_against_a_silent_server(lambda: float(next(waits)))
    assert code == TIMEOUT_EXIT_CODE
    assert seconds >= 0.8  # four times the timeout, and then it ends


async def test_on_a_host_with_free_processors_the_timeout_is_exact() -> None:
    readings = itertools.repeat(0.0, 3)  # before, at the time-out, and after a timer that was early
    code, seconds = await run_against_a_silent_server(lambda: next(readings))
    assert code == TIMEOUT_EXIT_CODE
    assert seconds >= 0.2


async def test_the_port_probes_of_a_round_share_one_reading_of_the_sockets(tmp_path: Path) -> None:
    """On a host with much memory the kernel takes milliseconds to list them."""
    opened: list[str] = []
    counting = True

    def count(event: str, args: tuple[object, ...]) -> None:  # a hook cannot be removed
        if counting and event == "open" and args[0] == "/proc/net/tcp":
            opened.append(event)

    sys.addaudithook(count)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        probes = [Probe(name=f"port-{each}", kind="port", what=port) for each in range(12)]
        async with NoShell(tmp_path, {"PATH": PATH}) as here:
            found = await run_probes(here, probes, {})
    counting = False
    assert {each.code for each in found.values()} == {0}
    assert 1 <= len(opened) < len(probes) / 2
    assert all(each.keep.strip(";") for each in found.values())


async def test_values_of_the_kernel_are_read_without_a_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    probes = [Probe(name=kind, kind=kind) for kind in ("cpu", "load", "memory")]
    async with NoShell(tmp_path, {"PATH": PATH}) as here:
        found = await run_probes(here, probes, {})
    assert all(each.value is not None for each in found.values())
    assert set(threading.enumerate()) <= before


def test_work_of_low_priority_does_not_make_the_processors_busy() -> None:
    before, now = _cpu_times("cpu 10 0 10 100 0 0 0 0"), _cpu_times("cpu 10 900 10 200 0 0 0 0")
    assert now[0] - before[0] == now[1] - before[1] == 1000
