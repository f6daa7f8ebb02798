"""Renders the commands for a unit under each kind of supervisor.

A playbook says `{{restart}}`; the command that is judged, announced and run is the real one, such
as `supervisorctl restart api`. No command is taken from the output of a probe.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hermes.skills.supervisors.units import HostUnit, PlainDaemon, shell_functions

ACTIONS: tuple[str, ...] = (
    *("restart", "start", "stop", "reload", "enable", "disable"),
    "reload_definitions",
)
QUERIES: tuple[str, ...] = ("is_active", "main_pid", "instance")
"""Read only. `instance` prints a text that is another one after each start of the unit."""
DEFAULT_UNIT_PARAMETER = "unit"
STOP_TIMEOUT_S = 10
"""Seconds for a plain daemon to end before it is killed."""
_INHERITED_VARIABLES = re.compile(
    r"PATH|HOME|LANG|LANGUAGE|LC_\w+|USER|LOGNAME|SHELL|PWD|OLDPWD|SHLVL|TERM|TZ|MAIL|_|HOSTNAME"
    r"|EDITOR|PAGER|COLORTERM|LS_COLORS|DISPLAY|INVOCATION_ID|JOURNAL_STREAM"
    r"|(?:SSH|SUDO|XDG|DBUS|HERMES|TMUX)_\w*|PG_GRANDPARENT_PID|PGLOCALEDIR|PGSYSCONFDIR|PGDATA"
)
"""Variables of the shell from which a daemon was started, and those that PostgreSQL sets itself: it
starts without them."""


class UnsupportedActionError(ValueError):
    """A supervisor cannot do what a playbook asks, in words."""


class Supervisor(Protocol):
    """The supervisor of one unit. Raises `UnsupportedActionError`."""

    def render(self, action: str) -> str: ...


@dataclass(frozen=True)
class ProgramSupervisor:
    """A supervisor with a program that takes a verb and the name or the folder of a unit."""

    unit: HostUnit

    def render(self, action: str) -> str:
        kind, place = self.unit.kind, self.unit.place
        command = _COMMANDS.get(kind, {}).get(action)
        if command is None or ("PLACE" in command and not place):
            verb = action.replace("_", " ")
            raise UnsupportedActionError(f"{kind} has no command to {verb} {self.unit.name}")
        if kind == "supervisord" and place:
            command = command.replace("supervisorctl", "supervisorctl -c PLACE")
        name = self.unit.full_name or self.unit.name
        words = {
            "UNIT": shlex.quote(name),
            "GROUP": shlex.quote(name.partition(":")[0]),
            "PLACE": shlex.quote(place),
        }
        return re.sub(r"\b(?:UNIT|GROUP|PLACE)\b", lambda found: words[found[0]], command)


def runs_outside_copies(search: str) -> str:
    """Return the test whether a process is found by these words of `pgrep`. Processes of containers
    and of copies of this host have the same command lines, and numbers in more than one namespace.
    """
    files = f"$(pgrep {search} | sed 's:.*:/proc/&/status:')"
    return f"grep -qsxE 'NSpid:[[:space:]]+[0-9]+' /dev/null {files}"


@dataclass(frozen=True)
class DaemonSupervisor:
    """No supervisor: the daemon is ended by a signal and started by its remembered command."""

    name: str
    daemon: PlainDaemon | None

    def render(self, action: str) -> str:
        if self.daemon is None or not self.daemon.command:
            raise UnsupportedActionError(f"the command that starts {self.name} is not known")
        # Only characters that mean something in a pattern; more would make the command unreadable.
        plain = re.sub(r"([\\.^$*+?()\[\]{}|])", r"\\\1", self.daemon.command_line)
        pattern = shlex.quote(plain)
        commands = {
            "is_active": runs_outside_copies(f"-f -x -- {pattern}"),
            "main_pid": f"pgrep -o -f -x -- {pattern}",
            "instance": f"pgrep -o -f -x -- {pattern}",
        }
        if action in commands:
            return commands[action]
        if action == "stop":
            return self._stop(pattern)
        if action == "start":
            return self._start(self.daemon)
        if action in ("restart", "reload"):
            return f"{self._stop(pattern)}; {self._start(self.daemon)}"
        verb = action.replace("_", " ")
        raise UnsupportedActionError(f"{self.name} is a plain daemon: there is no way to {verb} it")

    @staticmethod
    def _stop(pattern: str) -> str:
        runs = f"pgrep -f -x -- {pattern} >/dev/null"
        wait = f"for i in $(seq {STOP_TIMEOUT_S * 5}); do {runs} || break; sleep 0.2; done"
        return f"pkill -f -x -- {pattern}; {wait}; pkill -KILL -f -x -- {pattern}; ! {runs}"

    def _start(self, daemon: PlainDaemon) -> str:
        own = [each for each in daemon.variables if not _INHERITED_VARIABLES.fullmatch(each)]
        if own:
            raise UnsupportedActionError(
                f"{self.name} was started with {', '.join(own[:4])} in its environment, "
                "and the values are not kept"
            )
        words = ["setsid", *daemon.command]
        if daemon.user and daemon.user != "root":
            words = ["runuser", "-u", daemon.user, "--", *words]
        log = shlex.quote(daemon.log or "/dev/null")
        folder = shlex.quote(daemon.folder or "/")
        return f"cd {folder} && {{ {shlex.join(words)} >> {log} 2>&1 < /dev/null & }}"


def _verbs(template: str, *actions: str) -> dict[str, str]:
    return {action: template.replace("VERB", action) for action in actions}


def _systemd(program: str) -> dict[str, str]:
    return {
        **_verbs(f"{program} VERB UNIT", "start", "stop", "enable", "disable"),
        "restart": f"{program} reset-failed UNIT 2>/dev/null; {program} restart UNIT",
        "reload": f"{program} reload UNIT 2>/dev/null || {program} restart UNIT",
        "reload_definitions": f"{program} daemon-reload",
        "is_active": f"{program} is-active -q UNIT",
        "main_pid": f"{program} show -p MainPID --value UNIT",
        "instance": f"{program} show -p NRestarts --value UNIT",
        "status": f"{program} status UNIT --no-pager",
        "log": f"{program.replace('systemctl', 'journalctl')} -u UNIT -n 50 --no-pager",
    }


def _container(program: str) -> dict[str, str]:
    pid = f"{program} inspect UNIT | grep -m 1 '\"Pid\":' | grep -oE '[0-9]+'"
    return {
        **_verbs(f"{program} VERB UNIT", "start", "stop", "restart"),
        "reload": f"{program} restart UNIT",
        "enable": f"{program} update --restart unless-stopped UNIT",
        "disable": f"{program} update --restart no UNIT",
        "is_active": f"{program} ps -q --filter status=running --filter name=^UNIT\\$ | grep -q .",
        "main_pid": pid,
        "instance": pid,
        "status": f"{program} ps -a --filter name=UNIT",
        "log": f"{program} logs --tail 50 UNIT",
    }


def _pid_in(command: str) -> dict[str, str]:
    pid = f"{command} | grep -oE 'pid [0-9]+' | head -n 1 | grep -oE '[0-9]+'"
    return {"main_pid": pid, "instance": pid}


def _in_background(command: str) -> str:
    """An init script does not return where its daemon stays in the foreground."""
    return f"{{ setsid {command} > /dev/null 2>&1 < /dev/null & }}"


# Confined, an init script may not see which program a process of another user runs, and takes it
# for ended. A process of a copy of the host has another parent.
_SERVICE_RUNS = "{ service UNIT status || pgrep -x -P 1 UNIT; } > /dev/null 2>&1"
_SERVICE_PID = "{ pgrep -o -x -P 1 UNIT || pgrep -o -x UNIT; }"
_UNTIL_SERVICE_RUNS = f"for i in $(seq 50); do {_SERVICE_RUNS} && break; sleep 0.2; done"
# An order to start is lost while a service that ended at once is being stopped.
_S6_RESTART = (
    "s6-svc -wD -T 10000 -d PLACE; for i in 1 2 3; do s6-svc -wu -T 3000 -u PLACE; sleep 0.2; "
    "s6-svstat -o wantedup PLACE | grep -q true && break; done"
)
_COMMANDS: Mapping[str, Mapping[str, str]] = {
    "systemd": _systemd("systemctl"),
    "systemd-user": _systemd("systemctl --user"),
    "supervisord": {
        **_verbs("supervisorctl VERB UNIT", "start", "stop", "restart"),
        "reload": "supervisorctl restart UNIT",
        "reload_definitions": "supervisorctl reread && supervisorctl update GROUP",
        "is_active": "supervisorctl status UNIT | grep -qw RUNNING",
        "main_pid": "supervisorctl pid UNIT",
        "instance": "supervisorctl pid UNIT",
        "status": "supervisorctl status UNIT",
    },
    "runit": {
        **_verbs("sv VERB PLACE", "start", "stop", "restart"),
        "reload": "sv restart PLACE",
        "enable": "rm -f PLACE/down",
        "disable": "touch PLACE/down",
        "reload_definitions": "true",
        "is_active": "sv status PLACE | grep -q ^run:",
        **_pid_in("sv status PLACE"),
        "status": "sv status PLACE",
    },
    "s6": {
        "start": "s6-svc -wu -T 10000 -u PLACE",
        "stop": "s6-svc -wD -T 10000 -d PLACE",
        "restart": _S6_RESTART,
        "reload": _S6_RESTART,
        "enable": "rm -f PLACE/down",
        "disable": "touch PLACE/down",
        "reload_definitions": "true",
        "is_active": "s6-svstat PLACE | grep -q ^up",
        **_pid_in("s6-svstat PLACE"),
        "status": "s6-svstat PLACE",
    },
    "openrc": {
        **_verbs("rc-service UNIT VERB", "start", "stop"),
        "restart": "rc-service UNIT zap 2>/dev/null; rc-service UNIT restart",
        "reload": "rc-service UNIT reload 2>/dev/null || rc-service UNIT restart",
        "enable": "rc-update add UNIT default",
        "disable": "rc-update del UNIT default",
        "reload_definitions": "true",
        "is_active": "rc-service UNIT status >/dev/null 2>&1",
        "instance": "rc-service UNIT status",
        "status": "rc-service UNIT status",
    },
    "sysvinit": {
        "stop": "service UNIT stop",
        "start": f"{_in_background('service UNIT start')}; {_UNTIL_SERVICE_RUNS}",
        "restart": f"{_in_background('service UNIT restart')}; sleep 1; {_UNTIL_SERVICE_RUNS}",
        "reload": "service UNIT reload 2>/dev/null || "
        f"{{ {_in_background('service UNIT restart')}; sleep 1; {_UNTIL_SERVICE_RUNS}; }}",
        "enable": "update-rc.d UNIT enable",
        "disable": "update-rc.d UNIT disable",
        "reload_definitions": "true",
        "is_active": _SERVICE_RUNS,
        "main_pid": _SERVICE_PID,
        "instance": _SERVICE_PID,
        "status": "service UNIT status",
    },
    "docker": _container("docker"),
    "podman": _container("podman"),
    "pm2": {
        **_verbs("pm2 VERB UNIT", "start", "stop", "restart", "reload"),
        "is_active": "pm2 pid UNIT | grep -q '[1-9]'",
        "main_pid": "pm2 pid UNIT",
        "instance": "pm2 pid UNIT",
        "status": "pm2 describe UNIT",
        "log": "pm2 logs UNIT --nostream --lines 50",
    },
}


_BETWEEN_COMMANDS = re.compile(r"(; | \|\| | && | \| )")
_ERRORS_DROPPED = " 2>/dev/null"


def split_commands(text: str) -> list[str]:
    """The simple commands of a rendered action."""
    return [each.removesuffix(_ERRORS_DROPPED) for each in _BETWEEN_COMMANDS.split(text)[::2]]


def _with_sudo(text: str, root_commands: Sequence[str]) -> str:
    """Runs as root those of its commands that may; unchanged when there are none."""
    parts = _BETWEEN_COMMANDS.split(text)
    for place in range(0, len(parts), 2):
        if parts[place].removesuffix(_ERRORS_DROPPED) in root_commands:
            parts[place] = f"sudo {parts[place]}"
    return "".join(parts)


class HostSupervisors:
    """Finds the supervisor of each unit of a host.

    `root_commands` are those that need `sudo`, and may be run with it.
    """

    def __init__(
        self,
        units: Sequence[HostUnit] = (),
        daemons: Sequence[PlainDaemon] = (),
        root_commands: Sequence[str] = (),
    ) -> None:
        self._units = {each.name: each for each in units}
        self._root_commands = root_commands
        self._daemons = {each.name: each for each in daemons}

    def find(self, name: str) -> Supervisor:
        """Units that no other supervisor has are those of systemd. A name with `.service` is the
        one without it where only that is known, and the other way round."""
        short = name.removesuffix(".service")
        names = (name, short, f"{short}.service")
        found = next((each for each in names if each in self._units), name)
        unit = self._units.get(found) or HostUnit(name=name, kind="systemd")
        if unit.kind == "daemon":
            return DaemonSupervisor(found, self._daemons.get(found))
        return ProgramSupervisor(unit)

    def render(self, action: str, name: str) -> str:
        return _with_sudo(self.find(name).render(action), self._root_commands)

    def functions(self, command: str) -> str:
        """The shell functions about units that a command calls."""
        return shell_functions(tuple(self._units.values()), command)


def parse_action(placeholder: str) -> tuple[str, str] | None:
    """The action or query, and the parameter that names the unit; None for a plain parameter."""
    action, _, parameter = placeholder.partition(" ")
    known = action in ACTIONS or action in QUERIES
    return (action, parameter.strip() or DEFAULT_UNIT_PARAMETER) if known else None
