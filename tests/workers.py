"""`pytest --jobs 4`: the tests are loaded and collected once, and four forks of that process run
them.

Tests of one group (`tiers.process_group`) run in one process, one after the other. A process that
ends during a test fails that test; a new one goes on with the rest of its group.
"""

import io
import os
import signal
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest

import isolation
import tiers

# Tests are numbers: their places in the list of collected tests, which all forks have.
TestNumbers = deque[int]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--jobs", type=int, default=0, help="processes for the tests; 0: only this one"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.jobs:
        config.pluginmanager.register(Workers(config.option.jobs))


@dataclass
class Worker:
    pid: int
    group: TestNumbers = field(default_factory=deque)
    running: int | None = None


class Workers:
    """The process that has collected the tests: it hands them out and reports what comes back."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._isolated = isolation.is_possible()
        self._waiting: deque[TestNumbers] = deque()
        self._workers: dict[Connection, Worker] = {}
        self._worker_numbers = count()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest does not run tests then
        if threading.active_count() > 1:
            raise pytest.UsageError(f"a test file starts a thread: {threading.enumerate()}")
        self._waiting.extend(_groups(session.items))
        try:
            for _ in range(min(self._jobs, len(self._waiting))):
                self._start(session)
            while self._workers:
                for connection in wait(list(self._workers)):
                    assert isinstance(connection, Connection)
                    self._receive(session, connection)
        finally:
            for worker in self._workers.values():
                os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _start(self, session: pytest.Session) -> None:
        here, there = Pipe()
        base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        folder = base / f"worker-{next(self._worker_numbers)}"
        sys.stdout.flush()
        sys.stderr.flush()
        pid = isolation.fork(folder) if self._isolated else os.fork()
        if not pid:
            for other in (*self._workers, here):
                other.close()
            own = Path("/tmp/tests") if self._isolated else folder
            _end_after(lambda: _run_tests(session, there, own))
        there.close()
        self._workers[here] = Worker(pid)

    def _receive(self, session: pytest.Session, connection: Connection) -> None:
        hook = session.config.hook
        try:
            kind, value = connection.recv()
        except (EOFError, OSError):
            self._end(session, connection)
            return
        if kind == "report":
            report = hook.pytest_report_from_serializable(config=session.config, data=value)
            hook.pytest_runtest_logreport(report=report)
        elif kind == "warning":
            hook.pytest_warning_recorded.call_historic(kwargs=value)
        else:
            self._hand_out(session, connection)

    def _hand_out(self, session: pytest.Session, connection: Connection) -> None:
        """The next test and the one after it, if it is of the same group; nothing: the end."""
        worker = self._workers[connection]
        if worker.running is not None:
            _log_finish(session, worker.running)
        worker.running = None
        if not worker.group and self._waiting:
            worker.group = self._waiting.popleft()
        order = None
        if worker.group and not (session.shouldfail or session.shouldstop):
            worker.running = worker.group.popleft()
            order = (worker.running, worker.group[0] if worker.group else None)
        with suppress(BrokenPipeError):  # it has just ended, which is received next
            connection.send(order)

    def _end(self, session: pytest.Session, connection: Connection) -> None:
        worker = self._workers.pop(connection)
        connection.close()
        code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if worker.running is None:
            if code:
                session.shouldfail = f"a test process ended with {code} outside of a test"
            return
        item = session.items[worker.running]
        message = f"its process ended with {code} while it ran"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", message, "call")
        session.config.hook.pytest_runtest_logreport(report=report)
        _log_finish(session, worker.running)
        if worker.group:
            self._waiting.appendleft(worker.group)
        if self._waiting and not (session.shouldfail or session.shouldstop):
            self._start(session)


def _groups(items: list[pytest.Item]) -> Iterator[TestNumbers]:
    """In the order of the first test of each."""
    groups: dict[str, TestNumbers] = {}
    for number, item in enumerate(items):
        groups.setdefault(tiers.process_group(item.nodeid), deque()).append(number)
    yield from groups.values()


def _log_finish(session: pytest.Session, number: int) -> None:
    item = session.items[number]
    session.config.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


class Sender:
    """In a forked process: sends what there is to report to the process that it was forked from."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config, self._connection = config, connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str
    ) -> None:
        # Only texts: an exception may hold anything.
        text = f"{warning_message.category.__name__}: {warning_message.message}"
        plain = warnings.WarningMessage(
            text, Warning, warning_message.filename, warning_message.lineno
        )
        values = {"warning_message": plain, "when": when, "nodeid": nodeid, "location": None}
        self._connection.send(("warning", values))


def _run_tests(session: pytest.Session, connection: Connection, folder: Path) -> None:
    config = session.config
    _separate(config, folder)
    config.pluginmanager.register(Sender(config, connection))
    item = None
    connection.send(("ready", None))
    while order := connection.recv():
        number, following = order
        item = session.items[number]
        # What the whole session shares stays for the next group.
        next_item = session if following is None else session.items[following]
        config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        connection.send(("ready", None))
    if item is None:
        return
    call = pytest.CallInfo.from_call(lambda: session._setupstate.teardown_exact(None), "teardown")
    if call.excinfo:
        report = pytest.TestReport.from_item_and_call(item, call)
        config.hook.pytest_runtest_logreport(report=report)


def _separate(config: pytest.Config, folder: Path) -> None:
    """Ends what a fork shares with its parent: files for captured output, terminal, folder."""
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    terminal._tw._file = io.StringIO()  # assertions need the reporter itself
    folder.mkdir(parents=True)
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = folder
    factory._next_number.clear()


def _end_after(work: Callable[[], None]) -> NoReturn:
    code = 1
    try:
        with suppress(KeyboardInterrupt):  # the process that it was forked from says so
            work()
        code = 0
    finally:
        if code:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
