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
from hermes.core.errors import PlaceFailed, StoreError
from hermes.core.events.incidents import AlertRaised
from hermes.core.events.tools import ToolBlocked
from hermes.core.protocols import Environment
from hermes.sre.case import QUESTION
from hermes.sre.probes.admission import RUN
from hermes.sre.probes.alerts import alert, fingerprint, standing, withdrawn
from hermes.sre.probes.forecast import HORIZON_H, Samples, forecast, sampled
from hermes.sre.probes.judging import Verdict, judge, learned
from hermes.sre.probes.marks import PROVISIONAL
from hermes.sre.probes.memory import Past, only_one, recall, remember
from hermes.sre.probes.native import NativeLooks
from hermes.sre.probes.probe import SUSTAINED, Probe
from hermes.sre.probes.round import Reading, Refused, ask
from hermes.sre.probes.settings import ProbeSettings

PLACE = Probe(name="place", kind="command", what="true", severity="P1")
"""Not asked: it fails when the place takes no commands, and nobody can be asked."""
_STAND_BY = 1.0


class _Beat:
    """One probe and how it stands."""

    def __init__(self, probe: Probe, start: float) -> None:
        self.probe = probe
        self.next = start
        self.again = math.inf
        """A second look before its time."""
        self.busy = False
        self.slow = False
        self.bad = 0
        self.since: datetime | None = None
        self.alerted = False
        self.question = ""
        """What people are asked with the alert that stands."""
        self.verdict: Verdict | None = None

    @property
    def due(self) -> float:
        return min(self.next, self.again)

    def begin(self, now: float) -> None:
        self.busy, self.again = True, math.inf
        if self.next <= now:
            # On the grid of its first look: what took long does not move what comes after.
            missed = math.floor((now - self.next) / self.probe.interval)
            self.next += (missed + 1) * self.probe.interval


