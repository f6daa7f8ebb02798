"""`hermes watch` as a real process, with one port to probe and one webhook to notify."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

import hermes
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.sre.probes.probe import PROVISIONAL_LABEL
from notice_server import NoticeServer

PATIENCE_S = 240.0
PROBES = """\
probes:
  - name: shop
    kind: port
    what: "{port}"
    service: shop
    interval: 1
    fails: 1
"""
HOME_PROBE = f"""\
  - name: disk
    kind: disk
    what: {{home}}
    labels:
      {PROVISIONAL_LABEL}: "yes"
"""
"""Declared, and raises no alert: there is no built-in probe of the home then."""
CONFIG = """\
store:
  reserve_mib: {reserve_mib}
sre:
  notices:
    pause: 0.2
    sinks:
      - kind: webhook
        url: {url}
        severity: P3
        about: [declared, escalated, resolved]
"""


class Shop:
    """A port that listens, until it does not."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self.port = 0
        self.start()

    def start(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", self.port), backlog=100)
        self.port = self._socket.getsockname()[1]

    def stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class WatchProcess:
    def __init__(self, folder: Path, home: Path, *, temporary: Path | None = None) -> None:
        """`temporary`: where temporary files go, such as the same small disk."""
        self.home, self._folder = home, folder
        self._temporary = temporary or folder
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def set_up(
        self, shop: Shop, door: NoticeServer, *, reserve_mib: int = 0, home_probe: bool = True
    ) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        probes = PROBES.format(port=shop.port)
        probes += HOME_PROBE.format(home=self.home) if home_probe else ""
        (self.home / "probes.yaml").write_text(probes)
        config = CONFIG.format(url=door.url, reserve_mib=reserve_mib)
        (self.home / "config.yaml").write_text(config)

    @contextmanager
    def running(self, *, ends_with: int = 0) -> Iterator[None]:
        """Ended with SIGTERM, unless it was killed before."""
        self._starts += 1
        with self._file("out").open("wb") as out, self._file("err").open("wb") as errors:
            command = [sys.executable, "-m", "hermes.cli", "watch", "--model", "none"]
            self._process = subprocess.Popen(
                [*command, "--no-listen"], env=self.env, stdout=out, stderr=errors
            )
        try:
            self.until(lambda: "on call" in self.output)
            yield
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
                assert self._process.wait(PATIENCE_S) == ends_with, self.errors
        finally:
            if self._process.poll() is None:
                self.kill()

    @property
    def env(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {
            "HERMES_HOME": str(self.home),
            "HOME": str(self._folder),
            "TMPDIR": str(self._temporary),
            "PATH": path,
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(Path(hermes.__file__).parents[1]),  # what is tested, not installed
            "PYTHONFAULTHANDLER": "1",  # a crash before the watch asks for it says where it was
        }

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def output(self) -> str:
        return self._file("out").read_text()

    @property
    def errors(self) -> str:
        return self._file("err").read_text()

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert self._process is not None
            assert self._process.poll() is None, (self._process.returncode, self.errors)
            assert time.monotonic() < deadline, (self.output, self.errors)
            time.sleep(0.2)  # what is asked may read the whole journal

    def records(self) -> list[JournalRecord]:
        async def read() -> list[JournalRecord]:
            async with SqliteJournal.open(self.home / "journal.db") as journal:
                return [each async for each in journal.read()]

        return anyio.run(read)

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.{self._starts}"


def titles(door: NoticeServer) -> list[str]:
    return [str(each["title"]) for each in door.said]


def notified(door: NoticeServer, words: str) -> bool:
    return any(words in each for each in titles(door))
