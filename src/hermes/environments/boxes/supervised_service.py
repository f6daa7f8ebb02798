"""A service of a host: starts, stops and restarts its process, and writes its log.

Imports only the standard library.
"""

import os
import pwd
import resource
import shlex
import signal
import time

from hermes.environments.boxes.unit_files import HOST_PATH, UnitFile

JOURNAL_FOLDER = "/run/log/journal"
MAX_LOG_BYTES = 4 << 20


class ServiceLog:
    """Writes the output of services and cron, with the time, where `journalctl` reads it."""

    def __init__(self) -> None:
        os.makedirs(JOURNAL_FOLDER, exist_ok=True)  # noqa: PTH103 - pathlib is slow to import
        self._open: dict[str, int] = {}
        self._partial: dict[str, bytes] = {}

    def write_lines(self, unit: str, source: str, text: str) -> None:
        for line in text.splitlines():
            self._write(unit, f"{time.time():.6f}\t{source}\t{line}\n".encode("utf-8", "replace"))

    def write_output(self, unit: str, source: str, data: bytes) -> None:
        """`data` may end in the middle of a line."""
        whole = self._partial.pop(unit, b"") + data
        lines = whole.split(b"\n")
        if lines[-1] and len(lines[-1]) < 65536:
            self._partial[unit] = lines[-1]
        elif lines[-1]:
            lines.append(b"")
        now = f"{time.time():.6f}\t{source}\t".encode()
        body = b"".join(now + line + b"\n" for line in lines[:-1])
        if body:
            self._write(unit, body)

    def flush_output(self, unit: str, source: str) -> None:
        rest = self._partial.pop(unit, b"")
        if rest:
            self._write(unit, f"{time.time():.6f}\t{source}\t".encode() + rest + b"\n")

    def _write(self, unit: str, line: bytes) -> None:
        try:
            if unit not in self._open:
                flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC
                self._open[unit] = os.open(f"{JOURNAL_FOLDER}/{unit}", flags, 0o640)
            fd = self._open[unit]
            if os.fstat(fd).st_size > MAX_LOG_BYTES:
                os.ftruncate(fd, 0)
            os.write(fd, line)
        except OSError:
            return  # a full disk must not end the supervisor


