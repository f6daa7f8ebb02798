"""A watch on which nothing happens stays small, also after it has looked for new services."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import hermes

MAX_UNSHARED_MB = 42
"""35 are usual; another program that connects to the watch costs 6."""
TIMEOUT_S = 300.0
MARK = "loaded at the end: "
PROGRAM = f"""
import atexit, runpy, sys
atexit.register(lambda: sys.stderr.write("{MARK}" + " ".join(sys.modules)))
runpy.run_module("hermes.cli", run_name="__main__", alter_sys=True)
"""
PROBES = """\
probes:
  - {name: disk, kind: disk, what: /, limit: 101}
  - {name: own, kind: command, what: test -e /etc/passwd}
"""


def lasting_port() -> int:
    """A free port below those that the kernel assigns: its service is remembered at once."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)):
                return port


def unshared_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous")) / 1024


def test_a_watch_gives_back_what_its_start_needed_and_does_not_watch_itself(
    tmp_path: Path,
) -> None:
    home, port = tmp_path / "home", lasting_port()
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(f"web:\n  port: {port}\ndeclared:\n  record: false\n")
    (home / "probes.yaml").write_text(PROBES)
    variables = {
        "HERMES_HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(hermes.__file__).resolve().parents[1]),
    }
    command = [sys.executable, "-c", PROGRAM, "watch", "--model", "none"]
    with subprocess.Popen(
        command, env=variables, cwd="/", stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as watch:
        try:
            known = home / "services.json"
            end = time.monotonic() + TIMEOUT_S
            while not known.exists() and time.monotonic() < end:
                time.sleep(0.2)
            services = json.loads(known.read_text())
            time.sleep(1)
            used = unshared_mb(watch.pid)
        finally:
            watch.send_signal(signal.SIGTERM)
        _, errors = watch.communicate(timeout=TIMEOUT_S)
    assert f":{port}/alerts" in errors
    assert str(port) not in json.dumps(services)
    loaded = errors.partition(MARK)[2].split()
    assert "hermes.app.watch" in loaded
    # The rules and the parser of commands, which a child process loads; tables of HTML.
    assert not {"hermes.policy.decide", "tree_sitter_bash", "html.entities"} & set(loaded)
    assert used <= MAX_UNSHARED_MB
