"""The moments of an incident, each in one line, in the order in which they came."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from hermes.core.events.approvals import ApprovalRequested, ApprovalSettled
from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    ChangesUndone,
    IncidentAcknowledged,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentGraded,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    IncidentVerified,
    LayerInvestigated,
    PhaseEntered,
)
from hermes.core.events.skills import PlaybookEnded, PlaybookStarted
from hermes.core.messages import Value
from hermes.core.protocols import Recorded
from hermes.sre.report.markdown import one_line
from hermes.sre.report.statements import not_matched, unchecked
from hermes.sre.report.times import lasting
from hermes.sre.report.told import Deed, deeds, refusals

MOST = 60
LINE = 140
SHORT = 80
PARTS = 8


class Moment(Value, kw_only=True, frozen=True):
    at: datetime
    seq: int
    text: str
    """Plain words, some of them by others: every view escapes them."""
    kind: str = ""


def timeline(records: Sequence[Recorded]) -> list[Moment]:
    """By the clock; the clocks of several processes may differ by a little."""
    told = [
        Moment(at=each.event.at, seq=each.seq, text=text, kind=each.event.kind)
        for each in records
        if (text := _said(each.event))
    ]
    done = deeds(records)
    told += [
        Moment(at=deed.at, seq=deed.seq, text=_done(deed), kind="change")
        for deed in done
        if deed.changed
    ]
    told += _turned_down(records)
    told += _did_not_match(records)
    return sorted(told, key=lambda moment: (moment.at, moment.seq))


def shortened(moments: Sequence[Moment], most: int = MOST) -> tuple[list[Moment], int]:
    """Its beginning and its end, and how many were left out between them."""
    if len(moments) <= most:
        return list(moments), 0
    head = most // 2
    return [*moments[:head], *moments[len(moments) - (most - head) :]], len(moments) - most


def clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H:%M:%S}"


def _done(deed: Deed) -> str:
    who = f" ({deed.by})" if deed.by else ""
    how = {"ok": "", "failed": f": {deed.detail}", "cut off": ": cut off before its result"}
    return f"change{who}: {one_line(deed.command, LINE)}{how[deed.ending]}"


def _turned_down(records: Sequence[Recorded]) -> list[Moment]:
    """Each with the time of the wish."""
    when = {one_line(each.command): each.why for each in refusals(records) if not each.waiting}
    found = []
    for each in records:
        command = getattr(each.event, "command", "") or _asked(each.event)
        why = when.pop(one_line(command), "") if each.event.kind == "tool.requested" else ""
        if why:
            text = f"refused: {one_line(command, LINE)} ({one_line(why, LINE)})"
            found.append(Moment(at=each.event.at, seq=each.seq, text=text, kind="refused"))
    return found


def _did_not_match(records: Sequence[Recorded]) -> list[Moment]:
    """Dozens of playbooks look: that is one moment, and one for each reason not to have looked."""
    ends = [each for each in records if isinstance(each.event, PlaybookEnded)]
    if not ends:
        return []
    last = next((each for each in reversed(ends) if _declined(each.event)), ends[-1])
    texts = [f"playbooks that could not be checked: {len(e.skills)} ({one_line(e.why, LINE)})"
             for e in unchecked(records)]  # fmt: skip
    if absent := not_matched(records):
        texts.insert(0, f"playbooks that did not find their fault: {len(absent)}")
    return [
        Moment(at=last.event.at, seq=last.seq, text=text, kind=last.event.kind) for text in texts
    ]


def _declined(event: object) -> bool:
    return isinstance(event, PlaybookEnded) and event.outcome == "declined"


def _asked(event: object) -> str:
    call = getattr(event, "call", None)
    given = getattr(call, "arguments", {})
    command = given.get("command", "")
    return command if isinstance(command, str) else ""


def _said(event: object) -> str:
    teller = _TELLERS.get(type(event))
    return teller(event) if teller else ""


def _raised(event: AlertRaised) -> str:
    what = "alert resolved" if event.resolved else "alert"
    source = one_line(event.source or "an unknown source", 40)
    return f"{what} from {source}: {one_line(event.title, LINE)}"


def _opened(event: IncidentOpened) -> str:
    reason = f" ({one_line(event.reason, LINE)})" if event.reason else ""
    return f"incident opened as {event.severity}{reason}"


def _joined(event: AlertsJoined) -> str:
    why = f": {one_line(event.why, LINE)}" if event.why else ""
    parts = ", ".join(one_line(part.name, 40) for part in event.parts[:PARTS])
    more = f" and {len(event.parts) - PARTS} more" if len(event.parts) > PARTS else ""
    also = f"also failing: {parts}{more}; " if parts else ""
    return f"{also}alerts that joined: {event.count}{why}"


def _graded(event: IncidentGraded) -> str:
    by = f" by {one_line(event.by, 40)}" if event.by else ""
    reason = f": {one_line(event.reason, LINE)}" if event.reason else ""
    return f"severity {event.before} becomes {event.severity}{by}{reason}"


def _acknowledged(event: IncidentAcknowledged) -> str:
    return f"acknowledged by {one_line(event.by, 40)}"


def _reopened(event: IncidentReopened) -> str:
    reason = f": {one_line(event.reason, LINE)}" if event.reason else ""
    return f"opened again by {one_line(event.by, 40)}{reason}"


def _recovered(event: IncidentRecovered) -> str:
    how = f": {one_line(event.how, LINE)}" if event.how else ""
    return f"recovered at {clock(event.recovered_at)} UTC{how}"


def _phase(event: PhaseEntered) -> str:
    attempt = f", attempt {event.attempt}" if event.attempt else ""
    detail = f": {one_line(event.detail, LINE)}" if event.detail else ""
    gap = ""
    if event.resumed:
        gap = f"resumed after {lasting(event.gap)} in which nothing was recorded: "
    return f"{gap}{event.phase}{attempt}{detail}"


def _layer(event: LayerInvestigated) -> str:
    if event.status == "working":
        return ""
    if event.status == "failed":
        return f"investigator of {one_line(event.layer, 40)} failed"
    found = one_line("; ".join(event.findings), LINE) or "nothing of note"
    return f"investigator of {one_line(event.layer, 40)}: {found}"


def _diagnosed(event: IncidentDiagnosed) -> str:
    what = one_line(" ".join(part for part in (event.component, event.mechanism) if part), LINE)
    if event.verdict == "escalate":
        known = f"; seen so far, not proved: {what}" if event.mechanism else "; no cause is known"
        return f"handed over to people{known}"
    named = f": {what}" if event.mechanism else ""
    return f"diagnosis ({event.verdict}, confidence {event.confidence:.0%}){named}"


def _undone(event: ChangesUndone) -> str:
    failed = f", {len(event.failed)} could not be" if event.failed else ""
    reason = f": {one_line(event.reason, LINE)}" if event.reason else ""
    return f"changes undone: {len(event.calls)}{failed}{reason}"


def _verified(event: IncidentVerified) -> str:
    if event.by == "oracle":
        return ""
    took = f" (the verification took {lasting(event.seconds)})" if event.seconds else ""
    return f"checks passed{took}" if event.ok else "checks did not pass"


def _closed(event: IncidentClosed) -> str:
    if event.by == "oracle":
        return ""
    by = f" by {one_line(event.by, 40)}" if event.by else ""
    reason = f": {one_line(event.reason, LINE)}" if event.reason else ""
    if event.outcome == "escalated":
        return f"escalated to people{reason}"
    return f"closed{by} as {event.outcome}{reason}"


def _played(event: PlaybookStarted) -> str:
    return "" if event.dry else f"playbook {one_line(event.skill, 60)} begins"


def _ended(event: PlaybookEnded) -> str:
    detail = f": {one_line(event.detail, LINE)}" if event.detail else ""
    if event.dry or _declined(event):
        return ""
    return f"playbook {one_line(event.skill, 60)} {event.outcome}{detail}"


def _requested(event: ApprovalRequested) -> str:
    return f"approval asked for: {one_line(event.shown, SHORT)}"


def _settled(event: ApprovalSettled) -> str:
    by = f" by {one_line(', '.join(event.by), 60)}" if event.by else ""
    return f"approval {event.outcome}{by}"


_TELLERS: dict[type, Callable[..., str]] = {
    AlertRaised: _raised,
    IncidentOpened: _opened,
    AlertsJoined: _joined,
    IncidentGraded: _graded,
    IncidentAcknowledged: _acknowledged,
    IncidentReopened: _reopened,
    IncidentRecovered: _recovered,
    PhaseEntered: _phase,
    LayerInvestigated: _layer,
    IncidentDiagnosed: _diagnosed,
    ChangesUndone: _undone,
    IncidentVerified: _verified,
    IncidentClosed: _closed,
    PlaybookStarted: _played,
    PlaybookEnded: _ended,
    ApprovalRequested: _requested,
    ApprovalSettled: _settled,
}
