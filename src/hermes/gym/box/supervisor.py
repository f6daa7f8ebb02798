"""The first process of a host: starts its services, buries the dead, answers `systemctl`.

It cannot be killed from inside (the kernel spares the first process of a namespace), and what the
oracle tells it comes over a line that nobody inside can reach.
"""

import _socket
import marshal
import os
import select
import signal
import socket
import time

from hermes.environments.confinement import wire
from hermes.gym.box import cron, units
from hermes.gym.box.logbook import Logbook
from hermes.gym.box.plan import HostPlan
from hermes.gym.box.service import Service

SOCKET = "/run/systemd/private"
BEAT = 0.25
"""Seconds between looks at what nobody announces: memory, and the clock of cron."""


def live(line: _socket.socket, host: HostPlan) -> None:
    """Never returns."""
    os.makedirs("/run/systemd", exist_ok=True)  # noqa: PTH103 - pathlib is slow to import
    _Supervisor(line, host).run()


class _Supervisor:
    def __init__(self, line: _socket.socket, host: HostPlan) -> None:
        self._line = line
        self._minute = host.minute
        self._log = Logbook()
        self._services: dict[str, Service] = {}
        self._waiting: list[tuple[socket.socket, Service]] = []
        self._asked: list[Service] = []
        """Services that the oracle waits for."""
        self._jobs: dict[int, cron.Job] = {}
        self._cron_wait: set[int] = set()
        self._cron_codes: list[int] = []
        self._clock = time.time()
        self._next_minute = time.monotonic() + self._minute
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(SOCKET)
        os.chmod(SOCKET, 0o666)  # noqa: PTH101 - see above
        self._listener.listen(16)
        self._wake, wakes = os.pipe()
        for fd in (self._wake, wakes):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)

    def run(self) -> None:
        self._reload()
        for service in self._in_order():
            if service.unit.enabled:
                service.start()
        while True:
            try:
                self._once()
            except Exception as error:  # noqa: BLE001 - the first process may fall over nothing
                self._log.note("init.scope", "systemd[1]", f"{type(error).__name__}: {error}")

    def _once(self) -> None:
        poll = select.poll()
        poll.register(self._line.fileno(), select.POLLIN)
        poll.register(self._listener.fileno(), select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        outputs = {s.output: s for s in self._services.values() if s.output >= 0}
        for fd in outputs:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(self._idle() * 1000):
            if fd == self._line.fileno():
                self._told()
            elif fd == self._listener.fileno():
                self._asked_by_someone()
            elif fd == self._wake:
                os.read(self._wake, 4096)
            else:
                self._hear(outputs[fd])
        self._bury()
        now = time.monotonic()
        for service in list(self._services.values()):
            service.tick(now)
        self._keep_time(now)
        self._settle()

    def _idle(self) -> float:
        """Until somebody is due to be started again or killed: not a moment longer than that."""
        due = [each.due for each in self._services.values() if each.due]
        return max(0.0, min(BEAT, *(at - time.monotonic() for at in due), BEAT))

    def _hear(self, service: Service) -> None:
        try:
            data = os.read(service.output, 65536)
        except BlockingIOError:
            return
        if data:
            self._log.heard(service.unit.name, service._who, data)
        else:
            os.close(service.output)
            service.output = -1

    def _bury(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for service in self._services.values():
                if service.pid == pid:
                    self._hear_rest(service)
                    service.ended(status)
            job = self._jobs.pop(pid, None)
            if job is not None and pid in self._cron_wait:
                self._cron_wait.discard(pid)
                self._cron_codes.append(os.waitstatus_to_exitcode(status))

    def _hear_rest(self, service: Service) -> None:
        """The last words of a process that has ended are still in the pipe."""
        for _ in range(64):
            if service.output < 0 or not select.select([service.output], [], [], 0)[0]:
                return
            self._hear(service)

    def _keep_time(self, now: float) -> None:
        if now < self._next_minute:
            return
        self._next_minute = now + self._minute
        self._clock += 60.0
        moment = time.localtime(self._clock)
        for job in cron.jobs():
            if job.due(moment):
                self._jobs[cron.launch(job, self._log)] = job

    def _in_order(self) -> list[Service]:
        placed: list[Service] = []
        left = list(self._services.values())
        for _ in range(len(left)):
            for service in list(left):
                after = " ".join(service.unit.commands("After")).split()
                if not any(other.unit.name in after for other in left if other is not service):
                    placed.append(service)
                    left.remove(service)
        return placed + left

    def _reload(self) -> None:
        found = units.load_all()
        for name, unit in found.items():
            if name in self._services:
                self._services[name].unit = unit
            else:
                self._services[name] = Service(unit, self._log)
        for name in set(self._services) - set(found):
            if not self._services[name].pid:
                del self._services[name]

    def _told(self) -> None:
        """By the oracle; answered when it is done."""
        data, _ = wire.receive(self._line)
        if not data:
            os._exit(0)
        verb, name = marshal.loads(data)
        if verb == "cron":
            found = [
                job for job in cron.jobs() if not name or name in job.table or name in job.command
            ]
            self._cron_codes = []
            self._cron_wait = {cron.launch(job, self._log) for job in found}
            self._jobs |= dict.fromkeys(self._cron_wait, found[0]) if found else {}
            if not found:
                wire.send(self._line, marshal.dumps({"codes": []}))
            return
        answer = self._do(verb, name)
        if isinstance(answer, Service):
            self._asked.append(answer)
            return
        wire.send(self._line, marshal.dumps({"said": answer}))

    def _asked_by_someone(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(1.0)
        try:
            verb, _, name = connection.recv(65536).decode("utf-8", "replace").partition("\t")
            answer = self._do(verb, name)
        except OSError:
            connection.close()
            return
        if isinstance(answer, Service):
            self._waiting.append((connection, answer))
        else:
            _reply(connection, answer)

    def _settle(self) -> None:
        """Answer those whose stop or restart has come to its end."""
        for service in list(self._services.values()):
            if service.wanted_again and service.state != "deactivating":
                service.wanted_again = False
                service.start()
        for connection, service in list(self._waiting):
            if service.state != "deactivating" and not service.wanted_again:
                self._waiting.remove((connection, service))
                _reply(connection, {"error": "" if service.state != "failed" else service.result})
        for service in list(self._asked):
            if service.state != "deactivating" and not service.wanted_again:
                self._asked.remove(service)
                wire.send(self._line, marshal.dumps({"said": describe(service)}))
        if self._cron_wait == set() and self._cron_codes:
            wire.send(self._line, marshal.dumps({"codes": self._cron_codes}))
            self._cron_codes = []

    def _do(self, verb: str, name: str) -> "dict[str, object] | Service":
        if verb == "list":
            return {"units": [describe(each) for each in self._services.values()]}
        if verb == "daemon-reload":
            self._reload()
            return {"error": ""}
        service = self._services.get(name if name.endswith(".service") else f"{name}.service")
        if service is None:
            self._reload()
            service = self._services.get(name if name.endswith(".service") else f"{name}.service")
        if service is None:
            return {"error": f"Unit {name} not found.", "missing": True}
        return self._with(service, verb)

    def _with(self, service: Service, verb: str) -> "dict[str, object] | Service":
        if verb == "show":
            return describe(service)
        if verb in ("start", "restart"):
            service.restarts = 0  # counts what it does by itself, since somebody last asked
        if verb == "start":
            problem = service.start()
            return {"error": problem, **describe(service)}
        if verb == "stop":
            return {"error": "", **describe(service)} if service.stop() else service
        if verb == "restart":
            service.reset()
            if service.stop():
                return {"error": service.start(), **describe(service)}
            service.wanted_again = True
            return service
        if verb == "reload":
            return {"error": service.reload(), **describe(service)}
        if verb == "reset-failed":
            service.reset()
            return {"error": "", **describe(service)}
        return {"error": f"Unknown verb {verb}."}


def describe(service: Service) -> dict[str, object]:
    unit = service.unit
    return {
        "name": unit.name,
        "description": unit.last("Description"),
        "path": unit.path,
        "state": service.state,
        "sub": service.sub,
        "result": service.result,
        "pid": service.pid,
        "code": service.code,
        "since": service.since,
        "restarts": service.restarts,
        "enabled": unit.enabled,
        "stale": units.stamp_of(unit.name) > unit.stamp,
        "command": unit.last("ExecStart"),
    }


def _reply(connection: socket.socket, answer: dict[str, object]) -> None:
    try:
        connection.send(marshal.dumps(answer, 2))
    except OSError:
        pass
    finally:
        connection.close()
