"""Keeps the states of a host for an incident: while it fails, and after it has recovered."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec.structs import replace

from hermes.core.errors import HermesError
from hermes.core.events.experiments import IncidentStateKept, KeptReading
from hermes.core.incident import IncidentDetails
from hermes.core.protocols import Environment, Journal, PublishEvents
from hermes.declared.collectors.collect import collect_state
from hermes.declared.collectors.readers import environment_runner
from hermes.declared.state import State
from hermes.declared.store import StateStore
from hermes.sre.checks import CheckResult, IndependentChecks, ProbeChecks
from hermes.sre.probes.probe import Probe

STATE_KINDS = ("incident.state",)
CollectState = Callable[[State | None], Awaitable[State]]
MAX_DETAIL_CHARS = 300


class IncidentStates:
    """Keeps the states of one host, once for each incident and moment."""

    def __init__(
        self,
        environment: Environment,
        store: StateStore,
        host: str,
        journal: Journal,
        publish: PublishEvents,
        *,
        collect: CollectState | None = None,
    ) -> None:
        """`collect`: in place of a look through the environment."""
        self.environment, self.store, self.host = environment, store, host
        self.journal, self.publish = journal, publish
        self._collect_state = collect or self._collect_through

    async def keep_failing(
        self, details: IncidentDetails, checks: IndependentChecks
    ) -> IncidentStateKept | None:
        """Return None where there is no known good state to compare it with, and where the home
        cannot be written."""
        kept = await read_kept_states(self.journal, details)
        if "failing" in kept:
            return kept["failing"]
        known = self.store.latest(self.host)
        if known is None:
            return None
        results = await checks()
        state = await self._collect(known)
        event = keep_failing_state(self.store, state, details, results, checks)
        if event is not None:
            await self.publish(event)
        return event

    async def keep_recovered(self, details: IncidentDetails) -> IncidentStateKept | None:
        """Return None where the home cannot be written."""
        kept = await read_kept_states(self.journal, details)
        if "recovered" in kept:
            return kept["recovered"]
        state = await self._collect(self.store.latest(self.host))
        try:
            id = self.store.save(state)
        except OSError:
            return None
        event = IncidentStateKept(
            run=details.run,
            incident=details.incident,
            moment="recovered",
            state=id,
            host=self.host,
        )
        await self.publish(event)
        return event

    async def _collect(self, known: State | None) -> State:
        return replace(await self._collect_state(known), host=self.host, source="incident")

    async def _collect_through(self, known: State | None) -> State:
        run = environment_runner(self.environment)
        return await collect_state(run, known=known, store=self.store)


def keep_failing_state(
    store: StateStore,
    state: State,
    details: IncidentDetails,
    results: Sequence[CheckResult],
    checks: IndependentChecks,
) -> IncidentStateKept | None:
    """Saves a state; the event that says so is not published yet. Return None where the home cannot
    be written: the watch reports that, and the work on the incident goes on."""
    try:
        id = store.save(replace(state, source="incident"))
    except OSError:
        return None
    probes = checks.probes if isinstance(checks, ProbeChecks) else ()
    return IncidentStateKept(
        run=details.run,
        incident=details.incident,
        moment="failing",
        state=id,
        known_good=_known_good_id(store, state.host),
        host=state.host,
        service=failing_service(details, results),
        readings=tuple(_reading(each) for each in results if not each.unknown),
        probes=tuple(map(encode_probe, probes)),
    )


def encode_probe(probe: Probe) -> str:
    """Encode a probe as a file declares it. The policy decides about it again wherever it runs."""
    fields = {name: getattr(probe, name) for name in Probe.__struct_fields__}
    return msgspec.json.encode(Probe(**fields)).decode()


def kept_probes(kept: IncidentStateKept) -> list[Probe]:
    """Raises `HermesError`."""
    try:
        found = [msgspec.json.decode(each, type=dict[str, object]) for each in kept.probes]
        return [
            msgspec.convert({k: v for k, v in each.items() if k in Probe.__struct_fields__}, Probe)
            for each in found
        ]
    except msgspec.MsgspecError as error:
        raise HermesError(f"the probes of the incident cannot be read: {error}") from error


def _known_good_id(store: StateStore, host: str) -> str:
    for each in store.stored_states():
        if each.source == "known-good" and each.host == host and not each.damaged:
            return each.id
    return ""


async def read_kept_states(
    journal: Journal, details: IncidentDetails
) -> dict[str, IncidentStateKept]:
    """By moment."""
    records = [each async for each in journal.read(run=details.run, kinds=STATE_KINDS)]
    events = [each.event for each in records if isinstance(each.event, IncidentStateKept)]
    return {each.moment: each for each in events if each.incident == details.incident}


def load_state(store: StateStore, id: str, what: str) -> State:
    """Raises `HermesError`: states are kept for a while only."""
    try:
        return store.load(id)
    except HermesError as error:
        raise HermesError(
            f"the {what} state of this incident is no longer kept ({error}); the newest states of "
            "each host are kept, so make drills soon after an incident"
        ) from error


def failing_service(details: IncidentDetails, results: Sequence[CheckResult]) -> str:
    failing = [each.service for each in results if not each.ok and not each.unknown]
    named = [name for name in (details.service, *failing) if name]
    return named[0].removesuffix(".service") if named else ""


def _reading(result: CheckResult) -> KeptReading:
    return KeptReading(check=result.check, ok=result.ok, detail=result.detail[:MAX_DETAIL_CHARS])
