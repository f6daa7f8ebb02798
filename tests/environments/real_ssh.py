"""A real sshd on a loopback port, with throwaway keys and accounts that exist nowhere else.

It runs in namespaces of its own, where /etc/passwd and /home are made up: as another machine would
be. When its first process ends, all that was ever started there ends with it.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path

import anyio
import pytest

from hermes.environments.open import EnvironmentOpening, select_variables
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.settings import TerminalSettings
from hermes.environments.ssh import SshConnection, SshDestination

USER, LOCKED, ODD = "hermes", "locked", "odd"
_PROGRAMS = ("sshd", "ssh", "ssh-keygen", "unshare", "nsenter", "setpriv", "busybox")

_MACHINE = r"""
cd "$1"
# A copy of the folder: a mount over a single file is lost when the host replaces that file.
cp -a /etc etc
cp passwd shadow group etc/
mount --bind etc /etc
mount --bind . /mnt
mount -t tmpfs none /home
mount -t tmpfs none /tmp
mount -t tmpfs none /run
mkdir -p /run/sshd /home/hermes /home/locked /home/odd
chmod 1777 /tmp
chown 7701:7701 /home/hermes; chown 7702:7702 /home/locked; chown 7703:7703 /home/odd
# Something must stay when sshd goes, or the machine would go with it.
while :; do sleep 3600 & wait $!; done
"""


class Machine:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-sshd-"))
        self.folder.chmod(0o755)
        self.port = _free_port()
        self.key = self.folder / "user"
        for name in ("host", "user", "stranger"):
            self.make_key(name)
        shutil.copy(self.folder / "user.pub", self.folder / "authorized")
        self._accounts()
        # Should the tests be killed, the machine goes as well.
        apart = "setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc"
        self._init = subprocess.Popen(
            [*apart.split(), "bash", "-ec", _MACHINE, "machine", str(self.folder)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._until(lambda: self.inside("test", "-d", "/home/odd").returncode == 0)
        self.start()

    def make_key(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
        subprocess.run(words, check=True)

    def _accounts(self) -> None:
        users = {USER: (7701, "/bin/bash", "*"), LOCKED: (7702, "/bin/bash", "!"),
                 ODD: (7703, shutil.which("tcsh") or "/bin/sh", "*")}  # fmt: skip
        passwd, shadow, group = (
            Path(f"/etc/{n}").read_text() for n in ("passwd", "shadow", "group")
        )
        for name, (number, shell, password) in users.items():
            passwd += f"{name}:x:{number}:{number}::/home/{name}:{shell}\n"
            shadow += f"{name}:{password}:20000::::::\n"
            group += f"{name}:x:{number}:\n"
        for name, text in {"passwd": passwd, "shadow": shadow, "group": group}.items():
            (self.folder / name).write_text(text)
        (self.folder / "shadow").chmod(0o640)

    def start(self) -> None:
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey /mnt/host\n"
            "AuthorizedKeysFile /mnt/authorized\nPidFile /run/sshd.pid\n"
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nAcceptEnv *\n"
        )
        sshd = str(shutil.which("sshd"))
        done = self.inside(sshd, "-f", "/mnt/sshd_config", "-E", "/mnt/log")
        assert done.returncode == 0, done.stderr
        self._until(self._listens)

    def stop(self) -> None:
        """All of sshd: who listens, and whoever serves a connection."""
        self.inside("busybox", "killall", "-9", "sshd")

    def inside(self, *words: str) -> subprocess.CompletedProcess[str]:
        """As root of that machine, not by ssh."""
        children = Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text()
        enter = [
            "nsenter",
            "--mount",
            "--pid",
            "--target",
            children.split()[0] if children else "0",
        ]
        return subprocess.run([*enter, *words], capture_output=True, text=True, check=False)

    def processes(self) -> list[str]:
        """What runs there under an account of ours, without sshd itself."""
        listed = self.inside("ps", "-eo", "user,args", "--no-headers").stdout.splitlines()
        return [line for line in listed if line.startswith(USER) and "sshd:" not in line]

    def remove(self) -> None:
        self._init.kill()  # and all that is in its namespaces
        self._init.wait(120)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _until(self, condition: object) -> None:
        deadline = time.monotonic() + 120
        while not condition():  # type: ignore[operator]
            assert time.monotonic() < deadline, "the machine did not come up"
            time.sleep(0.02)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@cache
def machine() -> Machine:
    """Started when first asked for; `stop` ends it."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a machine of our own needs Linux and root")
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed here: {', '.join(missing)}; `make system` installs them")
    return Machine()


def stop() -> None:
    while _shared:
        anyio.run(partial(SshConnection.close, _shared.pop(), spare=False))
    if machine.cache_info().currsize:
        machine().remove()
        machine.cache_clear()


class _Kept(SshConnection):
    async def close(self, *, spare: bool) -> None:
        """Somebody else goes on with it."""


@asynccontextmanager
async def one_for_many(folder: Path) -> AsyncIterator[RemoteEnvironment]:
    """A session of its own over a connection that all of these share."""
    given = opening(folder)
    there = machine()
    if not _shared:
        to = SshDestination("127.0.0.1", USER, there.port, str(there.key))
        known = there.folder / "known_hosts"
        _shared.append(_Kept(str(shutil.which("ssh")), to, known, given.variables))
    work = f"/home/{USER}/{secrets.token_hex(4)}"
    there.inside("install", "-d", "-o", USER, work)
    async with RemoteEnvironment(
        "ssh", _shared[0].place, _shared[0], settings=given.settings, isolated=False, start=work
    ) as environment:
        yield environment


_shared: list[SshConnection] = []


def settings(**changes: object) -> TerminalSettings:
    there = machine()
    given = {"ssh_host": "127.0.0.1", "ssh_port": there.port, "ssh_user": USER,
             "ssh_key": str(there.key)} | changes  # fmt: skip
    return TerminalSettings(backend="ssh", **given)  # type: ignore[arg-type]


def opening(home: Path, **changes: object) -> EnvironmentOpening:
    variables = select_variables({"PATH": os.environ["PATH"], "HOME": str(home)})
    return EnvironmentOpening(settings(**changes), directory=home, home=home, variables=variables)
