"""One probe with its schedule, its last results, and the alert that fires."""

import math
from datetime import datetime

from hermes.sre.probes.evaluation import ProbeVerdict
from hermes.sre.probes.probe import Probe


class ScheduledProbe:
    """One probe and its state."""

    def __init__(self, probe: Probe, start: float) -> None:
        self.probe = probe
        self.next = start
        self.retry_at = math.inf
        """The time of a retry before the next scheduled run."""
        self.busy = False
        self.slow = False
        self.failures = 0
        self.since: datetime | None = None
        self.alerted = False
        self.silent_runs = 0
        """How often in a row its service gave no answer."""
        self.alerted_silent = False
        """Whether the alert that fires says that its service gives no answer."""
        self.question = ""
        """The question of the alert that fires."""
        self.verdict: ProbeVerdict | None = None
        self.judged_at = self.failed_at = -math.inf
        self.failing_since = math.inf
        """The first failure of those that its last good result has not ended."""
        self.written_since = -math.inf
        """When the last span began in which its log was written and no error was found."""

    @property
    def due(self) -> float:
        return min(self.next, self.retry_at)

    def begin(self, now: float) -> None:
        self.busy, self.retry_at = True, math.inf
        if self.next <= now:
            # A multiple of the interval after the first run: a slow run does not shift later ones.
            missed = math.floor((now - self.next) / self.probe.interval)
            self.next += (missed + 1) * self.probe.interval

    def note_result(self, verdict: ProbeVerdict, before: str, after: str, now: float) -> None:
        """`before` and `after`: what the probe keeps, which begins with its position in a log."""
        if verdict.state == "failing":
            self.failing_since, self.failed_at = min(self.failing_since, now), now
        elif verdict.state == "fine" and _log_position(before) != _log_position(after):
            self.written_since = self.judged_at
        self.judged_at = now


def _log_position(keep: str) -> str:
    """The file and how much of it was read, without the time of the result."""
    return keep.partition(" ")[0].rpartition(":")[0]
