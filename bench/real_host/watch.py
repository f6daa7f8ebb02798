"""The watch of a host as its user has it: the command line, the notifications, and kills."""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real_host.namespace import WATCH_HOME, CommandError, Namespace, clean_environment
from real_host.plans import Terms

HERMES = str(Path(sys.executable).with_name("hermes"))
NOTICES = "/var/log/hermes-notices.log"
POLL_S = 0.2
RESTART_DELAY_S = 0.3
COMMAND_TIMEOUT_S = 60.0
ON_CALL_TIMEOUT_S = 120.0
NOTICE_TIMEOUT_S = 8.0
KILL_TIMEOUT_S = 60.0
SHARE_OF_KILLS_AT_START = 0.2
SHARE_OF_KILLS_AFTER_NOTICES = 0.33
CONFIG = f"""\
sre:
  notices:
    sinks:
      - kind: log
        name: bench
        path: {NOTICES}
        severity: P3
declared:
  secret_files: true  # so that the settings of the shop, with a password in them, can be reverted
"""
RECENT_CHANGES_RULE = """\
apiVersion: hermes/v1
kind: ActionPolicy
metadata:
  name: recent-changes-of-the-bench
  description: A proved cause may be reverted although somebody changed it recently
spec:
  match:
    any:
      - effects: [write, delete]
        reviewed: true
      - effects: service-change
  decide: {effect: ask, announce: 30s}
"""


@dataclass(frozen=True)
class Notice:
    """A notification as it arrived; `arrived` is the clock of the bench."""

    arrived: float
    id: str
    about: str
    title: str
    text: str
    incident: str
    severity: str
    repeated: bool

    @property
    def words(self) -> str:
        return f"{self.title}\n{self.text}"


