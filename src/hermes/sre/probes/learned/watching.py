"""Connects learned checks with the probes of a watch: what it sees, and which alerts it raises."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from anyio import to_thread
from msgspec.structs import replace

from hermes.sre.probes.evaluation import ProbeVerdict
from hermes.sre.probes.learned.host_measures import HostMeasures
from hermes.sre.probes.learned.learner import LearnedChecks
from hermes.sre.probes.learned.state import (
    LEARNED_KIND,
    LearnedVerdict,
    Observation,
    SubjectState,
    check_name,
)
from hermes.sre.probes.learned.store import LearnedStore
from hermes.sre.probes.probe import PROVISIONAL_LABEL, Probe
from hermes.sre.probes.probe_runner import ProbeResult

SAVE_EVERY_S = 300.0
OBSERVE_EVERY_S = 60.0
WARNING_KINDS = ("config", "forecast", "tls", "certificate")
"""Kinds whose failures say nothing about how a service works now."""


class LearnedObserver:
    """Gets each result of a probe, and measures the services of this host once a minute."""

    def __init__(
        self,
        store: LearnedStore,
        *,
        local: bool,
        off: Sequence[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._now = store, now
        self._checks = LearnedChecks(store.load(), off)
        self._host = HostMeasures() if local else None
        self._failing: dict[str, str] = {}
        """The service of each probe that fails now."""
        self._saved_at = now()
        self._reported = {each.check for each in self.reported()}
        self.watched_probes: Sequence[Probe] = ()

    def reported(self) -> Iterator[LearnedVerdict]:
        """The checks that were failing when the state was stored."""
        for each in self._checks.checks():
            if each.failing and each.reports:
                yield LearnedVerdict(
                    check=each.name, service=each.service, failing=True, detail=each.detail
                )

    def observe_result(
        self, probe: Probe, result: ProbeResult, verdict: ProbeVerdict
    ) -> tuple[LearnedVerdict, ...]:
        if verdict.state == "failing" and probe.kind not in WARNING_KINDS:
            self._failing[probe.name] = probe.service
        else:
            self._failing.pop(probe.name, None)
        seen = observation_of(probe, result, self._now())
        if seen is None or verdict.state != "fine":
            return ()
        return self._observe([seen])

    async def observe_host(self, probes: Sequence[Probe]) -> tuple[LearnedVerdict, ...]:
        """Measure once. A mount that hangs delays only this."""
        self._store.refresh_marks(self._checks.state)
        self.watched_probes = probes
        if self._host is None:
            return ()
        lasting = [each for each in probes if PROVISIONAL_LABEL not in each.labels]
        seen = await to_thread.run_sync(self._host.observe, lasting, abandon_on_cancel=True)
        return self._observe(seen)

    def _observe(self, seen: Sequence[Observation]) -> tuple[LearnedVerdict, ...]:
        found: list[LearnedVerdict] = []
        failing = {*self._failing.values()}
        for each in seen:
            healthy = each.service not in failing if each.service else not failing
            found += self._checks.observe(replace(each, healthy=healthy))
        reported = self._reported - {each.check for each in found if not each.failing}
        reported |= {each.check for each in found if each.failing}
        if reported != self._reported or abs(self._now() - self._saved_at) >= SAVE_EVERY_S:
            self._reported = reported
            self.save()
        return tuple(found)

    def save(self) -> None:
        self._saved_at = self._now()
        self._store.save(self._checks.state)

    def subjects(self) -> Mapping[str, SubjectState]:
        return self._checks.state.subjects

    def can_report(self, subject: str, measure: str) -> bool:
        return self._checks.raises_alerts(check_name(subject, measure))

    async def measure_now(self, probes: Sequence[Probe]) -> Sequence[Observation]:
        if self._host is None:
            return ()
        return await to_thread.run_sync(HostMeasures().observe, probes, abandon_on_cancel=True)


def observation_of(probe: Probe, result: ProbeResult, at: float) -> Observation | None:
    """What a result says about behaviour; None for kinds that say nothing."""
    if PROVISIONAL_LABEL in probe.labels:
        return None
    values: dict[str, float] = {}
    if probe.kind == "http" and result.value is not None:
        values["latency"] = result.value
        if result.facts is not None:
            values["size"] = float(result.facts.size)
    elif probe.kind == "log" and result.value is not None:
        values["errors"] = result.value
    if not values:
        return None
    return Observation(
        subject=probe.name, service=probe.service, at=at, values=values, answer=result.facts
    )


def learned_probe(verdict: LearnedVerdict) -> Probe:
    """The probe under whose name a learned check raises alerts; it is never run."""
    return Probe(
        name=verdict.check,
        kind=LEARNED_KIND,
        service=verdict.service,
        fails=1,
        severity=verdict.severity,
    )


def probe_verdict(verdict: LearnedVerdict) -> ProbeVerdict:
    return ProbeVerdict(
        probe=verdict.check,
        state="failing" if verdict.failing else "fine",
        detail=verdict.detail,
        question=verdict.question,
    )
