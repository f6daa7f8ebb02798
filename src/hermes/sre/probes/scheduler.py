"""Runs every probe at its interval, and publishes an alert when its state changes.

Single results are not written to the journal; there would be too many.
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
from hermes.core.incident import QUESTION_LABEL, WATCH_RUN
from hermes.core.protocols import Environment
from hermes.sre.probes.alerts import (
    alert_fingerprint,
    probe_alert,
    read_firing_alerts,
    withdrawn_alert,
)
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
from hermes.sre.probes.learned.state import LEARNED_KIND, LearnedVerdict
from hermes.sre.probes.learned.watching import (
    OBSERVE_EVERY_S,
    LearnedObserver,
    learned_probe,
    probe_verdict,
)
from hermes.sre.probes.log_silence import LOG_KINDS, judge_silence
from hermes.sre.probes.native import NativeProbes
from hermes.sre.probes.probe import (
    PROVISIONAL_LABEL,
    SUSTAINED_KINDS,
    Probe,
)
from hermes.sre.probes.probe_runner import KernelRefusal, ProbeResult, run_probes
from hermes.sre.probes.scheduled_probe import ScheduledProbe
from hermes.sre.settings import ProbeSettings
from hermes.sre.triage.severity import is_silent

ENVIRONMENT_PROBE = Probe(name="place", kind="command", what="true", severity="P1")
"""Never run: it fails while the environment runs no commands."""
_STANDBY_S = 1.0


class ProbeScheduler:
    """`run` ends when it is cancelled; `run_once` runs all probes and publishes nothing."""

    def __init__(
        self,
        probes: Sequence[Probe],
        environment: Environment,
        bus: Bus,
        *,
        home: Path,
        settings: ProbeSettings | None = None,
        learned: LearnedObserver | None = None,
    ) -> None:
        self._probes = tuple(probes)
        self._environment = environment
        self._bus = bus
        self._home = home
        self._settings = settings or ProbeSettings()
        self._history: dict[str, ProbeHistory] = {}
        self._schedule: list[ScheduledProbe] = []
        self._started = False
        self._environment_state = ScheduledProbe(ENVIRONMENT_PROBE, math.inf)
        self._learned = learned
        self._learned_alerts: dict[str, ScheduledProbe] = {}
        self._wake = anyio.Event()
        self._native = NativeProbes()
        self._alone = anyio.CapacityLimiter(8)
        self._publishing = anyio.Lock()
        self._refused: set[KernelRefusal] = set()
        self.rounds = 0
        self.skipped = 0
        """Runs that were due while the same probe was still running."""
        self._withdrawn: set[str] = set()
        """Probes that were removed while they failed; one that returns and passes resolves that."""
        self.unpublished = 0
        """Alerts that could not be written; they are published after the next run."""

    @property
    def verdicts(self) -> tuple[ProbeVerdict, ...]:
        """The last verdict of each probe."""
        return tuple(each.verdict for each in self._schedule if each.verdict is not None)

    @property
    def probes(self) -> tuple[Probe, ...]:
        return self._probes

    async def replace_probes(self, probes: Sequence[Probe]) -> None:
        """Run these from now on. Alerts of removed probes are resolved."""
        self._probes = tuple(probes)
        if not self._started:
            return
        before = {scheduled.probe.name: scheduled for scheduled in self._schedule}
        start = anyio.current_time()
        self._schedule = [
            before.pop(each.name) if each.name in before else ScheduledProbe(each, start)
            for each in probes
        ]
        for scheduled, probe in zip(self._schedule, probes, strict=True):
            scheduled.probe = probe
        self._wake.set()
        services = {each.service for each in probes}
        for name, scheduled in [*self._learned_alerts.items()]:
            if scheduled.probe.service not in services:
                before[name] = self._learned_alerts.pop(name)
        gone = [
            withdrawn_alert(probe_alert(scheduled.probe, self._environment, ""))
            for scheduled in before.values()
            if scheduled.alerted
        ]
        if not gone:
            return
        self._withdrawn |= {each.check for each in gone}
        try:
            await self._bus.publish(*gone)
        except StoreError:  # the next watch resolves them
            self.unpublished += len(gone)

    async def run_once(self) -> tuple[ProbeVerdict, ...]:
        """Raises `EnvironmentFailed`. Nothing is stored or published."""
        probes, history = self._probes, load_history(self._home)  # both may be replaced meanwhile
        before = {name: each.keep for name, each in history.items()}
        for probe in probes:
            if probe.kind == "config":  # what is kept is a verdict, and it may be old
                before.pop(probe.name, None)
        concurrency = self._settings.side_by_side
        found = await run_probes(
            self._environment, probes, before, concurrency=concurrency, native=self._native
        )
        return tuple(
            self._judge(probe, found[probe.name], history.get(probe.name, ProbeHistory()))[0]
            for probe in probes
        )

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run while no other watch of this home does: two would publish everything twice."""
        while True:
            with lock_watch(self._home) as locked:
                if locked:
                    await self._resume()
                    task_status.started()
                    await self._run_loop()
            await anyio.sleep(_STANDBY_S)

    async def _resume(self) -> None:
        """Restore the state of the last watch of this home."""
        self._history = load_history(self._home)
        start = anyio.current_time()
        self._schedule = [ScheduledProbe(probe, start) for probe in self._probes]
        self._started = True
        raised = await read_firing_alerts(self._bus.journal)
        if self._learned is not None:
            self._learned_changes([*self._learned.reported()])
        alerting = (*self._schedule, *self._learned_alerts.values(), self._environment_state)
        for scheduled in alerting:
            if earlier := raised.pop(alert_fingerprint(scheduled.probe, self._environment), None):
                scheduled.alerted, scheduled.since = True, earlier.since
                scheduled.alerted_silent = is_silent(earlier)
                scheduled.question = dict(earlier.labels).get(QUESTION_LABEL, "")
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
            if self._learned is not None:
                group.start_soon(self._observe_host, self._learned)
            while True:
                now = anyio.current_time()
                ready = list(self._due_probes(now))
                if ready:
                    self.rounds += 1
                    group.start_soon(self._run_due, ready)
                soonest = min((scheduled.due for scheduled in self._schedule), default=math.inf)
                self._wake = anyio.Event()
                with anyio.move_on_after(max(0.0, soonest - anyio.current_time())):
                    await self._wake.wait()

    def _due_probes(self, now: float) -> Iterator[ScheduledProbe]:
        for scheduled in self._schedule:
            if scheduled.due > now:
                continue
            late = scheduled.busy
            scheduled.begin(now)
            if late:
                self.skipped += 1
            else:
                yield scheduled

    async def _run_due(self, due: Sequence[ScheduledProbe]) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(
                self._run_together, [scheduled for scheduled in due if not scheduled.slow]
            )
            for scheduled in due:
                if scheduled.slow:
                    group.start_soon(self._run_alone, scheduled, 1)
        save_history(self._home, self._history)

    async def _run_together(self, due: Sequence[ScheduledProbe]) -> None:
        """Run with a short timeout; slower probes are run again alone."""
        results = await self._run_probes(due, self._settings.quick)
        done = []
        async with anyio.create_task_group() as group:
            for scheduled in due if results is not None else ():
                result = (results or {})[scheduled.probe.name]
                if result.timed_out and scheduled.probe.timeout > self._settings.quick:
                    scheduled.slow = True
                    group.start_soon(self._run_alone, scheduled, 2)
                else:
                    done.append((scheduled, result, 1))
            await self._apply_results(done)

    async def _run_alone(self, scheduled: ScheduledProbe, runs: int) -> None:
        async with self._alone:
            began = anyio.current_time()
            results = await self._run_probes([scheduled], math.inf)
        scheduled.slow = anyio.current_time() - began > self._settings.quick / 2
        if results is not None:
            result = results[scheduled.probe.name]
            # A good answer that came late is one slow answer: the short run was cut off.
            await self._apply_results([(scheduled, result, runs if result.code else 1)])

    async def _run_probes(
        self, due: Sequence[ScheduledProbe], max_timeout_s: float
    ) -> dict[str, ProbeResult] | None:
        """Return None when the environment failed, which says nothing about any probe."""
        probes = [scheduled.probe for scheduled in due]
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
            for scheduled in due:
                scheduled.busy = False
                scheduled.verdict = ProbeVerdict(
                    probe=scheduled.probe.name, state="unknown", detail=str(error)
                )
                if not self._environment_state.failures:
                    scheduled.retry_at = anyio.current_time() + self._settings.confirm
            self._wake.set()
            bad = ProbeVerdict(
                probe=ENVIRONMENT_PROBE.name,
                state="failing",
                detail=f"it runs no commands: {error}",
            )
            await self._publish_changes([(self._environment_state, bad, 1)])
            return None
        if self._environment_state.failures or self._environment_state.alerted:
            fine = ProbeVerdict(
                probe=ENVIRONMENT_PROBE.name, state="fine", detail="it runs commands again"
            )
            await self._publish_changes([(self._environment_state, fine, 1)])
        await self._record_refusals(refused)
        return found

    async def _record_refusals(self, refused: Sequence[KernelRefusal]) -> None:
        """Record each access that the kernel refused once."""
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
        with suppress(StoreError):  # recorded after a later run
            await self._bus.publish(*events)
            self._refused |= set(new)

    async def _apply_results(
        self, results: Sequence[tuple[ScheduledProbe, ProbeResult, int]]
    ) -> None:
        judged, now = [], anyio.current_time()
        # Logs last: whether their silence means anything depends on the other probes.
        for scheduled, result, runs in sorted(
            results, key=lambda each: each[0].probe.kind in LOG_KINDS
        ):
            name = scheduled.probe.name
            before = self._history.get(name, ProbeHistory())
            verdict, after = self._judge(scheduled.probe, result, before, alerted=scheduled.alerted)
            self._history[name] = after
            scheduled.note_result(verdict, before.keep, after.keep, now)
            if scheduled.alerted:
                verdict = judge_silence(scheduled, verdict, self._schedule)
            scheduled.busy, scheduled.verdict = False, verdict
            judged.append((scheduled, verdict, runs))
            if self._learned is not None:
                found = self._learned.observe_result(scheduled.probe, result, verdict)
                judged += self._learned_changes(found)
        await self._publish_changes(judged)

    async def _observe_host(self, learned: LearnedObserver) -> None:
        while True:
            found = await learned.observe_host(self._probes)
            await self._publish_changes(self._learned_changes(found))
            await anyio.sleep(OBSERVE_EVERY_S)

    def _learned_changes(
        self, found: Sequence[LearnedVerdict]
    ) -> list[tuple[ScheduledProbe, ProbeVerdict, int]]:
        changes = []
        for each in found:
            probe = learned_probe(each)
            scheduled = self._learned_alerts.setdefault(each.check, ScheduledProbe(probe, math.inf))
            scheduled.probe = probe
            changes.append((scheduled, probe_verdict(each), 1))
        return changes

    def _judge(
        self, probe: Probe, result: ProbeResult, history: ProbeHistory, *, alerted: bool = False
    ) -> tuple[ProbeVerdict, ProbeHistory]:
        """The verdict, and the new history."""
        verdict = judge_probe(probe, result, history.values, self._settings, alerted=alerted)
        samples = history.samples
        if probe.kind == "forecast":
            if result.value is not None and verdict.state == "fine":
                samples = add_sample(samples, time.time(), result.value)
            return _forecast_verdict(probe, verdict, samples), ProbeHistory(samples=samples)
        values = learn_value(history.values, verdict, probe)
        return verdict, ProbeHistory(keep=result.keep or history.keep, values=values)

    async def _publish_changes(
        self, judged: Sequence[tuple[ScheduledProbe, ProbeVerdict, int]]
    ) -> None:
        """Under a lock: two rounds that end together must not publish the same change."""
        async with self._publishing:
            changes = [
                (scheduled, event)
                for scheduled, verdict, runs in judged
                if (event := self._alert_for(scheduled, verdict, runs))
            ]
            if not changes:
                return
            try:
                await self._bus.publish(*(event for _, event in changes))
            except StoreError:  # the disk may be full: published after the next run
                self.unpublished += len(changes)
                return
            for scheduled, event in changes:
                scheduled.alerted = not event.resolved
                self._withdrawn.discard(scheduled.probe.name)
                scheduled.alerted_silent = scheduled.alerted and is_silent(event)
                scheduled.question = (
                    "" if event.resolved else dict(event.labels).get(QUESTION_LABEL, "")
                )

    def _alert_for(
        self, scheduled: ScheduledProbe, verdict: ProbeVerdict, runs: int
    ) -> AlertRaised | None:
        probe = scheduled.probe
        own = scheduled is self._environment_state or probe.kind == LEARNED_KIND
        dropped = not own and scheduled not in self._schedule
        if verdict.state == "unknown" or dropped:
            return None
        if verdict.state == "fine":
            scheduled.failures, scheduled.silent_runs, scheduled.since = 0, 0, None
            scheduled.failing_since = math.inf
            if not (scheduled.alerted or probe.name in self._withdrawn):
                return None
            return probe_alert(probe, self._environment, verdict.detail, resolved=True)
        scheduled.failures += runs
        scheduled.since = scheduled.since or datetime.now(UTC)
        if scheduled.alerted and scheduled.question and not verdict.question:
            why = f"the reason of the question has ended; {verdict.detail}"
            return probe_alert(probe, self._environment, why, resolved=True)
        if PROVISIONAL_LABEL in probe.labels:
            return None
        detail, question = verdict.detail, verdict.question
        event = probe_alert(
            probe, self._environment, detail, since=scheduled.since, question=question
        )
        scheduled.silent_runs = scheduled.silent_runs + runs if is_silent(event) else 0
        if scheduled.alerted:
            # It gave wrong answers and gives none now: that is worse, and may be another problem.
            worse = scheduled.silent_runs >= probe.fails and not scheduled.alerted_silent
            return event if worse and probe.service else None
        if scheduled.failures >= probe.fails:
            return event
        if probe.kind not in SUSTAINED_KINDS and scheduled is not self._environment_state:
            scheduled.retry_at = anyio.current_time() + self._settings.confirm
            self._wake.set()
        return None


def _forecast_verdict(probe: Probe, verdict: ProbeVerdict, samples: DiskSamples) -> ProbeVerdict:
    """Failing when the disk will be full within the limit, in hours."""
    ahead = forecast_disk(samples)
    limit = FORECAST_HORIZON_H if probe.limit is None else probe.limit
    if verdict.state != "fine" or ahead is None or ahead.hours > limit:
        return verdict
    words = ahead.words(probe.what or "/", samples[-1][1])
    return ProbeVerdict(probe=probe.name, state="failing", detail=words, value=verdict.value)
