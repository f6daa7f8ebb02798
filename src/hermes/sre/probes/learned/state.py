"""What is observed, what is known of each subject, and what people said about the checks."""

from functools import lru_cache

import msgspec

from hermes.core.messages import Value
from hermes.sre.probes.answer_facts import AnswerFacts
from hermes.sre.probes.learned.rules import DeviationSeverity
from hermes.sre.probes.learned.summaries import AnswerSummary, Growth, NumberSummary
from hermes.sre.probes.probe import probe_name

LEARNED_KIND = "learned"
"""The kind of the probes that learned checks appear as."""
MIN_REPORTED_WEIGHT = 0.3
"""A check below this weight is listed, and raises no alert."""
MARK_FACTOR = 0.5
"""What a false alarm leaves of the weight."""


@lru_cache(maxsize=4096)
def check_name(subject: str, measure: str) -> str:
    return probe_name(LEARNED_KIND, f"{subject}-{measure}")


class Observation(Value, kw_only=True, frozen=True):
    """What was seen of one subject: a page, a log, the process or a queue of a service."""

    subject: str
    service: str
    at: float
    values: dict[str, float] = {}
    """Numbers by measure, such as `latency`."""
    answer: AnswerFacts | None = None
    started_at: float = 0.0
    """When the process of the service started; 0 where unknown."""
    healthy: bool = True
    """Whether all other checks of the service pass."""


class LearnedCheck(Value, kw_only=True, frozen=True):
    """One check as people see it."""

    name: str
    service: str
    subject: str
    measure: str
    reason: str
    """Why it exists: what was seen, how often, and since when."""
    band: str = ""
    """What it reports, in words; empty while it still learns."""
    weight: float = 1.0
    on: bool = True
    failing: bool = False
    detail: str = ""
    """What deviates, while it fails."""
    false_alarms: int = 0

    @property
    def reports(self) -> bool:
        """Whether a deviation raises an alert."""
        return self.on and self.weight >= MIN_REPORTED_WEIGHT


class LearnedVerdict(Value, kw_only=True, frozen=True):
    """A check that fails, or that has just ceased to fail."""

    check: str
    service: str
    failing: bool
    detail: str = ""
    question: str = ""
    severity: DeviationSeverity = "P3"


class CheckMark(msgspec.Struct, omit_defaults=True):
    """What people said about one check."""

    on: bool = True
    weight: float = 1.0
    false_alarms: int = 0
    accepted_at: float = 0.0
    """When a person said that the behaviour at that time is right."""

    def as_false_alarm(self, at: float) -> "CheckMark":
        """Less weight, and what is seen now is learned."""
        return CheckMark(
            on=self.on,
            weight=self.weight * MARK_FACTOR,
            false_alarms=self.false_alarms + 1,
            accepted_at=at,
        )


class LastingDeviation(msgspec.Struct, omit_defaults=True):
    """A deviation from its first result on."""

    since: float = 0.0
    last_at: float = 0.0
    results: int = 0
    fine: int = 0
    """Fine results in a row."""
    longest_s: float = 0.0
    """The longest that ended without a report."""
    reported: bool = False
    question: str = ""
    detail: str = ""
    severity: DeviationSeverity = "P3"
    calm_s: float = 0.0
    limit: float | None = None

    def end(self) -> None:
        if not self.reported and self.since:
            self.longest_s = max(self.longest_s, self.last_at - self.since)
        self.since, self.last_at, self.results, self.fine = 0.0, 0.0, 0, 0
        self.reported, self.question, self.detail, self.limit = False, "", "", None


class SubjectState(msgspec.Struct, omit_defaults=True):
    """All that is known of one subject."""

    service: str = ""
    last_at: float = 0.0
    watched_since: float = 0.0
    """Since when it is observed without a long pause."""
    answer: AnswerSummary | None = None
    numbers: dict[str, NumberSummary] = msgspec.field(default_factory=dict)
    growths: dict[str, Growth] = msgspec.field(default_factory=dict)
    lasting: dict[str, LastingDeviation] = msgspec.field(default_factory=dict)
    recent: dict[str, list[float]] = msgspec.field(default_factory=dict)
    """The last values of each measure, for smoothing; of a pause its length, and when it was."""
    accepting: dict[str, float] = msgspec.field(default_factory=dict)
    """Until when deviations of a measure are learned: people said that they are right."""
    accepted: dict[str, float] = msgspec.field(default_factory=dict)
    """The last answer of people that was followed, by measure."""


class LearnedState(msgspec.Struct, omit_defaults=True):
    """All learned checks of one host; this is what is stored."""

    subjects: dict[str, SubjectState] = msgspec.field(default_factory=dict)
    marks: dict[str, CheckMark] = msgspec.field(default_factory=dict)
    started: dict[str, float] = msgspec.field(default_factory=dict)
    """When the process of each service started."""
    restarted: dict[str, float] = msgspec.field(default_factory=dict)
    """When a restart of each service was last seen."""

    def mark(self, name: str) -> CheckMark:
        return self.marks.get(name) or CheckMark()
