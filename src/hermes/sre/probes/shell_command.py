"""Builds the shell command of a probe, for any environment with a shell."""

from hermes.core.errors import SettingsError
from hermes.core.plugins import load_plugin
from hermes.sre.probes.probe import PluginProbe, Probe


def shell_command_of(probe: Probe, before: str | None = None) -> str:
    """`before`: what the last run kept; None for a single run.

    Raises `SettingsError` for an invalid probe.
    """
    if isinstance(probe, PluginProbe) and probe.command:
        return probe.command
    if "\0" in probe.what or (probe.kind in _TARGET_HELP and not probe.what.strip()):
        needed = _TARGET_HELP.get(probe.kind, "what to check")
        raise SettingsError(f"{probe.name}: a {probe.kind} needs `what`: {needed}")
    command: str = load_plugin("probes", probe.kind)(probe, before)
    return command


_TARGET_HELP = {
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
"""What the kinds that need `what` take there."""
