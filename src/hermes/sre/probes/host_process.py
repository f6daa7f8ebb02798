"""A process of a host as its scan shows it, and the name of the service that it belongs to."""

import re
from collections.abc import Sequence

from hermes.core.messages import Value

SUPERVISORS = frozenset(
    {
        *("supervisord", "runsv", "s6-supervise", "supervise", "monit", "circusd", "pm2"),
        *("dockerd", "containerd-shim", "containerd-shim-runc-v2", "conmon", "kubelet"),
    }
)
_CONTAINER_RUNTIMES = frozenset({"containerd-shim", "containerd-shim-runc-v2", "conmon"})
_INTERPRETER_NAME = re.compile(
    r"(python|node|ruby|perl|php|java|bash|sh|dash|uvicorn|gunicorn)[\d.]*$"
)
_OPTIONS_WITH_VALUE = frozenset({"-X", "-W", "-cp", "-classpath", "-r", "--require", "-I"})
"""Options of interpreters that are followed by a value, which is not the script."""
_RUNNER_PROGRAMS = frozenset({"uvicorn", "gunicorn", "flask", "hypercorn", "celery", "waitress"})
_GENERIC_SCRIPT_NAMES = frozenset(
    {"app", "main", "server", "run", "index", "manage", "wsgi", "asgi", "start"}
)
"""Names of scripts that are too general: the folder name is used instead."""


class HostProcess(Value, kw_only=True, frozen=True):
    pid: int
    parent: int = 0
    session: int = 0
    terminal: int = 0
    """0 without a controlling terminal."""
    age_s: int = 0
    supervised_as: str = ""
    """Its name in supervisord."""
    executable: str = ""
    command: str = ""
    ancestors: tuple[tuple[str, int], ...] = ()
    """Name and terminal of each ancestor, the parent first."""

    @property
    def supervisor(self) -> str:
        """The name of the supervisor above it; empty for a plain daemon."""
        found = next((name for name, _ in self.ancestors if name in SUPERVISORS), "")
        if found in _CONTAINER_RUNTIMES:
            return "a container engine"
        return found or ("supervisord" if self.supervised_as else "")

    @property
    def at_terminal(self) -> bool:
        return bool(self.terminal) or any(terminal for _, terminal in self.ancestors)


def parse_process(fields: list[str]) -> HostProcess | None:
    """One row of the scan; None for an incomplete row."""
    if len(fields) != 9 or not all(each.isdigit() for each in fields[:5]):
        return None
    pid, parent, session, terminal, age = map(int, fields[:5])
    pairs = (each.rpartition(":") for each in fields[7].split("<") if each)
    return HostProcess(
        pid=pid,
        parent=parent,
        session=session,
        terminal=terminal,
        age_s=age,
        supervised_as=fields[5],
        executable=fields[6],
        ancestors=tuple((name, int(at)) for name, _, at in pairs if at.isdigit()),
        command=fields[8],
    )


def service_name(process: HostProcess, program: str) -> str:
    """The name in supervisord, of the script, or of the program."""
    if process.supervised_as:
        return re.sub(r"_\d+$", "", process.supervised_as)
    words = process.command.split()
    if not words or not _INTERPRETER_NAME.match(program):
        return program
    rest = _without_options(words[1:])
    if rest[:1] == ["-m"]:
        rest = rest[1:]
    while rest and rest[0].rpartition("/")[2] in _RUNNER_PROGRAMS:
        rest = rest[1:]
    return _script_name(rest[0]) or program if rest else program


def _without_options(words: Sequence[str]) -> list[str]:
    """The script or module of an interpreter and its arguments; `-m` is kept."""
    found: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif not found and word in _OPTIONS_WITH_VALUE:
            skip = True
        elif word == "-m" or not word.startswith("-"):
            found.append(word)
    return found


def _script_name(word: str) -> str:
    """`/srv/shop/app.py` is shop; `shop.api:app` is shop.api; `-m http.server` is http.server."""
    path = word.partition(":")[0]
    folder, _, name = path.rpartition("/")
    name = re.sub(r"\.(py|js|mjs|rb|pl|php|jar|sh)$", "", name)
    if name in _GENERIC_SCRIPT_NAMES and folder.strip("/"):
        name = folder.rpartition("/")[2]
    return name if re.fullmatch(r"[\w.@+-]{1,48}", name) else ""
