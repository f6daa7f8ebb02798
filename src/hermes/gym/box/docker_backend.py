"""Opens boxes in containers, for machines without user namespaces: macOS, or a locked-down host.

The container runs the same box init and the same hosts, each in a user namespace, so that an agent
on a host cannot even reach the container. For that, the container may create namespaces (no seccomp
profile, an unmasked /proc); it gets no additional capability.
"""

import marshal
import shutil
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO, Any

import anyio
from anyio.abc import Process

from hermes.core.errors import EnvironmentFailed
from hermes.core.run_ids import new_id
from hermes.environments.boxes import container_proxy
from hermes.environments.boxes.backend import BoxOpener, BoxPlan
from hermes.environments.boxes.local_backend import (
    BOX_PACKAGE_FOLDER,
    NSENTER_COMMAND,
    host_programs,
)
from hermes.environments.confinement import messages
from hermes.environments.sandboxing import host_access
from hermes.gym.settings import GymSettings

OPEN_TIMEOUT_S, STOP_TIMEOUT_S = 120.0, 20.0
CONTAINER_OPTIONS = (
    "--network=none",
    "--security-opt=seccomp=unconfined",
    "--security-opt=apparmor=unconfined",
    "--security-opt=systempaths=unconfined",
)
PARENT_PACKAGES = ("hermes", "hermes.environments")
BUNDLED_PACKAGES = ("hermes.environments.confinement", "hermes.environments.boxes")
# Reads exactly its own bytes from the pipe: frames for the proxy follow them.
_LOADER_SCRIPT = (
    "import os\nb = b''\n"
    "while len(b) < 8 or len(b) < 8 + int(b[:8]):\n"
    "    b += os.read(0, 8 + int(b[:8]) - len(b) if len(b) >= 8 else 8 - len(b)) or os._exit(0)\n"
    "exec(b[8:])"
)
_PROXY_BOOT_SCRIPT = """
import sys
class BundledModules:
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            spec = type(sys.__spec__)(name, self, is_package=MODULES[name] is None)
            return spec
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        if MODULES[module.__name__] is not None:
            exec(compile(MODULES[module.__name__], module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, BundledModules())
from hermes.environments.boxes.container_proxy import main
main()
"""


class DockerBoxBackend:
    """A `BoxBackend`: requests are numbered frames on the container's pipe."""

    def __init__(self, docker: Sequence[str], name: str, process: Process) -> None:
        self._docker, self._name, self._process = list(docker), name, process
        self._numbers = count()
        self._replies: dict[int, bytes] = {}
        self._buffer = bytearray()
        self._read_lock, self._write_lock = anyio.Lock(), anyio.Lock()
        self.host_pids: list[int] = []

    @property
    def label(self) -> str:
        return f"container {self._name}"

    @property
    def copied_pids(self) -> tuple[int, ...]:
        return ()

    def request_now(self, body: dict[str, Any]) -> dict[str, Any]:
        raise EnvironmentFailed("a box in a container answers only in turn")

    async def check_available(self) -> None:
        return None

    def host_command(self, host: int, argv: Sequence[str], *, terminal: bool = False) -> list[str]:
        options = ["--interactive", "--tty"] if terminal else ["--interactive"]
        enter = [*NSENTER_COMMAND, str(self.host_pids[host]), "--"]
        return [*self._docker, "exec", *options, self._name, *enter, *argv]

    async def request(self, body: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        await self._send((number, body))
        reply = await self._wait_for_reply(number)
        if not reply:
            raise EnvironmentFailed("the box has ended")
        answer: dict[str, Any] = marshal.loads(reply)
        return answer

    async def start_request(self, body: dict[str, Any]) -> None:
        await self._send((next(self._numbers), body))

    async def open(self, plan: BoxPlan) -> None:
        names = tuple(host_access.READABLE_ETC_NAMES.split())
        await self._send((vars(plan), host_programs(system_python=True), names))
        answer = await self._wait_for_reply(container_proxy.OPEN_REPLY_NUMBER)
        if answer[:1] != messages.ANSWER_OK:
            raise EnvironmentFailed(
                f"the box could not be made: {answer[1:].decode(errors='replace')}"
            )
        self.host_pids = marshal.loads(answer[1:])

    async def _send(self, message: Any) -> None:
        body = marshal.dumps(message, 4)
        await self.write(len(body).to_bytes(4, "big") + body)

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        async with self._write_lock:
            try:
                await self._process.stdin.send(data)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
                raise EnvironmentFailed(f"{self.label} has ended") from error

    async def _wait_for_reply(self, number: int) -> bytes:
        """One waiting task reads for all of them and stores the replies that are for others."""
        while number not in self._replies:
            async with self._read_lock:
                if number not in self._replies:
                    await self._read()
        return self._replies.pop(number)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        size = int.from_bytes(self._buffer[:4], "big") if len(self._buffer) >= 4 else -1
        if size < 0 or len(self._buffer) < 4 + size:
            try:
                self._buffer += await self._process.stdout.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError) as error:
                raise EnvironmentFailed(f"{self.label} has ended") from error
            return
        number, answer = marshal.loads(bytes(self._buffer[4 : 4 + size]))
        del self._buffer[: 4 + size]
        self._replies[number] = answer


