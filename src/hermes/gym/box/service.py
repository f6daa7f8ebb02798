"""One service's life: started, watched, stopped, started again, given up on."""

import os
import pwd
import resource
import shlex
import signal
import time

from hermes.gym.box.logbook import Logbook
from hermes.gym.box.units import Unit

_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Service:
    def __init__(self, unit: Unit, log: Logbook) -> None:
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
        self.again_at = 0.0
        """When it is started again by itself."""
        self.kill_at = 0.0
        self.wanted_again = False
        """A restart waits for the end of the old process."""
        self._starts: list[float] = []

    def start(self) -> str:
        """What went wrong at once, or nothing."""
        if self.state in ("active", "activating") and self.pid:
            return ""
        now = time.monotonic()
        burst = int(self.unit.last("StartLimitBurst", "5"))
        interval = self.unit.seconds("StartLimitIntervalSec", 10.0)
        self._starts = [at for at in self._starts if now - at < interval]
        if len(self._starts) >= burst:
            self.again_at = 0.0  # given up: nobody starts it again unasked
            self._fail("start-limit-hit", "Start request repeated too quickly.")
            return "start request repeated too quickly"
        self._starts.append(now)
        self.again_at = 0.0
        try:
            for line in self.unit.commands("ExecStartPre"):
                self._before(line)
            self._fork(self.unit.last("ExecStart"))
        except (OSError, ValueError, KeyError) as error:
            self._log.note(
                self.unit.name, "systemd[1]", f"{self.unit.name}: Failed to start: {error}"
            )
            self._fail("resources", f"Failed with result 'resources': {error}")
            return str(error)
        oneshot = self.unit.last("Type") == "oneshot"
        self._become("activating" if oneshot else "active", "start" if oneshot else "running")
        self._say(f"Started {self.unit.last('Description') or self.unit.name}.")
        return ""

    def stop(self) -> bool:
        """True when it has stopped already."""
        self.again_at = 0.0
        if not self.pid:
            self._become("inactive", "dead")
            return True
        self._become("deactivating", "stop-sigterm")
        for line in self.unit.commands("ExecStop"):
            self._before(line, must=False)
        self._signal(signal.Signals[self.unit.last("KillSignal", "SIGTERM")])
        self.kill_at = time.monotonic() + self.unit.seconds("TimeoutStopSec", 5.0)
        return False

    def reload(self) -> str:
        lines = self.unit.commands("ExecReload")
        if not lines:
            return f"Job type reload is not applicable for unit {self.unit.name}."
        if not self.pid:
            return f"{self.unit.name} is not active, cannot reload."
        try:
            for line in lines:
                self._before(line.replace("$MAINPID", str(self.pid)))
        except OSError as error:
            return f"Reload of {self.unit.name} failed: {error}"
        return ""

    def reset(self) -> None:
        self._starts.clear()
        if self.state == "failed":
            self._become("inactive", "dead")

    def tick(self, now: float) -> None:
        if self.again_at and now >= self.again_at:
            self.restarts += 1
            self._say(f"Scheduled restart job, restart counter is at {self.restarts}.")
            self.start()
        if self.kill_at and now >= self.kill_at and self.pid:
            self._say("State 'stop-sigterm' timed out. Killing.")
            self._signal(signal.SIGKILL)
            self.kill_at = 0.0
        limit = self.unit.memory_max
        if limit and self.pid and memory_of(self.pid) > limit:
            self._say("A process of this unit has been killed by the OOM killer.")
            self.result = "oom-kill"
            self._signal(signal.SIGKILL)

    @property
    def due(self) -> float:
        """When something is to be done without being asked; 0 for never."""
        return min((at for at in (self.again_at, self.kill_at) if at), default=0.0)

    def ended(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self.pid, self.code, self.kill_at = 0, code, 0.0
        self._end_rest()
        self._log.ended(self.unit.name, self._who)
        told = f"code=exited, status={code}" if code >= 0 else f"code=killed, signal={-code}"
        self._say(f"Main process exited, {told}")
        if self.state == "deactivating":
            self._become("inactive", "dead")
            self._say(f"Stopped {self.unit.last('Description') or self.unit.name}.")
            return
        clean = code in (0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
        if self.result != "oom-kill":
            self.result = "success" if clean else "exit-code" if code > 0 else "signal"
        remain = self.unit.last("RemainAfterExit") in ("yes", "true")
        if clean:
            self._become("active" if remain else "inactive", "exited" if remain else "dead")
        else:
            self._fail(self.result, f"Failed with result '{self.result}'.")
        again = self.unit.last("Restart", "no")
        if again == "always" or (again in ("on-failure", "on-abnormal") and not clean):
            self.again_at = time.monotonic() + self.unit.seconds("RestartSec", 0.1)
            self._become("activating", "auto-restart")
        if self.result == "oom-kill":
            self.result = "success" if clean else "oom-kill"

    @property
    def _who(self) -> str:
        program = os.path.basename(shlex.split(self.unit.last("ExecStart") or "x")[0])  # noqa: PTH119
        return f"{program}[{self.pid or '-'}]"

    def _say(self, text: str) -> None:
        self._log.note(self.unit.name, "systemd[1]", f"{self.unit.name}: {text}")

    def _become(self, state: str, sub: str) -> None:
        self.state, self.sub, self.since = state, sub, time.time()

    def _fail(self, result: str, text: str) -> None:
        self.result = result
        self._become("failed", "failed")
        self._say(text)

    def _signal(self, number: int) -> None:
        # By its own number too: just born, it has no session of its own yet.
        for pid in (*(each for each in members_of(self.pid) if each != self.pid), self.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def _end_rest(self) -> None:
        """What a service leaves behind in its session ends with it."""
        if self.unit.last("KillMode") == "process" or self.output < 0:
            return
        for pid in members_of(self._session):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    _session = 0

    def _before(self, line: str, *, must: bool = True) -> None:
        words = shlex.split(line.lstrip("-"))
        pid = os.posix_spawn(words[0], words, {"PATH": PATH, **self.unit.environment()})
        _, status = os.waitpid(pid, 0)
        if status and must and not line.startswith("-"):
            raise OSError(f"{line} exited with {os.waitstatus_to_exitcode(status)}")

    def _fork(self, line: str) -> None:
        words = shlex.split(line.lstrip("-@+!"))
        if not words:
            raise ValueError("it has no ExecStart= setting")
        variables = {"PATH": PATH, "LANG": "C.UTF-8", **self.unit.environment()}
        words = [_filled(word, variables) for word in words]
        user = pwd.getpwnam(self.unit.last("User", "root"))
        folder = self.unit.last("WorkingDirectory", "/")
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        # We ignore what ends others. A child that is told to end before it stops ignoring it
        # must hear of it afterwards.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                self._confine()
                for target in (1, 2):
                    os.dup2(writing, target)
                os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
                os.chdir(folder)
                if user.pw_uid:
                    os.setgroups([])
                    os.setgid(user.pw_gid)
                    os.setuid(user.pw_uid)
                for number in (signal.SIGPIPE, signal.SIGCHLD, *_ENDINGS):
                    signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
                variables |= {"HOME": user.pw_dir, "USER": user.pw_name}
                os.execve(words[0], words, variables)
            except OSError as error:
                os.write(2, f"{words[0]}: {error.strerror}\n".encode())
            finally:
                os._exit(203)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
        os.close(writing)
        if self.output >= 0:
            os.close(self.output)
        self.pid, self._session, self.output, self.code = pid, pid, reading, None

    def _confine(self) -> None:
        files = self.unit.last("LimitNOFILE")
        if files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (int(files), int(files)))
        cpu = self.unit.last("Nice")
        if cpu:
            os.nice(int(cpu))


def _filled(word: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        word = word.replace("${" + name + "}", value).replace(f"${name}", value)
    return word


def members_of(session: int) -> list[int]:
    """Processes of that session, the leader last: it should not see its children go first."""
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


def memory_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - see above
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0
