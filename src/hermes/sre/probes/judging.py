"""From what a look brought to a verdict: by its exit code, and by what was usual."""

from collections.abc import Sequence
from statistics import median
from typing import Literal

from hermes.core.messages import Value
from hermes.sre.probes.probe import ASKS, UNKNOWN, USUAL_LIMITS, Probe
from hermes.sre.probes.round import Reading
from hermes.sre.probes.settings import ProbeSettings

KEPT = 120
"""Values that are remembered of each probe."""
_RESTARTS, _LOOKS = 3, 20
_MAD = 1.4826
"""Times the median distance from the median: the spread of values that vary by chance."""

INTENDED = "is this intended?"
ENTER_MARGIN = {"load": 0.1, "zombies": 0.1}
"""Share of the limit by which a value may be above it before that is bad at once, by kind."""
LEAVE_MARGIN = {"load": 0.1, "zombies": 0.1, "cpu": 0.05}
"""Share of the limit by which a value must be below it before bad is over."""
USUAL_LEAVE_MARGIN = 0.02
STAY_LOOKS, LEAVE_LOOKS = 20, 10
"""Looks in a row just above the limit that are bad, and just below it that are fine."""

State = Literal["fine", "failing", "unknown"]


class Verdict(Value, kw_only=True, frozen=True):
    probe: str
    state: State
    detail: str = ""
    value: float | None = None
    within: bool = False
    """It fails only because it is not yet far enough below its limit to be over."""
    question: str = ""
    """What people are asked, because it may be intended."""


def judge(
    probe: Probe,
    reading: Reading,
    past: Sequence[float],
    settings: ProbeSettings,
    *,
    alerted: bool = False,
) -> Verdict:
    """`alerted`: its alert stands, so that it has to be well below its limit to be over."""
    state, detail = _state(probe, reading)
    within, value = False, reading.value
    if value is not None and probe.kind in USUAL_LIMITS and reading.code in (0, 1):
        state, why = _by_limit(probe, state, value, past, alerted=alerted)
        within = state == "failing" and reading.code == 0
        detail = f"{detail}; {why}" if why else detail
    if state == "fine" and value is not None and reading.code == 0:
        why = _unusual(probe, value, past, settings)
        if why:
            state, detail = "failing", f"{detail}; {why}"
    return Verdict(
        probe=probe.name,
        state=state,
        detail=detail[:1000],
        value=value,
        within=within,
        question=INTENDED if reading.code == ASKS and probe.kind == "disk" else "",
    )


def _by_limit(
    probe: Probe, state: State, value: float, past: Sequence[float], *, alerted: bool
) -> tuple[State, str]:
    """Entered by a margin or after a while, left below a lower bound or after a while."""
    limit = USUAL_LIMITS[probe.kind] if probe.limit is None else probe.limit
    high = limit * (1 + ENTER_MARGIN.get(probe.kind, 0.0))
    low = limit * (1 - LEAVE_MARGIN.get(probe.kind, USUAL_LEAVE_MARGIN))
    if state == "failing" and not alerted and limit <= value < high:
        last = past[-(STAY_LOOKS - 1) :]
        if len(last) < STAY_LOOKS - 1 or min(last) < limit:
            return "fine", f"just above its limit of {limit:g}: bad if it stays"
    if state == "fine" and alerted and low <= value < limit:
        last = past[-(LEAVE_LOOKS - 1) :]
        if len(last) < LEAVE_LOOKS - 1 or min(last) < low or max(last) >= limit:
            return "failing", f"just below its limit of {limit:g}: over below {low:g}"
    return state, ""


def _state(probe: Probe, reading: Reading) -> tuple[State, str]:
    if reading.unasked:
        return "unknown", reading.unasked
    if reading.code == UNKNOWN and probe.kind != "command":
        return "unknown", reading.text or "it could not be asked"
    if reading.code == 0:
        return "fine", reading.text or "as it should be"
    if reading.code == ASKS and probe.kind == "disk":
        return "failing", reading.text
    if reading.timed_out:
        return "failing", f"no answer within {probe.timeout:g} s"
    if reading.code == 127:
        return "unknown", reading.text or "a program that it needs is not there"
    return "failing", reading.text or f"it ended with exit code {reading.code}"


def _unusual(probe: Probe, value: float, past: Sequence[float], settings: ProbeSettings) -> str:
    """Why a value that is within its limit is bad all the same; empty when it is not."""
    if probe.kind == "unit":
        grown = value - min(past[-_LOOKS:], default=value)
        return f"restarted {grown:g} times within a few looks" if grown >= _RESTARTS else ""
    if not probe.baseline or len(past) < settings.samples:
        return ""
    usual = median(past)
    spread = _MAD * median(abs(each - usual) for each in past)
    # A value that never varied has no spread: a tenth of it, or one, is no alarm yet.
    most = usual + settings.spread * max(spread, abs(usual) / 10, 1.0)
    return f"usual is {usual:g}, at most {most:g}" if value > most else ""


def learned(past: Sequence[float], verdict: Verdict, probe: Probe) -> tuple[float, ...]:
    """What was bad is not learned as usual; restarts are counted whatever they mean."""
    known = verdict.state == "fine" or verdict.within or probe.kind == "unit"
    if verdict.value is None or not known:
        return tuple(past)
    return (*past, verdict.value)[-KEPT:]
