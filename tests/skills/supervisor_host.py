"""A host in namespaces with its own processes, /run, /var/log and configuration of supervisors."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType

import pytest

INIT = r"""
set -e
mount --make-rprivate /
mount -t proc proc /proc
for folder in /run /var/log /srv /etc/supervisor /etc/service; do
  [ -d "$folder" ] && mount -t tmpfs tmpfs "$folder"
done
mkdir -p /var/log/supervisor
touch /run/host-is-up
exec sleep infinity
"""
SUPERVISORD_FILE = "/etc/supervisor/supervisord.conf"
# The host has a /run and a /var/log of its own, but not a current folder and a /tmp.
SUPERVISORD = """
[unix_http_server]
file=/run/supervisor.sock
[supervisord]
pidfile=/run/supervisord.pid
logfile=/var/log/supervisor/supervisord.log
childlogdir=/var/log/supervisor
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix:///run/supervisor.sock
"""
START_TIMEOUT_S = 120.0

needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare"
)
needs_supervisord = pytest.mark.skipif(
    not shutil.which("supervisord"), reason="supervisor is not installed"
)


class SupervisorHost:
    def __enter__(self) -> "SupervisorHost":
        unshare = ["unshare", "-m", "-p", "-n", "--fork", "--kill-child", "bash", "-c", INIT]
        self._process = subprocess.Popen(unshare)
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            found = children.read_text().split()
            if found and Path("/proc", found[0], "root", "run/host-is-up").exists():
                self._pid = found[0]
                return self
            time.sleep(0.05)
        raise TimeoutError("the host did not start")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()

    def path(self, inside: str) -> Path:
        return Path(f"/proc/{self._pid}/root{inside}")

    def run(self, script: str) -> str:
        return self.run_with_code(script)[0]

    def run_with_code(self, script: str) -> tuple[str, int]:
        enter = ["nsenter", "-t", self._pid, "-m", "-p", "-n", "-r", "-w", "bash", "-c", script]
        done = subprocess.run(
            enter, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
        )
        return done.stdout, done.returncode

    def start_supervisord(self, programs: str) -> None:
        self.path(SUPERVISORD_FILE).write_text(SUPERVISORD + programs)
        self.run(f"supervisord -c {SUPERVISORD_FILE}")

    async def execute(self, script: str) -> str:
        """Runs a script of the listing."""
        return self.run(script)
