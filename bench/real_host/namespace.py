"""A host in namespaces: its own root, processes, network and name; it ends with the bench."""

import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

CLONE_NEWNET = 0x40000000
UNSHARE = [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "-m",
    "-p",
    "-n",
    "-u",
    "-i",
    "--fork",
    "--kill-child",
]
WATCH_HOME = "/var/lib/hermes"
START_TIMEOUT_S = 20.0
COMMAND_TIMEOUT_S = 60.0

# $1 is an empty folder of the real host, $2 the host name, $3 the size of the watch's home.
# Everything below lives in one tmpfs of this mount namespace, so nothing is left behind.
# The devices are nodes of its own: root of this host could change the mode of the real host's.
INIT = r"""
set -e
mount --make-rprivate /
mount -t tmpfs -o size=900m,mode=755 host "$1"
cd "$1"
mkdir upper work root
mount -t overlay root -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" root
cd root
mount -t proc proc proc
mount -t tmpfs -o size=1m,mode=755 devices dev
node() { mknod -m 666 "dev/$1" c "$2" "$3"; }
node null 1 3; node zero 1 5; node full 1 7; node random 1 8; node urandom 1 9; node tty 5 0
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts dev/pts
mount -t tmpfs -o size=64m,mode=1777 shm dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for number in 0:in 1:out 2:err; do ln -s "/proc/self/fd/${number%:*}" "dev/std${number#*:}"; done
mount --rbind /sys sys
for folder in run tmp opt; do mount -t tmpfs -o size=32m tmpfs $folder; done
chmod 1777 tmp
rm -rf var/log/* srv/* var/lib/redis/* usr/bin/systemctl bin/systemctl
mkdir -p var/lib/hermes mnt/old
mount -t tmpfs -o "size=$3,mode=700" watch-home var/lib/hermes
pivot_root . mnt/old
umount -l /mnt/old
rmdir /mnt/old
hostname "$2"
printf '127.0.0.1 localhost %s db.internal cache.internal\n' "$2" > /etc/hosts
ip link set lo up
touch /run/host-is-up
exec /usr/bin/tini -- sleep infinity
"""


class CommandError(Exception):
    """A command that the bench needs did not work inside a host."""


class Namespace:
    """One host. Start it in a thread that lives as long as it: it dies with that thread."""

    def __init__(self, name: str, folder: Path, home_size: str = "24m") -> None:
        self.name = name
        self.folder = folder
        folder.mkdir(parents=True)
        self._unshare = subprocess.Popen(
            [*UNSHARE, "bash", "-c", INIT, "init", str(folder), name, home_size],
            stdout=subprocess.DEVNULL,
            stderr=(folder.parent / f"{name}.init").open("w"),
        )
        self.pid = self._find_init()

    def _find_init(self) -> int:
        """The pid of the host's first process, once it has set everything up."""
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children")
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._unshare.poll() is None:
            found = children.read_text().split()
            if found and Path("/proc", found[0], "root", "run/host-is-up").exists():
                return int(found[0])
            time.sleep(0.05)
        problem = (self.folder.parent / f"{self.name}.init").read_text()
        raise CommandError(f"{self.name} did not start: {problem}")

    def path(self, inside: str) -> Path:
        """A path of the host, as the bench reaches it."""
        return Path(f"/proc/{self.pid}/root{inside}")

    def enter(self, command: list[str]) -> list[str]:
        return ["nsenter", "-t", str(self.pid), "-m", "-p", "-n", "-u", "-i", "-r", "-w", *command]

    def run(
        self,
        script: str,
        *,
        check: bool = True,
        env: Mapping[str, str] | None = None,
        timeout: float = COMMAND_TIMEOUT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run shell text as root of the host."""
        done = subprocess.run(
            self.enter(["bash", "-c", script]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=clean_environment() | dict(env or {}),
        )
        if check and done.returncode:
            raise CommandError(f"{self.name}: {script!r}: {done.stdout}{done.stderr}")
        return done

    def join_network(self) -> None:
        """Move the calling thread, and only it, into the network of the host."""
        libc = ctypes.CDLL(None, use_errno=True)
        with Path(f"/proc/{self.pid}/ns/net").open() as handle:
            if libc.setns(handle.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def pids(self, matches: Callable[[str], bool]) -> list[int]:
        """Pids inside the host whose command line matches, oldest first. Copies of the host, which
        the product makes for experiments, have process namespaces of their own."""
        script = (
            "own=$(readlink /proc/self/ns/pid);"
            'for p in /proc/[0-9]*; do [ "$(readlink $p/ns/pid)" = "$own" ] &&'
            ' echo "${p#/proc/} $(tr "\\0" " " <$p/cmdline)"; done; true'
        )
        found = []
        for line in self.run(script + " 2>/dev/null").stdout.splitlines():
            pid, _, command = line.partition(" ")
            if pid.isdigit() and matches(command.strip()):
                found.append(int(pid))
        return sorted(found)

    def end(self) -> None:
        self._unshare.kill()
        self._unshare.wait()


def clean_environment() -> dict[str, str]:
    """What a root shell of the host has: nothing of the environment of the bench."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "HERMES_HOME": WATCH_HOME,
        "LANG": "C.UTF-8",
        "USER": "root",
        "LOGNAME": "root",
        "TERM": os.environ.get("TERM", "dumb"),
    }
