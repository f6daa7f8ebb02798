"""`hermes watch` and `hermes health` as processes: a port that nobody holds is told of."""

import ctypes
import json
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from hermes_command import Hermes

import hermes
from hermes.memory.journal.sqlite_journal import SqliteJournal

PROBES = """\
probes:
  - name: shop
    kind: port
    what: "{port}"
    interval: 1
    fails: 1
  - name: folder
    kind: command
    what: test -d /
  - name: greedy
    kind: command
    what: rm -rf /nowhere-at-all
"""


def watched(hermes: Hermes) -> None:
    """A port that was free a moment ago, so that nothing answers there."""
    hermes.home.mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (hermes.home / "probes.yaml").write_text(PROBES.format(port=port))


def test_health_by_hand_asks_every_probe_once_and_writes_it_down(hermes: Hermes) -> None:
    watched(hermes)
    done = hermes("health", "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 1
    assert said["failing"] == ["shop"]
    found = {each["probe"]: each["ok"] for each in said["probes"]}
    assert found == {"shop": False, "folder": True, "home-disk": True}
    assert "greedy" in said["refused"][0]
    plain = hermes("health", "--all")
    assert "2 of 3 fine, 1 failing, 0 unknown" in plain.stdout
    assert kinds(hermes).count("health.checked") == 2


@pytest.mark.parametrize(
    ("mode", "told"), [("observe", "nothing is changed"), ("suggest", "every change waits")]
)
def test_the_first_lines_of_a_watch_name_its_mode(hermes: Hermes, mode: str, told: str) -> None:
    hermes.home.mkdir()
    (hermes.home / "probes.yaml").write_text("probes: []\n")
    hermes("config", "set", "watch.mode", mode)
    done = hermes.process("watch", "--once", "--model", "none", "--no-listen")
    assert done.returncode == 0, done.stderr
    assert f"mode {mode}: {told}" in done.stdout


def test_a_watch_goes_on_without_the_port_that_another_program_has(hermes: Hermes) -> None:
    hermes.home.mkdir()
    (hermes.home / "probes.yaml").write_text("probes: []\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        hermes("config", "set", "web.port", str(taken.getsockname()[1]))
        done = hermes.process("watch", "--once", "--model", "none")
    assert done.returncode == 0, done.stderr
    assert "no alerts of other monitors are received: cannot listen" in done.stderr
    assert "on call" in done.stdout and "alerts are received at" not in done.stdout


def test_a_watch_leaves_the_port_of_a_known_service_to_it_while_that_is_down(
    hermes: Hermes,
) -> None:
    hermes.home.mkdir()
    (hermes.home / "probes.yaml").write_text("probes: []\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    seen = "2026-01-01T00:00:00Z"
    shop = {
        "name": "shop", "first_seen": seen, "last_seen": seen, "why": "it was seen running",
        "probes": [{"name": f"port-{port}", "kind": "port", "what": port}],
    }  # fmt: skip
    (hermes.home / "services.json").write_text(json.dumps({"local": {"services": {"shop": shop}}}))
    hermes("config", "set", "web.port", port)
    done = hermes.process("watch", "--once", "--model", "none")
    assert f"port {port} belongs to shop" in done.stderr
    assert "alerts are received at" not in done.stdout


def test_a_watch_tells_what_it_found_before_it_ends(hermes: Hermes) -> None:
    watched(hermes)
    command = [*hermes.command, "watch", "--model", "none", "--no-listen"]
    with subprocess.Popen(command, env=hermes.env, stdout=subprocess.PIPE, text=True) as child:
        wait_for(hermes.home / "notices.log", "INCIDENT ESCALATED")
        child.send_signal(signal.SIGINT)
        shown, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    lines = (hermes.home / "notices.log").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    assert [each["about"] for each in told] == ["declared", "escalated"]
    assert "no model: playbooks and checks only" in shown
    assert "🚨 P" in shown
    assert "INCIDENT DECLARED" in shown
    assert "INCIDENT ESCALATED" in shown
    found = kinds(hermes)
    assert found.count("notice.sent") == 4
    assert "health.checked" in found


def wait_for(file: Path, words: str) -> None:
    deadline = time.monotonic() + 240
    while not file.exists() or words not in file.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def kinds(hermes: Hermes) -> list[str]:
    async def read() -> list[str]:
        async with SqliteJournal.open(hermes.home / "journal.db") as journal:
            return [recorded.event.kind async for recorded in journal.read()]

    return anyio.run(read)


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis is not installed")
def test_a_redis_that_stopped_while_no_watch_ran_fails_health_and_is_an_incident(
    hermes: Hermes, tmp_path: Path
) -> None:
    hermes.home.mkdir(parents=True, exist_ok=True)
    # This one works below /tmp, and is expected all the same.
    (hermes.home / "config.yaml").write_text("sre: {probes: {temporary_folders: []}}\n")
    port = next(each for each in range(21_000, 29_000) if not answers(each))
    pid = tmp_path / "redis.pid"
    argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    argv += ["--daemonize", "yes", "--pidfile", str(pid), "--dir", str(tmp_path)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    wait_for(pid, "\n")
    names = (f"port-{port}", f"redis-{port}")
    well = {
        each["probe"]: each["ok"]
        for each in json.loads(hermes("health", "--json").stdout)["probes"]
    }
    assert [well[name] for name in names] == [True, True]
    subprocess.run(["kill", pid.read_text().strip()], check=True)
    while answers(port):
        time.sleep(0.02)
    done = hermes("health", "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 1
    assert set(names) <= set(said["failing"])
    assert list(said["missing"]) == ["redis-server"]
    assert "not running: redis-server, expected" in hermes("health").stdout
    command = [*hermes.command, "watch", "--model", "none", "--no-listen"]
    with subprocess.Popen(command, env=hermes.env, stdout=subprocess.PIPE, text=True) as child:
        wait_for(hermes.home / "notices.log", "redis-server: nothing answers")
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
    assert hermes("health", "forget", "redis-server").returncode == 0
    assert json.loads(hermes("health", "--json").stdout)["missing"] == {}
    assert hermes("health", "forget", "redis-server").returncode == 1


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


PR_CAPBSET_DROP, CAP_SYS_NICE = 24, 23


def give_up_priority() -> None:
    """Also root may not raise a priority without this capability."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0)


def test_the_start_names_a_priority_that_stays_and_a_key_without_effect(hermes: Hermes) -> None:
    hermes.home.mkdir(exist_ok=True)
    (hermes.home / "probes.yaml").write_text(
        "probes:\n  - name: folder\n    kind: command\n    what: test -d /\n    trigger: x\n"
    )
    done = subprocess.run(
        [*hermes.command, "watch", "--once", "--model", "none", "--no-listen"],
        env=hermes.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        preexec_fn=give_up_priority,
    )
    assert "this user may not raise the priority of the watch" in done.stderr
    assert "probes.yaml:5: note: trigger has no effect and can be removed" in done.stderr
    assert "on call: 2 probes" in done.stdout


def test_a_crash_of_the_process_says_where_each_thread_was() -> None:
    program = """
import os, resource, signal
from hermes.plumbing.long_running import print_crashes

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
print_crashes()

def call_library():
    os.kill(os.getpid(), signal.SIGSEGV)

call_library()
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(Path(hermes.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in run.stderr
    assert "in call_library" in run.stderr


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have one heap")
def test_all_threads_of_a_watch_share_one_heap() -> None:
    program = """
import ctypes, sys, threading
from hermes.plumbing.long_running import limit_heap

limit_heap()
started = threading.Barrier(8)

def hold_memory():
    held = bytes(3000)
    started.wait()

threads = [threading.Thread(target=hold_memory) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
ctypes.CDLL(None).malloc_stats()
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(Path(hermes.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stderr.count("Arena ") == 1
