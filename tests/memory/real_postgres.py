"""A real PostgreSQL server for tests: unpacked into a temporary folder, killed and gone at the end.

The server refuses to run as root, so then it runs as `nobody`. It ends with the process that
started it, also when that one is killed.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pg0
import psycopg

_NUMBERS = count(1)


def _as_user() -> list[str]:
    if os.geteuid() != 0:
        return ["setpriv", "--pdeathsig", "KILL"]
    user = pwd.getpwnam("nobody")
    ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return ["setpriv", *ids, "--pdeathsig", "KILL"]


def _give(folder: Path) -> None:
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Installation:
    """The programs, and a fresh data folder to copy from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "pg0"
        shutil.copy(Path(pg0.__file__).parent / "bin" / "pg0", program)
        _give(folder)
        template = folder / "template"
        about = ["--name", "t", "--port", str(free_port()), "--data-dir", str(template)]
        about += ["-c", f"unix_socket_directories={folder}"]
        for what in (["start", *about], ["stop", "--name", "t"]):
            subprocess.run(
                [*_as_user()[:-2], str(program), *what],
                env={"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.defpath},
                check=True,
                capture_output=True,
                timeout=120,
            )
        self.template = template
        (self.programs,) = folder.glob(".pg0/installation/*/bin")


class Server:
    def __init__(self, installation: Installation, *, options: tuple[str, ...] = ()) -> None:
        self._installation = installation
        self._options = options
        self.port = free_port()
        self.folder = installation.folder / f"data-{next(_NUMBERS)}"
        shutil.copytree(installation.template, self.folder)
        self.folder.chmod(0o700)
        _give(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres:postgres@127.0.0.1:{self.port}/{database}"

    def start(self, *more: str) -> None:
        options = [item for one in (*self._options, *more) for item in ("-c", one)]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(self._command(options), env=self._env(), stderr=log)
        self._await()

    def _command(self, options: list[str]) -> list[str]:
        return [
            *_as_user(),
            str(self._installation.programs / "postgres"),
            *("-D", str(self.folder), "-p", str(self.port), "-k", str(self.folder)),
            # The machine does not lose power in a test; a killed server loses nothing by it.
            *("-c", "fsync=off", "-c", "max_connections=100", *options),
        ]

    def _env(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self._installation.programs.parent / "lib")}

    def _await(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """As a crash would: the postmaster and all of its children at once."""
        for pid in (self.pid, *self.children()):
            with suppress(ProcessLookupError):  # a worker that ended by itself meanwhile
                os.kill(pid, signal.SIGKILL)
        self._ended()

    def stop(self) -> None:
        if self._process is not None:
            os.kill(self.pid, signal.SIGQUIT)
            self._ended()

    def freeze(self, *, on: bool) -> None:
        for pid in (self.pid, *self.children()):
            os.kill(pid, signal.SIGSTOP if on else signal.SIGCONT)

    def children(self) -> list[int]:
        listed = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    def _ended(self) -> None:
        assert self._process is not None
        self._process.wait(timeout=120)
        self._process = None

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of an empty database of its own."""
        name = f"t{next(_NUMBERS)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
        yield self.url(name)
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def installed() -> Iterator[Installation]:
    folder = Path(tempfile.mkdtemp(prefix="hermes-pg-"))
    folder.chmod(0o755)
    try:
        yield Installation(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running(installation: Installation, *options: str) -> Iterator[Server]:
    server = Server(installation, options=options)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)
