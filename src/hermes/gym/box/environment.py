"""A host of a box as the environment in which the agent's commands run."""

from collections.abc import Mapping, Sequence

from hermes.core.errors import EnvironmentFailed
from hermes.environments.boxes.box import Box
from hermes.environments.boxes.unit_files import HOST_PATH
from hermes.environments.copies import DEFAULT_LIMITS, CopyLimits, CopyService
from hermes.environments.copies.box_copy import BoxCopy, copy_box
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.settings import TerminalSettings


class BoxHostClient:
    """A `RemoteClient` that enters a host through the backend of its box."""

    def __init__(self, box: Box, host: int) -> None:
        self._box, self._host = box, host
        self.variables: Mapping[str, str] = {"PATH": HOST_PATH}

    @property
    def place(self) -> str:
        return f"{self._box.backend.label} {self._host}"

    async def connect(self) -> None:
        await self._box.backend.check_available()

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        return self._box.backend.host_command(self._host, argv, terminal=terminal)

    async def find_failure(
        self, code: int, complaint: str, *, begun: bool
    ) -> EnvironmentFailed | None:
        if begun:
            return None
        return EnvironmentFailed(f"the host takes no commands: {complaint or f'exit code {code}'}")

    def reopen(self, place: str) -> "BoxHostClient | None":
        return self if place == self.place else None

    async def close(self, *, spare: bool) -> None:
        return None


class BoxHostEnvironment(RemoteEnvironment):
    """A `Copyable` environment."""

    copyable = True

    def __init__(self, box: Box, host: int, name: str, variables: Mapping[str, str]) -> None:
        client, settings = BoxHostClient(box, host), TerminalSettings()
        super().__init__(
            *("box", name, client),
            settings=settings,
            isolated=True,
            start="/root",
            variables=variables,
        )
        self._box, self._host = box, host

    async def copy(
        self, limits: CopyLimits = DEFAULT_LIMITS, *, units: Sequence[CopyService] = ()
    ) -> BoxCopy:
        """All hosts of the box are copied, so that the services find each other."""
        return await copy_box(self._box, host=self._host, limits=limits, units=units)


def host_environment(box: Box, *, host: int = 0, name: str = "host") -> BoxHostEnvironment:
    """Not yet entered. Nothing that runs in it can harm the real machine."""
    variables = {"PATH": HOST_PATH, "HOME": "/root", "USER": "root", "LANG": "C.UTF-8"}
    return BoxHostEnvironment(box, host, name, variables)
