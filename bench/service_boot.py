"""Installs the service on a host in namespaces, cuts its power, and sees the watch come back.

usage: python bench/service_boot.py {supervisord,openrc} --packages FOLDER --wheels FOLDER

The host is this machine's own file system under an overlay, whose upper layer outlives the reboot;
`--hide` names folders that it does not have, such as a checkout. The home of root is empty there.
FOLDER has the Debian packages of the service manager (`apt-get download supervisor`, or `openrc
librc1 libeinfo1 insserv`), and the wheel of Hermes with those of its dependencies (`pip download`).
Needs root. Prints a line for each step, and exits with 1 when the watch does not come back.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OUTER_VARIABLE = "HERMES_SERVICE_BOOT_FOLDER"
PATIENCE_S = 300.0
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WATCH_PID_COMMANDS = {
    "supervisord": "supervisorctl pid hermes",
    "openrc": "ps -o pid= --ppid $(cat /run/supervise-hermes.pid)",
}
NAMESPACE_OPTIONS = ("-m", "-p", "-n", "-u", "-i")
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
mount --rbind /sys sys
for folder in run tmp root; do mount -t tmpfs tmpfs $folder; done
[ -z "$5" ] || mount -t tmpfs tmpfs ".$5"
chmod 1777 tmp
pivot_root . mnt/old
umount -l /mnt/old
hostname box
ip link set lo up
if [ ! -e /etc/box-has-packages ]; then
  for each in /mnt/packages/*.deb; do
    dpkg-deb --fsys-tarfile "$each" | tar -x --keep-directory-symlink -C /
  done
  ldconfig
  mkdir -p /etc/runlevels/sysinit /etc/runlevels/boot /etc/runlevels/default /var/log/supervisor
  touch /etc/box-has-packages
fi
if [ "$2" = supervisord ]; then
  touch /run/box-is-up
  exec /usr/bin/supervisord -n -c /etc/supervisor/supervisord.conf
fi
for level in sysinit boot default; do openrc $level || true; done
touch /run/box-is-up
exec sleep infinity
"""


class Box:
    """One boot of the host."""

    def __init__(self, folder: Path, given: argparse.Namespace) -> None:
        words = [str(folder), given.kind, str(given.packages), str(given.wheels), given.hide]
        self._log = (folder / "init.log").open("a")
        self._unshare = subprocess.Popen(
            [
                "unshare",
                *["-m", "-p", "-n", "-u", "-i", "--fork", "--kill-child", "bash", "-c"],
                INIT,
                "init",
                *words,
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={"PATH": SEARCH_PATH},
        )
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children")
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self._unshare.poll() is None:
            found = children.read_text().split()
            if found and Path("/proc", found[0], "root", "run/box-is-up").exists():
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


def show(folder: Path, given: argparse.Namespace) -> None:
    kind, box = given.kind, Box(folder, given)
    began = time.monotonic()
    box.run(
        "python3 -m venv /opt/hermes && /opt/hermes/bin/pip install -q --no-index "
        "--find-links /mnt/wheels hermes-oncall && ln -s /opt/hermes/bin/hermes /usr/local/bin/"
    )
    print(f"installed from the wheel: {time.monotonic() - began:.0f} s", flush=True)
    print(box.run("hermes setup --mode observe").stdout, end="", flush=True)
    print(box.run(f"hermes service install --kind {kind}").stdout, end="", flush=True)
    print(f"watching after {box.wait_for_watch():.0f} s", flush=True)
    print(f"three commands and the start: {time.monotonic() - began:.0f} s", flush=True)
    print(box.run("ps -eo user,args | grep '[h]ermes watch'").stdout, end="", flush=True)
    box.cut_power()
    box = Box(folder, given)
    print(f"after the power cut: watching after {box.wait_for_watch():.0f} s", flush=True)
    print(box.run("hermes service logs -n 3").stdout, end="", flush=True)
    box.run(f"kill -KILL $({WATCH_PID_COMMANDS[kind]})")
    time.sleep(3)
    print(f"after a kill: watching after {box.wait_for_watch():.0f} s", flush=True)
    print(box.run("hermes service uninstall").stdout, end="", flush=True)
    left = box.run("ps -eo args | grep '[h]ermes watch'", check=False).stdout
    if left:
        raise SystemExit(f"still running after uninstall: {left}")
    box.cut_power()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("supervisord", "openrc"))
    parser.add_argument("--packages", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--wheels", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--hide", default="")
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
