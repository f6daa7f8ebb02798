"""What each kind of supervisor needs on a host: definitions of units, and a script for its boot.

A unit of a scenario becomes a program of supervisord, a folder of runit or s6, an init script, a
container or a plain daemon.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Protocol

from hermes.core.messages import Value
from hermes.environments.boxes.unit_files import parse_unit_file
from hermes.gym.scenario_spec import HostFile


class ScenarioUnit(Value, kw_only=True, frozen=True):
    """A unit of a scenario, without what only systemd knows."""

    name: str
    command: str
    user: str = ""
    environment: tuple[str, ...] = ()
    environment_files: tuple[str, ...] = ()
    restarts: bool = True
    """Whether it is started again when it fails."""
    prepare: tuple[str, ...] = ()
    """Commands that run as root before its first start."""
    keys: tuple[str, ...] = ()
    """The settings of the unit file."""

    @property
    def shell_lines(self) -> str:
        """Set its environment in a shell script."""
        lines = [f"set -a; . {path}; set +a" for path in self.environment_files]
        lines += [f"export {shlex.quote(each)}" for each in self.environment]
        return "".join(f"{line}\n" for line in lines)


def read_unit(file: HostFile) -> ScenarioUnit:
    values: dict[str, list[str]] = {}
    parse_unit_file(file.text, values)
    pairs = (word for text in values.get("Environment", ()) for word in shlex.split(text))
    return ScenarioUnit(
        name=file.path.rpartition("/")[2].removesuffix(".service"),
        command=values.get("ExecStart", [""])[-1].lstrip("-@+!"),
        user=values.get("User", [""])[-1],
        environment=tuple(pairs),
        restarts=values.get("Restart", ["no"])[-1] != "no",
        environment_files=tuple(each.lstrip("-") for each in values.get("EnvironmentFile", ())),
        prepare=tuple(values.get("ExecStartPre", ())),
        keys=tuple(values),
    )


class SupervisorSetup(Protocol):
    """What a kind of supervisor needs on a host, for units that it can express."""

    @property
    def programs(self) -> tuple[str, ...]:
        """Programs that this machine must have."""
        ...

    @property
    def reads_environment_files(self) -> bool: ...

    @property
    def boot_timeout_s(self) -> float:
        """Seconds until the services run, besides those of systemctl."""
        ...

    def files(self, units: Sequence[ScenarioUnit]) -> tuple[HostFile, ...]:
        """The definitions of the units."""
        ...

    def boot(self, units: Sequence[ScenarioUnit]) -> str:
        """A shell script that starts the supervisor with all units."""
        ...

    def functions(self, units: Sequence[ScenarioUnit]) -> str:
        """Shell functions: unit_start, unit_stop and unit_pid."""
        ...


_SUPERVISORD_CONF_PATH = "/etc/supervisor/supervisord.conf"
_SUPERVISORD_CONF = """\
[unix_http_server]
file=/run/supervisor.sock
chmod=0700

[supervisord]
logfile=/var/log/supervisor/supervisord.log
pidfile=/run/supervisord.pid
childlogdir=/var/log/supervisor

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl=unix:///run/supervisor.sock

