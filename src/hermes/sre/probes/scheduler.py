"""The rhythm: every probe on its own beat, an alert exactly when something changes.

A look leaves nothing in the journal, or it would drown in them; only a change of mind is told.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from hermes.core.bus import Bus
from hermes.core.errors import EnvironmentFailed, StoreError
from hermes.core.events.incidents import AlertRaised
from hermes.core.events.tools import ToolBlocked
from hermes.core.protocols import Environment
from hermes.sre.incident import QUESTION_LABEL
from hermes.sre.probes.admission import WATCH_RUN
from hermes.sre.probes.evaluation import (
    FORECAST_HORIZON_H,
    DiskSamples,
    ProbeHistory,
    ProbeVerdict,
    add_sample,
    forecast_disk,
    judge_probe,
    learn_value,
    load_history,
    lock_watch,
    save_history,
)
from hermes.sre.probes.native import NativeProbes
from hermes.sre.probes.probe import PROVISIONAL_LABEL, SUSTAINED_KINDS, Probe
from hermes.sre.probes.probe_alerts import (
    alert_fingerprint,
    probe_alert,
    read_firing_alerts,
    withdrawn_alert,
)
from hermes.sre.probes.probe_runner import KernelRefusal, ProbeResult, run_probes
from hermes.sre.settings import ProbeSettings

ENVIRONMENT_PROBE = Probe(name="place", kind="command", what="true", severity="P1")
"""Not asked: it fails when the place takes no commands, and nobody can be asked."""
_STANDBY_S = 1.0


class _ScheduledProbe:
    """One probe and how it stands."""

    def __init__(self, probe: Probe, start: float) -> None:
        self.probe = probe
        self.next = start
        self.retry_at = math.inf
        """A second look before its time."""
        self.busy = False
        self.slow = False
        self.failures = 0
        self.since: datetime | None = None
        self.alerted = False
        self.question = ""
        """What people are asked with the alert that stands."""
        self.verdict: ProbeVerdict | None = None

    @property
    def due(self) -> float:
        return min(self.next, self.retry_at)

    def begin(self, now: float) -> None:
        self.busy, self.retry_at = True, math.inf
        if self.next <= now:
            # On the grid of its first look: what took long does not move what comes after.
            missed = math.floor((now - self.next) / self.probe.interval)
            self.next += (missed + 1) * self.probe.interval


class ProbeScheduler:
    """`run` never ends by itself; `once` is one look at everything that tells nobody."""

    def __init__(
        self,
        probes: Sequence[Probe],
        environment: Environment,
        bus: Bus,
        *,
        home: Path,
        settings: ProbeSettings | None = None,
    ) -> None:
        self._probes = tuple(probes)
        self._environment = environment
        self._bus = bus
        self._home = home
        self._settings = settings or ProbeSettings()
        self._history: dict[str, ProbeHistory] = {}
        self._schedule: list[_ScheduledProbe] = []
        self._environment_state = _ScheduledProbe(ENVIRONMENT_PROBE, math.inf)
        self._wake = anyio.Event()
        self._native = NativeProbes()
        self._alone = anyio.CapacityLimiter(8)
        self._publishing = anyio.Lock()
        self._refused: set[KernelRefusal] = set()
        self.rounds = 0
        self.skipped = 0
        """Looks that were due while the same probe was still being asked."""
        self.untold = 0
        """Alerts that the journal would not take; they are told with the next look."""

    @property
    def verdicts(self) -> tuple[ProbeVerdict, ...]:
        """The last word of each probe."""
        return tuple(beat.verdict for beat in self._schedule if beat.verdict is not None)

    @property
    def probes(self) -> tuple[Probe, ...]:
        return self._probes

    async def replace_probes(self, probes: Sequence[Probe]) -> None:
        """Ask these from now on. An alert of a probe that is not among them is resolved."""
        self._probes = tuple(probes)
        if not self._schedule:
            return  # it has not begun yet
        before = {beat.probe.name: beat for beat in self._schedule}
        start = anyio.current_time()
        self._schedule = [
            before.pop(each.name) if each.name in before else _ScheduledProbe(each, start)
            for each in probes
        ]
        for beat, probe in zip(self._schedule, probes, strict=True):
            beat.probe = probe
        self._wake.set()
        gone = [
            withdrawn_alert(probe_alert(beat.probe, self._environment, ""))
            for beat in before.values()
            if beat.alerted
        ]
        if not gone:
            return
        try:
            await self._bus.publish(*gone)
        except StoreError:  # the next watch finds them in the journal and resolves them
            self.untold += len(gone)

    async def run_once(self) -> tuple[ProbeVerdict, ...]:
        """Raises `EnvironmentFailed`. Nothing is remembered and nobody is told."""
        past = load_history(self._home)
        before = {name: each.keep for name, each in past.items()}
        seats = self._settings.side_by_side
        found = await run_probes(
            self._environment, self._probes, before, concurrency=seats, native=self._native
        )
        return tuple(
            self._judge(probe, found[probe.name], past.get(probe.name, ProbeHistory()))[0]
            for probe in self._probes
        )

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Two watches of one home would tell everything twice: the second stands by."""
        while True:
            with lock_watch(self._home) as mine:
                if mine:
                    await self._resume()
                    task_status.started()
                    await self._run_loop()
            await anyio.sleep(_STANDBY_S)

    async def _resume(self) -> None:
        """Takes up where the last watch of this home ended."""
        self._history = load_history(self._home)
        start = anyio.current_time()
        self._schedule = [_ScheduledProbe(probe, start) for probe in self._probes]
        raised = await read_firing_alerts(self._bus.journal)
        for beat in (*self._schedule, self._environment_state):
            if earlier := raised.pop(alert_fingerprint(beat.probe, self._environment), None):
                beat.alerted, beat.since = True, earlier.since
                beat.question = dict(earlier.labels).get(QUESTION_LABEL, "")
        ours = alert_fingerprint(ENVIRONMENT_PROBE, self._environment)
        gone = [
            withdrawn_alert(each)
            for each in raised.values()
            if each.fingerprint.startswith(ours.removesuffix(ENVIRONMENT_PROBE.name))
        ]
        if gone:
            await self._bus.publish(*gone)

    async def _run_loop(self) -> None:
        async with anyio.create_task_group() as group:
            while True:
                now = anyio.current_time()
                ready = list(self._due_probes(now))
                if ready:
                    self.rounds += 1
                    group.start_soon(self._run_due, ready)
                soonest = min((beat.due for beat in self._schedule), default=math.inf)
                self._wake = anyio.Event()
                with anyio.move_on_after(max(0.0, soonest - anyio.current_time())):
                    await self._wake.wait()

    def _due_probes(self, now: float) -> Iterator[_ScheduledProbe]:
        for beat in self._schedule:
            if beat.due > now:
                continue
            late = beat.busy
            beat.begin(now)
            if late:
                self.skipped += 1
            else:
                yield beat

    async def _run_due(self, beats: Sequence[_ScheduledProbe]) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._run_together, [beat for beat in beats if not beat.slow])
            for beat in beats:
                if beat.slow:
                    group.start_soon(self._run_alone, beat, 1)
        save_history(self._home, self._history)

    async def _run_together(self, beats: Sequence[_ScheduledProbe]) -> None:
        """Nobody waits long for anybody: who does not answer at once is asked again alone."""
        readings = await self._run_probes(beats, self._settings.quick)
        done = []
        async with anyio.create_task_group() as group:
            for beat in beats if readings is not None else ():
                reading = (readings or {})[beat.probe.name]
                if reading.timed_out and beat.probe.timeout > self._settings.quick:
                    beat.slow = True
                    group.start_soon(self._run_alone, beat, 2)
                else:
                    done.append((beat, reading, 1))
            await self._apply_results(done)

    async def _run_alone(self, beat: _ScheduledProbe, looks: int) -> None:
        async with self._alone:
            began = anyio.current_time()
            readings = await self._run_probes([beat], math.inf)
        beat.slow = anyio.current_time() - began > self._settings.quick / 2
        if readings is not None:
            await self._apply_results([(beat, readings[beat.probe.name], looks)])

    async def _run_probes(
        self, beats: Sequence[_ScheduledProbe], max_timeout_s: float
    ) -> dict[str, ProbeResult] | None:
        """None when the place failed: that says nothing about any probe."""
        probes = [beat.probe for beat in beats]
        before = {each.name: self._history.get(each.name, ProbeHistory()).keep for each in probes}
        refused: list[KernelRefusal] = []
        try:
            found = await run_probes(
                self._environment,
                probes,
                before,
                max_timeout_s=max_timeout_s,
                concurrency=self._settings.side_by_side,
                native=self._native,
                refused=refused,
            )
        except EnvironmentFailed as error:
            for beat in beats:
                beat.busy = False
                beat.verdict = ProbeVerdict(
                    probe=beat.probe.name, state="unknown", detail=str(error)
                )
                if not self._environment_state.failures:
                    beat.retry_at = anyio.current_time() + self._settings.confirm
            self._wake.set()
            bad = ProbeVerdict(
                probe=ENVIRONMENT_PROBE.name,
                state="failing",
                detail=f"it takes no commands: {error}",
            )
            await self._publish_changes([(self._environment_state, bad, 1)])
            return None
        if self._environment_state.failures or self._environment_state.alerted:
            fine = ProbeVerdict(
                probe=ENVIRONMENT_PROBE.name, state="fine", detail="it takes commands again"
            )
            await self._publish_changes([(self._environment_state, fine, 1)])
        await self._record_refusals(refused)
        return found

    async def _record_refusals(self, refused: Sequence[KernelRefusal]) -> None:
        """What the kernel refused a probe, once: it is asked again and again."""
        new = [each for each in refused if each not in self._refused]
        events = [
            ToolBlocked(
                run=WATCH_RUN,
                call_id="",
                what=each.blocked.what,
                program=each.blocked.program,
                reason=each.blocked.reason,
                command=f"probes: {', '.join(each.probes)}",
                judged=each.judged,
            )
            for each in dict.fromkeys(new)
        ]
        if not events:
            return
        with suppress(StoreError):  # they are recorded with a later look
            await self._bus.publish(*events)
            self._refused |= set(new)

    async def _apply_results(
        self, taken: Sequence[tuple[_ScheduledProbe, ProbeResult, int]]
    ) -> None:
        judged = []
        for beat, reading, looks in taken:
            past = self._history.get(beat.probe.name, ProbeHistory())
            verdict, self._history[beat.probe.name] = self._judge(
                beat.probe, reading, past, alerted=beat.alerted
            )
            beat.busy, beat.verdict = False, verdict
            judged.append((beat, verdict, looks))
        await self._publish_changes(judged)

    def _judge(
        self, probe: Probe, reading: ProbeResult, past: ProbeHistory, *, alerted: bool = False
    ) -> tuple[ProbeVerdict, ProbeHistory]:
        """The verdict, and what is remembered after it."""
        verdict = judge_probe(probe, reading, past.values, self._settings, alerted=alerted)
        samples = past.samples
        if probe.kind == "forecast":
            if reading.value is not None and verdict.state == "fine":
                samples = add_sample(samples, time.time(), reading.value)
            return _forecast_verdict(probe, verdict, samples), ProbeHistory(samples=samples)
        values = learn_value(past.values, verdict, probe)
        return verdict, ProbeHistory(keep=reading.keep or past.keep, values=values)

    async def _publish_changes(
        self, judged: Sequence[tuple[_ScheduledProbe, ProbeVerdict, int]]
    ) -> None:
        """One at a time: two rounds that end together must not both tell the same change."""
        async with self._publishing:
            changes = [
                (beat, event)
                for beat, verdict, looks in judged
                if (event := self._alert_for(beat, verdict, looks))
            ]
            if not changes:
                return
            try:
                await self._bus.publish(*(event for _, event in changes))
            except StoreError:  # a full disk is what a watch is for: told with the next look
                self.untold += len(changes)
                return
            for beat, event in changes:
                beat.alerted = not event.resolved
                beat.question = "" if event.resolved else dict(event.labels).get(QUESTION_LABEL, "")

    def _alert_for(
        self, beat: _ScheduledProbe, verdict: ProbeVerdict, looks: int
    ) -> AlertRaised | None:
        probe = beat.probe
        dropped = beat is not self._environment_state and beat not in self._schedule
        if verdict.state == "unknown" or dropped:
            return None
        if verdict.state == "fine":
            beat.failures, beat.since = 0, None
            if not beat.alerted:
                return None
            return probe_alert(probe, self._environment, verdict.detail, resolved=True)
        beat.failures += looks
        beat.since = beat.since or datetime.now(UTC)
        if beat.alerted and beat.question and not verdict.question:
            why = f"what was asked about is over; {verdict.detail}"
            return probe_alert(probe, self._environment, why, resolved=True)
        if beat.alerted or PROVISIONAL_LABEL in probe.labels:
            return None
        if beat.failures >= probe.fails:
            detail, question = verdict.detail, verdict.question
            return probe_alert(
                probe, self._environment, detail, since=beat.since, question=question
            )
        if probe.kind not in SUSTAINED_KINDS and beat is not self._environment_state:
            beat.retry_at = anyio.current_time() + self._settings.confirm
            self._wake.set()
        return None


def _forecast_verdict(probe: Probe, verdict: ProbeVerdict, samples: DiskSamples) -> ProbeVerdict:
    """Bad when the space will be used up within the limit, in hours."""
    ahead = forecast_disk(samples)
    limit = FORECAST_HORIZON_H if probe.limit is None else probe.limit
    if verdict.state != "fine" or ahead is None or ahead.hours > limit:
        return verdict
    words = ahead.words(probe.what or "/", samples[-1][1])
    return ProbeVerdict(probe=probe.name, state="failing", detail=words, value=verdict.value)
