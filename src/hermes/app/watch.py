"""`hermes watch`, joined: probes, webhooks and Prometheus in; incidents commanded; notices out."""

import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from hermes.app.claims import LockFailed, RunTaken, claim
from hermes.app.gate import Gate
from hermes.app.health import asked_for, probes_of, rounds_of
from hermes.app.house import House, open_house
from hermes.app.journal_keeper import JournalKeeper, warn
from hermes.app.model_reach import ModelReach
from hermes.app.oncall import ground_in, minds_in
from hermes.app.shelf import Shelf
from hermes.core.errors import SettingsError, StoreError
from hermes.core.protocols import Environment
from hermes.memory.buffered_journal import BufferedJournal
from hermes.settings.load import Loaded
from hermes.sre.case import Case
from hermes.sre.ground import Ground
from hermes.sre.health import Health
from hermes.sre.notices.herald import Herald
from hermes.sre.notices.opening import open_sinks
from hermes.sre.probes.inventory import InventoryStore
from hermes.sre.probes.patrol import Patrol
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.roster import Roster, Surveyor
from hermes.sre.triage.triage import Triage
from hermes.sre.watch import RUN, Watch

NONE = "none"
"""In place of a model: playbooks alone."""
LAST_WORDS = 5.0
"""Seconds in which what people are owed is told before the watch ends."""
TAKEN = "another watch of this home is running already; end that one first, or use another home"

Adapt = Callable[[Probe], Probe | None]
"""Changes a probe before it is asked, or leaves it out."""


@dataclass(frozen=True)
class Watching:
    """A watch at work. Lives inside `watching`."""

    house: House
    watch: Watch
    probes: tuple[Probe, ...]
    alone: bool
    """No model is asked."""
    found_now: bool
    """There is no file of probes: these were found by a look around."""
    address: str = ""
    """Where alerts can be sent to."""
    refused: tuple[str, ...] = ()
    """Probes that do more than look, with the reason: they are not asked."""
    missing: tuple[str, ...] = ()
    """Expected services that do not run."""
    questions: tuple[str, ...] = ()
    """What only a person knows."""

    reach: ModelReach | None = None
    """None where no model is asked."""

    async def until_rebuilt(self) -> None:
        """Return when the journal has to be taken up anew: leave the block, and enter another."""
        await _rebuilt(self.house).wait()

    @property
    def answers(self) -> str:
        """What works on an incident, as far as it is known."""
        if self.reach is None:
            return "no model: playbooks and checks only"
        return f"playbooks, then {self.reach.words}"


@asynccontextmanager
async def watching(
    loaded: Loaded,
    *,
    model: str = "",
    folder: Path | None = None,
    listen: bool = True,
    lines: bool = True,
    environment: Environment | None = None,
    adapt: Adapt = lambda probe: probe,
) -> AsyncGenerator[Watching, None]:
    """Everything that `hermes watch` does, until the block is left. `lines`: notices are shown.

    `adapt` may change a probe, or leave it out.
    """
    loaded, asked = _waiting_for_people(loaded), "" if model == NONE else model
    async with open_house(
        loaded,
        origin="incident",
        model=asked,
        toolsets=loaded.settings.tools.toolsets,  # playbooks need them, whoever the model is
        directory=folder,
        environment=environment,
    ) as house:
        keeper = None
        if isinstance(house.journal, BufferedJournal):
            keeper = JournalKeeper(house.journal)
        await _claim_watch(house)
        here, policy = house.means.environment, house.means.executor.policy
        # An environment that was handed in is a box: it will not be there again.
        store = InventoryStore(loaded.home if environment is None else None, here.target)
        found = await probes_of(loaded, here, policy, store)
        probes = tuple(each for each in map(adapt, found.probes) if each is not None)
        patrol = Patrol(
            probes, here, house.bus, home=loaded.home, settings=loaded.settings.sre.probes
        )
        minds = None if model == NONE else minds_in(house)
        settings, shelf = loaded.settings.sre, Shelf(loaded, house.journal)

        def ground(case: Case) -> Ground:
            if isinstance(policy, Gate):
                policy.concerns(case.run, case.incident, case.severity, case.service)
            return ground_in(house, settings, minds=minds, probes=patrol.probes, shelf=shelf)

        watch = Watch(
            house.bus,
            Triage(settings.triage),
            ground,
            at_once=settings.at_once,
            probes=len(probes),
            until_writable=keeper.until_writable if keeper else None,
        )
        herald = _herald(house, lines=lines)
        async with anyio.create_task_group() as group:
            if keeper is not None:
                group.start_soon(keeper.run)
            group.start_soon(_fill, shelf)
            await group.start(herald.run)
            await group.start(watch.run)
            gauges = keeper.gauges if keeper else dict[str, float]
            address = await _open_ears(group, house, watch, gauges, listen=listen)
            if found.found_now and environment is None:
                group.start_soon(_follow_services, house, patrol, store, adapt)
            if probes or found.found_now:
                group.start_soon(patrol.run)
                group.start_soon(Health(house.bus, rounds_of(patrol), settings.health).run)
            yield Watching(
                house,
                watch,
                probes,
                minds is None,
                found.found_now,
                address,
                refused=found.refused,
                missing=tuple(found.missing),
                questions=tuple(each.text for each in found.questions),
                reach=ModelReach(loaded, house.means.model.name) if minds is not None else None,
            )
            if not _rebuilt(house).is_set():
                with anyio.move_on_after(LAST_WORDS):
                    await herald.until_told()
            group.cancel_scope.cancel()


