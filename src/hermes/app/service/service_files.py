"""The files of the service `hermes`: rendered from a plan, without touching the host."""

from pathlib import Path
from typing import Literal

from hermes.core.messages import Value

ServiceKind = Literal["systemd", "supervisord", "openrc"]
SERVICE_NAME = "hermes"
LOG_FOLDER = Path("/var/log/hermes")
LOG_FILE = LOG_FOLDER / "watch.log"
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WATCHDOG_S = 90
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 30
RESTART_DELAY_S = 5
MAX_RESTARTS, RESTART_PERIOD_S = 5, 600
MAX_TASKS = 512
PUBLIC_FILE_MODE, SCRIPT_MODE = 0o644, 0o755


class ServicePlan(Value, kw_only=True, frozen=True):
    """What the service shall be."""

    kind: ServiceKind
    program: str
    """The absolute path of the command `hermes`."""
    user: str = "hermes"
    home: str = "/var/lib/hermes"
    memory_mib: int = 1024
    cpu_percent: int = 50
    sudo: bool = False
    """Whether the user may run listed commands as root."""


class ServiceFile(Value, frozen=True):
    path: Path
    text: str
    mode: int = PUBLIC_FILE_MODE


def service_file(plan: ServicePlan) -> ServiceFile:
    """The file that the service manager reads."""
    if plan.kind == "systemd":
        return ServiceFile(Path(f"/etc/systemd/system/{SERVICE_NAME}.service"), _unit(plan))
    if plan.kind == "supervisord":
        return ServiceFile(Path(f"/etc/supervisor/conf.d/{SERVICE_NAME}.conf"), _program(plan))
    return ServiceFile(Path(f"/etc/init.d/{SERVICE_NAME}"), _init_script(plan), SCRIPT_MODE)


def _unit(plan: ServicePlan) -> str:
    return f"""\
# Made by `hermes service install`; `hermes service uninstall` removes it.
[Unit]
Description=Hermes, on call for this host
Wants=network-online.target
After=network-online.target local-fs.target
StartLimitIntervalSec={RESTART_PERIOD_S}
StartLimitBurst={MAX_RESTARTS}

[Service]
Type=notify
NotifyAccess=main
User={plan.user}
WorkingDirectory={plan.home}
Environment=HERMES_HOME={plan.home} LANG=C.UTF-8 PYTHONUNBUFFERED=1
Environment=PATH={SEARCH_PATH}
ExecStart={plan.program} up
Restart=on-failure
RestartSec={RESTART_DELAY_S}
WatchdogSec={WATCHDOG_S}
TimeoutStartSec={START_TIMEOUT_S}
TimeoutStopSec={STOP_TIMEOUT_S}
# A daemon that a fix started outlives the watch.
KillMode=process
MemoryMax={plan.memory_mib}M
CPUQuota={plan.cpu_percent}%
TasksMax={MAX_TASKS}

[Install]
WantedBy=multi-user.target
"""


def _program(plan: ServicePlan) -> str:
    variables = {
        "HERMES_HOME": plan.home,
        "HOME": plan.home,
        "LANG": "C.UTF-8",
        "PATH": SEARCH_PATH,
        "PYTHONUNBUFFERED": "1",
        "USER": plan.user,
    }
    environment = ",".join(f'{name}="{value}"' for name, value in variables.items())
    return f"""\
; Made by `hermes service install`; `hermes service uninstall` removes it.
; supervisord limits neither memory nor processor time.
[program:{SERVICE_NAME}]
command={plan.program} up
user={plan.user}
directory={plan.home}
environment={environment}
autostart=true
autorestart=unexpected
exitcodes=0
startsecs={RESTART_DELAY_S}
startretries={MAX_RESTARTS}
stopsignal=TERM
stopwaitsecs={STOP_TIMEOUT_S}
redirect_stderr=true
stdout_logfile={LOG_FILE}
stdout_logfile_maxbytes=10MB
stdout_logfile_backups=5
"""


def _init_script(plan: ServicePlan) -> str:
    memory_bytes, cpu_us = plan.memory_mib * 1024 * 1024, plan.cpu_percent * 1000
    return f"""\
#!/sbin/openrc-run
# Made by `hermes service install`; `hermes service uninstall` removes it.
description="Hermes, on call for this host"
supervisor=supervise-daemon
command="{plan.program}"
command_args="up"
command_user="{plan.user}"
directory="{plan.home}"
output_log="{LOG_FILE}"
error_log="{LOG_FILE}"
respawn_delay={RESTART_DELAY_S}
respawn_max={MAX_RESTARTS}
respawn_period={RESTART_PERIOD_S}
retry="TERM/{STOP_TIMEOUT_S}/KILL/5"
# Only on hosts with unified control groups.
rc_cgroup_settings="
memory.max {memory_bytes}
cpu.max {cpu_us} 100000
"
export HERMES_HOME="{plan.home}" HOME="{plan.home}" USER="{plan.user}"
export LANG=C.UTF-8 PYTHONUNBUFFERED=1

depend() {{
	use localmount
	after bootmisc net logger
}}

start_pre() {{
	checkpath --directory --mode 0750 --owner "{plan.user}" "{LOG_FOLDER}"
}}
"""
