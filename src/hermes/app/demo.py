"""The main job, to be looked at: a host in a box under a real watch, broken while it is watched."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

import anyio
from msgspec.structs import replace

from hermes.app.drill import FOLDER
from hermes.app.watch import watching
from hermes.core.bus import Bus
from hermes.core.errors import PlaceFailed
from hermes.core.events.incidents import IncidentClosed
from hermes.core.messages import Value
from hermes.gym.box.place import place_in
from hermes.gym.episode import Episode, break_it, open_episode
from hermes.gym.scenario import find
from hermes.settings.load import Loaded
from hermes.sre.incident import Incident
from hermes.sre.probes.probe import Probe
from hermes.sre.report.account import account
from hermes.sre.report.reading import records_of

SCENARIO = "config-typo-after-edit"
SEEDS = (3, 8)
"""Two hosts of one family: other names, ports, values and words."""
LOOK, LONGEST, CALM = 0.5, 90.0, 15.0
"""Seconds between two looks of a probe, for one incident, and until all is quiet after it."""

Show = Callable[[Bus], AbstractAsyncContextManager[None]]
"""Shows what is published while its block lasts."""


class Round(Value, kw_only=True, frozen=True):
    """How one incident went, in seconds since the host was broken."""

    host: str
    broken: str
    """What was done to it."""
    incident: Incident
    noticed: float
    applied: float
    """When the last change was done; 0 when there was none."""
    ended: float
    mended: bool
    """By the word of an oracle that neither watch nor fixer can reach."""
    oracle: tuple[str, ...] = ()
    model_calls: int = 0
    tokens: int = 0
    by: str = ""


async def play(loaded: Loaded, seed: int, model: str, show: Show) -> Round:
    """Raises `PlaceFailed` when no incident came of it in time."""
    scenario = find(SCENARIO)
    async with open_episode(scenario, scenario.story(seed), broken=False) as episode:
        place = place_in(episode.box, name=episode.story.hosts[0].name)
        async with (
            watching(
                loaded,
                model=model,
                folder=FOLDER,
                listen=False,
                lines=False,
                environment=place,
                adapt=_quick,
            ) as at,
            show(at.house.bus),
        ):
            after = await at.house.journal.last()
            await anyio.sleep(2 * LOOK)  # a watch that has seen it well knows when it is not
            began = datetime.now(UTC)
            await break_it(episode)
            incident = await _closed(at.house.bus, after)
            with anyio.move_on_after(CALM):
                await at.watch.until_idle()
            return await _told(at.house.bus, episode, incident, began)


def _quick(probe: Probe) -> Probe | None:
    """Of services and disks alone: what a box sees of load and memory is the whole machine's."""
    if not probe.service and probe.kind not in ("disk", "inodes"):
        return None
    return replace(probe, interval=LOOK)


async def _closed(bus: Bus, after: int) -> str:
    with anyio.move_on_after(LONGEST):
        async for recorded in bus.follow(after=after):
            if isinstance(recorded.event, IncidentClosed):
                return recorded.event.run
    raise PlaceFailed(f"no incident was closed within {LONGEST:g} s; run it again")


async def _told(bus: Bus, episode: Episode, run: str, began: datetime) -> Round:
    whole = account(await records_of(bus.journal, run))
    outcome = await episode.judge(window=1.0)
    incident = whole.incident
    closed = incident.closed.at if incident.closed else began
    applied = [deed.at for deed in whole.deeds if deed.changed]
    return Round(
        host=episode.story.hosts[0].name,
        broken="; ".join(episode.story.inject),
        incident=incident,
        noticed=_since(began, incident.case.opened_at),
        applied=_since(began, max(applied)) if applied else 0.0,
        ended=_since(began, closed),
        mended=outcome.resolved,
        oracle=tuple(f"{each.check}: {each.detail}" for each in outcome.cured),
        model_calls=whole.cost.calls,
        tokens=whole.cost.usage.tokens,
        by=incident.played[-1] if incident.played else "",
    )


def _since(began: datetime, at: datetime) -> float:
    return round((at - began).total_seconds(), 2)