_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class SupervisedService:
    def __init__(self, unit: UnitFile, log: ServiceLog) -> None:
        self.unit = unit
        self._log = log
        self.state = "inactive"
        """inactive, activating, active, deactivating, failed."""
        self.sub = "dead"
        self.result = "success"
        self.pid = 0
        self.code: int | None = None
        self.since = time.time()
        self.restarts = 0
        self.output = -1
        self.restart_at = 0.0
        """When the supervisor restarts it; 0 for never."""
        self.kill_at = 0.0
        self.restart_pending = False
        """A restart waits until the old process has exited."""
        self._starts: list[float] = []

    def start(self) -> str:
        """The error when it could not be started, else an empty text."""
        if self.state in ("active", "activating") and self.pid:
            return ""
        now = time.monotonic()
        burst = int(self.unit.last_value("StartLimitBurst", "5"))
        interval = self.unit.seconds("StartLimitIntervalSec", 10.0)
        self._starts = [at for at in self._starts if now - at < interval]
        if len(self._starts) >= burst:
            self.restart_at = 0.0  # no more automatic restarts
            self._fail("start-limit-hit", "Start request repeated too quickly.")
            return "start request repeated too quickly"
        self._starts.append(now)
        self.restart_at = 0.0
        for problem in self.unit.problems():
            self._log_event(problem)
        try:
            self._make_runtime_folders()
            for line in self.unit.all_values("ExecStartPre"):
                self._run_hook(line)
            self._fork(self.unit.last_value("ExecStart"))
        except (OSError, ValueError, KeyError) as error:
            self._log.write_lines(
                self.unit.name, "systemd[1]", f"{self.unit.name}: Failed to start: {error}"
            )
            self._fail("resources", f"Failed with result 'resources': {error}")
            return str(error)
        oneshot = self.unit.last_value("Type") == "oneshot"
        self._set_state("activating" if oneshot else "active", "start" if oneshot else "running")
        self._log_event(f"Started {self.unit.last_value('Description') or self.unit.name}.")
        return ""

    def stop(self) -> bool:
        """Return False while the process is still ending."""
        self.restart_at = 0.0
        if not self.pid:
            self._set_state("inactive", "dead")
            return True
        self._set_state("deactivating", "stop-sigterm")
        for line in self.unit.all_values("ExecStop"):
            self._run_hook(line, must_succeed=False)
        self._signal(signal.Signals[self.unit.last_value("KillSignal", "SIGTERM")])
        self.kill_at = time.monotonic() + self.unit.seconds("TimeoutStopSec", 5.0)
        return False

    def reload(self) -> str:
        lines = self.unit.all_values("ExecReload")
        if not lines:
            return f"Job type reload is not applicable for unit {self.unit.name}."
        if not self.pid:
            return f"{self.unit.name} is not active, cannot reload."
        try:
            for line in lines:
                self._run_hook(line.replace("$MAINPID", str(self.pid)))
        except OSError as error:
            return f"Reload of {self.unit.name} failed: {error}"
        return ""

    def reset(self) -> None:
        self._starts.clear()
        if self.state == "failed":
            self._set_state("inactive", "dead")

    def tick(self, now: float) -> None:
        if self.restart_at and now >= self.restart_at:
            self.restarts += 1
            self._log_event(f"Scheduled restart job, restart counter is at {self.restarts}.")
            self.start()
        if self.kill_at and now >= self.kill_at and self.pid:
            self._log_event("State 'stop-sigterm' timed out. Killing.")
            self._signal(signal.SIGKILL)
            self.kill_at = 0.0
        limit = self.unit.memory_max
        if limit and self.pid and resident_bytes(self.pid) > limit:
            self._log_event("A process of this unit has been killed by the OOM killer.")
            self.result = "oom-kill"
            self._signal(signal.SIGKILL)

    @property
    def busy(self) -> bool:
        """Whether the caller that changes its state has to wait, as with systemd."""
        starting = self.unit.last_value("Type") == "oneshot" and self.state == "activating"
        return self.state == "deactivating" or self.restart_pending or (starting and bool(self.pid))

    @property
    def next_due(self) -> float:
        """When `tick` next has work to do; 0 for never."""
        return min((at for at in (self.restart_at, self.kill_at) if at), default=0.0)

    def handle_exit(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self.pid, self.code, self.kill_at = 0, code, 0.0
        if code == 0 and self.state == "active" and self._follow_background_process():
            return
        self._kill_session()
        self._log.flush_output(self.unit.name, self.log_source)
        status_text = f"code=exited, status={code}" if code >= 0 else f"code=killed, signal={-code}"
        self._log_event(f"Main process exited, {status_text}")
        if self.state == "deactivating":
            self._set_state("inactive", "dead")
            self._log_event(f"Stopped {self.unit.last_value('Description') or self.unit.name}.")
            return
        clean = code in (0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
        if self.result != "oom-kill":
            self.result = "success" if clean else "exit-code" if code > 0 else "signal"
        remain = self.unit.last_value("RemainAfterExit") in ("yes", "true")
        if clean:
            self._set_state("active" if remain else "inactive", "exited" if remain else "dead")
        else:
            self._fail(self.result, f"Failed with result '{self.result}'.")
        again = self.unit.last_value("Restart", "no")
        if again == "always" or (again in ("on-failure", "on-abnormal") and not clean):
            self.restart_at = time.monotonic() + self.unit.seconds("RestartSec", 0.1)
            self._set_state("activating", "auto-restart")
        if self.result == "oom-kill":
            self.result = "success" if clean else "oom-kill"

    def _follow_background_process(self) -> bool:
        """Of a service that goes to the background: its orphan is a child of this process now."""
        if self.unit.last_value("Type") != "forking" or self._followed:
            return False
        path = self.unit.last_value("PIDFile")
        for _ in range(BACKGROUND_TRIES):
            pid = read_process_id(path) if path else newest_child(self._session)
            if pid:
                self.pid, self._followed = pid, True
                return True
            time.sleep(0.01)
        return False

    @property
    def log_source(self) -> str:
        program = os.path.basename(shlex.split(self.unit.last_value("ExecStart") or "x")[0])  # noqa: PTH119
        return f"{program}[{self.pid or '-'}]"

    def _log_event(self, text: str) -> None:
        self._log.write_lines(self.unit.name, "systemd[1]", f"{self.unit.name}: {text}")

    def _set_state(self, state: str, sub: str) -> None:
        self.state, self.sub, self.since = state, sub, time.time()

    def _fail(self, result: str, text: str) -> None:
        self.result = result
        self._set_state("failed", "failed")
        self._log_event(text)

    def _signal(self, number: int) -> None:
        # By its own pid too: a new process may not have its own session yet.
        for pid in (*(each for each in session_processes(self.pid) if each != self.pid), self.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def _kill_session(self) -> None:
        """Kills what the process of the service left running in its session."""
        if self.unit.last_value("KillMode") == "process" or self.output < 0:
            return
        for pid in session_processes(self._session):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    _session = 0
    _followed = False
    """Whether `pid` is that of a process in the background."""

    def _make_runtime_folders(self) -> None:
        names = " ".join(self.unit.all_values("RuntimeDirectory")).split()
        if not names:
            return
        user = pwd.getpwnam(self.unit.last_value("User", "root"))
        mode = int(self.unit.last_value("RuntimeDirectoryMode", "755"), 8)
        for name in names:
            path = f"/run/{name}"
            os.makedirs(path, exist_ok=True)  # noqa: PTH103 - see above
            os.chown(path, user.pw_uid, user.pw_gid)
            os.chmod(path, mode)  # noqa: PTH101 - see above

    def _run_hook(self, line: str, *, must_succeed: bool = True) -> None:
        words = shlex.split(line.lstrip("-@+!:"))
        pid = os.posix_spawn(words[0], words, {"PATH": HOST_PATH, **self.unit.environment()})
        _, status = os.waitpid(pid, 0)
        if status and must_succeed and not line.startswith("-"):
            raise OSError(f"{line} exited with {os.waitstatus_to_exitcode(status)}")

    def _fork(self, line: str) -> None:
        words = shlex.split(line.lstrip("-@+!:"))
        if not words:
            raise ValueError("it has no ExecStart= setting")
        variables = {"PATH": HOST_PATH, "LANG": "C.UTF-8", **self.unit.environment()}
        words = [_expand_variables(word, variables) for word in words]
        words[0] = find_program(words[0])
        user = pwd.getpwnam(self.unit.last_value("User", "root"))
        folder = self.unit.last_value("WorkingDirectory", "/")
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        # The supervisor ignores these signals, and a child inherits that. One that is sent before
        # the child restores the default must stay pending.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                for target in (1, 2):
                    os.dup2(writing, target)
                os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
                os.chdir(folder)
                # Last: a limit counts the supervisor's own files, which close with `execve`.
                self._apply_limits()
                if user.pw_uid:
                    os.setgroups([])
                    os.setgid(user.pw_gid)
                    os.setuid(user.pw_uid)
                for number in (signal.SIGPIPE, signal.SIGCHLD, *_STOP_SIGNALS):
                    signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
                variables |= {"HOME": user.pw_dir, "USER": user.pw_name}
                os.execve(words[0], words, variables)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                os.write(2, f"{words[0]}: {reason}\n".encode())
            finally:
                os._exit(203)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
        os.close(writing)
        if self.output >= 0:
            os.close(self.output)
        self.pid, self._session, self.output, self.code = pid, pid, reading, None
        self._followed = False

    def _apply_limits(self) -> None:
        limits = self.unit.file_limits()
        if limits is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        nice = self.unit.last_value("Nice")
        if nice:
            os.nice(int(nice))


BACKGROUND_TRIES = 100


def find_program(name: str) -> str:
    """Its path, for a name without one."""
    for folder in HOST_PATH.split(":") if "/" not in name else ():
        if os.access(f"{folder}/{name}", os.X_OK):
            return f"{folder}/{name}"
    return name


def read_process_id(path: str) -> int:
    """0 when the file has none, or no such process runs."""
    try:
        with open(path) as file:  # noqa: PTH123 - pathlib is slow to import
            pid = int(file.read(32).strip() or 0)
        os.kill(pid, 0)
    except (OSError, ValueError):
        return 0
    return pid


def newest_child(session: int) -> int:
    """The last orphan that this process got from the program of `session`."""
    found = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - see above
        if name.isdigit() and int(name) > session:
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - see above
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid() and fields[0] != b"Z":
                found = max(found, int(name))
    return found


def _expand_variables(word: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        word = word.replace("${" + name + "}", value).replace(f"${name}", value)
    return word


def session_processes(session: int) -> list[int]:
    """The leader comes last: it may react to the end of its children."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is slow to import
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - see above
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                found.append(int(name))
    return sorted(found, key=lambda pid: pid == session)


def resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - see above
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0
