"""Installs the service on a host in namespaces, cuts its power, and sees the watch come back.

usage: python bench/service_boot.py {systemd,supervisord,openrc} --packages FOLDER --wheels FOLDER

The host is this machine's own file system under an overlay, whose upper layer outlives the reboot;
`--hide` names folders that it does not have, such as a checkout. The home of root is empty there.
FOLDER has the Debian packages of the service manager (`apt-get download supervisor`, or `openrc
librc1 libeinfo1 insserv`; none for systemd, which this machine must have, with unified control
groups), and the wheel of Hermes with those of its dependencies (`pip download`). Needs root. Prints
a line with the seconds of each step, and exits with 1 when the watch does not come back. With
systemd, also lets the user of the service restart another service with sudo.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

OUTER_VARIABLE = "HERMES_SERVICE_BOOT_FOLDER"
PATIENCE_S = 300.0
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WATCH_PID_COMMANDS = {
    "systemd": "systemctl show -p MainPID --value hermes",
    "supervisord": "supervisorctl pid hermes",
    "openrc": "ps -o pid= --ppid $(cat /run/supervise-hermes.pid)",
}
NAMESPACE_OPTIONS = ("-m", "-p", "-n", "-u", "-i", "-C")
STARTED_FILES = {"systemd": "run/systemd/private"}
"""Exists when the box is up."""
INSTALL_COMMANDS = {
    "pip": "python3 -m venv /opt/hermes && /opt/hermes/bin/pip install -q --no-index "
    "--find-links /mnt/wheels hermes-oncall && ln -s /opt/hermes/bin/hermes /usr/local/bin/",
    "uv": "UV_TOOL_DIR=/opt/uv UV_TOOL_BIN_DIR=/usr/local/bin uv tool install -q --no-index "
    "--find-links /mnt/wheels hermes-oncall",
    "pipx": "PIPX_HOME=/opt/pipx PIPX_BIN_DIR=/usr/local/bin pipx install --pip-args "
    "'--no-index --find-links /mnt/wheels' hermes-oncall",
}
UPGRADE_COMMANDS = {
    "pip": "/opt/hermes/bin/pip install -q --no-index --find-links /mnt/wheels "
    "/mnt/wheels/newer/*.whl",
    "uv": "UV_TOOL_DIR=/opt/uv UV_TOOL_BIN_DIR=/usr/local/bin uv tool install -q --force "
    "--no-index --find-links /mnt/wheels /mnt/wheels/newer/*.whl",
    "pipx": "PIPX_HOME=/opt/pipx PIPX_BIN_DIR=/usr/local/bin pipx install --force --pip-args "
    "'--no-index --find-links /mnt/wheels' /mnt/wheels/newer/*.whl",
}
RESTART_AS_HERMES = r"""
set -e
printf '[Service]\nExecStart=/bin/sleep 1000\n' > /etc/systemd/system/web.service
systemctl daemon-reload; systemctl start web
hermes service install --sudo
before=$(systemctl show -p MainPID --value web)
runuser -u hermes -- /usr/local/lib/hermes/bin/sudo systemctl restart web
[ "$(systemctl show -p MainPID --value web)" != "$before" ]
! runuser -u hermes -- /usr/local/lib/hermes/bin/sudo systemctl stop web
systemctl is-active web
"""
INIT = r"""
set -e
mount --make-rprivate /
cd "$1"
mkdir -p upper work root packages wheels
mount -t overlay root -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" root
mkdir -p root/mnt/packages root/mnt/wheels root/mnt/old
mount --bind "$3" root/mnt/packages
mount --bind "$4" root/mnt/wheels
cd root
mount -t proc proc proc
mount --rbind /dev dev
if [ "$2" = systemd ]; then
  mount -t sysfs sysfs sys
  mount -t cgroup2 cgroup2 sys/fs/cgroup
else
  mount --rbind /sys sys
