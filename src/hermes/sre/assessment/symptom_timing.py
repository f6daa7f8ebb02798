"""How often a symptom shows, and how long one has to look before its absence means something.

A symptom that fails one request in five, or returns every four minutes, is absent at most moments
of an outage. The window of a verification must be as long as the symptom's own rhythm.
"""

import math
import re
import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hermes.core.events.incidents import AlertRaised
from hermes.core.messages import ToolCall, Value
from hermes.core.protocols import Journal
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import parse_terminal_result
from hermes.sre.checks import Execute
from hermes.sre.settings import VerifySettings

MAX_MISS_PROBABILITY = 0.05
"""The chance of missing a symptom that is still there that is accepted."""
RECOVERY_WINDOWS = 3
"""Where nothing was changed, recovery is watched for so many times the window of a fix."""
ALERT_HISTORY = timedelta(hours=24)
MAX_PERIODS = 6
"""The last firings that say how often an alert returns."""
PERIOD_MARGIN = 1.25
"""Times the longest period: the next firing would have come within that."""
MAX_OUTLIVED_S = 30.0
"""For how long at most it is watched whether a unit lives longer than it did before."""
JOURNAL_RESOLUTION_S = 1.0
"""Of the times in a journal."""
MAX_JOURNAL_LINES = 400
"""Of a unit's journal, in which it is looked how soon after a start trouble showed."""
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
    """Of the looks before anything was changed, how many saw the symptom; 0 when none did."""
    period_s: float = 0.0
    """The longest time between two separate firings of the alert; 0 when it fired once."""
    onset_s: float = 0.0
    """Where the fixer restarted something: how long after a start trouble showed before."""

    @property
    def steady(self) -> bool:
        """It failed at every look: one that passes for a while shows a difference."""
        return self.share >= 1.0

    def needed_s(self, settings: VerifySettings) -> float:
        """Seconds in which a symptom that is still there would show, without any bound."""
        if self.steady:
            return max(settings.window, PERIOD_MARGIN * self.onset_s)
        looks = (
            math.ceil(math.log(MAX_MISS_PROBABILITY) / math.log(1 - self.share))
            if self.share > 0
            else 0
        )
        rhythm = PERIOD_MARGIN * max(self.period_s, self.onset_s)
        return max(settings.window, looks * settings.every, rhythm)

    def window_s(self, settings: VerifySettings) -> float:
        return min(self.needed_s(settings), max(settings.longest_window, settings.window))

    def recovery_window_s(self, settings: VerifySettings) -> float:
        """The same where nothing was changed: what failed and passes may only come and go."""
        period = PERIOD_MARGIN * self.period_s
        return max(self.needed_s(settings), RECOVERY_WINDOWS * settings.window, period)


async def read_alert_period_s(journal: Journal, fingerprint: str) -> float:
    """From the history of an alert: the longest time from one firing to the next."""
    if not fingerprint:
        return 0.0
    since = datetime.now(UTC) - ALERT_HISTORY
    heard = [
        recorded.event
        async for recorded in journal.read(kinds=("alert.raised",), since=since)
        if isinstance(recorded.event, AlertRaised) and recorded.event.fingerprint == fingerprint
    ]
    starts = list(_firing_starts(heard))[-MAX_PERIODS - 1 :]
    return max((later - sooner for sooner, later in pairwise(starts)), default=0.0)


def highest_failure_share(samples: Iterable[tuple[int, int]]) -> float:
    """Of the check that showed the symptom most often: times that it failed, looks."""
    return max((failed / looks for failed, looks in samples if looks), default=0.0)


def _firing_starts(heard: Iterable[AlertRaised]) -> Iterable[float]:
    """When each began. A monitor repeats itself until it says that it is resolved."""
    firing = False
    for alert in heard:
        if not alert.resolved and not firing:
            yield (alert.since or alert.at).timestamp()
        firing = not alert.resolved


class UnitRunTimes(Value, kw_only=True, frozen=True):
    """What the journal of a unit says about its earlier runs, in seconds after a start."""

    onset_s: float = 0.0
    """When trouble showed first; a restart hides it for as long again."""
    lifetime_s: float = 0.0
    """How long it lived before it ended without being told to; 0 when it did not."""


async def read_unit_run_times(execute: Execute, units: Sequence[str], max_s: float) -> UnitRunTimes:
    """The longest of each; what took longer than `longest` had nothing to do with the start."""
    found = []
    for unit in units:
        command = f"LC_ALL=C journalctl -u {shlex.quote(unit)} -n {MAX_JOURNAL_LINES} --no-pager"
        call = ToolCall(new_id("runs"), "terminal", {"command": command, "timeout": 10.0})
        found += parse_run_spans(parse_terminal_result(await execute(call), command, 0.0).output)
    onsets = [onset for onset, _ in found if onset is not None and onset <= max_s]
    lives = [life + JOURNAL_RESOLUTION_S for _, life in found if life is not None and life <= max_s]
    return UnitRunTimes(onset_s=max(onsets, default=0.0), lifetime_s=max(lives, default=0.0))


def parse_run_spans(text: str) -> list[tuple[float | None, float | None]]:
    """Of each run in a unit's journal: seconds from its start to the first trouble, to its end."""
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
        elif _UNIT_STOP.search(match[2]):  # it was told to
            started = None
        elif started is not None and _ERROR_WORDS.search(match[2]):
            seconds = max(0.0, (at - started).total_seconds())
            onset, _ = found[-1]
            ends = _UNIT_EXIT.search(match[2]) is not None
            found[-1] = (seconds if onset is None else onset, seconds if ends else None)
            started = None if ends else started
    return found
