"""Real monitors on loopback with a rhythm of one second, for tests that want to be alarmed."""

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

PROGRAMS = ("prometheus", "prometheus-alertmanager", "prometheus-node-exporter")
MISSING = [name for name in PROGRAMS if not shutil.which(name)]
TOKEN = "a-token-of-the-tests"
LOCAL = "127.0.0.1"

PROMETHEUS = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [rules.yaml]
alerting:
  alertmanagers:
    - static_configs: [{{targets: ["127.0.0.1:{alertmanager}"]}}]
scrape_configs:
  - job_name: host
    static_configs: [{{targets: ["127.0.0.1:{exporter}"]}}]
"""
RULES = """
groups:
  - name: shop
    rules:
      - alert: QueueStuck
        expr: shop_queue_length > 100
        labels: {severity: critical, service: shop}
        annotations:
          summary: "queue {{ $labels.queue }} is stuck"
          description: "{{ $value }} orders wait"
"""
ALERTMANAGER = """
route: {{receiver: hermes, group_by: [alertname], group_wait: 0s, group_interval: 1s,
         repeat_interval: 1h}}
receivers:
  - name: hermes
    webhook_configs:
      - url: http://127.0.0.1:{receiver}/alerts
        send_resolved: true
        http_config: {{authorization: {{type: Bearer, credentials: {token}}}}}
"""


@dataclass(frozen=True)
class Monitors:
    prometheus: str
    alertmanager: str
    receiver: int
    """The port on which Alertmanager expects us."""
    folder: Path

    def measure(self, **queues: int) -> None:
        """What the node exporter will say from now on."""
        lines = [f'shop_queue_length{{queue="{name}"}} {size}' for name, size in queues.items()]
        fresh = self.folder / "metrics" / "shop.fresh"
        fresh.write_text("# TYPE shop_queue_length gauge\n" + "\n".join(lines) + "\n")
        fresh.replace(fresh.with_suffix(".prom"))

    def known_to_alertmanager(self) -> dict[str, str]:
        """Queues that it holds, with the fingerprint of each alert."""
        found = fetch(f"{self.alertmanager}/api/v2/alerts")
        return {each["labels"]["queue"]: each["fingerprint"] for each in found}


@contextmanager
def monitors(folder: Path) -> Iterator[Monitors]:
    ports = dict(zip(("prometheus", "alertmanager", "exporter", "receiver"), free(4), strict=True))
    (folder / "metrics").mkdir()
    (folder / "prometheus.yaml").write_text(PROMETHEUS.format(**ports))
    (folder / "rules.yaml").write_text(RULES)
    (folder / "alertmanager.yaml").write_text(ALERTMANAGER.format(token=TOKEN, **ports))
    address = {name: f"{LOCAL}:{port}" for name, port in ports.items()}
    made = Monitors(
        f"http://{address['prometheus']}",
        f"http://{address['alertmanager']}",
        ports["receiver"],
        folder,
    )
    made.measure(orders=0)
    commands = [
        [
            "prometheus-node-exporter",
            f"--web.listen-address={address['exporter']}",
            "--collector.disable-defaults",
            "--collector.textfile",
            f"--collector.textfile.directory={folder / 'metrics'}",
        ],
        [
            "prometheus-alertmanager",
            f"--config.file={folder / 'alertmanager.yaml'}",
            f"--storage.path={folder / 'am'}",
            f"--web.listen-address={address['alertmanager']}",
            "--cluster.listen-address=",
        ],
        [
            "prometheus",
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={address['prometheus']}",
        ],
    ]
    with ExitStack() as stack:
        for command in commands:
            stack.enter_context(running(command, folder / f"{command[0]}.log"))
        for base in (made.prometheus, made.alertmanager):
            until(partial(answers, f"{base}/-/ready"), folder)
        yield made


@contextmanager
def running(command: list[str], log: Path) -> Iterator[int]:
    with log.open("wb") as out:
        child = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()


@contextmanager
def held(journal: Path) -> Iterator[None]:
    """Somebody else writes and writes. In another process: locks do not count within one."""
    code = (
        "import sqlite3, sys; other = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "other.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(journal)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"held\n"
        yield
        child.kill()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as reply:
        return json.load(reply)


def until(holds: Callable[[], bool], folder: Path, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            logs = "\n".join(path.read_text()[-1500:] for path in folder.glob("*.log"))
            raise AssertionError(f"not so after {seconds} seconds\n{logs}")
        time.sleep(0.05)


def free(count: int) -> list[int]:
    held = [socket.create_server((LOCAL, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
