"""When a disk will be full: a straight line through what was measured, with its uncertainty."""

import fcntl
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

from hermes.core.messages import Value
from hermes.sre.probes.probe import DEFAULT_LIMITS, QUESTION_EXIT_CODE, UNKNOWN_EXIT_CODE, Probe
from hermes.sre.probes.probe_runner import ProbeResult
from hermes.sre.settings import ProbeSettings

DiskSamples = tuple[tuple[float, float], ...]
"""Time in seconds, and kB that were free then."""
MAX_SAMPLES = 120
MIN_SAMPLE_GAP_S = 55.0
MIN_SAMPLES = 12
MIN_SPAN_S = 900.0
"""Growth that is younger than this may be a download that ends."""
FORECAST_HORIZON_H = 8.0
"""Hours ahead that are reported, unless the probe says otherwise."""
FREED_SPACE_FACTOR = 1.02
"""More free space than this many times the last figure: somebody tidied up, so begin anew."""


class DiskForecast(Value, kw_only=True, frozen=True):
    hours: float
    soonest: float
    latest: float
    kb_per_s: float
    span_s: float

    def words(self, path: str, free_kb: float) -> str:
        return (
            f"{path} will be full in about {_hours_text(self.hours)} (between {_hours_text(self.soonest)} "
            f"and {_hours_text(self.latest)}) if it goes on as in the last "
            f"{self.span_s / 60:.0f} minutes: {_size_text(self.kb_per_s * 3600)} an hour, "
            f"{_size_text(free_kb)} are free"
        )


def add_sample(samples: DiskSamples, at: float, free_kb: float) -> DiskSamples:
    """With one more figure, unless the last one is too young."""
    if samples and free_kb > FREED_SPACE_FACTOR * samples[-1][1]:
        return ((at, free_kb),)
    if samples and 0 <= at - samples[-1][0] < MIN_SAMPLE_GAP_S:
        return samples
    if samples and at < samples[-1][0]:  # the clock was set back
        return ((at, free_kb),)
    return (*samples, (at, free_kb))[-MAX_SAMPLES:]


def forecast_disk(samples: DiskSamples) -> DiskForecast | None:
    """None while too little is known, or the space does not shrink steadily."""
    if len(samples) < MIN_SAMPLES or samples[-1][0] - samples[0][0] < MIN_SPAN_S:
        return None
    if not _shrinks_throughout(samples):
        return None
    slope, error = _fit_line(samples)
    if slope + 2 * error >= 0:
        return None
    free = samples[-1][1]
    return DiskForecast(
        hours=free / -slope / 3600,
        soonest=free / -(slope - 2 * error) / 3600,
        latest=free / -(slope + 2 * error) / 3600,
        kb_per_s=-slope,
        span_s=samples[-1][0] - samples[0][0],
    )


def _shrinks_throughout(samples: DiskSamples) -> bool:
    """In each third of the time, not only over all of it."""
    third = len(samples) // 3
    edges = (samples[0], samples[third], samples[2 * third], samples[-1])
    return all(before[1] > after[1] for before, after in pairwise(edges))


