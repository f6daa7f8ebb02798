"""Opens the sources of alerts of a watch: Prometheus, events of a cluster, and the web server."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from hermes.app.application import Application
from hermes.app.journal.upkeep import write_warning
from hermes.app.models import refuse_own_address
from hermes.core.errors import SettingsError
from hermes.plumbing.http_service import HttpRoute
from hermes.settings.load import LoadedSettings
from hermes.sre.probes.configured_ports import find_configured_port
from hermes.sre.probes.inventory import read_inventories
from hermes.sre.watch import IncidentWatch

if TYPE_CHECKING:
    from hermes.app.web.activity import JournalActivity


async def open_alert_sources(
    group: TaskGroup,
    application: Application,
    watch: IncidentWatch,
    gauges: Callable[[], Mapping[str, float]],
    *,
    listen: bool,
    api: Sequence[HttpRoute],
) -> str:
    """Start everything that raises alerts besides probes; return the address that is served.

    `gauges` returns metrics of the watch. Without `listen` nothing is served.
    """
    await _start_prometheus(group, application)
    await _start_cluster_events(group, application)
    return await _serve_alerts(group, application, watch, gauges, api) if listen else ""


async def _start_prometheus(group: TaskGroup, application: Application) -> None:
    settings = application.loaded.settings.sre.prometheus
    if not settings.url:
        return
    from hermes.sre.prometheus import PrometheusSource

    secret = application.loaded.secrets.get(settings.token_variable) or ""
    source = PrometheusSource(application.bus.publish, settings, secret=secret)
    await source.restore(application.journal, datetime.now(UTC))
    group.start_soon(source.run)


async def _start_cluster_events(group: TaskGroup, application: Application) -> None:
    settings = application.loaded.settings.sre.kubernetes
    if not settings.watch:
        return
    from hermes.sre.cluster.event_source import KubernetesEventSource

    environment = application.agent_dependencies.environment
    source = KubernetesEventSource(application.bus.publish, settings, environment)
    await source.restore(application.journal, datetime.now(UTC))
    group.start_soon(source.run)


async def _serve_alerts(
    group: TaskGroup,
    application: Application,
    watch: IncidentWatch,
    gauges: Callable[[], Mapping[str, float]],
    api: Sequence[HttpRoute],
) -> str:
    from hermes.web.alert_server import AlertListenError, WatchStatus, serve_alerts

    loaded = application.loaded
    reader: JournalActivity | None = None

    async def activity() -> Mapping[str, float]:
        from hermes.app.web.activity import JournalActivity

        nonlocal reader
        reader = reader or JournalActivity(loaded, application.journal)
        return await reader.gauges()

    async def token_rights(token: str) -> Sequence[str]:
        from hermes.web.tokens import TokenRegistry

        found = await TokenRegistry(application.journal).find(token)
        return found.rights if found is not None else ()

    status = WatchStatus(
        open_incidents=watch.by_severity,
        heartbeat=lambda: watch.heartbeat_at,
        gauges=gauges,
        activity=activity,
        token_rights=token_rights,
    )
    web = loaded.settings.web
    refuse_own_address(loaded)
    token = loaded.secrets.get(web.token_variable) or ""

    async def serve(*, task_status: TaskStatus[str]) -> None:
        """Without the port the watch goes on: a host that is not watched is worse. The port is not
        tried again: a watch that takes it while its owner is down prevents the repair."""
        try:
            if why := await to_thread.run_sync(_why_not_listen, loaded):
                raise AlertListenError(
                    f"{why}; choose another port: hermes config set web.port 8090"
                )
            await serve_alerts(
                application.bus, web, token=token, watch=status, api=api, task_status=task_status
            )
        except AlertListenError as error:
            write_warning(f"no alerts of other monitors are received: {error}")
            task_status.started("")

    return str(await group.start(serve))


def _why_not_listen(loaded: LoadedSettings) -> str:
    """Return whose port it is; empty when it is free. On the first start no service is known that
    is down; a port that a person has chosen for Hermes may be named elsewhere, as in a proxy."""
    port = loaded.settings.web.port
    if owner := find_port_owner(loaded.home, port):
        return f"port {port} belongs to {owner}, a service of this host"
    file = "" if "web.port" in loaded.origins else find_configured_port(port)
    return f"{file} gives port {port} to something else" if file else ""


def find_port_owner(home: Path, port: int) -> str:
    """Return the name of an expected service that has this port, also while it is down."""
    for known in read_inventories(home).values():
        for service in known.expected:
            ports = (each.what.rpartition(":")[2] for each in service.probes if each.kind == "port")
            if str(port) in ports:
                return service.name
    return ""


def with_cluster_events(loaded: LoadedSettings) -> LoadedSettings:
    """Return settings with which the watch reads events of the cluster. Raises `SettingsError`."""
    sre = loaded.settings.sre
    if not sre.kubernetes.configured:
        raise SettingsError(
            "no cluster is configured: hermes config set sre.kubernetes.kubeconfig ~/.kube/config, "
            "and sre.kubernetes.context with a context that it names"
        )
    watched = msgspec.structs.replace(sre.kubernetes, watch=True)
    return loaded.with_sections(sre=msgspec.structs.replace(sre, kubernetes=watched))
