"""Starts commands on this machine that the kernel confines to their verdict.

A `ConfinementProfile` says what a command may do. Its paths are resolved again just before the
command starts: if one leads elsewhere than when it was judged, the command is refused. A command
that cannot be confined is not run.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread
from msgspec import structs

from hermes.core.actions import BlockedAccess, ConfinementProfile, KernelSupport
from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.protocols import BackgroundProcess
from hermes.environments.confinement import messages
from hermes.environments.confinement.messages import LauncherRequest
from hermes.environments.confinement.verdict_paths import (
    PathTargetChanged,
    find_connecting_files,
    outside_reason,
    resolve_rules,
)
from hermes.environments.processes.process_tree import STOP_GRACE_S, ProcessTree
from hermes.environments.processes.spawn import ChildProcess, StartProgram, wait_readable
from hermes.environments.sandboxing.launcher_client import (
    LauncherClient,
    launcher_argv,
    too_long_error,
)
from hermes.environments.sandboxing.root_commands import add_root_commands, uses_root_launcher
from hermes.environments.shell import TREE_VARIABLE

START_TIMEOUT_S = 20.0
SUPPORT_MODULE = "hermes.environments.sandboxing.support"
"""Imported with the first command, like all that it needs of the kernel."""
READ_ONLY_VARIABLES: Mapping[str, str] = {
    "GIT_OPTIONAL_LOCKS": "0",
    "HISTFILE": "/dev/null",
    "LESSHISTFILE": "-",
    "LVM_SUPPRESS_FD_WARNINGS": "1",
    "MYSQL_HISTFILE": "/dev/null",
    "NODE_REPL_HISTORY": "",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PSQL_HISTORY": "/dev/null",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONSAFEPATH": "1",
    "PYTHON_HISTORY": "/dev/null",
    "REDISCLI_HISTFILE": "/dev/null",
    "SQLITE_HISTORY": "/dev/null",
}
"""Variables that keep reading programs from writing caches and similar files, and Python from
importing modules of the working folder."""


HIDDEN_DIFFERENCES: Mapping[str, str] = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.attributesFile",
    "GIT_CONFIG_VALUE_0": str(Path(__file__).parent / "secret_files.txt"),
}
"""Variables that keep git from printing what is in secret files of a repository or its history."""


READ_ONLY_SESSIONS: Mapping[str, str] = {"PGOPTIONS": "-c default_transaction_read_only=on"}
"""Variables with which PostgreSQL servers refuse changes, whatever a query calls."""


class ForkServerClient:
    """Starts confined commands through a fork server, which is started when it is first needed.

    `hidden` are files that commands find empty, unless their verdict covers them.
    """

    def __init__(self, hidden: tuple[str, ...] = ()) -> None:
        self.hidden = tuple(map(os.path.realpath, hidden))
        self._server: LauncherClient | None = None
        self._support: KernelSupport | None = None
        self._lock = anyio.Lock()

    async def support(self) -> KernelSupport:
        if self._support is not None:
            return self._support
        async with self._lock:
            if self._support is None:
                self._support = await self._probe_support()
            return self._support

    async def _probe_support(self) -> KernelSupport:
        """Tries it: containers and other filters may forbid any step."""
        found: KernelSupport = import_module(SUPPORT_MODULE).kernel_support()
        if uses_root_launcher():
            found = await to_thread.run_sync(add_root_commands, found)
        if found.reason:
            return found
        request = LauncherRequest()
        request.kind = "check"
        try:
            answer, link = await self._ask(request, ())
            link.close()
            reason, _, visible = answer[1:].decode("utf-8", "replace").partition("\0")
        except EnvironmentFailed as error:
            reason, visible = str(error), ""
        return structs.replace(found, reason=reason, visible_secrets=visible)

    async def start(self, request: LauncherRequest, files: Sequence[int]) -> int:
        """The process id of the command. Raises `EnvironmentFailed` if it cannot start."""
        answer, link = await self._ask(request, files)
        answers = [answer]
        try:
            while answer := await _receive_answer(link):  # a successful exec closes the socket
                answers.append(answer)
        except BaseException:
            await _withdraw(request, link, answers)
            raise
        finally:
            link.close()
        pid = _process_id(answers)
        problem = next((each[1:] for each in answers if each[:1] == messages.ANSWER_FAILED), b"")
        if pid and not problem:
            return pid
        if pid:
            await ChildProcess(pid).wait()
        reason = problem.decode("utf-8", "replace")
        raise EnvironmentFailed(f"not run: the command could not be confined ({reason})")

    async def _ask(
        self, request: LauncherRequest, files: Sequence[int]
    ) -> tuple[bytes, socket.socket]:
        """The first answer and its socket. A server that has ended is replaced once."""
        for _ in range(2):
            line = self._server = self._server or LauncherClient(launcher_argv("fork_server"))
            try:
                answer, link = await _exchange_messages(line, request, files)
            except (OSError, anyio.ClosedResourceError) as error:
                if getattr(error, "errno", 0) == errno.EMSGSIZE:
                    raise too_long_error() from error
            else:
                if answer:
                    return answer, link
                link.close()
            if self._server is line:  # another command may have replaced it already
                await self.close()
        raise EnvironmentFailed("not run: the process that confines commands does not start")

    async def close(self) -> None:
        """Running commands continue."""
        line, self._server = self._server, None
        if line is None:
            return
        spare = 0
        request = LauncherRequest()
        request.kind = "end"
        with contextlib.suppress(OSError, TimeoutError, ValueError):
            answer, link = await _exchange_messages(line, request, ())
            link.close()
            spare = int(answer[1:])
        await line.close()
        if spare:
            await ChildProcess(spare).wait_or_kill(START_TIMEOUT_S)


async def _exchange_messages(
    line: LauncherClient, request: LauncherRequest, files: Sequence[int]
) -> tuple[bytes, socket.socket]:
    """The first answer, and the socket for more. Raises `OSError` when the server is gone."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    try:
        with theirs, anyio.fail_after(START_TIMEOUT_S):
            await _send_request(line, request, (theirs.fileno(), *files))
        return await _receive_answer(ours), ours
    except BaseException:
        await _withdraw(request, ours, [])
        ours.close()
        raise


