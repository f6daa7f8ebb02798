"""The demo: a host in a gym box under a real watch, broken while it is watched."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

import anyio
from msgspec.structs import replace

from hermes.app.changes.states import open_state_store
from hermes.app.drills.drill import BOX_WORK_FOLDER
from hermes.app.watch import open_watch
from hermes.core.bus import Bus
from hermes.core.errors import EnvironmentFailed
from hermes.core.events.incidents import IncidentClosed
from hermes.core.incident import Incident
from hermes.core.messages import Value
from hermes.gym.box.environment import host_environment
from hermes.gym.eight_edits import EIGHT_EDITS, Edit, eight_edits
from hermes.gym.episodes.episode import Episode, inject_fault, open_episode
from hermes.gym.scenario import Scenario, find_scenario
from hermes.gym.scenario_spec import ScenarioSpec
from hermes.settings.load import LoadedSettings
from hermes.sre.probes.probe import Probe
from hermes.sre.reports.report_data import gather_report_data, read_incident_records

DEMO_SCENARIO = "config-typo-after-edit"
DEMO_SEEDS = (3, 8)
"""Two hosts of one scenario family: other names, ports, values and texts."""
EDITS_SEED = 5
RECENT_CHANGES_RULE = "recent-changes-in-isolation"
"""The rule of isolated places that lets the demo revert a person's recent change."""
PROBE_INTERVAL_S, INCIDENT_TIMEOUT_S, CALM_PERIOD_S = 0.5, 90.0, 15.0
"""Seconds between two runs of a probe, for one incident, and until all is quiet after it."""

ShowEvents = Callable[[Bus], AbstractAsyncContextManager[None]]
"""Shows what is published while its block lasts."""


class DemoAct(Value, kw_only=True, frozen=True):
    """A host that is broken and fixed in the demonstration."""

    title: str
    scenario: Scenario
    seed: int
    edits: tuple[Edit, ...] = ()
    """What a person changes on the host; one of these edits breaks it."""

    def broken_text(self, spec: ScenarioSpec) -> str:
        """Return what breaks the host, for people."""
        if not self.edits:
            return "; ".join(spec.inject)
        return f"{spec.fault.mechanism[0]} in {spec.fault.component[0]}"


def demo_acts() -> tuple[DemoAct, ...]:
    typo = find_scenario(DEMO_SCENARIO)
    first, second = DEMO_SEEDS
    host = EIGHT_EDITS.draw_spec(EDITS_SEED).hosts[0]
    return (
        DemoAct(title="A host is built, watched, and broken", scenario=typo, seed=first),
        DemoAct(
            title="A host is built, watched, and broken again: other names, ports and values",
            scenario=typo,
            seed=second,
        ),
        DemoAct(
            title="A fault that no playbook describes: one of eight edits broke a service",
            scenario=EIGHT_EDITS,
            seed=EDITS_SEED,
            edits=eight_edits(host.units[0].path.removesuffix(".service")),
        ),
    )


class DemoResult(Value, kw_only=True, frozen=True):
    """The times of one incident, in seconds since the host was broken."""

    host: str
    broken: str
    """What was broken."""
    incident: Incident
    noticed: float
    applied: float
    """When the last change was made; 0 when there was none."""
    ended: float
    resolved: bool
    """According to an oracle that neither the watch nor the responder can reach."""
    oracle: tuple[str, ...] = ()
    model_calls: int = 0
    tokens: int = 0
    by: str = ""


async def run_demo(
    loaded: LoadedSettings, act: DemoAct, model: str, show: ShowEvents
) -> DemoResult:
    """Raises `EnvironmentFailed` when no incident was opened in time."""
    states, spec = open_state_store(loaded), act.scenario.draw_spec(act.seed)
    async with open_episode(act.scenario, spec, broken=False, states=states) as episode:
        environment = host_environment(episode.box, name=episode.spec.hosts[0].name)
        async with (
            open_watch(
                loaded,
                model=model,
                folder=BOX_WORK_FOLDER,
                listen=False,
                outputs=(),
                environment=environment,
                adapt=_faster_probe,
            ) as at,
            show(at.application.bus),
        ):
            await anyio.sleep(
                2 * PROBE_INTERVAL_S
            )  # a watch that has seen it healthy notices when it is not
            # On a loaded machine the watch may find a service slow before anything is broken.
            with anyio.move_on_after(INCIDENT_TIMEOUT_S):
                await at.watch.until_idle()
            after = await at.application.journal.last()
            began = datetime.now(UTC)
            await inject_fault(episode)
            incident = await _wait_until_closed(at.application.bus, after)
            with anyio.move_on_after(CALM_PERIOD_S):
                await at.watch.until_idle()
            result = await _build_result(at.application.bus, episode, incident, began)
            return replace(result, broken=act.broken_text(spec))


def _faster_probe(probe: Probe) -> Probe | None:
    """Services and disks only: in a box, load and memory are those of the whole machine."""
    if not probe.service and probe.kind not in ("disk", "inodes"):
        return None
    return replace(probe, interval=PROBE_INTERVAL_S)


async def _wait_until_closed(bus: Bus, after: int) -> str:
    with anyio.move_on_after(INCIDENT_TIMEOUT_S):
        async for recorded in bus.follow(after=after):
            if isinstance(recorded.event, IncidentClosed):
                return recorded.event.run
    raise EnvironmentFailed(f"no incident was closed within {INCIDENT_TIMEOUT_S:g} s; run it again")


async def _build_result(bus: Bus, episode: Episode, run: str, began: datetime) -> DemoResult:
    report = gather_report_data(await read_incident_records(bus.journal, run))
    outcome = await episode.judge(window_s=1.0)
    incident = report.incident
    closed = incident.closed.at if incident.closed else began
    applied = [action.at for action in report.actions if action.changed]
    return DemoResult(
        host=episode.spec.hosts[0].name,
        broken="; ".join(episode.spec.inject),
        incident=incident,
        noticed=_seconds_since(began, incident.details.opened_at),
        applied=_seconds_since(began, max(applied)) if applied else 0.0,
        ended=_seconds_since(began, closed),
        resolved=outcome.resolved,
        oracle=tuple(f"{each.check}: {each.detail}" for each in outcome.cured),
        model_calls=report.cost.calls,
        tokens=report.cost.usage.tokens,
        by=incident.played[-1] if incident.played else "",
    )


def _seconds_since(began: datetime, at: datetime) -> float:
    return round((at - began).total_seconds(), 2)
