"""Which PostgreSQL this machine has: Debian keeps versions side by side, others one on the PATH."""

import os
import re
import shutil
import tempfile
from pathlib import Path

from hermes.core.messages import Value
from hermes.gym.scenario import PATH

DEBIAN = Path("/usr/lib/postgresql")
_TOOLS = ("postgres", "initdb")


class Server(Value, kw_only=True, frozen=True):
    bin: str
    version: int

    @property
    def data(self) -> str:
        return f"/var/lib/postgresql/{self.version}/main"

    @property
    def conf(self) -> str:
        return f"/etc/postgresql/{self.version}/main"


USUAL = Server(bin=f"{DEBIAN}/15/bin", version=15)
"""What a story speaks of where there is none to be found: it can be read, if not played."""


def server(path: str = PATH, debian: Path = DEBIAN) -> Server | None:
    """On the PATH first, as whoever set it wished; else the newest of Debian's."""
    found = shutil.which(_TOOLS[0], path=path)
    folders = [Path(os.path.realpath(found)).parent] if found else []
    numbered = [each for each in debian.glob("*/bin") if each.parent.name.isdigit()]
    newest = sorted(numbered, key=lambda each: int(each.parent.name), reverse=True)
    for folder in (*folders, *newest):
        if all((folder / tool).exists() for tool in _TOOLS):
            version = _version(folder)
            if version:
                return Server(bin=str(folder), version=version)
    return None


def _version(folder: Path) -> int:
    if folder.parent.name.isdigit():
        return int(folder.parent.name)
    words = [str(folder / _TOOLS[0]), "--version"]
    with tempfile.TemporaryFile() as said:
        actions = [(os.POSIX_SPAWN_DUP2, said.fileno(), 1)]
        os.waitpid(os.posix_spawn(words[0], words, {}, file_actions=actions), 0)
        said.seek(0)
        number = re.search(rb"\) (\d+)", said.read())
    return int(number[1]) if number else 0
