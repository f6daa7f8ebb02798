"""Finds the question somebody means, and puts it into words."""

from datetime import UTC, datetime, timedelta

from hermes.app.approving import lives
from hermes.cli.render_lines import duration
from hermes.cli.stored import ask_journal
from hermes.core.errors import HermesError
from hermes.core.protocols import Journal
from hermes.memory.opening import Store, exists
from hermes.policy.approvals_past import Past, Question, recall_approvals
from hermes.settings.load import Loaded

LATELY = timedelta(days=30)


def recalled(loaded: Loaded) -> Past:
    """What was asked lately; nothing when there is no journal yet."""
    if not exists(loaded.store):
        return Past()

    async def ask(journal: Store) -> Past:
        return await recall_approvals(journal, since=datetime.now(UTC) - LATELY)

    return ask_journal(loaded, ask)


async def find(journal: Journal, wanted: str) -> Question:
    """By id, its beginning or end; the only open one when nothing is said."""
    now = datetime.now(UTC)
    past = await recall_approvals(journal, since=now - LATELY)
    if not wanted:
        return _only(list(past.open(now)))
    if wanted in past.questions:
        return past.questions[wanted]
    found = [
        each for id, each in past.questions.items() if id.startswith(wanted) or id.endswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(each.request.approval for each in found[:5])
        raise HermesError(f"{wanted!r} may be {names}; say more of it")
    raise HermesError(f"there is no question {wanted!r}; `hermes approvals list` shows them")


def _only(waiting: list[Question]) -> Question:
    if len(waiting) == 1:
        return waiting[0]
    if not waiting:
        raise HermesError("nothing waits for an answer")
    names = "\n".join(f"  {each.request.approval}  {each.request.shown[:60]}" for each in waiting)
    raise HermesError(f"{len(waiting)} wait for an answer; say which:\n{names}")


def in_words(question: Question, loaded: Loaded) -> dict[str, object]:
    """Everything about one question, for people and for programs."""
    request, tally, now = question.request, question.tally, datetime.now(UTC)
    return {
        "id": request.approval,
        "state": question.state(now),
        "action": request.shown,
        "tool": request.tool,
        "effects": list(request.effects),
        "rule": request.rule,
        "reason": request.reason,
        "undo": request.undo,
        "place": request.place,
        "tainted": request.tainted,
        "requester": request.requester,
        "approvers": list(request.approvers),
        "escalated": list(tally.escalated),
        "count": request.count,
        "approved_by": list(tally.yes),
        "denied_by": tally.no,
        "asked_at": request.at.isoformat(),
        "until": request.until.isoformat() if request.until else "",
        "run": request.run,
        "subagent": request.run.partition("/")[2],
        "running": lives(loaded, request.run),
        "hash": request.hash,
    }


def left(question: Question) -> str:
    until = question.request.until
    if until is None:
        return ""
    seconds = (until - datetime.now(UTC)).total_seconds()
    return duration(seconds) if seconds > 0 else "over"
