"""The report: are its sections there, and do its times, commands and outcome hold?"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hermes.core.messages import Value
from hermes.gym.tally import Deed

SECTIONS = {
    "impact": ("impact", "summary", "what happened"),
    "timeline": ("timeline", "chronology", "sequence of events"),
    "cause": ("root cause", "cause", "diagnosis", "what is known"),
    "remediation": ("remediation", "resolution", "fix", "actions taken", "what was done"),
    "verification": ("verification", "verified", "outcome", "result"),
    "prevention": ("prevention", "follow-up", "follow up", "lessons", "next steps"),
}
LEAST = 25
"""Characters below a heading that count as having said something."""
LONGEST = 20_000
SLACK = timedelta(seconds=90)
_HEADING = re.compile(r"^(?:#{1,4}\s*|\*\*)(.+?)(?:\*\*)?:?\s*$", re.MULTILINE)
_TIME = re.compile(r"(?<![\d:.])([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?(?![\d:])")
_QUOTED = re.compile(r"`([^`\n]{3,400})`|^\s*\$ (.{3,400})$", re.MULTILINE)
_OUTCOME = re.compile(r"(?:outcome|status|result)\W{1,6}([a-z][a-z -]{2,40})", re.IGNORECASE)
_SAID: tuple[tuple[str, str], ...] = (
    (r"\b(not|un|never)\W?(yet )?(resolved|fixed|mended)", "open"),
    (r"\b(no incident|false alarm|not an incident|no-incident)", "no-incident"),
    (r"\b(already recovered|recovered)", "recovered"),
    (r"\b(escalat|approval|handed over)", "escalate"),
    (r"\b(resolved|fixed|mended|restored)", "fix"),
    (r"\b(open|ongoing|failed)", "open"),
)


class Checked(Value, kw_only=True, frozen=True):
    """What of a report holds, each from 0 to 1."""

    sections: float = 0.0
    times: float = 0.0
    commands: float = 0.0
    outcome: bool = False
    """False when it says something else than what came to pass, or nothing."""

    @property
    def share(self) -> float:
        if not self.outcome or not self.sections:
            return 0.0
        return round(
            0.3 * self.sections + 0.25 * self.times + 0.25 * self.commands + 0.2 * self.outcome, 4
        )


def judge_report(
    text: str, done: Sequence[Deed], *, began: datetime, ended: datetime, truth: str
) -> Checked:
    """`truth` is what came to pass: fix, no-incident, recovered, escalate or open."""
    if not text.strip() or len(text) > LONGEST:
        return Checked()
    parts = sections(text)
    return Checked(
        sections=round(len(parts) / len(SECTIONS), 4),
        times=_times(parts.get("timeline", ""), began, ended),
        commands=_commands(text, parts, done),
        outcome=said_outcome(text) == truth,
    )


def sections(text: str) -> dict[str, str]:
    """Those that are there and say something."""
    found: dict[str, str] = {}
    headings = list(_HEADING.finditer(text))
    for place, heading in enumerate(headings):
        end = headings[place + 1].start() if place + 1 < len(headings) else len(text)
        body = text[heading.end() : end].strip()
        title = heading.group(1).strip().lower()
        for name, words in SECTIONS.items():
            if name not in found and len(body) >= LEAST and any(word in title for word in words):
                found[name] = body
                break
    return found


def said_outcome(text: str) -> str:
    """What the report says came to pass; the last word on it counts."""
    said = [match.group(1).lower() for match in _OUTCOME.finditer(text)]
    for words in reversed(said):
        for pattern, meaning in _SAID:
            if re.search(pattern, words):
                return meaning
    return ""


def _times(timeline: str, began: datetime, ended: datetime) -> float:
    """Two or more, in order, and none outside of the incident; in UTC or this machine's time."""
    for zone in (UTC, None):
        first, last = began.astimezone(zone) - SLACK, ended.astimezone(zone) + SLACK
        moments = [_moment(match, first) for match in _TIME.finditer(timeline)]
        right = [first <= moment <= last for moment in moments]
        if len(moments) >= 2 and all(right) and moments == sorted(moments):
            return 1.0
    return 0.0


def _moment(match: re.Match[str], near: datetime) -> datetime:
    hour, minute, second = (int(part or 0) for part in match.groups())
    moment = near.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return moment + timedelta(days=1) if moment < near - timedelta(hours=12) else moment


def _commands(text: str, parts: dict[str, str], done: Sequence[Deed]) -> float:
    """Every command that it quotes was run, and at least one is quoted."""
    ran = [_plain(deed.command) for deed in done]
    where = parts.get("remediation", "") or text
    quoted = [_plain(one or two) for one, two in _QUOTED.findall(where)]
    claimed = [command for command in quoted if " " in command]
    true = [command for command in claimed if any(command in each for each in ran)]
    return round(len(true) / len(claimed), 4) if claimed and len(true) == len(claimed) else 0.0


def _plain(command: str) -> str:
    return " ".join(command.split())
