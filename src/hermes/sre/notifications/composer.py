"""Decides which notifications are due, for which sinks, and limits their rate."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from hermes.core.channels import Button, PressVerb, press_data
from hermes.core.events.incidents import AlertsJoined, IncidentGraded
from hermes.core.events.operations import (
    NotificationKind,
    NotificationQueued,
)
from hermes.core.incident import WATCH_RUN, Incident
from hermes.core.notifications import SinkFilter
from hermes.sre.notifications import templates
from hermes.sre.notifications.notification_state import NotificationState, part_notice_id
from hermes.sre.notifications.templates import NotificationText
from hermes.sre.settings import NoticeSettings

MAX_UNSENT_AGE = timedelta(hours=1)
"""Older notifications that were never sent are dropped; the briefing contains them."""
MAX_SEPARATE_UPDATES = 3
"""More open incidents than this share one update."""
RATE_WINDOW = timedelta(minutes=1)
MAX_OUTAGE_HOLD = timedelta(seconds=5)
"""How long a new outage may wait to be combined with others, however many there are."""


@dataclass(frozen=True)
class _DueNotification:
    """A notification that is due; it is rendered only if it was not queued before."""

    notice: str
    kind: NotificationKind
    render: Callable[[], NotificationText]
    incident: str = ""
    severity: str = ""
    edits: str = ""
    buttons: tuple[tuple[Button, ...], ...] = ()
    to_all_sinks: bool = False
    """It concerns the watch itself: sent to every sink, whatever its filter."""


class NotificationComposer:
    """Keeps no state but since when notifications are held back to be combined."""

    def __init__(self, settings: NoticeSettings, wanted: Sequence[SinkFilter]) -> None:
        self._settings, self._filters = settings, tuple(wanted)
        self._held_since: dict[str, datetime] = {}

    def compose(self, state: NotificationState, now: datetime) -> list[NotificationQueued]:
        state.forget(now - MAX_UNSENT_AGE)
        found = [
            self._notice(due, now)
            for due in self._due_notifications(state, now)
            if due.notice not in state.queued
        ]
        return self._throttle(found, state, now)

    def _due_notifications(
        self, state: NotificationState, now: datetime
    ) -> Iterator[_DueNotification]:
        for id in state.active:
            yield from _state_notifications(state, id)
        for id, raised in state.severity_raises.items():
            yield _raise_notification(state.incidents[id], *raised)
        for seq, event in state.joined_parts.items():
            yield _part_notification(state.incidents[event.incident], seq, event)
        yield from map(partial(_acknowledgement, state), state.acknowledgements)
        for approval, (request, id) in state.pending_approvals.items():
            incident = state.incidents[id]
            render = partial(templates.render_approval, request, incident)
            yield _incident_notification(
                incident, "approval-needed", f"approval:{approval}", render
            )
        for seq, missed in state.missed_rounds.items():
            yield _DueNotification(
                f"health:missed:{seq}", "health", partial(templates.render_missed_rounds, missed)
            )
        for notice, home_event in state.home_events.items():
            render = partial(templates.render_home_event, home_event)
            yield _DueNotification(notice, "health", render, to_all_sinks=True)
        yield from self._updates(state, now)
        for id, ended in state.builtin_results.items():
            render = partial(templates.render_builtin_result, ended)
            yield _DueNotification(id, "briefing", render)

    def _updates(self, state: NotificationState, now: datetime) -> Iterator[_DueNotification]:
        every = self._settings.update
        if every <= 0:
            return
        due = []
        for incident in (state.incidents[id] for id in state.active):
            passed = int((now - incident.details.opened_at).total_seconds() // every)
            if incident.status == "open" and not incident.question and passed >= 1:
                due.append((incident, f"update:{passed}"))
        if len(due) > MAX_SEPARATE_UPDATES:
            gravest = min(incident.severity for incident, _ in due)
            render = partial(templates.render_updates, [incident for incident, _ in due], now)
            id = f"{WATCH_RUN}:update:{int(now.timestamp() // every)}"
            yield _DueNotification(id, "update", render, severity=gravest)
            return
        for incident, name in due:
            id = incident.details.incident
            doing = state.activities.get(id, "")
            asked = [request for request, about in state.pending_approvals.values() if about == id]
            render = partial(templates.render_update, incident, doing, asked, now)
            due_now = _incident_notification(incident, "update", name, render)
            yield dataclasses.replace(due_now, edits=state.first_updates.get(id, ""))

    def _throttle(
        self, found: Sequence[NotificationQueued], state: NotificationState, now: datetime
    ) -> list[NotificationQueued]:
        """Limit the rate; what is not urgent is held back and combined."""
        recent = sum(now - at < RATE_WINDOW for at in state.queued_at)
        allowed = max(0, self._settings.most - recent)
        urgent = [each for each in found if _is_urgent(each)]
        others = [each for each in found if not _is_urgent(each)]
        others.sort(key=lambda each: each.about != "declared")
        at_once, late = others[:allowed], others[allowed:]
        late = [each for each in late if each.about != "update"]  # the next one is more recent
        self._held_since = {each.notice: self._held_since.get(each.notice, now) for each in late}
        if any(now - self._held_since[each.notice] >= self._max_hold(each) for each in late):
            self._held_since = {}
            at_once.append(late[0] if len(late) == 1 else self._combine(late, now))
        return [*urgent, *at_once]

    def _max_hold(self, notice: NotificationQueued) -> timedelta:
        together = timedelta(seconds=self._settings.together)
        return min(together, MAX_OUTAGE_HOLD) if notice.about == "declared" else together

    def _combine(self, late: Sequence[NotificationQueued], now: datetime) -> NotificationQueued:
        gravest = min((each.severity for each in late if each.severity), default="")
        kind: NotificationKind = (
            "declared" if any(e.about == "declared" for e in late) else "update"
        )
        render = partial(templates.render_combined, [each.title for each in late])
        due = _DueNotification(f"storm:{late[0].notice}", kind, render, severity=gravest)
        return replace(
            self._notice(due, now),
            covers=tuple(each.notice for each in late),
            sinks=tuple({name: None for each in late for name in each.sinks}),
        )

    def _notice(self, due: _DueNotification, now: datetime) -> NotificationQueued:
        rendered = due.render()
        sinks = (
            each.sink
            for each in self._filters
            if due.to_all_sinks or each.takes(due.kind, due.severity)
        )
        return NotificationQueued(
            run=due.incident or WATCH_RUN,
            at=now,
            notice=due.notice,
            about=due.kind,
            title=rendered.title,
            text=rendered.text,
            incident=due.incident,
            severity=due.severity,
            sinks=tuple(sinks),
            edits=due.edits,
            buttons=due.buttons,
        )


def _state_notifications(state: NotificationState, id: str) -> Iterator[_DueNotification]:
    """The declaration of an incident, or its end."""
    incident = state.incidents[id]
    if incident.recovered is not None:
        end = f"resolved:{state.ended[id]}"
        yield _incident_notification(
            incident, "resolved", end, partial(templates.render_recovered, incident)
        )
    elif incident.status == "open":
        yield _opening_notification(state, id, incident)
    elif incident.closed is not None:
        kind: NotificationKind = (
            "escalated" if incident.closed.outcome == "escalated" else "resolved"
        )
        end = f"{kind}:{state.ended[id]}"
        yield _incident_notification(incident, kind, end, partial(templates.render_ended, incident))


def _opening_notification(
    state: NotificationState, id: str, incident: Incident
) -> _DueNotification:
    seq, again = state.openings[id]
    render = partial(templates.render_declared, incident, again=again)
    if incident.question:
        render = partial(templates.render_question, incident)
    return _incident_notification(incident, "declared", f"declared:{seq}", render)


def _raise_notification(incident: Incident, seq: int, event: IncidentGraded) -> _DueNotification:
    """Sent as a declaration: further sinks may accept the higher severity."""
    render = partial(templates.render_declared, incident, change=event)
    return _incident_notification(incident, "declared", f"graver:{seq}", render)


def _acknowledgement(state: NotificationState, notice: str) -> _DueNotification:
    event = state.acknowledgements[notice]
    incident = state.incidents[event.incident]
    render = partial(templates.render_acknowledged, incident, event.by)
    return _DueNotification(
        notice, "update", render, incident=event.incident, severity=incident.severity
    )


def _part_notification(incident: Incident, seq: int, event: AlertsJoined) -> _DueNotification:
    """Sent as a separate declaration, to every sink that accepts declarations."""
    gravest = min(part.severity for part in event.parts)
    render = partial(templates.render_joined, incident, event)
    id = incident.details.incident
    return _DueNotification(
        part_notice_id(seq, event), "declared", render, incident=id, severity=gravest
    )


def _incident_notification(
    incident: Incident, kind: NotificationKind, name: str, render: Callable[[], NotificationText]
) -> _DueNotification:
    id = incident.details.incident
    return _DueNotification(
        f"{id}:{name}",
        kind,
        render,
        incident=id,
        severity=incident.severity,
        buttons=_incident_buttons(kind, id),
    )


def _incident_buttons(kind: NotificationKind, id: str) -> tuple[tuple[Button, ...], ...]:
    """Return what people can do about it with one press, where a channel has buttons."""
    labels: dict[NotificationKind, tuple[tuple[PressVerb, str], ...]] = {
        "declared": (
            ("ack", "👀 Acknowledge"),
            ("status", "Status"),
            ("mute", "🔇 Mute"),
            ("report", "Report"),
        ),
        "escalated": (("ack", "👀 Acknowledge"), ("status", "Status"), ("report", "Report")),
        "resolved": (("report", "Report"),),
    }
    if kind not in labels:
        return ()
    return (tuple(Button(label, press_data(verb, id)) for verb, label in labels[kind]),)


def _is_urgent(notice: NotificationQueued) -> bool:
    """It waits for an answer of a person, or it is a P0."""
    if notice.about in ("approval-needed", "briefing", "health"):
        return True
    return notice.severity == "P0" and notice.about != "update"
