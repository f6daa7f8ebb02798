"""The first process of a host: runs its services and cron, and answers `systemctl`.

On a host with another supervisor it starts that one and runs cron. Imports only the standard
library.
"""

import _socket
import marshal
import os
import resource
import select
import signal
import socket
import time

from hermes.environments.boxes import unit_files
from hermes.environments.boxes.backend import HostPlan
from hermes.environments.boxes.supervised_service import ServiceLog, SupervisedService
from hermes.environments.boxes.unit_files import HOST_PATH
from hermes.environments.confinement import messages

CRON_TABLES = ("/etc/crontab", "/etc/cron.d", "/var/spool/cron/crontabs")
CRON_WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class CronJob:
    def __init__(self, table: str, schedule: list[str], user: str, command: str) -> None:
        self.table = table
        self.schedule = schedule
        self.user = user
        self.command = command

    def is_due(self, moment: time.struct_time) -> bool:
        values = (
            moment.tm_min,
            moment.tm_hour,
            moment.tm_mday,
            moment.tm_mon,
            (moment.tm_wday + 1) % 7,
        )
        return all(
            _matches_field(field, value) for field, value in zip(self.schedule, values, strict=True)
        )


def read_cron_jobs() -> list[CronJob]:
    found = []
    for table in CRON_TABLES:
        paths = (
            [f"{table}/{name}" for name in sorted(_list_cron_tables(table))]
            if os.path.isdir(table)  # noqa: PTH112 - pathlib is slow to import
            else [table]
        )
        for path in paths:
            try:
                with open(path, errors="replace") as file:  # noqa: PTH123 - pathlib is slow to import
                    text = file.read()
            except OSError:
                continue
            own = path.startswith(CRON_TABLES[2])
            found += _parse_cron_table(path, text, own=own)
    return found


def _parse_cron_table(path: str, text: str, *, own: bool) -> list[CronJob]:
    found = []
    for line in text.splitlines():
        word, space, rest = line.strip().partition(" ")
        words = f"{CRON_WORDS.get(word, word)}{space}{rest}".split(None, 5 if own else 6)
        if (
            not words
            or words[0].startswith("#")
            or "=" in words[0]
            or len(words) < (6 if own else 7)
        ):
            continue
        user = os.path.basename(path) if own else words[5]  # noqa: PTH119
        found.append(CronJob(path, words[:5], user, words[-1]))
    return found


def start_cron_job(job: CronJob, log: ServiceLog) -> int:
    """Returns the process id. The output is discarded; the start is logged."""
    log.write_lines("cron.service", "CRON[1]", f"({job.user}) CMD ({job.command})")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.close(reading)
            for target in (1, 2):
                os.dup2(writing, target)
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.chdir("/root")
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.execve(
                "/bin/sh",
                ["sh", "-c", job.command],
                {"PATH": HOST_PATH, "HOME": "/root", "LOGNAME": job.user},
            )
        finally:
            os._exit(127)
    os.close(writing)
    os.close(reading)  # a job that prints gets a broken pipe: no mail is delivered here
    return pid


def _matches_field(field: str, value: int) -> bool:
    for part in field.split(","):
        span, _, step = part.partition("/")
        every = int(step or 1)
        if span == "*":
            if value % every == 0:
                return True
            continue
        low, dash, high = span.partition("-")
        if not low.isdigit():
            return False
        top = int(high) if dash else int(low)
        if int(low) <= value <= top and (value - int(low)) % every == 0:
            return True
    return False


def _list_cron_tables(folder: str) -> list[str]:
    return [name for name in os.listdir(folder) if "." not in name]  # noqa: PTH208


CONTROL_SOCKET = "/run/systemd/private"
BOOT_LOG = "/var/log/boot.log"
IGNORED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
POLL_INTERVAL_S = 0.25
"""Between two checks of memory limits and of the time for cron."""


def run_supervisor(link: _socket.socket, host: HostPlan) -> None:
    """Never returns."""
    HostSupervisor(link, host).run()


