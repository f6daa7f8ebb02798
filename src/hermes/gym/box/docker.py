"""Boxes in containers, for machines without namespaces of their own: macOS, or a locked-down host.

The container only carries: in it stand the same warden and the same hosts, each a user namespace,
so that nothing which an agent does on a host reaches even the container. For that, the container
may make namespaces (no seccomp profile, an unmasked /proc); it gets no capability beyond the usual.
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

from hermes.core.errors import PlaceFailed
from hermes.core.ids import new_id
from hermes.environments.confinement import grants, wire
from hermes.gym.box import porter
from hermes.gym.box.carrier import Opener
from hermes.gym.box.here import ENTER
from hermes.gym.box.opening import HERE, programs
from hermes.gym.box.plan import BoxPlan
from hermes.gym.settings import GymSettings

OPENING, ENDING = 120.0, 20.0
OPTIONS = (
    "--network=none",
    "--security-opt=seccomp=unconfined",
    "--security-opt=apparmor=unconfined",
    "--security-opt=systempaths=unconfined",
)
PACKAGES = ("hermes", "hermes.environments", "hermes.environments.confinement", "hermes.gym")
# Read from the pipe, to the byte: what follows on it is for others.
_LOADER = (
    "import os\nb = b''\n"
    "while len(b) < 8 or len(b) < 8 + int(b[:8]):\n"
    "    b += os.read(0, 8 + int(b[:8]) - len(b) if len(b) >= 8 else 8 - len(b)) or os._exit(0)\n"
    "exec(b[8:])"
)
_BOOT = """
import sys
class Parcel:
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            spec = type(sys.__spec__)(name, self, is_package=MODULES[name] is None)
            return spec
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        if MODULES[module.__name__] is not None:
            exec(compile(MODULES[module.__name__], module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Parcel())
from hermes.gym.box.porter import main
main()
"""


class Ferry:
    """A `Carrier`: questions are numbered frames on the container's pipe."""

    def __init__(self, docker: Sequence[str], name: str, process: Process) -> None:
        self._docker, self._name, self._process = list(docker), name, process
        self._numbers = count()
        self._answers: dict[int, bytes] = {}
        self._buffer = bytearray()
        self._reading, self._writing = anyio.Lock(), anyio.Lock()
        self.hosts: list[int] = []

    @property
    def place(self) -> str:
        return f"container {self._name}"

    async def reach(self) -> None:
        return None

    def words(self, host: int, argv: Sequence[str], *, terminal: bool = False) -> list[str]:
        how = ["--interactive", "--tty"] if terminal else ["--interactive"]
        enter = [*ENTER, str(self.hosts[host]), "--"]
        return [*self._docker, "exec", *how, self._name, *enter, *argv]

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        await self._send((number, request))
        heard = await self._answer(number)
        if not heard:
            raise PlaceFailed("the box has ended")
        answer: dict[str, Any] = marshal.loads(heard)
        return answer

    async def begin(self, request: dict[str, Any]) -> None:
        await self._send((next(self._numbers), request))

    async def open(self, plan: BoxPlan) -> None:
        names = tuple(grants.CONFIGURATION.split())
        await self._send((vars(plan), programs(system_python=True), names))
        answer = await self._answer(porter.OPENED)
        if answer[:1] != wire.OK:
            raise PlaceFailed(f"the box could not be made: {answer[1:].decode(errors='replace')}")
        self.hosts = marshal.loads(answer[1:])

    async def _send(self, message: Any) -> None:
        body = marshal.dumps(message, 4)
        await self.write(len(body).to_bytes(4, "big") + body)

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        async with self._writing:
            try:
                await self._process.stdin.send(data)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
                raise PlaceFailed(f"{self.place} has ended") from error

    async def _answer(self, number: int) -> bytes:
        """Whoever waits reads for all: an answer that is somebody else's is put where they look."""
        while number not in self._answers:
            async with self._reading:
                if number not in self._answers:
                    await self._read()
        return self._answers.pop(number)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        size = int.from_bytes(self._buffer[:4], "big") if len(self._buffer) >= 4 else -1
        if size < 0 or len(self._buffer) < 4 + size:
            try:
                self._buffer += await self._process.stdout.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError) as error:
                raise PlaceFailed(f"{self.place} has ended") from error
            return
        number, answer = marshal.loads(bytes(self._buffer[4 : 4 + size]))
        del self._buffer[: 4 + size]
        self._answers[number] = answer


def in_docker(settings: GymSettings) -> Opener:
    return partial(open_in_docker, settings)


@asynccontextmanager
async def open_in_docker(settings: GymSettings, plan: BoxPlan) -> AsyncGenerator[Ferry, None]:
    """Raises `PlaceFailed` with what docker said."""
    docker, name = client(settings), new_id("hermes-gym").replace("_", "-")
    limits = (f"--memory={plan.memory_mb}m", f"--pids-limit={plan.processes + 64}")
    words = [
        "run",
        "--rm",
        "--pull=never",
        "--interactive",
        f"--name={name}",
        "--label=hermes-gym",
        *OPTIONS,
    ]
    inside = ["/usr/bin/python3", "-I", "-S", "-c", _LOADER]
    argv = [*docker, *words, *limits, "--entrypoint=", settings.docker_image, *inside]
    with tempfile.TemporaryFile() as complaints:
        async with await anyio.open_process(argv, stderr=complaints) as process:
            ferry = Ferry(docker, name, process)
            try:
                await _open(ferry, plan, complaints)
                yield ferry
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(docker, name, process)


async def _open(ferry: Ferry, plan: BoxPlan, complaints: IO[bytes]) -> None:
    try:
        with anyio.fail_after(OPENING):
            await ferry.write(_parcel())
            await ferry.open(plan)
    except (TimeoutError, PlaceFailed) as error:
        complaints.seek(0)
        lines = complaints.read().decode("utf-8", "replace").strip().splitlines()
        own = [line for line in lines if line.startswith(("docker:", "Error"))]
        why = (own or lines[-1:] or [str(error) or "it took too long"])[0]
        raise PlaceFailed(f"no box in a container: {why}") from None


def client(settings: GymSettings) -> list[str]:
    """The client program and how it finds its daemon."""
    program = settings.docker_program or "docker"
    found = shutil.which(program)
    if found is None:
        raise PlaceFailed(
            f"{program} is not on the PATH (apt install docker.io, or Docker Desktop)"
        )
    return [found, *(["--host", settings.docker_host] if settings.docker_host else [])]


def _parcel() -> bytes:
    """Our own modules travel with us: an image needs no Hermes in it."""
    confinement = HERE.parent.parent / "environments" / "confinement"
    modules: dict[str, str | None] = dict.fromkeys((*PACKAGES, "hermes.gym.box"))
    for package, folder in (("hermes.gym.box", HERE), (PACKAGES[2], confinement)):
        modules |= {f"{package}.{each.stem}": each.read_text() for each in _sources(folder)}
    code = f"MODULES = {modules!r}\n{_BOOT}".encode()
    return b"%08d" % len(code) + code


def _sources(folder: Path) -> list[Path]:
    return [each for each in sorted(folder.glob("*.py")) if each.stem != "__init__"]


async def _end(docker: Sequence[str], name: str, process: Process) -> None:
    """The end of the pipe is the end of the container; one that hangs is ended by the daemon."""
    assert process.stdin is not None
    await process.stdin.aclose()
    with anyio.move_on_after(ENDING) as clock:
        await process.wait()
    if clock.cancelled_caught:
        await anyio.run_process([*docker, "rm", "--force", name], check=False)
        process.kill()
