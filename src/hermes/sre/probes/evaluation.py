"""Judges probe results: by exit code, limit, usual values, and a forecast for disks."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

from hermes.core.messages import Value
from hermes.plumbing.files import FileLock, write_atomically
from hermes.plumbing.units import format_size
from hermes.sre.probes.probe import DEFAULT_LIMITS, QUESTION_EXIT_CODE, UNKNOWN_EXIT_CODE, Probe
from hermes.sre.probes.probe_runner import ProbeResult
from hermes.sre.settings import ProbeSettings

DiskSamples = tuple[tuple[float, float], ...]
"""Time in seconds, and free space in kB."""
MAX_SAMPLES = 120
MIN_SAMPLE_GAP_S = 55.0
MIN_SAMPLES = 12
MIN_SPAN_S = 900.0
"""Shorter growth may be a download that ends."""
FORECAST_HORIZON_H = 8.0
"""Hours ahead that are reported, unless the probe has its own limit."""
FREED_SPACE_FACTOR = 1.02
"""If the free space grows by this factor, files were deleted: the samples start again."""
HISTORY_FILE = "probes.state.json"
WATCH_LOCK_FILE = "probes.lock"
MAX_VALUES = 120
"""Remembered values of each probe."""
_MIN_RESTARTS, _RESTART_LOOKBACK = 3, 20
_MAD_FACTOR = 1.4826
"""Converts the median absolute deviation to a standard deviation."""
MIN_UNUSUAL = {"processes": 100.0}
"""How much more than usual is a failure at least, by kind."""
MIN_SPREAD = {"http": 0.5}
"""The least spread of the usual values, by kind, where it is not one: seconds of a page."""
MAX_HEADLINE_CHARS = 120
INTENDED_QUESTION = "is this intended?"
ENTER_MARGIN = {"load": 0.1, "zombies": 0.1}
"""The share of the limit above which a value fails at once, by kind."""
LEAVE_MARGIN = {"load": 0.1, "zombies": 0.1, "cpu": 0.05}
"""The share of the limit below which a failure is over at once, by kind."""
DEFAULT_LEAVE_MARGIN = 0.02
MIN_RESULTS_TO_ENTER, MIN_RESULTS_TO_LEAVE = 20, 10
"""Results in a row just above the limit that fail, and just below it that are fine."""
LOOKING_KINDS = (
    *("cpu", "load", "memory", "processes", "zombies", "forecast"),
    *("log", "answers", "certificate", "config", "cron", "locks"),
)
"""Probes that ask no service: without a result in time the host was too busy to look."""
ProbeState = Literal["fine", "failing", "unknown"]


class DiskForecast(Value, kw_only=True, frozen=True):
    hours: float
    soonest: float
    latest: float
    kb_per_s: float
    span_s: float

    def words(self, path: str, free_kb: float) -> str:
        return (
            f"{path} will be full in about {_hours_text(self.hours)} "
            f"(between {_hours_text(self.soonest)} and {_hours_text(self.latest)}) "
            f"if it goes on as in the last {self.span_s / 60:.0f} minutes: "
            f"{format_size(self.kb_per_s * 3600 * 1024)} an hour, "
            f"{format_size(free_kb * 1024)} are free"
        )


def add_sample(samples: DiskSamples, at: float, free_kb: float) -> DiskSamples:
    """Add a sample, unless the last one is too recent."""
    if samples and free_kb > FREED_SPACE_FACTOR * samples[-1][1]:
        return ((at, free_kb),)
    if samples and 0 <= at - samples[-1][0] < MIN_SAMPLE_GAP_S:
        return samples
    if samples and at < samples[-1][0]:  # the clock was set back
        return ((at, free_kb),)
    return (*samples, (at, free_kb))[-MAX_SAMPLES:]


def forecast_disk(samples: DiskSamples) -> DiskForecast | None:
    """None without enough samples, or while the space does not shrink steadily."""
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
    """Return whether the space shrinks in each third of the time."""
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


class ProbeHistory(Value, kw_only=True, frozen=True):
    keep: str = ""
    """Data for the next run of the probe: a position in a log, a counter."""
    values: tuple[float, ...] = ()
    samples: DiskSamples = ()
    """Samples for the forecast."""


def load_history(home: Path) -> dict[str, ProbeHistory]:
    """Empty when the file cannot be read."""
    try:
        return msgspec.json.decode((home / HISTORY_FILE).read_bytes(), type=dict[str, ProbeHistory])
    except (OSError, msgspec.MsgspecError):
        return {}


def save_history(home: Path, history: dict[str, ProbeHistory]) -> None:
    """Replace the file atomically. Errors are ignored: a full disk must not end the watch."""
    with suppress(OSError):
        write_atomically(home / HISTORY_FILE, msgspec.json.encode(history), sync=False)


@contextmanager
def lock_watch(home: Path) -> Iterator[bool]:
    """Return True when no other watch uses this home. The lock ends with the process.

    Also true when the home cannot be written: two watches are better than none.
    """
    with ExitStack() as held:
        try:
            held.enter_context(FileLock(home / WATCH_LOCK_FILE, wait=False))
        except BlockingIOError:
            yield False
        except OSError:
            yield True
        else:
            yield True


class ProbeVerdict(Value, kw_only=True, frozen=True):
    probe: str
    state: ProbeState
    detail: str = ""
    value: float | None = None
    within: bool = False
    """It is below its limit, but not far enough for the failure to be over."""
    question: str = ""
    """What people are asked, because it may be intended."""


def judge_probe(
    probe: Probe,
    result: ProbeResult,
    history: Sequence[float],
    settings: ProbeSettings,
    *,
    alerted: bool = False,
) -> ProbeVerdict:
    """`alerted`: its alert fires, so it must be clearly below its limit to be fine."""
    state, detail = _state_by_exit_code(probe, result)
    within, value = False, result.value
    if value is not None and probe.kind in DEFAULT_LIMITS and result.code in (0, 1):
        state, why = _state_by_limit(probe, state, value, history, alerted=alerted)
        within = state == "failing" and result.code == 0
        detail = f"{detail}; {why}" if why else detail
    if state == "fine" and value is not None and result.code == 0:
        why = _unusual_reason(probe, value, history, settings)
        if why:
            state, detail = "failing", f"{detail}, {why}"  # the title has both
    return ProbeVerdict(
        probe=probe.name,
        state=state,
        detail=detail[:1000],
        value=value,
        within=within,
        question=INTENDED_QUESTION
        if result.code == QUESTION_EXIT_CODE and probe.kind == "disk"
        else "",
    )


_BAD_PAGE = re.compile(
    r"(?P<took>[\d.]+) seconds for (?P<answer>status \d+ from \S+); (?:(?P<status>the status is )|"
    r"(?P<body>the body lacks: .*)|it took (?P<limit>longer than [\d.]+ s))",
    re.DOTALL,
)
_BAD_CERTIFICATE = re.compile(
    r"\d+ days are left for [^;]+; (the certificate of .+? (?:expired|is not for).*)"
)


def headline(detail: str) -> str:
    """The result of a probe as a short title; what follows the first semicolon explains it."""
    if page := _BAD_PAGE.match(detail):
        text = _page_headline(page)
    else:
        explained = _BAD_CERTIFICATE.match(detail)
        text = (explained[1] if explained else detail).partition("; ")[0]
    return text if len(text) <= MAX_HEADLINE_CHARS else f"{text[: MAX_HEADLINE_CHARS - 1]}…"


def _page_headline(page: re.Match[str]) -> str:
    """What is wrong with a page; the time that it took only where that is wrong."""
    if page["status"]:
        return page["answer"]
    if page["limit"]:
        return f"it took {float(page['took']):.3g} s, {page['limit']}, for {page['answer']}"
    return f"{page['body']}, in the answer with {page['answer']}"


def _state_by_limit(
    probe: Probe, state: ProbeState, value: float, values: Sequence[float], *, alerted: bool
) -> tuple[ProbeState, str]:
    """Hysteresis: a value must be clearly beyond the limit, or beyond it for a while."""
    limit = DEFAULT_LIMITS[probe.kind] if probe.limit is None else probe.limit
    high = limit * (1 + ENTER_MARGIN.get(probe.kind, 0.0))
    low = limit * (1 - LEAVE_MARGIN.get(probe.kind, DEFAULT_LEAVE_MARGIN))
    if state == "failing" and not alerted and limit <= value < high:
        last = values[-(MIN_RESULTS_TO_ENTER - 1) :]
        if len(last) < MIN_RESULTS_TO_ENTER - 1 or min(last) < limit:
            return "fine", f"just above its limit of {limit:g}: a failure if it stays"
    if state == "fine" and alerted and low <= value < limit:
        last = values[-(MIN_RESULTS_TO_LEAVE - 1) :]
        if len(last) < MIN_RESULTS_TO_LEAVE - 1 or min(last) < low or max(last) >= limit:
            return "failing", f"just below its limit of {limit:g}: over below {low:g}"
    return state, ""


def _state_by_exit_code(probe: Probe, result: ProbeResult) -> tuple[ProbeState, str]:
    if result.not_run_reason:
        return "unknown", result.not_run_reason
    if result.code == UNKNOWN_EXIT_CODE and probe.kind != "command":
        return "unknown", result.text or "it could not be asked"
    if result.code == 0:
        return "fine", result.text or "as it should be"
    if result.code == QUESTION_EXIT_CODE and probe.kind == "disk":
        return "failing", result.text
    if result.timed_out and probe.kind in LOOKING_KINDS:
        return "unknown", f"it could not be read within {probe.timeout:g} s"
    if result.timed_out:
        return "failing", f"no answer within {probe.timeout:g} s"
    if result.code == 127:
        return "unknown", result.text or "a program that it needs is not there"
    return "failing", result.text or f"it ended with exit code {result.code}"


def _unusual_reason(
    probe: Probe, value: float, values: Sequence[float], settings: ProbeSettings
) -> str:
    """Return why a value within its limit is a failure; empty when it is not."""
    if probe.kind == "unit":
        grown = value - min(values[-_RESTART_LOOKBACK:], default=value)
        return f"restarted {grown:g} times within a few runs" if grown >= _MIN_RESTARTS else ""
    if not probe.baseline or len(values) < settings.samples:
        return ""
    usual = median(values)
    spread = _MAD_FACTOR * median(abs(each - usual) for each in values)
    # A constant value has no spread: allow a tenth of it, or the least of its kind.
    least = MIN_SPREAD.get(probe.kind, 1.0)
    most = usual + settings.spread * max(spread, abs(usual) / 10, least)
    most = max(most, usual + MIN_UNUSUAL.get(probe.kind, 0.0))
    return f"while usual is {usual:.3g}, at most {most:.3g}" if value > most else ""


def learn_value(values: Sequence[float], verdict: ProbeVerdict, probe: Probe) -> tuple[float, ...]:
    """Remember the value, unless it is a failure; restart counts are always remembered."""
    known = verdict.state == "fine" or verdict.within or probe.kind == "unit"
    if verdict.value is None or not known:
        return tuple(values)
    return (*values, verdict.value)[-MAX_VALUES:]
