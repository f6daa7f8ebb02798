"""A probe as the shell text that asks it: the same in any place that has a shell."""

from collections.abc import Callable

from hermes.core.errors import SettingsError
from hermes.sre.probes.kinds import ahead, host, logs, services, stores
from hermes.sre.probes.probe import Kind, Probe

_KINDS: dict[Kind, Callable[[Probe, str | None], str]] = {
    "cpu": host.cpu,
    "load": host.load,
    "memory": host.memory,
    "disk": host.disk,
    "inodes": host.inodes,
    "processes": host.processes,
    "zombies": host.zombies,
    "port": services.port,
    "http": services.http,
    "tls": services.tls,
    "certificate": services.certificate,
    "unit": services.unit,
    "cron": services.cron,
    "log": logs.log,
    "answers": logs.answers,
    "postgres": stores.postgres,
    "mysql": stores.mysql,
    "redis": stores.redis,
    "sqlite": stores.sqlite,
    "config": ahead.config,
    "forecast": ahead.forecast,
}
_NEED_WHAT = ("port", "http", "tls", "certificate", "unit", "cron", "sqlite", "config", "command")


def command_of(probe: Probe, before: str | None = None) -> str:
    """`before` is what the look before this one kept; None for a look that stands by itself.

    Raises `SettingsError` for a probe that cannot be asked as it is written.
    """
    if "\0" in probe.what or (probe.kind in _NEED_WHAT and not probe.what.strip()):
        raise SettingsError(f"{probe.name}: a {probe.kind} needs `what`: {_WHAT[probe.kind]}")
    if probe.kind == "command":
        return probe.what
    return _KINDS[probe.kind](probe, before)


_WHAT: dict[Kind, str] = dict.fromkeys(_KINDS, "what to look at") | {
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
