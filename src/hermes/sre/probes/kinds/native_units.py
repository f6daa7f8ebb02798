"""All units of this host by one question to the service manager, judged as in the shell text."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

from hermes.sre.probes.kinds.native_services import Answer
from hermes.sre.probes.probe import UNKNOWN, Probe

PROPERTIES = "Id,LoadState,ActiveState,SubState,Result,NRestarts,MainPID"
YOUNG_S = 5.0
"""A process that was restarted this short a time ago is not well yet."""
_CLOCK_TICKS = 100


def question(probes: Sequence[Probe]) -> str:
    names = " ".join(quote(probe.what) for probe in probes)
    return f"systemctl show -p {PROPERTIES} -- {names} 2>/dev/null"


def judged(probes: Sequence[Probe], output: str) -> dict[str, Answer]:
    """By name; empty when the answer does not fit the question, so that each is asked alone."""
    blocks = [
        dict(line.partition("=")[::2] for line in block.splitlines())
        for block in output.strip().split("\n\n")
    ]
    if len(blocks) != len(probes) or not all("ActiveState" in each for each in blocks):
        return {}
    return {probe.name: _judged(probe, each) for probe, each in zip(probes, blocks, strict=True)}


def _judged(probe: Probe, unit: Mapping[str, str]) -> Answer:
    name, active, result = probe.what, unit["ActiveState"], unit.get("Result", "")
    restarts = unit.get("NRestarts", "")
    count = int(restarts) if restarts.isdigit() else 0
    said = f"{count} restarts; {name} is {active} ({unit.get('SubState', '')})"
    if not unit.get("LoadState"):
        return UNKNOWN, f"no supervisor answers about {name}", None, ""
    if unit["LoadState"] == "not-found":
        return 1, f"{said}; there is no unit {name}", float(count), ""
    if probe.status == "ended-well":
        well = active != "failed" and result == "success"
    else:
        well = active in ("active", "reloading")
    if not well:
        return 1, f"{said}; {name} is {active}, its result is {result}", float(count), ""
    age = _age_s(unit.get("MainPID", "0")) if count and probe.status != "ended-well" else YOUNG_S
    if age < YOUNG_S:
        words = f"{said}; {name} was restarted {count} times, the last time {age:.0f} s ago"
        return 1, words, float(count), ""
    return 0, said, float(count), ""


def _age_s(pid: str) -> float:
    """0 for a process that is gone: it ended just now."""
    if not pid.isdigit() or pid == "0":
        return YOUNG_S
    try:
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return uptime - int(fields[19]) / _CLOCK_TICKS
