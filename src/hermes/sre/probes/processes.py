"""Who listens: how a process is named, and whether it is meant to stay.

A service that stays is expected from then on: when it ends, or does not come back after a reboot,
that is an incident. A development server that a person runs for a minute is not.
"""

import re
from collections.abc import Mapping

from hermes.core.messages import Value

SUPERVISORS = frozenset(
    {
        *("supervisord", "runsv", "s6-supervise", "supervise", "monit", "circusd", "pm2"),
        *("dockerd", "containerd-shim", "containerd-shim-runc-v2", "conmon", "kubelet"),
    }
)
EPHEMERAL_PORTS = range(32768, 61000)
"""What the kernel gives to those who ask for any port."""
LONG_RUNNING_S = 86_400.0
"""A process at a terminal that is older than this is meant to stay after all."""
_INTERPRETER = re.compile(r"(python|node|ruby|perl|php|java|bash|sh|dash|uvicorn|gunicorn)[\d.]*$")
_RUNNERS = frozenset({"uvicorn", "gunicorn", "flask", "hypercorn", "celery", "waitress"})
_PLAIN = frozenset({"app", "main", "server", "run", "index", "manage", "wsgi", "asgi", "start"})
"""Names of scripts that say nothing: their folder is named instead."""


class Process(Value, kw_only=True, frozen=True):
    pid: int
    parent: int = 0
    session: int = 0
    terminal: int = 0
    """0 for one that no terminal controls."""
    age_s: int = 0
    supervised_as: str = ""
    """The name that supervisord gave it."""
    executable: str = ""
    command: str = ""
    ancestors: tuple[tuple[str, int], ...] = ()
    """Name and terminal of its parent, of the parent's parent, and so on."""

    @property
    def at_terminal(self) -> bool:
        return bool(self.terminal) or any(terminal for _, terminal in self.ancestors)


def read_process(fields: list[str]) -> Process | None:
    """One row of the survey; None for a row that is not whole."""
    if len(fields) != 9 or not all(each.isdigit() for each in fields[:5]):
        return None
    pid, parent, session, terminal, age = map(int, fields[:5])
    pairs = (each.rpartition(":") for each in fields[7].split("<") if each)
    return Process(
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


def service_of(process: Process, program: str) -> str:
    """What people call it: the supervisor's name, the script's name, or the program's."""
    if process.supervised_as:
        return re.sub(r"_\d+$", "", process.supervised_as)
    words = process.command.split()
    if not words or not _INTERPRETER.match(program):
        return program
    rest = [each for each in words[1:] if each == "-m" or not each.startswith("-")]
    if rest[:1] == ["-m"]:
        rest = rest[1:]
    while rest and rest[0].rpartition("/")[2] in _RUNNERS:
        rest = rest[1:]
    return _script_name(rest[0]) or program if rest else program


def _script_name(word: str) -> str:
    """`/srv/shop/app.py` is shop; `shop.api:app` is shop.api; `-m http.server` is http.server."""
    path = word.partition(":")[0]
    folder, _, name = path.rpartition("/")
    name = re.sub(r"\.(py|js|mjs|rb|pl|php|jar|sh)$", "", name)
    if name in _PLAIN and folder.strip("/"):
        name = folder.rpartition("/")[2]
    return name if re.fullmatch(r"[\w.@+-]{1,48}", name) else ""


def reason_to_stay(
    process: Process, port: int, pid_files: Mapping[int, str], settle_s: float
) -> str:
    """Why this one is expected to be there from now on; empty while nothing says so."""
    supervisor = next((name for name, _ in process.ancestors if name in SUPERVISORS), "")
    if supervisor or process.supervised_as:
        return f"supervised by {supervisor or 'supervisord'}"
    if process.pid == 1:
        return "the first process of this host"
    pid_file = pid_files.get(process.pid) or pid_files.get(process.parent)
    if pid_file:
        return f"named in {pid_file}"
    if process.at_terminal:
        return "running for more than a day" if process.age_s >= LONG_RUNNING_S else ""
    if process.session == process.pid and port not in EPHEMERAL_PORTS:
        return "a daemon"
    if process.age_s >= settle_s:
        return f"running for {process.age_s // 60} minutes"
    return ""