async def _withdraw(request: LauncherRequest, link: socket.socket, answers: list[bytes]) -> None:
    """Nobody waits for the command any more: it does not start, or it is killed."""
    link.shutdown(socket.SHUT_RD)  # the process that has not answered yet cannot: it ends
    while answer := link.recv(4096):
        answers.append(answer)
    pid = _process_id(answers) if request.kind == "run" else 0
    if pid:
        mark = dict(request.variables).get(os.fsencode(TREE_VARIABLE), b"")
        with anyio.move_on_after(STOP_GRACE_S, shield=True):
            await ProcessTree(os.fsdecode(mark), pid).kill()
            await ChildProcess(pid).wait()


def _process_id(answers: list[bytes]) -> int:
    return next((int(each[1:]) for each in answers if each[:1] == messages.ANSWER_OK), 0)


async def _send_request(
    line: LauncherClient, request: LauncherRequest, files: Sequence[int]
) -> None:
    while True:
        try:
            return line.send(request.pack(), tuple(files))
        except BlockingIOError:
            await line.writable()


async def _receive_answer(link: socket.socket) -> bytes:
    """The next answer; empty when the socket was closed."""
    with anyio.fail_after(START_TIMEOUT_S):
        while True:
            await wait_readable(link.fileno())
            try:
                return link.recv(4096)
            except BlockingIOError:
                continue


