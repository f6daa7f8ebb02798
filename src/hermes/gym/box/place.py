"""A host of a box as a place where the agent's commands run."""

import shutil
from collections.abc import Mapping, Sequence

from hermes.core.errors import PlaceFailed
from hermes.environments.confinement.identity import is_root
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.settings import TerminalSettings
from hermes.gym.box.box import Box

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_INTO = 'for entry in $1; do echo 0 > "$entry"; done; shift; exec "$@"'
"""What the agent starts counts among the processes of the box."""


class BoxClient:
    """Fulfils `remote.client.Client`: `nsenter` starts programs in the host."""

    def __init__(self, box: Box, host: int) -> None:
        self._box, self._host = box, host
        self.variables: Mapping[str, str] = {"PATH": PATH}

    @property
    def place(self) -> str:
        return f"box {self._box.warden.pid} {self._host}"

    async def reach(self) -> None:
        if shutil.which("nsenter") is None:
            raise PlaceFailed("nsenter is not installed (apt install util-linux)")
        self._box.warden  # noqa: B018 - raises when it is closed

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        warden = self._box.warden
        enter = ["nsenter", "-t", str(warden.hosts[self._host]), "-U", "-m", "-u", "-i", "-n", "-p"]
        own = [] if is_root() else ["--preserve-credentials"]
        cgroups = " ".join(warden.cgroup.entries)
        return ["/bin/sh", "-c", _INTO, "enter", cgroups, *enter, *own, "--", *argv]

    async def broken(self, code: int, complaint: str, *, begun: bool) -> PlaceFailed | None:
        if begun:
            return None
        return PlaceFailed(f"the host takes no commands: {complaint or f'exit code {code}'}")

    def elsewhere(self, place: str) -> "BoxClient | None":
        return self if place == self.place else None

    async def close(self, *, spare: bool) -> None:
        return None


def place_in(box: Box, *, host: int = 0, name: str = "host") -> RemoteEnvironment:
    """Not yet entered. What is done in it can hurt nothing outside."""
    variables = {"PATH": PATH, "HOME": "/root", "USER": "root", "LANG": "C.UTF-8"}
    return RemoteEnvironment(
        "box",
        name,
        BoxClient(box, host),
        settings=TerminalSettings(),
        isolated=True,
        start="/root",
        variables=variables,
    )
