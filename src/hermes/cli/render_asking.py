"""What people were asked and what came of it, in words for those who read along."""

from hermes.cli.render_lines import call_line, duration
from hermes.cli.render_safe import clean, clip
from hermes.core.events.approvals import (
    ActionAnnounced,
    ApprovalEscalated,
    ApprovalEvent,
    ApprovalRequested,
    ApprovalSettled,
)
from hermes.core.events.tools import ToolApproved, ToolDecided, ToolRequested

ASKING = (ApprovalRequested, ApprovalEscalated, ApprovalSettled, ActionAnnounced)
"""Events worth a line."""
_OUTCOMES = {
    "approved": "approved",
    "denied": "denied",
    "expired": "nobody approved it in time",
    "changed": "what it would do has changed: not run",
}


def asking_words(event: ApprovalEvent, width: int) -> list[str]:
    """Nothing is said twice: what was asked and answered at this terminal has been seen there."""
    if isinstance(event, ApprovalRequested) and not event.prompted:
        what = clip(clean(event.shown), max(width - 24, 10))
        return [
            f"⏳ waits for approval: {what}",
            f"  hermes approvals approve {event.approval}   (or deny, or show)",
        ]
    if isinstance(event, ActionAnnounced) and not event.prompted:
        what = clip(clean(event.shown), max(width - 24, 10))
        return [
            f"📣 in {duration(event.seconds)}: {what}",
            f"  hermes approvals stop {event.approval}   keeps it from being done",
        ]
    if isinstance(event, ApprovalEscalated):
        return [f"⏳ nobody answered yet: {clean(', '.join(event.to))} may answer as well"]
    return _settled(event) if isinstance(event, ApprovalSettled) else []


def _settled(event: ApprovalSettled) -> list[str]:
    notes = [clean(event.note)] if event.note else []
    if event.via == "terminal" or event.outcome == "withdrawn":
        return notes
    by = f" by {clean(', '.join(event.by))}" if event.by else ""
    via = f" ({clean(event.via)})" if event.via else ""
    silent = event.outcome in ("approved", "denied") and not event.by
    return notes if silent else [f"⏳ {_OUTCOMES[event.outcome]}{by}{via}", *notes]


class Refused:
    """What was not done because nobody could be asked."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolRequested] = {}
        self._whys: dict[str, str] = {}
        self._refused: dict[str, None] = {}

    def feed(self, event: object) -> None:
        if isinstance(event, ToolRequested):
            self._calls[event.call.id] = event
        elif isinstance(event, ToolDecided) and event.verdict == "ask":
            because = f": {event.reason}" if event.reason else ""
            self._whys[event.call_id] = f"rule {event.rule}{because}"
        elif isinstance(event, ToolApproved):
            asked = self._calls.get(event.call_id)
            if asked is not None and not event.approved and event.by == "nobody":
                why = self._whys.get(event.call_id, "")
                self._refused[f"  {call_line(asked.call, 80)}  ({why})"] = None

    def hint(self) -> str:
        """How to allow what was refused; empty when nothing was."""
        if not self._refused:
            return ""
        return "\n".join(
            (
                "not run, because nobody is here to approve it:",
                *self._refused,
                "To allow it: approve it in a conversation (`hermes`), let others answer "
                "(`hermes -s policy.wait=true ...`, then `hermes approvals`), or work where it can "
                "do no harm (`hermes -s terminal.backend=sandbox ...`).",
            )
        )
