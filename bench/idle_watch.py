"""What a watch costs on an idle host: CPU of its whole process tree, and memory.

`python bench/idle_watch.py [--seconds 60] [--sign-after 30]` starts nginx, redis and a small Python
API as plain daemons on loopback ports, writes 40 probes about them, runs a real `hermes watch` as a
process and prints a table. CPU is the time of the process and of every child it has waited for,
from `/proc/PID/stat`. Memory is the largest of all samples of the tree: its proportional set size,
and what it would be if no other process of the host mapped the same libraries. Samples are taken
every few seconds, and more often while the watch has other children than usual. Those in which a
checkpoint is signed, by a process that runs for a tenth of a second, are a row of their own, and so
are those in which a fork of the watch decides on its probes, and in which the state of the host is
recorded, by a process that runs for some seconds and has its own budget (at most 0.4 % of a core).
The measurement begins after the first recording.

With `--up` it is `hermes up`: the watch with 40 probes, the schedule with its built-in jobs, the
API and the dashboard, all of whose pages were looked at once, so that they are loaded.

The first checkpoint is signed after ten minutes, or after `--sign-after` seconds. The last row has
the events of the journal: a watch that has opened incidents was not idle. Nor is one that another
program connects to, which loads the HTTP server (6 MB): on a machine with other watches, which
probe all ports, run `unshare -n sh -c "ip link set lo up && python bench/idle_watch.py"` as root.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import httpx2 as httpx

import hermes
from hermes.web.pages import NAVIGATION

LIMITS = {"cpu_percent": 1.0, "unshared_memory_mb": 60.0}
LIMITS_OF_ALL = {"cpu_percent": 1.5, "unshared_memory_mb": 120.0}
"""Half a percent beyond the watch."""
START_TIMEOUT_S = 300.0
WARM_UP_S, SAMPLE_S, CHILDREN_CHECK_S = 20.0, 5.0, 0.03
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
RECORDING_MARK = b"--for-watch"
WORK = {"signing": b"serve_signatures", "recording": RECORDING_MARK}
"""Processes that are there for a moment, by what is in their command line."""
PROGRAM = """
import sys
from hermes.app.journal import upkeep
from hermes.cli.main import main
upkeep.MAX_UNSIGNED_S = float(sys.argv.pop(1))
sys.exit(main())
"""
NGINX = """\
daemon off; pid {at}/nginx.pid; error_log {at}/error.log;
events {{ worker_connections 64; }}
http {{ access_log {at}/access.log; client_body_temp_path {at}/b; proxy_temp_path {at}/p;
  fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 "well\\n"; }} }} }}
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def running(argv: list[str], **more: object) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, **more)  # type: ignore[call-overload]
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(30)


def probes(folder: Path, nginx: int, redis: int, api: int) -> list[dict[str, object]]:
    """40, in the mixture that discovery proposes for such a host."""
    found: list[dict[str, object]] = [
        {"name": "cpu", "kind": "cpu", "fails": 4, "limit": 101},
        {"name": "load", "kind": "load", "fails": 4, "limit": 1000},
        {"name": "memory", "kind": "memory", "limit": 101},
        {"name": "processes", "kind": "processes", "interval": 60},
        {"name": "zombies", "kind": "zombies", "interval": 60, "limit": 10000},
    ]
    for path in ("/", "/tmp", "/var", "/etc"):
        name = path.strip("/") or "root"
        found.append({"name": f"disk-{name}", "kind": "disk", "what": path, "limit": 101})
        found.append({"name": f"inodes-{name}", "kind": "inodes", "what": path, "interval": 60})
    for name, port in (("nginx", nginx), ("redis", redis), ("api", api)):
        for number in range(4):
            found.append(
                {
                    "name": f"port-{name}-{number}",
                    "kind": "port",
                    "what": str(port),
                    "service": name,
                }
            )
    for name, port in (("nginx", nginx), ("api", api)):
        for path in ("", "health", "items"):
            url = f"http://127.0.0.1:{port}/{path}"
            found.append(
                {
                    "name": f"http-{name}-{path or 'root'}",
                    "kind": "http",
                    "what": url,
                    "service": name,
                }
            )
    found.append({"name": "redis", "kind": "redis", "what": str(redis), "service": "redis"})
    for name in ("access", "error", "api", "redis"):
        log = folder / f"{name}.log"
        log.touch()
        found.append({"name": f"log-{name}", "kind": "log", "what": str(log), "baseline": True})
    found.append(
        {"name": "answers-nginx", "kind": "answers", "what": str(folder / "access.log"),
         "service": "nginx"}
    )  # fmt: skip
    for path in ("/etc/passwd", "/etc/hosts", "/etc/hostname"):
        found.append(
            {"name": f"own-{Path(path).name}", "kind": "command", "what": f"test -e {path}"}
        )
    assert len(found) == 40, len(found)
    # Other work on this machine may delay the services; the cost of an idle watch is measured.
    return [{"timeout": 10, **each, "fails": 9} for each in found]