fi
for folder in run tmp root; do mount -t tmpfs tmpfs $folder; done
[ -z "$5" ] || mount -t tmpfs tmpfs ".$5"
chmod 1777 tmp
pivot_root . mnt/old
umount -l /mnt/old
hostname box
ip link set lo up
if [ ! -e /etc/box-has-packages ]; then
  for each in /mnt/packages/*.deb; do
    [ -e "$each" ] || continue
    dpkg-deb --fsys-tarfile "$each" | tar -x --keep-directory-symlink -C /
  done
  ldconfig
  mkdir -p /etc/runlevels/sysinit /etc/runlevels/boot /etc/runlevels/default /var/log/supervisor
  rm -f /etc/systemd/system/*.wants/*
  touch /etc/box-has-packages
fi
if [ "$2" = systemd ]; then
  echo 0123456789abcdef0123456789abcdef > /etc/machine-id
  export container=box
  exec /lib/systemd/systemd --system --unit=multi-user.target
fi
if [ "$2" = supervisord ]; then
  touch /run/box-is-up
  exec /usr/bin/supervisord -n -c /etc/supervisor/supervisord.conf
fi
for level in sysinit boot default; do openrc $level || true; done
touch /run/box-is-up
while :; do sleep 5; done  # not exec: the shell reaps daemons that ended
"""


class Box:
    """One boot of the host."""

    def __init__(self, folder: Path, given: argparse.Namespace) -> None:
        words = [str(folder), given.kind, str(given.packages), str(given.wheels), given.hide]
        self._log = (folder / "init.log").open("a")
        self._group = own_control_group() if given.kind == "systemd" else None
        enter = f"echo $$ > {self._group}/cgroup.procs; " if self._group else ""
        options = [*NAMESPACE_OPTIONS, "--fork", "--kill-child", "bash", "-c", INIT, "init"]
        self._unshare = subprocess.Popen(
            ["bash", "-c", f'{enter}exec unshare "$@"', "enter", *options, *words],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={"PATH": SEARCH_PATH},
        )
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children")
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self._unshare.poll() is None:
            found = children.read_text().split()
            started = STARTED_FILES.get(given.kind, "run/box-is-up")
            if found and Path("/proc", found[0], "root", started).exists():
                self.pid = found[0]
                return
            time.sleep(0.1)
        raise SystemExit(f"the box did not start: {(folder / 'init.log').read_text()[-2000:]}")

    def run(self, script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["nsenter", "-t", self.pid, *NAMESPACE_OPTIONS, "-r", "-w", "bash", "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={"PATH": SEARCH_PATH, "HOME": "/root", "LANG": "C.UTF-8"},
        )
        if check and done.returncode:
            raise SystemExit(f"{script}: {done.stdout}{done.stderr}")
        return done

    def wait_for_watch(self) -> float:
        """Seconds until the service runs and its watch holds the lock."""
        began = time.monotonic()
        while time.monotonic() < began + PATIENCE_S:
            state = json.loads(self.run("hermes service status --json", check=False).stdout)
            if state["running"] and state["watching"]:
                return time.monotonic() - began
            time.sleep(1)
        logs = self.run("hermes service logs", check=False)
        raise SystemExit(f"the watch does not run: {state} {logs.stdout}{logs.stderr}")

    def cut_power(self) -> None:
        self._unshare.kill()
        self._unshare.wait()
        if self._group is None:
            return
        deadline = time.monotonic() + PATIENCE_S
        while self._group.exists() and time.monotonic() < deadline:
            for folder, _, _ in os.walk(self._group, topdown=False):
                with suppress(OSError):  # a process in it has not ended yet
                    Path(folder).rmdir()
            time.sleep(0.1)


def own_control_group() -> Path:
    """systemd takes the group in which it starts for the root of all."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            made = Path(place, f"hermes-boot-{os.getpid()}-{time.monotonic_ns()}")
            made.mkdir()
            return made
    raise SystemExit("there are no unified control groups")


def timed(box: Box, what: str, command: str) -> None:
    began = time.monotonic()
    printed = box.run(command).stdout
    print(f"{what}: {time.monotonic() - began:.1f} s\n{printed}", end="", flush=True)


def show(folder: Path, given: argparse.Namespace) -> None:
    kind, box = given.kind, Box(folder, given)
    print(f"load: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)
    began = time.monotonic()
    timed(box, f"installed by {given.installer}", INSTALL_COMMANDS[given.installer])
    timed(box, "hermes setup", "hermes setup --mode observe")
    timed(box, "hermes service install", f"hermes service install --kind {kind}")
    print(f"watching after {box.wait_for_watch():.1f} s", flush=True)
    print(f"three commands and the start: {time.monotonic() - began:.1f} s", flush=True)
    print(box.run("ps -eo user,args | grep '[h]ermes watch'").stdout, end="", flush=True)
    box.cut_power()
    box = Box(folder, given)
    print(f"after the power cut: watching after {box.wait_for_watch():.1f} s", flush=True)
    print(box.run("hermes service logs -n 3").stdout, end="", flush=True)
    box.run(f"kill -KILL $({WATCH_PID_COMMANDS[kind]})")
    time.sleep(3)
    print(f"after a kill: watching after {box.wait_for_watch():.1f} s", flush=True)
    if kind == "systemd":
        timed(box, "another service restarted by the user hermes", RESTART_AS_HERMES)
    if given.newer:
        upgrade(box, given)
    timed(box, "hermes service uninstall", "hermes service uninstall")
    left = box.run("ps -eo args | grep '[h]ermes watch'", check=False).stdout
    if left:
        raise SystemExit(f"still running after uninstall: {left}")
    box.cut_power()


def upgrade(box: Box, given: argparse.Namespace) -> None:
    """As in docs/how-to/service.md."""
    before = box.run(WATCH_PID_COMMANDS[given.kind]).stdout
    timed(box, "hermes backup", "HERMES_HOME=/var/lib/hermes hermes backup /var/tmp/before.tgz")
    timed(box, "upgrade", UPGRADE_COMMANDS[given.installer])
    timed(box, "hermes service install", "hermes service install")
    print(f"after the upgrade: watching after {box.wait_for_watch():.1f} s", flush=True)
    print(box.run("hermes --version").stdout, end="", flush=True)
    if box.run(WATCH_PID_COMMANDS[given.kind]).stdout == before:
        raise SystemExit("the watch was not restarted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=tuple(WATCH_PID_COMMANDS))
    parser.add_argument("--installer", choices=tuple(INSTALL_COMMANDS), default="pip")
    parser.add_argument("--packages", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--wheels", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--hide", default="")
    parser.add_argument("--newer", action="store_true", help="also upgrade to WHEELS/newer/*.whl")
    given = parser.parse_args()
    folder = os.environ.get(OUTER_VARIABLE)
    if folder is None:  # in a mount namespace whose tmpfs lasts for both boots
        with tempfile.TemporaryDirectory(prefix="hermes-boot-") as made:
            mount = f"mount --make-rprivate /; mount -t tmpfs -o mode=755 boot {made}"
            words = ["unshare", "-m", "bash", "-c", f'{mount}; exec "$@"', "outer"]
            variables = {**os.environ, OUTER_VARIABLE: made}
            code = subprocess.run([*words, sys.executable, *sys.argv], env=variables).returncode
        raise SystemExit(code)
    show(Path(folder), given)


if __name__ == "__main__":
    main()