def docker_box_opener(settings: GymSettings) -> BoxOpener:
    return partial(open_docker_box, settings)


@asynccontextmanager
async def open_docker_box(
    settings: GymSettings, plan: BoxPlan
) -> AsyncGenerator[DockerBoxBackend, None]:
    """Raises `EnvironmentFailed` with docker's error."""
    docker, name = docker_client_command(settings), new_id("hermes-gym").replace("_", "-")
    limits = (f"--memory={plan.memory_mb}m", f"--pids-limit={plan.processes + 64}")
    options = [
        "run",
        "--rm",
        "--pull=never",
        "--interactive",
        f"--name={name}",
        "--label=hermes-gym",
        *CONTAINER_OPTIONS,
    ]
    inside = ["/usr/bin/python3", "-I", "-S", "-c", _LOADER_SCRIPT]
    argv = [*docker, *options, *limits, "--entrypoint=", settings.docker_image, *inside]
    with tempfile.TemporaryFile() as stderr_file:
        async with await anyio.open_process(argv, stderr=stderr_file) as process:
            backend = DockerBoxBackend(docker, name, process)
            try:
                await _open_box(backend, plan, stderr_file)
                yield backend
            finally:
                with anyio.CancelScope(shield=True):
                    await _stop_container(docker, name, process)


async def _open_box(backend: DockerBoxBackend, plan: BoxPlan, stderr_file: IO[bytes]) -> None:
    try:
        with anyio.fail_after(OPEN_TIMEOUT_S):
            await backend.write(_bundle_modules())
            await backend.open(plan)
    except (TimeoutError, EnvironmentFailed) as error:
        stderr_file.seek(0)
        lines = stderr_file.read().decode("utf-8", "replace").strip().splitlines()
        errors = [line for line in lines if line.startswith(("docker:", "Error"))]
        why = (errors or lines[-1:] or [str(error) or "it took too long"])[0]
        raise EnvironmentFailed(f"no box in a container: {why}") from None


def docker_client_command(settings: GymSettings) -> list[str]:
    """The client program, with the address of its daemon where one is set."""
    program = settings.docker_program or "docker"
    found = shutil.which(program)
    if found is None:
        raise EnvironmentFailed(
            f"{program} is not on the PATH (apt install docker.io, or Docker Desktop)"
        )
    return [found, *(["--host", settings.docker_host] if settings.docker_host else [])]


def _bundle_modules() -> bytes:
    """The modules that run in the container, so that its image needs no Hermes."""
    modules: dict[str, str | None] = dict.fromkeys((*PARENT_PACKAGES, *BUNDLED_PACKAGES))
    for package in BUNDLED_PACKAGES:
        folder = BOX_PACKAGE_FOLDER.parent / package.rpartition(".")[2]
        modules |= {f"{package}.{each.stem}": each.read_text() for each in _module_files(folder)}
    code = f"MODULES = {modules!r}\n{_PROXY_BOOT_SCRIPT}".encode()
    return b"%08d" % len(code) + code


def _module_files(folder: Path) -> list[Path]:
    return [each for each in sorted(folder.glob("*.py")) if each.stem != "__init__"]


async def _stop_container(docker: Sequence[str], name: str, process: Process) -> None:
    """The container ends when its pipe closes. After the timeout the daemon removes it."""
    assert process.stdin is not None
    await process.stdin.aclose()
    with anyio.move_on_after(STOP_TIMEOUT_S) as clock:
        await process.wait()
    if clock.cancelled_caught:
        await anyio.run_process([*docker, "rm", "--force", name], check=False)
        process.kill()
