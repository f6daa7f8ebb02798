"""Builds the shell command of a probe, for any environment with a shell."""

from collections.abc import Callable

from hermes.core.errors import SettingsError
from hermes.sre.probes.kinds import databases, early_warnings, host, logs, services
from hermes.sre.probes.probe import Probe, ProbeKind

_COMMAND_BY_KIND: dict[ProbeKind, Callable[[Probe, str | None], str]] = {
    "cpu": host.cpu_command,
    "load": host.load_command,
    "memory": host.memory_command,
    "disk": host.disk_command,
    "inodes": host.inodes_command,
    "processes": host.processes_command,
    "zombies": host.zombies_command,
    "port": services.port_command,
    "http": services.http_command,
    "tls": services.tls_command,
    "certificate": services.certificate_command,
    "unit": services.unit_command,
    "cron": services.cron_command,
    "log": logs.log_command,
    "answers": logs.answers_command,
    "postgres": databases.postgres_command,
    "mysql": databases.mysql_command,
    "redis": databases.redis_command,
    "sqlite": databases.sqlite_command,
    "config": early_warnings.config_command,
    "forecast": early_warnings.forecast_command,
}
_KINDS_WITH_TARGET = (
    "port",
    "http",
    "tls",
    "certificate",
    "unit",
    "cron",
    "sqlite",
    "config",
    "command",
)


def shell_command_of(probe: Probe, before: str | None = None) -> str:
    """`before`: what the last run kept; None for a single run.

    Raises `SettingsError` for an invalid probe.
    """
    if "\0" in probe.what or (probe.kind in _KINDS_WITH_TARGET and not probe.what.strip()):
        raise SettingsError(
            f"{probe.name}: a {probe.kind} needs `what`: {_TARGET_HELP[probe.kind]}"
        )
    if probe.kind == "command":
        return probe.what
    return _COMMAND_BY_KIND[probe.kind](probe, before)


_TARGET_HELP: dict[ProbeKind, str] = dict.fromkeys(_COMMAND_BY_KIND, "what to check") | {
    "port": "8080 or host:port",
    "http": "a URL such as http://127.0.0.1:8080/health",
    "tls": "host:port, or host:port/name",
    "certificate": "the path of a certificate",
    "unit": "the name of a unit such as nginx.service",
    "cron": "the path of the program that the job runs",
    "sqlite": "the path of a database",
    "config": "a program such as nginx",
    "command": "the command itself; it may only read",
}