class Patrol:
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
        self._past: dict[str, Past] = {}
        self._beats: list[_Beat] = []
        self._place = _Beat(PLACE, math.inf)
        self._wake = anyio.Event()
        self._native = NativeLooks()
        self._alone = anyio.CapacityLimiter(8)
        self._telling = anyio.Lock()
        self._refused: set[Refused] = set()
        self.rounds = 0
        self.skipped = 0
        """Looks that were due while the same probe was still being asked."""
        self.untold = 0
        """Alerts that the journal would not take; they are told with the next look."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The last word of each probe."""
        return tuple(beat.verdict for beat in self._beats if beat.verdict is not None)

    @property
    def probes(self) -> tuple[Probe, ...]:
        return self._probes

    async def adopt(self, probes: Sequence[Probe]) -> None:
        """Ask these from now on. An alert of a probe that is not among them is resolved."""
        self._probes = tuple(probes)
        if not self._beats:
            return  # it has not begun yet
        before = {beat.probe.name: beat for beat in self._beats}
        start = anyio.current_time()
        self._beats = [
            before.pop(each.name) if each.name in before else _Beat(each, start) for each in probes
        ]
        for beat, probe in zip(self._beats, probes, strict=True):
            beat.probe = probe
        self._wake.set()
        gone = [
            withdrawn(alert(beat.probe, self._environment, ""))
            for beat in before.values()
            if beat.alerted
        ]
        if not gone:
            return
        try:
            await self._bus.publish(*gone)
        except StoreError:  # the next watch finds them in the journal and resolves them
            self.untold += len(gone)

    async def once(self) -> tuple[Verdict, ...]:
        """Raises `PlaceFailed`. Nothing is remembered and nobody is told."""
        past = recall(self._home)
        before = {name: each.keep for name, each in past.items()}
        seats = self._settings.side_by_side
        found = await ask(self._environment, self._probes, before, seats=seats, native=self._native)
        return tuple(
            self._judged(probe, found[probe.name], past.get(probe.name, Past()))[0]
            for probe in self._probes
        )

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Two watches of one home would tell everything twice: the second stands by."""
        while True:
            with only_one(self._home) as mine:
                if mine:
                    await self._begin()
                    task_status.started()
                    await self._go_on()
            await anyio.sleep(_STAND_BY)

    async def _begin(self) -> None:
        """Takes up where the last watch of this home ended."""
        self._past = recall(self._home)
        start = anyio.current_time()
        self._beats = [_Beat(probe, start) for probe in self._probes]
        raised = await standing(self._bus.journal)
        for beat in (*self._beats, self._place):
            if earlier := raised.pop(fingerprint(beat.probe, self._environment), None):
                beat.alerted, beat.since = True, earlier.since
                beat.question = dict(earlier.labels).get(QUESTION, "")
        ours = fingerprint(PLACE, self._environment)
        gone = [
            withdrawn(each)
            for each in raised.values()
            if each.fingerprint.startswith(ours.removesuffix(PLACE.name))
        ]
        if gone:
            await self._bus.publish(*gone)

    async def _go_on(self) -> None:
        async with anyio.create_task_group() as group:
            while True:
                now = anyio.current_time()
                ready = list(self._ready(now))
                if ready:
                    self.rounds += 1
                    group.start_soon(self._round, ready)
                soonest = min((beat.due for beat in self._beats), default=math.inf)
                self._wake = anyio.Event()
                with anyio.move_on_after(max(0.0, soonest - anyio.current_time())):
                    await self._wake.wait()

    def _ready(self, now: float) -> Iterator[_Beat]:
        for beat in self._beats:
            if beat.due > now:
                continue
            late = beat.busy
            beat.begin(now)
            if late:
                self.skipped += 1
            else:
                yield beat

    async def _round(self, beats: Sequence[_Beat]) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._ask, [beat for beat in beats if not beat.slow])
            for beat in beats:
                if beat.slow:
                    group.start_soon(self._ask_alone, beat, 1)
        remember(self._home, self._past)

    async def _ask(self, beats: Sequence[_Beat]) -> None:
        """Nobody waits long for anybody: who does not answer at once is asked again alone."""
        readings = await self._readings(beats, self._settings.quick)
        done = []
        async with anyio.create_task_group() as group:
            for beat in beats if readings is not None else ():
                reading = (readings or {})[beat.probe.name]
                if reading.timed_out and beat.probe.timeout > self._settings.quick:
                    beat.slow = True
                    group.start_soon(self._ask_alone, beat, 2)
                else:
                    done.append((beat, reading, 1))
            await self._take(done)

    async def _ask_alone(self, beat: _Beat, looks: int) -> None:
        async with self._alone:
            began = anyio.current_time()
            readings = await self._readings([beat], math.inf)
        beat.slow = anyio.current_time() - began > self._settings.quick / 2
        if readings is not None:
            await self._take([(beat, readings[beat.probe.name], looks)])

    async def _readings(self, beats: Sequence[_Beat], patience: float) -> dict[str, Reading] | None:
        """None when the place failed: that says nothing about any probe."""
        probes = [beat.probe for beat in beats]
        before = {each.name: self._past.get(each.name, Past()).keep for each in probes}
        refused: list[Refused] = []
        try:
            found = await ask(
                self._environment,
                probes,
                before,
                patience=patience,
                seats=self._settings.side_by_side,
                native=self._native,
                refused=refused,
            )
        except PlaceFailed as error:
            for beat in beats:
                beat.busy = False
                beat.verdict = Verdict(probe=beat.probe.name, state="unknown", detail=str(error))
                if not self._place.bad:
                    beat.again = anyio.current_time() + self._settings.confirm
            self._wake.set()
            bad = Verdict(
                probe=PLACE.name, state="failing", detail=f"it takes no commands: {error}"
            )
            await self._tell([(self._place, bad, 1)])
            return None
        if self._place.bad or self._place.alerted:
            fine = Verdict(probe=PLACE.name, state="fine", detail="it takes commands again")
            await self._tell([(self._place, fine, 1)])
        await self._record(refused)
        return found

    async def _record(self, refused: Sequence[Refused]) -> None:
        """What the kernel refused a probe, once: it is asked again and again."""
        new = [each for each in refused if each not in self._refused]
        events = [
            ToolBlocked(
                run=RUN,
                call_id="",
                what=each.what.what,
                program=each.what.program,
                reason=each.what.reason,
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

    async def _take(self, taken: Sequence[tuple[_Beat, Reading, int]]) -> None:
        judged = []
        for beat, reading, looks in taken:
            past = self._past.get(beat.probe.name, Past())
            verdict, self._past[beat.probe.name] = self._judged(
                beat.probe, reading, past, alerted=beat.alerted
            )
            beat.busy, beat.verdict = False, verdict
            judged.append((beat, verdict, looks))
        await self._tell(judged)

    def _judged(
        self, probe: Probe, reading: Reading, past: Past, *, alerted: bool = False
    ) -> tuple[Verdict, Past]:
        """The verdict, and what is remembered after it."""
        verdict = judge(probe, reading, past.values, self._settings, alerted=alerted)
        samples = past.samples
        if probe.kind == "forecast":
            if reading.value is not None and verdict.state == "fine":
                samples = sampled(samples, time.time(), reading.value)
            return _foreseen(probe, verdict, samples), Past(samples=samples)
        values = learned(past.values, verdict, probe)
        return verdict, Past(keep=reading.keep or past.keep, values=values)

    async def _tell(self, judged: Sequence[tuple[_Beat, Verdict, int]]) -> None:
        """One at a time: two rounds that end together must not both tell the same change."""
        async with self._telling:
            changes = [
                (beat, event)
                for beat, verdict, looks in judged
                if (event := self._change(beat, verdict, looks))
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
                beat.question = "" if event.resolved else dict(event.labels).get(QUESTION, "")

    def _change(self, beat: _Beat, verdict: Verdict, looks: int) -> AlertRaised | None:
        probe = beat.probe
        dropped = beat is not self._place and beat not in self._beats
        if verdict.state == "unknown" or dropped:
            return None
        if verdict.state == "fine":
            beat.bad, beat.since = 0, None
            if not beat.alerted:
                return None
            return alert(probe, self._environment, verdict.detail, resolved=True)
        beat.bad += looks
        beat.since = beat.since or datetime.now(UTC)
        if beat.alerted and beat.question and not verdict.question:
            why = f"what was asked about is over; {verdict.detail}"
            return alert(probe, self._environment, why, resolved=True)
        if beat.alerted or PROVISIONAL in probe.labels:
            return None
        if beat.bad >= probe.fails:
            detail, question = verdict.detail, verdict.question
            return alert(probe, self._environment, detail, since=beat.since, question=question)
        if probe.kind not in SUSTAINED and beat is not self._place:
            beat.again = anyio.current_time() + self._settings.confirm
            self._wake.set()
        return None


def _foreseen(probe: Probe, verdict: Verdict, samples: Samples) -> Verdict:
    """Bad when the space will be used up within the limit, in hours."""
    ahead = forecast(samples)
    limit = HORIZON_H if probe.limit is None else probe.limit
    if verdict.state != "fine" or ahead is None or ahead.hours > limit:
        return verdict
    words = ahead.words(probe.what or "/", samples[-1][1])
    return Verdict(probe=probe.name, state="failing", detail=words, value=verdict.value)