def run_boot_script(script: str) -> int:
    """Returns the process id. What it prints is written to `BOOT_LOG`."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            log = os.open(BOOT_LOG, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
            for fd, target in ((os.open("/dev/null", os.O_RDONLY), 0), (log, 1), (log, 2)):
                os.dup2(fd, target)
            os.chdir("/")
            for number in (*IGNORED_SIGNALS, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            variables = {"PATH": HOST_PATH, "HOME": "/root", "LANG": "C.UTF-8"}
            os.execve("/bin/sh", ["sh", "-c", script], variables)
        finally:
            os._exit(127)
    return pid


class HostSupervisor:
    def __init__(self, oracle_socket: _socket.socket, host: HostPlan) -> None:
        self._oracle_socket = oracle_socket
        self._minute = host.minute
        self._log = ServiceLog()
        self._services: dict[str, SupervisedService] = {}
        self._awaited_by_clients: list[tuple[socket.socket, SupervisedService]] = []
        self._awaited_by_oracle: list[SupervisedService] = []
        self._jobs: dict[int, CronJob] = {}
        self._cron_wait: set[int] = set()
        self._cron_codes: list[int] = []
        self._clock = time.time()
        self._next_minute = time.monotonic() + self._minute
        self._boot = host.boot
        self._started_units = host.started_units
        self._given_services = host.services
        self._listener = None if host.boot else _listen_for_systemctl()
        self._wake, wakes = os.pipe()
        for fd in (self._wake, wakes):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        for number in IGNORED_SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def run(self) -> None:
        if self._boot:
            run_boot_script(self._boot)
        self._reload(from_files=False)
        for service in self._start_order():
            enabled = service.unit.enabled and not self._given_services
            if enabled or service.unit.name in self._started_units:
                service.start()
        while True:
            try:
                self._run_once()
            except Exception as error:  # noqa: BLE001 - the first process must not exit
                self._log.write_lines(
                    "init.scope", "systemd[1]", f"{type(error).__name__}: {error}"
                )

    def _run_once(self) -> None:
        poll = select.poll()
        poll.register(self._oracle_socket.fileno(), select.POLLIN)
        if self._listener is not None:
            poll.register(self._listener.fileno(), select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        outputs = {s.output: s for s in self._services.values() if s.output >= 0}
        for fd in outputs:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(self._poll_timeout_s() * 1000):
            if fd == self._oracle_socket.fileno():
                self._handle_oracle_request()
            elif self._listener is not None and fd == self._listener.fileno():
                self._handle_client_request(self._listener)
            elif fd == self._wake:
                os.read(self._wake, 4096)
            else:
                self._read_output(outputs[fd])
        self._reap_children()
        now = time.monotonic()
        for service in list(self._services.values()):
            service.tick(now)
        self._run_due_cron_jobs(now)
        self._answer_waiting()

    def _poll_timeout_s(self) -> float:
        """Ends when the next service is due to be restarted or killed."""
        due = [each.next_due for each in self._services.values() if each.next_due]
        return max(
            0.0, min(POLL_INTERVAL_S, *(at - time.monotonic() for at in due), POLL_INTERVAL_S)
        )

    def _read_output(self, service: SupervisedService) -> None:
        try:
            data = os.read(service.output, 65536)
        except BlockingIOError:
            return
        if data:
            self._log.write_output(service.unit.name, service.log_source, data)
        else:
            os.close(service.output)
            service.output = -1

    def _reap_children(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for service in self._services.values():
                if service.pid == pid:
                    self._drain_output(service)
                    service.handle_exit(status)
            job = self._jobs.pop(pid, None)
            if job is not None and pid in self._cron_wait:
                self._cron_wait.discard(pid)
                self._cron_codes.append(os.waitstatus_to_exitcode(status))

    def _drain_output(self, service: SupervisedService) -> None:
        """The last output of an exited process is still in the pipe."""
        for _ in range(64):
            if service.output < 0 or not select.select([service.output], [], [], 0)[0]:
                return
            self._read_output(service)

    def _run_due_cron_jobs(self, now: float) -> None:
        if now < self._next_minute:
            return
        self._next_minute = now + self._minute
        self._clock += 60.0
        moment = time.localtime(self._clock)
        for job in read_cron_jobs():
            if job.is_due(moment):
                self._jobs[start_cron_job(job, self._log)] = job

    def _start_order(self) -> list[SupervisedService]:
        """By their `After=`."""
        ordered: list[SupervisedService] = []
        left = list(self._services.values())
        for _ in range(len(left)):
            for service in list(left):
                after = " ".join(service.unit.all_values("After")).split()
                if not any(other.unit.name in after for other in left if other is not service):
                    ordered.append(service)
                    left.remove(service)
        return ordered + left

    def _reload(self, *, from_files: bool = True) -> None:
        if self._given_services:
            found = unit_files.load_given_services(self._given_services, from_files=from_files)
        else:
            found = unit_files.load_unit_files()
        for name, unit in found.items():
            if name in self._services:
                self._services[name].unit = unit
            else:
                self._services[name] = SupervisedService(unit, self._log)
        for name in set(self._services) - set(found):
            if not self._services[name].pid:
                del self._services[name]

    def _handle_oracle_request(self) -> None:
        """Replies when the request is carried out."""
        data, _ = messages.receive_message(self._oracle_socket)
        if not data:
            os._exit(0)
        verb, name = marshal.loads(data)
        if verb == "cron":
            found = [
                job
                for job in read_cron_jobs()
                if not name or name in job.table or name in job.command
            ]
            self._cron_codes = []
            self._cron_wait = {start_cron_job(job, self._log) for job in found}
            self._jobs |= dict.fromkeys(self._cron_wait, found[0]) if found else {}
            if not found:
                messages.send_message(self._oracle_socket, marshal.dumps({"codes": []}))
            return
        answer = self._handle_verb(verb, name)
        if isinstance(answer, SupervisedService):
            self._awaited_by_oracle.append(answer)
            return
        messages.send_message(self._oracle_socket, marshal.dumps({"said": answer}))

    def _handle_client_request(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.settimeout(1.0)
        try:
            verb, _, name = connection.recv(65536).decode("utf-8", "replace").partition("\t")
            answer = self._handle_verb(verb, name)
        except OSError:
            connection.close()
            return
        if isinstance(answer, SupervisedService):
            self._awaited_by_clients.append((connection, answer))
        else:
            _send_reply(connection, answer)

    def _answer_waiting(self) -> None:
        """Replies to clients whose stop or restart has finished."""
        for service in list(self._services.values()):
            if service.restart_pending and service.state != "deactivating":
                service.restart_pending = False
                service.start()
        for connection, service in list(self._awaited_by_clients):
            if not service.busy:
                self._awaited_by_clients.remove((connection, service))
                _send_reply(
                    connection, {"error": "" if service.state != "failed" else service.result}
                )
        for service in list(self._awaited_by_oracle):
            if not service.busy:
                self._awaited_by_oracle.remove(service)
                messages.send_message(
                    self._oracle_socket, marshal.dumps({"said": describe_service(service)})
                )
        if self._cron_wait == set() and self._cron_codes:
            messages.send_message(self._oracle_socket, marshal.dumps({"codes": self._cron_codes}))
            self._cron_codes = []

    def _handle_verb(self, verb: str, name: str) -> "dict[str, object] | SupervisedService":
        if verb == "list":
            return {"units": [describe_service(each) for each in self._services.values()]}
        if verb == "daemon-reload":
            self._reload()
            return {"error": ""}
        service = self._services.get(name if name.endswith(".service") else f"{name}.service")
        if service is None:
            self._reload()
            service = self._services.get(name if name.endswith(".service") else f"{name}.service")
        if service is None:
            return {"error": f"Unit {name} not found.", "missing": True}
        return self._apply_verb(service, verb)

    def _apply_verb(
        self, service: SupervisedService, verb: str
    ) -> "dict[str, object] | SupervisedService":
        if verb == "show":
            return describe_service(service)
        if verb in ("start", "restart"):
            service.restarts = 0  # counts automatic restarts since the last manual one
        if verb == "start":
            problem = service.start()
            return service if service.busy else {"error": problem, **describe_service(service)}
        if verb == "stop":
            return {"error": "", **describe_service(service)} if service.stop() else service
        if verb == "restart":
            service.reset()
            if service.stop():
                problem = service.start()
                return service if service.busy else {"error": problem, **describe_service(service)}
            service.restart_pending = True
            return service
        if verb == "reload":
            return {"error": service.reload(), **describe_service(service)}
        if verb == "reset-failed":
            service.reset()
            return {"error": "", **describe_service(service)}
        return {"error": f"Unknown verb {verb}."}


def _listen_for_systemctl() -> socket.socket:
    os.makedirs("/run/systemd", exist_ok=True)  # noqa: PTH103 - pathlib is slow to import
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(CONTROL_SOCKET)
    os.chmod(CONTROL_SOCKET, 0o666)  # noqa: PTH101 - see above
    listener.listen(16)
    return listener


def describe_service(service: SupervisedService) -> dict[str, object]:
    unit = service.unit
    return {
        "name": unit.name,
        "description": unit.last_value("Description"),
        "path": unit.path,
        "state": service.state,
        "sub": service.sub,
        "result": service.result,
        "pid": service.pid,
        "code": service.code,
        "since": service.since,
        "restarts": service.restarts,
        "enabled": unit.enabled,
        "stale": unit_files.last_modified(unit.name) > unit.modified_when_loaded,
        "command": unit.last_value("ExecStart"),
        "environment": " ".join(unit.all_values("Environment")),
        "file_limits": unit.file_limits() or resource.getrlimit(resource.RLIMIT_NOFILE),
        "drop_ins": unit.drop_ins,
    }


def _send_reply(connection: socket.socket, answer: dict[str, object]) -> None:
    try:
        connection.send(marshal.dumps(answer, 2))
    except OSError:
        pass
    finally:
        connection.close()