async def _follow_services(
    house: House, patrol: Patrol, store: InventoryStore, adapt: Adapt
) -> None:
    """Services that come get probes, and those that are forgotten lose theirs."""
    here, policy = house.means.environment, house.means.executor.policy

    async def adopt(roster: Roster) -> None:
        asked = await asked_for(house.loaded, roster, policy, here, found_now=True)
        new = asked.probes
        await patrol.adopt([each for each in map(adapt, new) if each is not None])

    await Surveyor(here, store, house.loaded.settings.sre.probes, adopt).run()


async def _claim_watch(house: House) -> None:
    try:
        await claim(RUN, house.claims, house.journal)
    except RunTaken as taken:
        raise SettingsError(TAKEN) from taken
    except LockFailed as failed:  # rather two watches than none
        warn(f"it goes on without its lock: {failed}")


def _rebuilt(house: House) -> anyio.Event:
    journal = house.journal
    return journal.rebuild if isinstance(journal, BufferedJournal) else anyio.Event()


async def _fill(shelf: Shelf) -> None:
    """Ahead of the first alert; what cannot be read now is read when it is needed."""
    with suppress(StoreError):
        await shelf.fill()


def _herald(house: House, *, lines: bool) -> Herald:
    loaded = house.loaded
    settings = loaded.settings.sre.notices
    sinks = open_sinks(
        settings,
        home=loaded.home,
        secret=loaded.secrets.get,
        write=_show if lines else None,
    )
    return Herald(house.bus, sinks, settings)


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


async def _open_ears(
    group: TaskGroup,
    house: House,
    watch: Watch,
    gauges: Callable[[], Mapping[str, float]],
    *,
    listen: bool,
) -> str:
    from hermes.sre.prometheus.source import PrometheusSource
    from hermes.web.serving import Watched, serve_alerts

    loaded = house.loaded
    prometheus = loaded.settings.sre.prometheus
    if prometheus.url:
        secret = loaded.secrets.get(prometheus.token_variable) or ""
        source = PrometheusSource(house.bus.publish, prometheus, secret=secret)
        await source.remember(house.journal, datetime.now(UTC))
        group.start_soon(source.run)
    if not listen:
        return ""
    watched = Watched(
        open_incidents=watch.by_severity, heartbeat=lambda: watch.alive_at, gauges=gauges
    )
    web = loaded.settings.web
    token = loaded.secrets.get(web.token_variable) or ""

    async def serve(*, task_status: TaskStatus[str]) -> None:
        await serve_alerts(house.bus, web, token=token, watched=watched, task_status=task_status)

    return str(await group.start(serve))


def _waiting_for_people(loaded: Loaded) -> Loaded:
    """Nobody sits here, but somebody may answer from elsewhere: unless told otherwise, wait."""
    if loaded.origin("policy.wait").source != "default":
        return loaded
    policy = msgspec.structs.replace(loaded.settings.policy, wait=True)
    settings = msgspec.structs.replace(loaded.settings, policy=policy)
    return msgspec.structs.replace(loaded, settings=settings)
