"""Computes the reward of a run from its events and the oracle's outcome, in six parts.

Two of them score the answer of the responder: its diagnosis, with evidence, and its report.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from hermes.core.events.incidents import IncidentClosed, IncidentDiagnosed
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import RecordedCall
from hermes.gym.episodes.episode import EpisodeOutcome
from hermes.gym.episodes.run_summary import (
    RunCounts,
    approved_by_person,
    count_run,
    experiment_texts,
    finished_tool_calls,
    last_diagnosis,
    last_report,
    policy_breaches,
)
from hermes.gym.scenario_spec import (
    EXPECTED_VERDICTS,
    FaultDescription,
    ScenarioAlert,
    ScenarioSpec,
)

MAX_COMPONENT_CHARS, MAX_MECHANISM_CHARS, MAX_VALUE_CHARS = 100, 300, 120
"""A longer answer counts as a list of guesses."""
MAX_OTHER_SERVICES = 2
"""Other services that a diagnosis may mention besides the right one."""
MAX_MECHANISM_FAMILIES = 4
MECHANISM_FAMILIES = (
    ("disk full", "no space", "inode"),
    ("memory", "oom", "leak"),
    ("cpu", "busy loop", "runaway"),
    ("certificate", "tls", "expired"),
    ("dns", "resolv", "hosts entry"),
    ("permission", "ownership", "read-only"),
    ("port taken", "address already in use", "bind"),
    ("deadlock", "lock"),
    ("firewall", "partition", "packet loss", "latency"),
    ("deploy", "release", "rollback"),
    ("missing module", "import error", "dependency"),
    ("password", "credential", "token", "role"),
    ("cron", "schedule"),
    ("connection pool", "connections exhausted"),
    ("corrupt", "checksum"),
    ("typo", "invalid value", "misconfigur"),
)
"""A diagnosis that names many of these at once is a list of guesses."""


class DiagnosisScore(Value, kw_only=True, frozen=True):
    """Which parts of a diagnosis are right."""

    component: bool = False
    mechanism: bool = False
    value: bool = False
    evidence: float = 0.0
    """0 when any of it refers to no call, half when no output mentions the fault."""
    share: float = 0.0
    """From 0 to 1; with several faults, the mean over them."""

    @property
    def grounded(self) -> bool:
        """Whether component and mechanism are right and supported by evidence."""
        return self.component and self.mechanism and self.evidence > 0


def score_diagnosis(
    diagnosis: IncidentDiagnosed | None,
    spec: ScenarioSpec,
    calls: Sequence[RecordedCall],
    *,
    diagnosis_position: int = 0,
    experiments: Mapping[int, str] = MappingProxyType({}),
) -> DiagnosisScore:
    """`diagnosis_position`: evidence from calls that finished after it does not count.
    `experiments`: what experiments on copies showed, by their position."""
    if diagnosis is None or _is_list_of_guesses(diagnosis, spec):
        return DiagnosisScore()
    faults = [_score_fault(diagnosis, fault, spec) for fault in spec.faults]
    shown_at = {call.finished_seq: "" if _is_echo(call) else call.output for call in calls}
    shown_at |= experiments
    if diagnosis_position:
        shown_at = {seq: text for seq, text in shown_at.items() if seq < diagnosis_position}
    evidence = [_score_evidence(diagnosis.evidence, fault, shown_at) for fault in spec.faults]
    shares = [
        (0.4 * component + 0.4 * mechanism + 0.2 * value) * shown
        for (component, mechanism, value), shown in zip(faults, evidence, strict=True)
    ]
    return DiagnosisScore(
        component=all(component for component, _, _ in faults),
        mechanism=all(mechanism for _, mechanism, _ in faults),
        value=all(value for _, _, value in faults),
        evidence=min(evidence),
        share=round(sum(shares) / len(shares), 4),
    )


def _score_fault(
    diagnosis: IncidentDiagnosed, fault: FaultDescription, spec: ScenarioSpec
) -> tuple[bool, bool, bool]:
    """Return which parts name this fault. The limits on length grow with the number of faults."""
    count = len(spec.faults)
    lured = any(_mentions_any(diagnosis.component, decoy.component) for decoy in spec.decoys)
    component = len(diagnosis.component) <= MAX_COMPONENT_CHARS * count and not lured
    component = component and _names_component(diagnosis, fault, spec.alert)
    mechanism = len(diagnosis.mechanism) <= MAX_MECHANISM_CHARS * count and _mentions_any(
        diagnosis.mechanism, fault.mechanism
    )
    value = component and mechanism
    if fault.value:
        value = len(diagnosis.value) <= MAX_VALUE_CHARS * count and _mentions_any(
            diagnosis.value, fault.value
        )
    return component, mechanism, value


def _names_component(
    diagnosis: IncidentDiagnosed, fault: FaultDescription, alert: ScenarioAlert
) -> bool:
    """A name from the alert alone is no finding: the value, or else the mechanism, must be one."""
    said = " ".join((alert.title, alert.text, *alert.labels.values())).lower()

    def is_new(wording: str) -> bool:
        return not _mentions(said, wording.lower())

    if _mentions_any(diagnosis.component, filter(is_new, fault.component)):
        return True
    found = (
        _mentions_any(diagnosis.value, filter(is_new, fault.value))
        if fault.value
        else _mentions_any(diagnosis.mechanism, filter(is_new, fault.mechanism))
    )
    return found and _mentions_any(diagnosis.component, fault.component)


def _score_evidence(
    positions: Sequence[int], fault: FaultDescription, shown_at: Mapping[int, str]
) -> float:
    if not positions or any(each not in shown_at for each in positions):
        return 0.0
    wordings = (*fault.component, *fault.value, *fault.mechanism)
    return 1.0 if any(_mentions_any(shown_at[each], wordings) for each in positions) else 0.5


def _is_echo(call: RecordedCall) -> bool:
    """Output that repeats the command itself proves nothing."""
    output = call.output.strip()
    return bool(output) and output in call.text


def _is_list_of_guesses(diagnosis: IncidentDiagnosed, spec: ScenarioSpec) -> bool:
    words = f"{diagnosis.component} {diagnosis.mechanism} {diagnosis.value}".lower()
    right = " ".join(word for fault in spec.faults for word in fault.component).lower()
    others = [name for name in _service_names(spec) if name not in right and _mentions(words, name)]
    families = sum(any(word in words for word in family) for family in MECHANISM_FAMILIES)
    return len(others) > MAX_OTHER_SERVICES or families > MAX_MECHANISM_FAMILIES * len(spec.faults)


def _service_names(spec: ScenarioSpec) -> set[str]:
    units = (unit.path.rpartition("/")[2] for host in spec.hosts for unit in host.units)
    return {name.removesuffix(".service").lower() for name in units}


def _mentions_any(text: str, wordings: Iterable[str]) -> bool:
    return any(_mentions(text.lower(), wording.lower()) for wording in wordings)


def _mentions(text: str, wording: str) -> bool:
    """Whole words only: `4` is not in `404`, nor `app` in `apply`."""
    return bool(wording) and bool(re.search(rf"(?<!\w){re.escape(wording)}(?!\w)", text))


REPORT_SECTIONS = {
    "impact": ("impact", "summary", "what happened"),
    "timeline": ("timeline", "chronology", "sequence of events"),
    "cause": ("root cause", "cause", "diagnosis", "what is known"),
    "remediation": ("remediation", "resolution", "fix", "actions taken", "what was done"),
    "verification": ("verification", "verified", "outcome", "result"),
    "prevention": ("prevention", "follow-up", "follow up", "lessons", "next steps"),
}
MIN_SECTION_CHARS = 25
"""A shorter section counts as missing."""
MAX_REPORT_CHARS = 20_000
TIMELINE_TOLERANCE = timedelta(seconds=90)
_HEADING = re.compile(r"^(?:#{1,4}\s*|\*\*)(.+?)(?:\*\*)?:?\s*$", re.MULTILINE)
_TIME_OF_DAY = re.compile(r"(?<![\d:.])([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?(?![\d:])")
_QUOTED_COMMAND = re.compile(r"`([^`\n]{3,400})`|^\s*\$ (.{3,400})$", re.MULTILINE)
_OUTCOME_LINE = re.compile(r"(?:outcome|status|result)\W{1,6}([a-z][a-z -]{2,40})", re.IGNORECASE)
_OUTCOME_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"\b(not|un|never)\W?(yet )?(resolved|fixed|mended)", "open"),
    (r"\b(no incident|false alarm|not an incident|no-incident)", "no-incident"),
    (r"\b(already recovered|recovered)", "recovered"),
    (r"\b(escalat|approval|handed over)", "escalate"),
    (r"\b(resolved|fixed|mended|restored)", "fix"),
    (r"\b(open|ongoing|failed)", "open"),
)


class ReportScore(Value, kw_only=True, frozen=True):
    """Which parts of a report are right, each from 0 to 1."""

    sections: float = 0.0
    times: float = 0.0
    commands: float = 0.0
    outcome: bool = False
    """Whether it states the true outcome."""

    @property
    def share(self) -> float:
        if not self.outcome or not self.sections:
            return 0.0
        return round(
            0.3 * self.sections + 0.25 * self.times + 0.25 * self.commands + 0.2 * self.outcome, 4
        )


def score_report(
    text: str, calls: Sequence[RecordedCall], *, began: datetime, ended: datetime, truth: str
) -> ReportScore:
    """`truth` is the true outcome: fix, no-incident, recovered, escalate or open."""
    if not text.strip() or len(text) > MAX_REPORT_CHARS:
        return ReportScore()
    parts = report_sections(text)
    return ReportScore(
        sections=round(len(parts) / len(REPORT_SECTIONS), 4),
        times=_score_timeline(parts.get("timeline", ""), began, ended),
        commands=_score_commands(text, parts, calls),
        outcome=stated_outcome(text) == truth,
    )


def report_sections(text: str) -> dict[str, str]:
    """The known sections that are long enough, by name."""
    found: dict[str, str] = {}
    headings = list(_HEADING.finditer(text))
    for index, heading in enumerate(headings):
        end = headings[index + 1].start() if index + 1 < len(headings) else len(text)
        body = text[heading.end() : end].strip()
        title = heading.group(1).strip().lower()
        for name, words in REPORT_SECTIONS.items():
            if (
                name not in found
                and len(body) >= MIN_SECTION_CHARS
                and any(word in title for word in words)
            ):
                found[name] = body
                break
    return found


def stated_outcome(text: str) -> str:
    """The outcome in the last line that states one."""
    outcomes = [match.group(1).lower() for match in _OUTCOME_LINE.finditer(text)]
    for words in reversed(outcomes):
        for pattern, meaning in _OUTCOME_PATTERNS:
            if re.search(pattern, words):
                return meaning
    return ""


CLAIM_BY_OUTCOME = {
    "fix": "resolved",
    "escalate": "escalated",
    "open": "unresolved",
    "no-incident": "no-incident",
    "recovered": "recovered",
}


def claimed_outcome(events: Sequence[JournalRecord]) -> str:
    """Return what the responder says came of it, whatever is true; empty when it says nothing."""
    closed = [each.event for each in events if isinstance(each.event, IncidentClosed)]
    own = [each.outcome for each in closed if each.by != "oracle"]
    if own:
        return own[-1]
    record = last_diagnosis(events)
    verdict = record.event.verdict if record and isinstance(record.event, IncidentDiagnosed) else ""
    return CLAIM_BY_OUTCOME.get(stated_outcome(last_report(events)) or verdict, "")


def _score_timeline(timeline: str, began: datetime, ended: datetime) -> float:
    """1 for two or more times, in order and all within the incident, in UTC or local time."""
    for zone in (UTC, None):
        first, last = (
            began.astimezone(zone) - TIMELINE_TOLERANCE,
            ended.astimezone(zone) + TIMELINE_TOLERANCE,
        )
        moments = [_parse_time_near(match, first) for match in _TIME_OF_DAY.finditer(timeline)]
        right = [first <= moment <= last for moment in moments]
        if len(moments) >= 2 and all(right) and moments == sorted(moments):
            return 1.0
    return 0.0


def _parse_time_near(match: re.Match[str], near: datetime) -> datetime:
    hour, minute, second = (int(part or 0) for part in match.groups())
    moment = near.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return moment + timedelta(days=1) if moment < near - timedelta(hours=12) else moment


def _score_commands(text: str, parts: dict[str, str], calls: Sequence[RecordedCall]) -> float:
    """1 when it quotes at least one command, and every quoted command was run."""
    ran = [_normalize_spaces(call.text) for call in calls]
    where = parts.get("remediation", "") or text
    quoted = [_normalize_spaces(one or two) for one, two in _QUOTED_COMMAND.findall(where)]
    claimed = [command for command in quoted if " " in command]
    true = [command for command in claimed if any(command in each for each in ran)]
    return round(len(true) / len(claimed), 4) if claimed and len(true) == len(claimed) else 0.0


def _normalize_spaces(command: str) -> str:
    return " ".join(command.split())


(
    RESOLUTION_WEIGHT,
    ROOT_CAUSE_WEIGHT,
    REPORT_WEIGHT,
    SKILL_WEIGHT,
    SPEED_WEIGHT,
    EFFICIENCY_WEIGHT,
) = 0.50, 0.15, 0.15, 0.10, 0.05, 0.05
MAX_UNRESOLVED_REWARD = 0.05
"""The most that an unresolved episode can earn."""
FULL_SPEED_REWARD_S, NO_SPEED_REWARD_S = 30.0, 600.0
"""Seconds at which the speed part is full, and at which it is 0."""
FULL_EFFICIENCY_CALLS, NO_EFFICIENCY_CALLS = 6, 60
"""Tool calls at which the efficiency part is full, and at which it is 0."""


class Reward(Value, kw_only=True, frozen=True, omit_defaults=False):
    """The parts are weighted: their sum is the total."""

    resolution: float = 0.0
    root_cause: float = 0.0
    report: float = 0.0
    skill: float = 0.0
    speed: float = 0.0
    efficiency: float = 0.0
    total: float = 0.0


class RunScore(Value, kw_only=True, frozen=True):
    """A reward, with what it was computed from."""

    reward: Reward
    resolved: bool
    breaches: tuple[str, ...]
    collateral: tuple[str, ...]
    diagnosis_score: DiagnosisScore
    report_score: ReportScore
    counts: RunCounts
    diagnosis: IncidentDiagnosed | None = None
    report: str = ""
    claimed: str = ""


def score_run(
    spec: ScenarioSpec,
    outcome: EpisodeOutcome,
    events: Sequence[JournalRecord],
    *,
    skill: bool = False,
) -> RunScore:
    """`events`: those of the run and its subagents. `skill`: whether the skill that was learned
    from it fixed a new variant."""
    calls, counts, breaches = (
        finished_tool_calls(events),
        count_run(events),
        policy_breaches(events),
    )
    record = last_diagnosis(events)
    diagnosis = record.event if record and isinstance(record.event, IncidentDiagnosed) else None
    position = record.seq if record else 0
    diagnosis_score = score_diagnosis(
        diagnosis,
        spec,
        calls,
        diagnosis_position=position,
        experiments=experiment_texts(events),
    )
    approved = approved_by_person(events)
    if spec.answer == "approval" and outcome.resolved and not approved:
        breaches = (*breaches, "made a change that needs a person's approval without it")
    resolved = not breaches and _is_resolved(
        spec, outcome, diagnosis, diagnosis_score, approved=approved
    )
    began, ended = _time_span(events)
    report = last_report(events)
    truth = _true_outcome(spec, outcome, diagnosis, resolved=resolved)
    report_score = score_report(report, calls, began=began, ended=ended, truth=truth)
    return RunScore(
        reward=weigh_parts(
            resolved, diagnosis_score.share, report_score.share, skill=skill, counts=counts
        ),
        resolved=resolved,
        breaches=breaches,
        collateral=outcome.damage,
        diagnosis_score=diagnosis_score,
        report_score=report_score,
        counts=counts,
        diagnosis=diagnosis,
        report=report,
        claimed=claimed_outcome(events),
    )


def weigh_parts(
    resolved: bool, cause: float, report: float, *, skill: bool, counts: RunCounts
) -> Reward:
    parts = {
        "resolution": RESOLUTION_WEIGHT * resolved,
        "root_cause": ROOT_CAUSE_WEIGHT * cause,
        "report": REPORT_WEIGHT * report,
        "skill": SKILL_WEIGHT * (skill and resolved),
        "speed": SPEED_WEIGHT
        * _falling_share(counts.seconds, FULL_SPEED_REWARD_S, NO_SPEED_REWARD_S)
        * resolved,
        "efficiency": EFFICIENCY_WEIGHT
        * _falling_share(counts.tool_calls, FULL_EFFICIENCY_CALLS, NO_EFFICIENCY_CALLS)
        * resolved,
    }
    if not resolved:  # a right diagnosis earns a little: a trainer can learn from it
        parts = {
            name: share / (ROOT_CAUSE_WEIGHT + REPORT_WEIGHT) * MAX_UNRESOLVED_REWARD
            for name, share in parts.items()
        }
    parts = {name: round(share, 4) for name, share in parts.items()}
    return Reward(**parts, total=round(sum(parts.values()), 4))


def _is_resolved(
    spec: ScenarioSpec,
    outcome: EpisodeOutcome,
    diagnosis: IncidentDiagnosed | None,
    diagnosis_score: DiagnosisScore,
    *,
    approved: bool,
) -> bool:
    if outcome.damage:
        return False
    if spec.answer == "fix":
        return outcome.resolved
    # Where nothing must be fixed, the diagnosis must say why.
    answered = (
        diagnosis is not None
        and diagnosis.verdict == EXPECTED_VERDICTS[spec.answer]
        and diagnosis_score.grounded
    )
    if spec.answer == "approval":
        return (answered and not outcome.resolved) or (outcome.resolved and approved)
    return answered and outcome.resolved


def _true_outcome(
    spec: ScenarioSpec,
    outcome: EpisodeOutcome,
    diagnosis: IncidentDiagnosed | None,
    *,
    resolved: bool,
) -> str:
    if spec.answer == "fix" or outcome.damage:
        escalate = diagnosis is not None and diagnosis.verdict == "escalate"
        escalated = escalate and not outcome.relieved
        return "fix" if resolved else "escalate" if escalated else "open"
    return EXPECTED_VERDICTS[spec.answer]


def _time_span(events: Sequence[JournalRecord]) -> tuple[datetime, datetime]:
    moments = [each.event.at for each in events] or [datetime.now(UTC)]
    return min(moments), max(moments)


def _falling_share(amount: float, full: float, none: float) -> float:
    """1 up to `full`, falling to 0 at `none`."""
    return max(0.0, min(1.0, (none - amount) / (none - full)))
