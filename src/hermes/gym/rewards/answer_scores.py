"""Scores the answer of a responder: its diagnosis, with evidence, and its report."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.messages import Value
from hermes.core.tool_calls import RecordedCall
from hermes.gym.scenario_spec import FaultDescription, ScenarioSpec

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
) -> DiagnosisScore:
    """`diagnosis_position`: evidence from calls that finished after it does not count."""
    if diagnosis is None or _is_list_of_guesses(diagnosis, spec):
        return DiagnosisScore()
    faults = [_score_fault(diagnosis, fault, spec) for fault in spec.faults]
    evidence = [
        _score_evidence(diagnosis.evidence, fault, calls, diagnosis_position)
        for fault in spec.faults
    ]
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
    """Which parts name this fault. The limits on length grow with the number of faults."""
    count = len(spec.faults)
    lured = any(_mentions_any(diagnosis.component, decoy.component) for decoy in spec.decoys)
    component = len(diagnosis.component) <= MAX_COMPONENT_CHARS * count and not lured
    component = component and _mentions_any(diagnosis.component, fault.component)
    mechanism = len(diagnosis.mechanism) <= MAX_MECHANISM_CHARS * count and _mentions_any(
        diagnosis.mechanism, fault.mechanism
    )
    value = component and mechanism
    if fault.value:
        value = len(diagnosis.value) <= MAX_VALUE_CHARS * count and _mentions_any(
            diagnosis.value, fault.value
        )
    return component, mechanism, value


def _score_evidence(
    positions: Sequence[int],
    fault: FaultDescription,
    calls: Sequence[RecordedCall],
    diagnosis_position: int,
) -> float:
    earlier = {
        call.finished_seq: call
        for call in calls
        if not diagnosis_position or call.finished_seq < diagnosis_position
    }
    if not positions or any(each not in earlier for each in positions):
        return 0.0
    wordings = (*fault.component, *fault.value, *fault.mechanism)
    outputs = [earlier[each].output for each in positions if not _is_echo(earlier[each])]
    return 1.0 if any(_mentions_any(output, wordings) for output in outputs) else 0.5


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