class Watch:
    """One `hermes watch`: started, killed, started again; what it says is collected."""

    def __init__(self, host: Namespace, terms: Terms | None = None) -> None:
        terms = terms or Terms()
        self._host = host
        self._process: subprocess.Popen[bytes] | None = None
        self._output = host.folder.parent / f"{host.name}.watch"
        self._log = self._output.open("ab")
        self._output_before = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._read_to = 0
        self.notices: list[Notice] = []
        self.starts: list[float] = []
        self.kills: list[float] = []
        self.deaths: list[str] = []
        self._waits: list[tuple[float, int, float]] = []
        host.path(f"{WATCH_HOME}/config.yaml").write_text(CONFIG)
        if not terms.respect_people:
            host.path(f"{WATCH_HOME}/policies").mkdir()
            rule = host.path(f"{WATCH_HOME}/policies/recent-changes.yaml")
            rule.write_text(RECENT_CHANGES_RULE)
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def start(self) -> None:
        with self._lock:
            self._start()

    def is_on_call(self) -> bool:
        """Whether the watch that runs now has said that it has looked around."""
        return b"on call" in self._output.read_bytes()[self._output_before :]

    def wait_until_on_call(self) -> None:
        """The watch says so when it has looked around; what breaks before that it cannot know."""
        deadline = time.monotonic() + ON_CALL_TIMEOUT_S
        while not self.is_on_call():
            if time.monotonic() > deadline:
                said = self._output.read_text(errors="replace").splitlines()[-3:]
                why = " / ".join(said) or "it said nothing"
                raise CommandError(f"{self._host.name}: the watch is not on call: {why}")
            time.sleep(POLL_S)

    def _start(self) -> None:
        self._output_before = self._output.stat().st_size
        self._process = subprocess.Popen(
            self._host.enter([HERMES, "watch", "--model", "none"]),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=clean_environment(),
        )
        self.starts.append(time.time())

    def kill(self, restart: bool = True) -> bool:
        """kill -9, at whatever it is doing; a supervisor starts it again at once."""
        with self._lock:
            if not self._process:
                return False
            self._signal("KILL")
            self._process.wait(KILL_TIMEOUT_S)
            self._process = None
            self.kills.append(time.time())
            if restart:
                time.sleep(RESTART_DELAY_S)
                self._start()
            return True

    def _signal(self, name: str) -> None:
        """To the watch itself: nsenter only waits for it."""
        process = self._process
        if process is None:
            return
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        try:
            child = children.read_text().split()
        except OSError:
            return
        if child:
            subprocess.run(["kill", f"-{name}", child[0]], check=False)

    def revive(self) -> None:
        """Start it again where it has ended without being asked to; that is a finding."""
        with self._lock:
            if self._process and self._process.poll() is not None:
                self._note_end(self._process.returncode)
                self._start()

    def _note_end(self, code: int) -> None:
        said = self._output.read_bytes().decode(errors="replace").splitlines()[-3:]
        self.deaths.append(f"the watch ended with exit code {code}: {' / '.join(said)}")

    def end(self) -> None:
        """Ask it to end, as Ctrl-C does."""
        with self._lock:
            if self._process and self._process.poll() is not None:
                self._note_end(self._process.returncode)
            elif self._process:
                self._signal("INT")
                try:
                    self._process.wait(20)
                except subprocess.TimeoutExpired:
                    self.deaths.append("the watch did not end within 20 s of Ctrl-C")
                    self._signal("KILL")
                    self._process.wait(KILL_TIMEOUT_S)
            self._process = None
        self._ended.set()
        self._reader.join(5)

    def _follow(self) -> None:
        while not self._ended.wait(POLL_S):
            self._read()
            self._measure_wait()
        self._read()

    def _measure_wait(self) -> None:
        """Note how long the watch has been ready to run without being given a processor."""
        process = self._process
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children") if process else None
            pid = children.read_text().split()[0] if children else "none"
            waited = Path(f"/proc/{pid}/schedstat").read_text().split()[1]
        except (OSError, IndexError):
            return
        self._waits.append((time.time(), int(pid), int(waited) / 1e9))

    def waited_s(self, begin: float, end: float) -> float:
        """Seconds of a span in which the watch waited for a processor: the load, not its fault."""
        total, last = 0.0, {pid: waited for at, pid, waited in self._waits if at < begin}
        for at, pid, waited in self._waits:
            if begin <= at <= end:
                total += waited - last.get(pid, 0.0)
                last[pid] = waited
        return total

    def _read(self) -> None:
        """Take new whole lines from the log that the watch's sink writes."""
        try:
            with self._host.path(NOTICES).open("rb") as handle:
                handle.seek(self._read_to)
                new = handle.read()
        except OSError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._read_to += len(whole)
        for line in whole.splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                self.deaths.append(f"a line of the log sink is no JSON: {line[:80]!r}")
                continue
            fields = {key: value.get(key, "") or "" for key in ("id", "about", "title", "text")}
            more = {key: value.get(key, "") or "" for key in ("incident", "severity")}
            repeated = bool(value.get("repeated"))
            self.notices.append(Notice(time.time(), repeated=repeated, **fields, **more))

    def record_known_good_state(self) -> None:
        """As the watch does by itself when all checks have passed for ten minutes."""
        code, _, problem = self.ask_whole("state record --known-good")
        if code:
            raise CommandError(f"{self._host.name}: no state could be recorded: {problem}")

    def ask(self, words: str) -> tuple[int, str]:
        """Another command of the same home: exit code and standard output."""
        code, text, _ = self.ask_whole(words)
        return code, text

    def ask_whole(self, words: str) -> tuple[int, str, str]:
        """The same with what it says on standard error."""
        command = f"{HERMES} {words}"
        try:
            done = self._host.run(command, check=False, timeout=COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return 124, "", ""
        return done.returncode, done.stdout, done.stderr

    def ask_json(self, words: str) -> Any:
        """What a command prints with --json; None where it is no JSON."""
        return from_json(self.ask(f"{words} --json")[1])


def from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


class Killer:
    """Kills a watch at random moments: some while it starts, some just after a notification."""

    def __init__(self, watch: Watch, seed: int, gap: tuple[float, float], count: int) -> None:
        self._watch = watch
        self._left = count
        self._random = random.Random(seed)
        self._gap = gap
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while self._left and not self._ended.is_set():
            if self._random.random() > SHARE_OF_KILLS_AT_START:
                self._wait_for(self._watch.is_on_call, ON_CALL_TIMEOUT_S)
            self._ended.wait(self._random.uniform(*self._gap))
            if self._random.random() < SHARE_OF_KILLS_AFTER_NOTICES:
                self._wait_for(self._notice_comes(), NOTICE_TIMEOUT_S)
                self._ended.wait(self._random.uniform(0, 0.4))
            if not self._ended.is_set():
                self._left -= self._watch.kill()

    def _notice_comes(self) -> Callable[[], bool]:
        known = len(self._watch.notices)
        return lambda: len(self._watch.notices) > known

    def _wait_for(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            if self._ended.wait(0.1):
                return

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(30)