def tree(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(stat[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += parents.get(one, [])
    return found


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Of the process alone, and of the children it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return own / TICKS_PER_S, children / TICKS_PER_S


class MemorySample:
    """The memory of a process and its descendants, in MB."""

    def __init__(self, pid: int) -> None:
        self.work = ""
        """What a child does that is there for a moment only."""
        proportional, unshared, own_files, first = 0, 0, set[str](), b""
        for one in tree(pid):
            try:
                files = mapped_files(one)
                text = Path(f"/proc/{one}/smaps_rollup").read_text()
                command = Path(f"/proc/{one}/cmdline").read_bytes()
            except OSError:
                continue
            first = first or command
            marks = {**WORK, "deciding": first} if one != pid else WORK
            self.work = next((name for name, mark in marks.items() if mark in command), self.work)
            own_files = own_files or set(files)
            kb = {words[0]: int(words[1]) for words in map(str.split, text.splitlines()[1:])}
            proportional += kb["Pss:"]
            # A library that the first process maps as well is counted there.
            more = sum(size for path, size in files.items() if one == pid or path not in own_files)
            unshared += kb["Pss_Anon:"] + more
        self.proportional, self.unshared = proportional / 1024, unshared / 1024


def mapped_files(pid: int) -> dict[str, int]:
    """The KB of each mapped file that are in memory and were not changed."""
    found: dict[str, int] = {}
    path = ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *words = line.split()
        if not first.endswith(":"):
            path = words[4] if len(words) > 4 else ""
        elif path and first in ("Rss:", "Anonymous:"):
            found[path] = found.get(path, 0) + (1 if first == "Rss:" else -1) * int(words[0])
    return found


def children(pid: int) -> set[str]:
    found = set[str]()
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found.update(file.read_text().split())
    return found


def samples(pid: int, seconds: float) -> Iterator[MemorySample]:
    usual, due, end = set[str](), 0.0, time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        if now >= due:
            usual, due = children(pid), now + SAMPLE_S
            yield MemorySample(pid)
        elif not children(pid) <= usual:
            yield MemorySample(pid)
        time.sleep(CHILDREN_CHECK_S)


def wait_until_started(journal: Path) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end:
        with suppress(sqlite3.Error):  # there is no journal yet
            if count_events(journal, "watch.started"):
                return
        time.sleep(1)
    raise TimeoutError(f"the watch did not start within {START_TIMEOUT_S:g} s")


def measure(pid: int, seconds: float) -> dict[str, float]:
    time.sleep(WARM_UP_S)
    own, own_children = cpu_seconds(pid)
    names = (*WORK, "deciding")
    began, proportional, unshared = time.monotonic(), 0.0, dict.fromkeys(("", *names), 0.0)
    for sample in samples(pid, seconds):
        unshared[sample.work] = max(unshared[sample.work], sample.unshared)
        if not sample.work:
            proportional = max(proportional, sample.proportional)
    took = time.monotonic() - began
    own_after, children_after = cpu_seconds(pid)
    spent = (own_after - own, children_after - own_children)
    return {
        "process_cpu_percent": 100 * spent[0] / took,
        "children_cpu_percent": 100 * spent[1] / took,
        "cpu_percent": 100 * sum(spent) / took,
        "memory_mb": proportional,
        "unshared_memory_mb": unshared[""],
        **{f"{name}_memory_mb": unshared[name] for name in names},
        "last_memory_mb": MemorySample(pid).unshared,
        "seconds": took,
    }


def count_events(journal: Path, kind: str) -> int:
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as database:
        found = database.execute("SELECT count(*) FROM event WHERE kind = ?", (kind,)).fetchone()
    return int(found[0])


def watch(folder: Path, extra: list[str], sign_after_s: float) -> tuple[list[str], dict[str, str]]:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "HERMES_HOME": str(folder / "home"),
        "PYTHONPATH": str(Path(hermes.__file__).resolve().parents[1]),
    }
    program = ["-m", "hermes.cli"] if not sign_after_s else ["-c", PROGRAM, str(sign_after_s)]
    return [sys.executable, *program, *extra], env


def wait_for_first_recording(pid: int) -> None:
    """Until the process that records the state of the host has come and gone."""
    seen, end = False, time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end:
        found = False
        for one in tree(pid):
            with suppress(OSError):
                found |= RECORDING_MARK in Path(f"/proc/{one}/cmdline").read_bytes()
        if seen and not found:
            return
        seen |= found
        time.sleep(CHILDREN_CHECK_S)


def use_dashboard(address: str, folder: Path, env: dict[str, str]) -> None:
    """Log in as a browser does, and look at every page once."""
    command = [sys.executable, "-m", "hermes.cli", "web", "login", "--as", "alice"]
    told = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=True)
    code = told.stdout.partition("code=")[2].split()[0]
    with httpx.Client(base_url=address, headers={"origin": address}, timeout=60) as client:
        answer = client.post("/login", data={"code": code})
        cookie = answer.headers["set-cookie"].partition(";")[0]
        for each in NAVIGATION:
            client.get(each.path, headers={"cookie": cookie}).raise_for_status()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--discover", action="store_true", help="with the probes that it finds")
    parser.add_argument("--up", action="store_true", help="hermes up: everything in one process")
    parser.add_argument("--no-listen", action="store_true", help="without the alert receiver")
    parser.add_argument("--sign-after", type=float, default=0.0, help="not after ten minutes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="idle-watch-") as name, ExitStack() as stack:
        folder = Path(name)
        ports = nginx, redis, api = free_port(), free_port(), free_port()
        (folder / "home").mkdir()
        port = free_port()
        (folder / "home/config.yaml").write_text(f"web:\n  port: {port}\n")
        (folder / "nginx.conf").write_text(NGINX.format(at=folder, port=nginx))
        listed = probes(folder, *ports)
        if not given.discover:
            (folder / "home/probes.yaml").write_text(json.dumps({"probes": listed}))
        (folder / "www").mkdir()
        (folder / "www/health").write_text("well")
        (folder / "www/items").write_text("[]")
        services = [
            ["nginx", "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")],
            ["redis-server", "--port", str(redis), "--bind", "127.0.0.1", "--save", ""],
            [sys.executable, "-m", "http.server", str(api), "--bind", "127.0.0.1"],
        ]
        for argv in services:
            if shutil.which(argv[0]) is None:
                print(f"{argv[0]} is not installed")
                return 2
            stack.enter_context(running(argv, cwd=folder / "www"))
        command = ["up"] if given.up else ["watch"]
        more = [*command, "--model", "none", *(["--no-listen"] if given.no_listen else [])]
        argv, env = watch(folder, more, given.sign_after)
        child = stack.enter_context(running(argv, env=env, cwd=folder))
        journal = folder / "home/journal.db"
        wait_until_started(journal)
        if given.up:
            use_dashboard(f"http://127.0.0.1:{port}", folder, env)
        wait_for_first_recording(child.pid)
        found = measure(child.pid, given.seconds)
        events = [count_events(journal, kind) for kind in ("audit.signed", "incident.opened")]
    what = "the probes that were found" if given.discover else f"{len(listed)} probes"
    print(f"{hermes.__file__}: {what}, {found['seconds']:.0f} s, load {os.getloadavg()[0]:.1f}")
    limits = LIMITS_OF_ALL if given.up else LIMITS
    print_table(found, limits)
    print("  {} checkpoints signed, {} incidents opened".format(*events))
    return 0 if all(found[key] <= limit for key, limit in limits.items()) else 1


def print_table(found: dict[str, float], limits: dict[str, float]) -> None:
    for key, value in found.items():
        limit = f"   at most {limits[key]:g}" if key in limits else ""
        print(f"  {key:22} {value:7.2f}{limit}")


if __name__ == "__main__":
    sys.exit(main())
