"""From what a look brought to a verdict: by its exit code, and by what was usual."""

from collections.abc import Sequence
from statistics import median
from typing import Literal

from hermes.core.messages import Value
from hermes.sre.probes.probe import UNKNOWN, Probe
from hermes.sre.probes.round import Reading
from hermes.sre.probes.settings import ProbeSettings

KEPT = 120
"""Values that are remembered of each probe."""
_RESTARTS, _LOOKS = 3, 20
_MAD = 1.4826
"""Times the median distance from the median: the spread of values that vary by chance."""

State = Literal["fine", "failing", "unknown"]


class Verdict(Value, kw_only=True, frozen=True):
    probe: str
    state: State
    detail: str = ""
    value: float | None = None


def judge(
    probe: Probe, reading: Reading, past: Sequence[float], settings: ProbeSettings
) -> Verdict:
    state, detail = _state(probe, reading)
    if state == "fine" and reading.value is not None:
        why = _unusual(probe, reading.value, past, settings)
        if why:
            state, detail = "failing", f"{detail}; {why}"
    return Verdict(probe=probe.name, state=state, detail=detail[:1000], value=reading.value)


def _state(probe: Probe, reading: Reading) -> tuple[State, str]:
    if reading.unasked:
        return "unknown", reading.unasked
    if reading.code == UNKNOWN and probe.kind != "command":
        return "unknown", reading.text or "it could not be asked"
    if reading.code == 0:
        return "fine", reading.text or "as it should be"
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
    if verdict.value is None or (verdict.state != "fine" and probe.kind != "unit"):
        return tuple(past)
    return (*past, verdict.value)[-KEPT:]