def _fit_line(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Slope of the line of least squares, and its standard error."""
    count = len(samples)
    mean_x = sum(at for at, _ in samples) / count
    mean_y = sum(free for _, free in samples) / count
    spread = sum((at - mean_x) ** 2 for at, _ in samples)
    slope = sum((at - mean_x) * (free - mean_y) for at, free in samples) / spread
    rest = sum((free - mean_y - slope * (at - mean_x)) ** 2 for at, free in samples)
    return slope, math.sqrt(rest / (count - 2) / spread)


def _hours_text(hours: float) -> str:
    return f"{hours * 60:.0f} minutes" if hours < 1.5 else f"{hours:.1f} hours"


def _size_text(kb: float) -> str:
    for unit in ("kB", "MB", "GB"):
        if kb < 1024:
            return f"{kb:.0f} {unit}"
        kb /= 1024
    return f"{kb:.1f} TB"


HISTORY_FILE = "probes.state.json"
WATCH_LOCK_FILE = "probes.lock"


class ProbeHistory(Value, kw_only=True, frozen=True):
    keep: str = ""
    """Where the next look goes on: a place in a log, a counter."""
    values: tuple[float, ...] = ()
    samples: DiskSamples = ()
    """Figures with their times, for a forecast."""


def load_history(home: Path) -> dict[str, ProbeHistory]:
    """A file that cannot be read is forgotten: the past is learned anew, nothing else is lost."""
    try:
        return msgspec.json.decode((home / HISTORY_FILE).read_bytes(), type=dict[str, ProbeHistory])
    except (OSError, msgspec.MsgspecError):
        return {}


def save_history(home: Path, past: dict[str, ProbeHistory]) -> None:
    """In one step, so that nobody reads half of it. A full disk must not end the watch."""
    new = home / f"{HISTORY_FILE}.{os.getpid()}"
    with suppress(OSError):
        new.write_bytes(msgspec.json.encode(past))
        new.replace(home / HISTORY_FILE)
    with suppress(OSError):
        new.unlink(missing_ok=True)


@contextmanager
def lock_watch(home: Path) -> Iterator[bool]:
    """True when nobody else watches for this home; it ends with us, however we end.

    True as well when the home cannot be written: rather two watches than none.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(home / WATCH_LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


MAX_VALUES = 120
"""Values that are remembered of each probe."""
_MIN_RESTARTS, _RESTART_LOOKBACK = 3, 20
_MAD_FACTOR = 1.4826
"""Times the median distance from the median: the spread of values that vary by chance."""

INTENDED_QUESTION = "is this intended?"
ENTER_MARGIN = {"load": 0.1, "zombies": 0.1}
"""Share of the limit by which a value may be above it before that is bad at once, by kind."""
LEAVE_MARGIN = {"load": 0.1, "zombies": 0.1, "cpu": 0.05}
"""Share of the limit by which a value must be below it before bad is over."""
DEFAULT_LEAVE_MARGIN = 0.02
MIN_RESULTS_TO_ENTER, MIN_RESULTS_TO_LEAVE = 20, 10
"""Looks in a row just above the limit that are bad, and just below it that are fine."""

ProbeState = Literal["fine", "failing", "unknown"]


class ProbeVerdict(Value, kw_only=True, frozen=True):
    probe: str
    state: ProbeState
    detail: str = ""
    value: float | None = None
    within: bool = False
    """It fails only because it is not yet far enough below its limit to be over."""
    question: str = ""
    """What people are asked, because it may be intended."""


def judge_probe(
    probe: Probe,
    reading: ProbeResult,
    history: Sequence[float],
    settings: ProbeSettings,
    *,
    alerted: bool = False,
) -> ProbeVerdict:
    """`alerted`: its alert stands, so that it has to be well below its limit to be over."""
    state, detail = _state_by_exit_code(probe, reading)
    within, value = False, reading.value
    if value is not None and probe.kind in DEFAULT_LIMITS and reading.code in (0, 1):
        state, why = _state_by_limit(probe, state, value, history, alerted=alerted)
        within = state == "failing" and reading.code == 0
        detail = f"{detail}; {why}" if why else detail
    if state == "fine" and value is not None and reading.code == 0:
        why = _unusual_reason(probe, value, history, settings)
        if why:
            state, detail = "failing", f"{detail}; {why}"
    return ProbeVerdict(
        probe=probe.name,
        state=state,
        detail=detail[:1000],
        value=value,
        within=within,
        question=INTENDED_QUESTION
        if reading.code == QUESTION_EXIT_CODE and probe.kind == "disk"
        else "",
    )


def _state_by_limit(
    probe: Probe, state: ProbeState, value: float, past: Sequence[float], *, alerted: bool
) -> tuple[ProbeState, str]:
    """Entered by a margin or after a while, left below a lower bound or after a while."""
    limit = DEFAULT_LIMITS[probe.kind] if probe.limit is None else probe.limit
    high = limit * (1 + ENTER_MARGIN.get(probe.kind, 0.0))
    low = limit * (1 - LEAVE_MARGIN.get(probe.kind, DEFAULT_LEAVE_MARGIN))
    if state == "failing" and not alerted and limit <= value < high:
        last = past[-(MIN_RESULTS_TO_ENTER - 1) :]
        if len(last) < MIN_RESULTS_TO_ENTER - 1 or min(last) < limit:
            return "fine", f"just above its limit of {limit:g}: bad if it stays"
    if state == "fine" and alerted and low <= value < limit:
        last = past[-(MIN_RESULTS_TO_LEAVE - 1) :]
        if len(last) < MIN_RESULTS_TO_LEAVE - 1 or min(last) < low or max(last) >= limit:
            return "failing", f"just below its limit of {limit:g}: over below {low:g}"
    return state, ""


def _state_by_exit_code(probe: Probe, reading: ProbeResult) -> tuple[ProbeState, str]:
    if reading.not_run_reason:
        return "unknown", reading.not_run_reason
    if reading.code == UNKNOWN_EXIT_CODE and probe.kind != "command":
        return "unknown", reading.text or "it could not be asked"
    if reading.code == 0:
        return "fine", reading.text or "as it should be"
    if reading.code == QUESTION_EXIT_CODE and probe.kind == "disk":
        return "failing", reading.text
    if reading.timed_out:
        return "failing", f"no answer within {probe.timeout:g} s"
    if reading.code == 127:
        return "unknown", reading.text or "a program that it needs is not there"
    return "failing", reading.text or f"it ended with exit code {reading.code}"


def _unusual_reason(
    probe: Probe, value: float, past: Sequence[float], settings: ProbeSettings
) -> str:
    """Why a value that is within its limit is bad all the same; empty when it is not."""
    if probe.kind == "unit":
        grown = value - min(past[-_RESTART_LOOKBACK:], default=value)
        return f"restarted {grown:g} times within a few looks" if grown >= _MIN_RESTARTS else ""
    if not probe.baseline or len(past) < settings.samples:
        return ""
    usual = median(past)
    spread = _MAD_FACTOR * median(abs(each - usual) for each in past)
    # A value that never varied has no spread: a tenth of it, or one, is no alarm yet.
    most = usual + settings.spread * max(spread, abs(usual) / 10, 1.0)
    return f"usual is {usual:g}, at most {most:g}" if value > most else ""


def learn_value(past: Sequence[float], verdict: ProbeVerdict, probe: Probe) -> tuple[float, ...]:
    """What was bad is not learned as usual; restarts are counted whatever they mean."""
    known = verdict.state == "fine" or verdict.within or probe.kind == "unit"
    if verdict.value is None or not known:
        return tuple(past)
    return (*past, verdict.value)[-MAX_VALUES:]