class CommandConfinement:
    """Starts the commands of one verdict, and collects what the kernel refused to them.

    `background` commands run on when Hermes is killed.
    """

    def __init__(
        self,
        profile: ConfinementProfile,
        server: ForkServerClient,
        temporary: Path,
        *,
        background: bool = False,
    ) -> None:
        self._profile, self._server = profile, server
        self._temporary, self._background = temporary, background
        self.folder = "/"
        """The working folder of the next command."""
        self._reports: list[int] = []
        self.preferred: Mapping[str, str] = {
            **READ_ONLY_VARIABLES,
            # A command that records files needs the attributes of the user.
            **({} if profile.repository or profile.own_secrets else HIDDEN_DIFFERENCES),
            **(READ_ONLY_SESSIONS if profile.read_only_databases else {}),
            "TMPDIR": str(temporary),
            "XDG_CACHE_HOME": str(temporary / "cache"),
            "npm_config_cache": str(temporary / "npm"),
        }

    def starter(self, tree: str, files: tuple[str, ...]) -> StartProgram:
        async def start(
            argv: Sequence[str],
            variables: Mapping[str, str],
            *,
            stdin: int | None,
            output: int,
            files: Mapping[int, int],
        ) -> int:
            try:
                rules = resolve_rules(self._profile, self.folder)
            except PathTargetChanged as error:
                raise ToolError(str(error)) from error
            rules.trees += (str(self._temporary),)
            rules.files += own
            rules.mark = tree
            rules.connecting = find_connecting_files(
                self._profile.connecting, variables.get("PATH", "").split(":")
            )
            rules.ends_with_hermes = not (self._profile.changes or self._background)
            if not self._profile.own_secrets:
                rules.hidden += tuple(filter(os.path.isfile, self._server.hidden))
                if rules.sees_processes or rules.device_control:
                    rules.hidden += _own_process_files()
            request = LauncherRequest()
            request.argv = tuple(os.fsencode(each) for each in argv)
            request.variables = tuple(
                (os.fsencode(name), os.fsencode(value)) for name, value in variables.items()
            )
            request.rules = rules.pack()
            request.targets = (0, 1, *files)
            source = os.open(os.devnull, os.O_RDONLY) if stdin is None else os.dup(stdin)
            report, writer = os.pipe()
            try:
                given = (writer, source, output, *files.values())
                pid = await self._server.start(request, given)
            except BaseException:
                os.close(report)
                raise
            finally:
                os.close(source)
                os.close(writer)
            os.set_blocking(report, False)
            self._reports.append(report)
            return pid

        own = files
        return start

    def check_write(self, path: str) -> None:
        """Raises `ToolError` for a file that the verdict does not cover."""
        if reason := outside_reason(path, self._profile.writable):
            raise ToolError(reason)

    def blocked(self) -> list[BlockedAccess]:
        """Return what was refused to these commands since the last call."""
        found = []
        for report in tuple(self._reports):
            try:
                data = os.read(report, 65_536)
            except BlockingIOError:
                continue
            found += [parse_refusal(line) for line in data.decode("utf-8", "replace").splitlines()]
            if not data:
                self._reports.remove(report)
                os.close(report)
        return found

    def close(self) -> None:
        for report in self._reports:
            os.close(report)
        self._reports = []

    @property
    def judged(self) -> str:
        return self._profile.describe


def _own_process_files() -> tuple[str, ...]:
    """The environment and the memory of this process, which the right to inspect processes or
    devices would show."""
    own = os.getpid()
    threads = os.listdir("/proc/self/task")  # noqa: PTH208
    folders = [f"/proc/{own}", *(f"/proc/{own}/task/{each}" for each in threads)]
    folders += [f"/proc/{each}" for each in threads if each != str(own)]
    return tuple(f"{folder}/{name}" for folder in folders for name in ("environ", "mem"))


class KernelRefusals(Protocol):
    """What the kernel refused to the commands of one verdict."""

    @property
    def judged(self) -> str: ...
    def blocked(self) -> list[BlockedAccess]:
        """Since the last call."""


class ConfinedProcess:
    """A background process and what the kernel refused to it."""

    def __init__(self, process: BackgroundProcess, confinement: KernelRefusals) -> None:
        self.handle, self.pid = process.handle, process.pid
        self.judged = confinement.judged
        self._process, self._confinement = process, confinement

    async def output(self) -> bytes:
        return await self._process.output()

    async def write(self, data: bytes) -> None:
        await self._process.write(data)

    async def wait(self) -> int | None:
        return await self._process.wait()

    async def kill(self) -> None:
        await self._process.kill()

    def refused(self) -> list[BlockedAccess]:
        return self._confinement.blocked()


_REFUSAL_TEXTS = {
    "read": "read of {}",
    "run": "start of {}",
    "write": "write to {}",
    "mode": "change mode of {}",
    "owner": "change owner of {}",
    "times": "change times of {}",
    "attributes": "change extended attributes of {}",
    "flags": "change flags of {}",
    "lock": "lock of {}",
    "signal": "signal to {}",
    "connect": "connection to {}",
    "socket": "use of {}",
    "call": "system call {}",
    "size": "more than {} in all; it was ended",
}


def parse_refusal(line: str) -> BlockedAccess:
    kind, what, program, reason, optional, *_ = [*line.split("\0"), "", "", "", ""]
    words = _REFUSAL_TEXTS.get(kind, "{}").format(what)
    return BlockedAccess(what=words, program=program, reason=reason, optional=bool(optional))
