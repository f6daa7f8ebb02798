"""A real docker daemon on a private socket, with small images made from a local tree."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest

from hermes.environments.docker import DockerContainer
from hermes.environments.open import EnvironmentOpening, select_variables
from hermes.environments.remote.client import ClientProgram
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.settings import TerminalSettings

WITH_BASH, WITHOUT_BASH = "hermes-test:bash", "hermes-test:sh"
WITH_PYTHON = "hermes-test:python"
SYSTEM_PYTHON = Path("/usr/bin/python3")
_PROGRAMS = ("dockerd", "docker", "busybox", "bash-static", "setpriv")


class Daemon:
    """Its folder is short-lived and short-named: a socket's path must fit into 108 bytes."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-dockerd-"))
        self.address = f"unix://{self.folder}/sock"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        tree(self, WITH_BASH, bash=True)
        tree(self, WITHOUT_BASH, bash=False)

    def start(self) -> None:
        folder = self.folder
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    # Should the tests be killed, the daemon is asked to end as well.
                    *("setpriv", "--pdeathsig", "TERM", "dockerd", "--host", self.address),
                    *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
                    *("--pidfile", f"{folder}/pid", "--bridge=none"),
                    *("--iptables=false", "--ip6tables=false", "--log-level=warn"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 120
        while self.docker("version", check=False).returncode:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(120)

    def docker(
        self, *words: str, stdin: bytes = b"", check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        command = ["docker", "--host", self.address, *words]
        return subprocess.run(command, input=stdin, capture_output=True, check=check)

    def containers(self, *filters: str) -> list[str]:
        words = [word for each in filters for word in ("--filter", each)]
        return self.docker("ps", "--all", "--quiet", "--no-trunc", *words).stdout.decode().split()

    def remove(self) -> None:
        for id in self.containers():
            self.docker("rm", "--force", id)
        self.stop()
        for mount in reversed(Path("/proc/mounts").read_text().splitlines()):
            if str(self.folder) in mount:
                subprocess.run(["umount", "--lazy", mount.split()[1]], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def tree(daemon: Daemon, name: str, *, bash: bool) -> None:
    archive = BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for folder, mode in {"bin": 0o755, "root": 0o700, "tmp": 0o1777, "srv": 0o755}.items():
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        programs = {"bin/busybox": "busybox"} | ({"bin/bash": "bash-static"} if bash else {})
        for path, program in programs.items():
            tar.add(str(shutil.which(program)), path)
        for applet in subprocess.check_output(["busybox", "--list"], text=True).split():
            if applet not in ("busybox", "bash"):
                entry = tarfile.TarInfo(f"bin/{applet}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(entry)
    change = "ENV PATH=/bin HOME=/root"
    daemon.docker("import", "--change", change, "-", name, stdin=archive.getvalue())


@cache
def image_with_python() -> str:
    """Made when first asked for: the bash image, and the Python of this system."""
    version = subprocess.check_output(
        [SYSTEM_PYTHON, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], text=True
    ).strip()
    library = Path(f"/usr/lib/python{version}")
    modules = [*library.glob("*.py"), *library.glob("lib-dynload/*.so")]
    for package in ("collections", "ctypes", "encodings", "importlib", "re"):
        modules += library.glob(f"{package}/*.py")
    ctypes = next(library.glob("lib-dynload/_ctypes.*"))
    linked = subprocess.check_output(["ldd", SYSTEM_PYTHON, ctypes], text=True)
    shared = {Path(word) for word in linked.split() if word.startswith("/") and "so" in word}
    archive = BytesIO()
    with tarfile.open(fileobj=archive, mode="w", dereference=True) as tar:
        for path in (*modules, *shared):
            if path.is_file():
                tar.add(path, str(path)[1:])
        tar.add(SYSTEM_PYTHON, "bin/python3")
    id = daemon().docker("create", WITH_BASH, "true").stdout.decode().strip()
    daemon().docker("cp", "-", f"{id}:/", stdin=archive.getvalue())
    daemon().docker("commit", id, WITH_PYTHON)
    daemon().docker("rm", id)
    return WITH_PYTHON


@cache
def daemon() -> Daemon:
    """Started when first asked for; `stop` ends it."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a docker daemon of our own needs Linux and root")
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed here: {', '.join(missing)}; `make system` installs them")
    return Daemon()


def stop() -> None:
    if daemon.cache_info().currsize:
        daemon().remove()
        daemon.cache_clear()
        image_with_python.cache_clear()
        _shared.clear()


@asynccontextmanager
async def one_for_many(folder: Path) -> AsyncIterator[RemoteEnvironment]:
    """A session of its own in a container that all of these share, which saves a second each.

    It outlives whatever runs between two tests of a whole run."""
    given = opening(folder)
    docker = ClientProgram(str(shutil.which("docker")), dict(given.variables))
    if not _shared:
        made = DockerContainer(docker, given.settings, linger=7200)
        await made.connect()
        id = made.place.split()[1]
        daemon().docker("exec", id, "bash", "-c", "mkdir /srv/{1..200}")
        _shared.append((id, iter(range(1, 201))))
    id, numbers = _shared[0]
    async with RemoteEnvironment(
        "docker",
        WITH_BASH,
        DockerContainer(docker, given.settings, id=id),
        settings=given.settings,
        isolated=True,
        start=f"/srv/{next(numbers)}",
    ) as environment:
        yield environment


_shared: list[tuple[str, Iterator[int]]] = []


def settings(**changes: object) -> TerminalSettings:
    given = {"docker_host": daemon().address, "docker_image": WITH_BASH} | changes
    return TerminalSettings(backend="docker", **given)  # type: ignore[arg-type]


def opening(home: Path, **changes: object) -> EnvironmentOpening:
    variables = select_variables({"PATH": os.environ["PATH"], "HOME": str(home)})
    return EnvironmentOpening(settings(**changes), directory=home, home=home, variables=variables)
