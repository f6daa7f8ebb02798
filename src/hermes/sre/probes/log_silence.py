"""Decides whether a log without new errors proves that the problem it reported is over.

A service that has ended, or that nobody uses, writes no errors either.
"""

import math
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from hermes.sre.probes.evaluation import ProbeVerdict
from hermes.sre.probes.probe import SERVICE_STATE_KINDS, Probe
from hermes.sre.probes.scheduled_probe import ScheduledProbe

LOG_KINDS = ("log", "answers")
"""Kinds of probes that pass when nothing is written."""
MAX_SILENCE_S = 1800.0
"""After so long without a line the problem counts as over, which is said to be not known."""
SAME_FAILURE_S = 60.0
"""A check that failed at most so long before a log reported errors saw the same problem."""


def judge_silence(
    log: ScheduledProbe, verdict: ProbeVerdict, schedule: Sequence[ScheduledProbe]
) -> ProbeVerdict:
    """Call a log unknown instead of fine while its silence proves nothing. Its result is noted
    already."""
    if log.probe.kind not in LOG_KINDS or verdict.state != "fine":
        return verdict
    if names := _not_proven_fine(log, schedule):
        reason = f"which proves no recovery: {', '.join(names[:3])} not fine since then"
    elif _is_unproven(log, schedule):
        reason = "which proves no recovery: nothing was written since the errors"
    else:
        return verdict
    return replace(verdict, state="unknown", detail=f"{verdict.detail}, {reason}"[:1000])


def is_about_service(probe: Probe, service: str) -> bool:
    """Return whether a log belongs to a service: by its label, or by its path."""
    return bool(service) and (
        probe.service == service or (not probe.service and service in probe.what)
    )


def _state_probes(log: ScheduledProbe, schedule: Sequence[ScheduledProbe]) -> list[ScheduledProbe]:
    """Those that ask the service of the log how it is."""
    return [
        each
        for each in schedule
        if each.probe.kind in SERVICE_STATE_KINDS
        and is_about_service(log.probe, each.probe.service)
        and each.verdict is not None
    ]


def _not_proven_fine(log: ScheduledProbe, schedule: Sequence[ScheduledProbe]) -> list[str]:
    """Probes of the service of a log that fail, or have not run since it reported errors; all of
    them where none could be made."""
    probes = _state_probes(log, schedule)
    states = {each.probe.name: _state_since(each, log.failed_at) for each in probes}
    if {*states.values()} == {"unknown"}:
        return list(states)
    return [name for name, state in states.items() if state in ("failing", "old")]


def _state_since(scheduled: ScheduledProbe, at: float) -> str:
    state = scheduled.verdict.state if scheduled.verdict is not None else "unknown"
    return "old" if state == "fine" and scheduled.judged_at < at else state


def _is_unproven(log: ScheduledProbe, schedule: Sequence[ScheduledProbe]) -> bool:
    """Return whether nothing shows that its service was used since the last error. `answers` has a
    memory of its own; and errors that another process read are not remembered."""
    seen = log.probe.kind == "log" and math.isfinite(log.failed_at)
    if not seen or log.judged_at - log.failed_at > MAX_SILENCE_S:
        return False
    # What another log got since the round that found the errors may have come before them.
    beside = any(each.written_since > log.failed_at for each in schedule if _is_beside(log, each))
    if beside or log.written_since >= log.failed_at:
        return False
    # Another check failed with it, and is fine again: it was no fault that only requests show.
    began = log.failing_since - SAME_FAILURE_S
    return not any(each.failed_at >= began for each in _state_probes(log, schedule))


def _is_beside(log: ScheduledProbe, other: ScheduledProbe) -> bool:
    """Return whether the other one is a log of the same service, such as that of its requests."""
    if other.probe.kind not in LOG_KINDS or other.probe.service != log.probe.service:
        return False
    same_folder = PurePosixPath(other.probe.what).parent == PurePosixPath(log.probe.what).parent
    return bool(log.probe.service) or same_folder
