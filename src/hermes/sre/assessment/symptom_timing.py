"""Computes for how long a symptom must be absent before that counts as evidence.

A symptom that affects one request in five, or returns every four minutes, is absent most of the
time during an outage. The window of a verification must be long enough to see it again.
"""

import math
import re
import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hermes.core.events.incidents import AlertRaised
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import ExecuteCall, run_command
from hermes.sre.settings import VerifySettings

MAX_MISS_PROBABILITY = 0.05
"""The accepted probability of missing a symptom that is still there."""
RECOVERY_WINDOWS = 3
"""A recovery without a change is watched for this many times the window of a fix."""
ALERT_HISTORY = timedelta(hours=24)
MAX_PERIODS = 6
"""The number of last firings from which the period is computed."""
PERIOD_MARGIN = 1.25
"""The factor by which the longest period is exceeded before it counts as over."""
MAX_OUTLIVED_S = 30.0
"""The longest time for which a unit is watched to run longer than before."""
JOURNAL_RESOLUTION_S = 1.0
"""Resolution of the times in the output of journalctl."""
MAX_JOURNAL_LINES = 400
"""Lines of a unit's journal that are read for its earlier runs."""
_JOURNAL_LINE = re.compile(r"^([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S+ \S+ (.*)$")
_UNIT_START = re.compile(r"^(?:\S+: )?(?:Started|Starting) ")
_UNIT_STOP = re.compile(r"signal=15|15/TERM|^(?:\S+: )?(?:Stopped|Stopping) ")
_UNIT_EXIT = re.compile(r"Main process exited|Failed with result|OOM|oom-kill")
_ERROR_WORDS = re.compile(
    r"error|fatal|traceback|exception|panic|refused|timed? ?out|exited|killed|oom|fail| 5\d\d\b",
    re.I,
)


class SymptomTiming(Value, kw_only=True, frozen=True):
    share: float = 1.0
    """The share of check runs before the fix that observed the symptom."""
    period_s: float = 0.0
    """The longest time between two separate firings of the alert; 0 when it fired once."""
    onset_s: float = 0.0
    """Where the fix restarted a unit: seconds from a start to the first error before the fix."""

    @property
    def steady(self) -> bool:
        """It failed in every run: passing for a while shows a difference."""
        return self.share >= 1.0

    def needed_s(self, settings: VerifySettings) -> float:
        """Seconds within which a symptom that is still there would show, without an upper bound."""
        if self.steady:
            return max(settings.window, PERIOD_MARGIN * self.onset_s)
        runs = (
            math.ceil(math.log(MAX_MISS_PROBABILITY) / math.log(1 - self.share))
            if self.share > 0
            else 0
        )
        period = PERIOD_MARGIN * max(self.period_s, self.onset_s)
        return max(settings.window, runs * settings.every, period)

    def window_s(self, settings: VerifySettings) -> float:
        return min(self.needed_s(settings), max(settings.longest_window, settings.window))

    def recovery_window_s(self, settings: VerifySettings) -> float:
        """The same where nothing was changed: the symptom may be intermittent."""
        period = PERIOD_MARGIN * self.period_s
        return max(self.needed_s(settings), RECOVERY_WINDOWS * settings.window, period)


async def read_alert_period_s(journal: Journal, fingerprint: str) -> float:
    """The longest time between two firings of this alert in its history."""
    if not fingerprint:
        return 0.0
    since = datetime.now(UTC) - ALERT_HISTORY
    alerts = [
        recorded.event
        async for recorded in journal.read(kinds=("alert.raised",), since=since)
        if isinstance(recorded.event, AlertRaised) and recorded.event.fingerprint == fingerprint
    ]
    starts = list(_firing_starts(alerts))[-MAX_PERIODS - 1 :]
    return max((later - sooner for sooner, later in pairwise(starts)), default=0.0)


def highest_failure_share(samples: Iterable[tuple[int, int]]) -> float:
    """`samples`: for each check, how often it failed and how often it was run."""
    return max((failed / runs for failed, runs in samples if runs), default=0.0)


def _firing_starts(alerts: Iterable[AlertRaised]) -> Iterable[float]:
    """Return when each firing began; a monitor repeats an alert until it is resolved."""
    firing = False
    for alert in alerts:
        if not alert.resolved and not firing:
            yield (alert.since or alert.at).timestamp()
        firing = not alert.resolved


class UnitRunTimes(Value, kw_only=True, frozen=True):
    """Earlier runs of a unit by its journal, in seconds after a start."""

    onset_s: float = 0.0
    """When the first error appeared; a restart hides it for as long again."""
    lifetime_s: float = 0.0
    """How long it ran before it crashed; 0 when it did not crash."""


async def read_unit_run_times(
    execute: ExecuteCall, units: Sequence[str], max_s: float
) -> UnitRunTimes:
    """The longest of each; an error later than `max_s` is unrelated to the start."""
    found = []
    for unit in units:
        command = f"LC_ALL=C journalctl -u {shlex.quote(unit)} -n {MAX_JOURNAL_LINES} --no-pager"
        result = await run_command(execute, command, 10.0, id=new_id("runs"))
        found += parse_run_spans(result.output)
    onsets = [onset for onset, _ in found if onset is not None and onset <= max_s]
    lives = [life + JOURNAL_RESOLUTION_S for _, life in found if life is not None and life <= max_s]
    return UnitRunTimes(onset_s=max(onsets, default=0.0), lifetime_s=max(lives, default=0.0))


def parse_run_spans(text: str) -> list[tuple[float | None, float | None]]:
    """Return, for each run of a unit, the seconds from its start to the first error and to its
    crash."""
    found: list[tuple[float | None, float | None]] = []
    started: datetime | None = None
    for line in text.splitlines():
        match = _JOURNAL_LINE.match(line)
        if match is None:
            continue
        at = datetime.strptime(f"2024 {match[1]}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
        if _UNIT_START.match(match[2]):
            started = at
            found.append((None, None))
        elif _UNIT_STOP.search(match[2]):  # it was stopped on purpose
            started = None
        elif started is not None and _ERROR_WORDS.search(match[2]):
            seconds = max(0.0, (at - started).total_seconds())
            onset, _ = found[-1]
            ends = _UNIT_EXIT.search(match[2]) is not None
            found[-1] = (seconds if onset is None else onset, seconds if ends else None)
            started = None if ends else started
    return found