[include]
files = /etc/supervisor/conf.d/*.conf
"""


class SupervisordSetup:
    programs = ("supervisord", "supervisorctl")
    reads_environment_files = False
    boot_timeout_s = 20.0

    def files(self, units: Sequence[ScenarioUnit]) -> tuple[HostFile, ...]:
        conf = HostFile(path=_SUPERVISORD_CONF_PATH, text=_SUPERVISORD_CONF)
        return (conf, *map(self._program, units))

    def boot(self, units: Sequence[ScenarioUnit]) -> str:
        return (
            "mkdir -p /var/log/supervisor\n"
            f"exec /usr/bin/supervisord -n -c {_SUPERVISORD_CONF_PATH}"
        )

    @staticmethod
    def _program(unit: ScenarioUnit) -> HostFile:
        lines = [
            f"[program:{unit.name}]",
            f"command={unit.command}",
            *([f"user={unit.user}"] if unit.user else []),
            "autostart=true",
            f"autorestart={'unexpected' if unit.restarts else 'false'}",
            "redirect_stderr=true",
            f"stdout_logfile=/var/log/supervisor/{unit.name}.log",
        ]
        if unit.environment:
            quoted = (re.sub("=(.*)", '="\\1"', each) for each in unit.environment)
            lines.append(f"environment={','.join(quoted)}")
        text = "\n".join(lines).replace("%", "%%") + "\n"
        return HostFile(path=f"/etc/supervisor/conf.d/{unit.name}.conf", text=text)

    def functions(self, units: Sequence[ScenarioUnit]) -> str:
        # Not `supervisorctl pid`: the checks ask often, and it needs half a second each time.
        return """
unit_start() { supervisorctl start "$1"; }
unit_stop() { supervisorctl stop "$1"; }
unit_pid() {
  local each
  for each in $(pgrep -P "$(cat /run/supervisord.pid)"); do
    grep -qsz "^SUPERVISOR_PROCESS_NAME=$1\\$" "/proc/$each/environ" && echo "$each" && return
  done
}
"""


class ScanFolderSetup:
    """runit and s6: a folder for each service, with a script `run`, and one for its log."""

    reads_environment_files = True
    boot_timeout_s = 5.0

    def __init__(self, kind: str) -> None:
        self._is_runit = kind == "runit"
        self._folder = "/etc/service" if self._is_runit else "/run/service"
        self.programs = ("runsvdir", "sv") if self._is_runit else ("s6-svscan", "s6-svc")

    def files(self, units: Sequence[ScenarioUnit]) -> tuple[HostFile, ...]:
        return tuple(file for unit in units for file in self._scripts(unit))

    def _scripts(self, unit: ScenarioUnit) -> tuple[HostFile, HostFile]:
        folder = f"{self._folder}/{unit.name}"
        switch = "chpst -u" if self._is_runit else "s6-setuidgid"
        as_user = f"{switch} {unit.user} " if unit.user else ""
        log = "svlogd -tt" if self._is_runit else "s6-log t"
        run = f"#!/bin/sh\nexec 2>&1\n{unit.shell_lines}exec {as_user}{unit.command}\n"
        log_run = f"#!/bin/sh\nmkdir -p /var/log/{unit.name}\nexec {log} /var/log/{unit.name}\n"
        return (
            HostFile(path=f"{folder}/run", text=run, mode=0o755),
            HostFile(path=f"{folder}/log/run", text=log_run, mode=0o755),
        )

    def boot(self, units: Sequence[ScenarioUnit]) -> str:
        program = "runsvdir -P" if self._is_runit else "s6-svscan"
        return f"exec {program} {self._folder}"

    def functions(self, units: Sequence[ScenarioUnit]) -> str:
        # runsv sleeps for a second after a service that ended at once; until then `sv status` shows
        # what was wanted before, and `sv start` would do nothing.
        if self._is_runit:
            return """
unit_start() { sv -w 3 start "/etc/service/$1"; }
unit_stop() {
  sv -w 5 force-stop "/etc/service/$1"
  for i in $(seq 30); do sv status "/etc/service/$1" | grep -q 'want up' || break; sleep 0.1; done
}
unit_pid() { cat "/etc/service/$1/supervise/pid"; }
"""
        # Not `s6-svc -wD -d`: where a service that ended at once is about to be started again, it
        # returns before the order to stop is carried out, and the next order to start is lost.
        return """
unit_start() { s6-svc -u "/run/service/$1"; }
unit_stop() {
  s6-svc -d "/run/service/$1"
  for i in $(seq 50); do
    [ "$(s6-svstat -o up,wantedup "/run/service/$1")" = "false false" ] && return
    sleep 0.1
  done
  s6-svc -k "/run/service/$1"
}
unit_pid() { s6-svstat -o pid "/run/service/$1"; }
"""


class InitScriptSetup:
    """sysvinit: a script in /etc/init.d for each service, and a pid file."""

    programs: tuple[str, ...] = ("start-stop-daemon",)
    reads_environment_files = True
    boot_timeout_s = 5.0

    def files(self, units: Sequence[ScenarioUnit]) -> tuple[HostFile, ...]:
        return tuple(
            HostFile(path=f"/etc/init.d/{unit.name}", text=self._script(unit), mode=0o755)
            for unit in units
        )

    def boot(self, units: Sequence[ScenarioUnit]) -> str:
        return "\n".join(f"/etc/init.d/{unit.name} start" for unit in units)

    def functions(self, units: Sequence[ScenarioUnit]) -> str:
        return """
unit_start() { "/etc/init.d/$1" start; }
unit_stop() { "/etc/init.d/$1" stop; }
unit_pid() { cat "/run/$1.pid"; }
"""

    @staticmethod
    def _script(unit: ScenarioUnit) -> str:
        program, _, arguments = unit.command.partition(" ")
        as_user = f"--chuid {unit.user} " if unit.user else ""
        return f"""\
#!/bin/sh
### BEGIN INIT INFO
# Provides:          {unit.name}
# Required-Start:    $network
# Required-Stop:     $network
# Default-Start:     2 3 4 5
# Default-Stop:      0 1 6
# Short-Description: {unit.name}
### END INIT INFO
PIDFILE=/run/{unit.name}.pid
{unit.shell_lines}\
start() {{
  start-stop-daemon --start --quiet --oknodo --background --make-pidfile --pidfile $PIDFILE \\
    {as_user}--output /var/log/{unit.name}.log --startas {program} -- {arguments}
}}
stop() {{
  start-stop-daemon --stop --quiet --oknodo --retry TERM/5/KILL/5 --remove-pidfile \\
    --pidfile $PIDFILE
}}
case "$1" in
  start) start ;;
  stop) stop ;;
  restart|force-reload) stop; start ;;
  status) start-stop-daemon --status --pidfile $PIDFILE ;;
  *) echo "Usage: $0 {{start|stop|restart|status}}" >&2; exit 2 ;;
esac
"""


_OPENRC_SCRIPT = """\
#!/sbin/openrc-run
name="{name}"
command="{program}"
command_args="{arguments}"
command_background="yes"
pidfile="/run/{name}.pid"
# Debian has the start-stop-daemon of dpkg, which knows neither command_user nor output_log.
start_stop_daemon_args="--output /var/log/{name}.log{as_user}"
{environment}"""


class OpenRcSetup:
    programs = ("openrc", "rc-service")
    reads_environment_files = True
    boot_timeout_s = 15.0

    def files(self, units: Sequence[ScenarioUnit]) -> tuple[HostFile, ...]:
        return (HostFile(path="/etc/insserv.conf"), *map(self._script, units))

    @staticmethod
    def _script(unit: ScenarioUnit) -> HostFile:
        program, _, arguments = unit.command.partition(" ")
        text = _OPENRC_SCRIPT.format(
            name=unit.name,
            program=program,
            arguments=arguments.replace('"', '\\"'),
            as_user=f" --chuid {unit.user}" if unit.user else "",
            environment=unit.shell_lines,
        )
        return HostFile(path=f"/etc/init.d/{unit.name}", text=text, mode=0o755)

    def boot(self, units: Sequence[ScenarioUnit]) -> str:
        add = "\n".join(f"rc-update add {unit.name} default" for unit in units)
        levels = "/etc/runlevels/sysinit /etc/runlevels/boot /etc/runlevels/default"
        return f"mkdir -p {levels}\n{add}\nopenrc sysinit\nopenrc boot\nopenrc default"

    def functions(self, units: Sequence[ScenarioUnit]) -> str:
        return """
unit_start() { rc-service "$1" zap; rc-service "$1" start; }
unit_stop() { rc-service "$1" stop; }
unit_pid() { cat "/run/$1.pid"; }
"""


class PlainDaemonSetup:
    """No supervisor: the services are started at boot, each with its log, and left alone."""

    programs: tuple[str, ...] = ("setpriv", "pgrep")
    reads_environment_files = False
    boot_timeout_s = 5.0

    def files(self, units: Sequence[ScenarioUnit]) -> tuple[HostFile, ...]:
        return ()

    def boot(self, units: Sequence[ScenarioUnit]) -> str:
        return "\n".join(self._start(unit) for unit in units)

    def functions(self, units: Sequence[ScenarioUnit]) -> str:
        starts = "".join(f"    {unit.name}) {self._start(unit)} ;;\n" for unit in units)
        lines = "".join(f"    {unit.name}) set -- {_pattern(unit)} ;;\n" for unit in units)
        return f"""
unit_start() {{
  case "$1" in
{starts}  esac
}}
unit_pid() {{
  case "$1" in
{lines}  esac
  pgrep -o -f -x -- "$1"
}}
unit_stop() {{
  local pid; pid=$(unit_pid "$1"); [ -n "$pid" ] || return 0
  kill "$pid"; timeout 5 tail --pid="$pid" -f /dev/null || kill -KILL "$pid"
}}
"""

    @staticmethod
    def _start(unit: ScenarioUnit) -> str:
        words = [f"setpriv --reuid={unit.user} --regid={unit.user} --clear-groups"] * bool(
            unit.user
        )
        words += [f"env {shlex.join(unit.environment)}"] * bool(unit.environment)
        start = " ".join(["setsid", *words, unit.command])
        return f"{{ cd / && {start} >> /var/log/{unit.name}.log 2>&1 < /dev/null & }}"


def _pattern(unit: ScenarioUnit) -> str:
    """For `pgrep -x -f`: the arguments as the process shows them."""
    return shlex.quote(re.escape(" ".join(shlex.split(unit.command))).replace("\\ ", " "))


_CONTAINER_IMAGE = "base"
_CONTAINER_FOLDERS = ("/opt", "/srv", "/var", "/run", "/dev/shm")
"""Folders of the host that every container sees."""
_START_DOCKERD_SCRIPT = f"""\
export ROOTLESSKIT_STATE_DIR=/run/docker XDG_RUNTIME_DIR=/run
mkdir -p /run/docker/bin /sys/fs/cgroup/devices
# dockerd does not start without this program; it is used for published ports only.
ln -s /bin/false /run/docker/bin/rootlesskit-docker-proxy
export PATH=$PATH:/run/docker/bin
# runc wants to see a control group, and must not be able to change one.
unshare --cgroup sh -c 'mount -t cgroup -o devices cgroup /sys/fs/cgroup/devices && exec "$@"' sh \\
  dockerd --rootless --host unix:///run/docker.sock --exec-root /run/docker \\
  --pidfile /run/docker.pid --data-root /var/lib/docker --storage-driver vfs \\
  --bridge none --iptables=false --ip6tables=false --log-level warn >> /var/log/docker.log 2>&1 &
until docker version > /dev/null 2>&1; do sleep 0.2; done
image=$(mktemp -d) && cd $image && mkdir -p etc usr proc sys dev tmp
chmod 755 . && chmod 1777 tmp
for each in /bin /sbin /lib /lib64; do [ ! -L $each ] || cp -P $each .; done
cp /etc/passwd /etc/group /etc/ld.so.cache etc
tar -c . | docker import - {_CONTAINER_IMAGE}
cd / && rm -r $image
"""


class ContainerSetup:
    """docker: a container for each unit, in the network of the host and with its folders.

    dockerd runs as it does without root, since a host has no control groups.
    """

    programs = ("dockerd", "docker", "containerd", "runc")
    reads_environment_files = False
    boot_timeout_s = 60.0

    def files(self, units: Sequence[ScenarioUnit]) -> tuple[HostFile, ...]:
        return ()

    def boot(self, units: Sequence[ScenarioUnit]) -> str:
        creates = "\n".join(self._create(unit) for unit in units)
        names = " ".join(unit.name for unit in units)
        return f"{_START_DOCKERD_SCRIPT}{creates}\ndocker start {names}\nwait"

    def functions(self, units: Sequence[ScenarioUnit]) -> str:
        return """
unit_start() { docker start "$1"; }
unit_stop() { docker stop -t 5 "$1"; }
unit_pid() { docker inspect -f '{{.State.Pid}}' "$1"; }
"""

    @staticmethod
    def _create(unit: ScenarioUnit) -> str:
        # Settings that the command names are mounted by themselves, as people do.
        named = [word for word in shlex.split(unit.command) if word.startswith("/etc/")]
        folders = [word if word.count("/") == 2 else word.rpartition("/")[0] for word in named]
        mounts = [f"-v {path}:{path}" for path in (*_CONTAINER_FOLDERS, *folders)]
        user = [f'--user "$(id -u {unit.user}):$(id -g {unit.user})"'] * bool(unit.user)
        variables = [f"-e {shlex.quote(each)}" for each in unit.environment]
        policy = "on-failure" if unit.restarts else "no"
        # /sys: a host has none that could be mounted in a container.
        own = ["--network=host", "-v /sys:/sys", "-v /usr:/usr:ro"]
        options = " ".join([*own, *mounts, *user, *variables])
        return (
            f"docker create --name {unit.name} --restart {policy} {options} "
            f"{_CONTAINER_IMAGE} {unit.command}"
        )


SUPERVISOR_SETUPS: Mapping[str, SupervisorSetup] = {
    "supervisord": SupervisordSetup(),
    "runit": ScanFolderSetup("runit"),
    "s6": ScanFolderSetup("s6"),
    "openrc": OpenRcSetup(),
    "sysvinit": InitScriptSetup(),
    "daemon": PlainDaemonSetup(),
    "docker": ContainerSetup(),
}
