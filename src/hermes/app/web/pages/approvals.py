"""The pages of approvals: who may answer what, and the answers."""

import hmac
import secrets
from datetime import UTC, datetime
from typing import Any, cast, get_args

from hermes.app.incidents.approval_answers import answer_approval, revoke_grant
from hermes.app.incidents.views import describe_approval
from hermes.app.people import PeopleRegister
from hermes.app.web.pages.journal_index import JournalIndex, today
from hermes.core.actions import why_not_always
from hermes.core.errors import HermesError, PolicyDenied
from hermes.gateway.answers import AnswerVerb
from hermes.memory.store import JournalStore
from hermes.policy.approvals.history import ApprovalQuestion
from hermes.settings.load import LoadedSettings
from hermes.web.api_routes import UnknownIdError
from hermes.web.pages import PageContext
from hermes.web.pages.approvals import PressedAnswer

VIA = "web"
HASH_CHARS = 12
YES_VERBS = ("once", "session", "always", "go")
IRREVERSIBLE_EFFECT = "irreversible"


class JournalApprovals:
    def __init__(self, loaded: LoadedSettings, journal: JournalStore, index: JournalIndex) -> None:
        self._loaded = loaded
        self._journal = journal
        self._index = index
        self._people = PeopleRegister(loaded, journal)
        self._key = secrets.token_bytes(32)

    async def approval_list(self, person: str, *, limit: int) -> PageContext:
        await self._index.refresh()
        why_not = (await self._people.current()).objection(person)
        settled = self._index.settled_questions(today(datetime.now(UTC)))
        waiting = self._index.open_questions()
        return {
            "waiting": [self._describe(each, person, why_not) for each in waiting[:limit]],
            "settled": [self._describe(each, person, why_not) for each in settled[:limit]],
            "grants": [
                {
                    "id": each.grant.id,
                    "shown": each.shown,
                    "by": ", ".join(each.grant.by),
                    "scope": each.grant.scope,
                    "rule": each.grant.rule,
                    "used": each.used,
                    "uses": each.grant.uses,
                    "until": each.expires_at,
                }
                for each in self._index.live_grants()[:limit]
            ],
        }

    async def approval_page(self, id: str, person: str, *, confirm: str = "") -> PageContext:
        await self._index.refresh()
        question = self._index.question(id)
        if question is None:
            raise UnknownIdError(f"there is no request {id!r} of the last 30 days")
        why_not = (await self._people.current()).objection(person)
        asked = confirm if self._is_irreversible_yes(question, confirm) else ""
        confirmation = self._confirmation(question, asked, person) if asked else ""
        described = self._describe(question, person, why_not)
        return {"each": described, "confirming": asked, "confirmation": confirmation}

    def _describe(self, question: ApprovalQuestion, person: str, why_not: str) -> dict[str, Any]:
        request, now = question.request, datetime.now(UTC)
        incident = request.run.partition("/")[0]
        approved = person in question.tally.yes
        return {
            **describe_approval(question, self._loaded),
            "is_open": question.is_open(now),
            "announced": bool(question.seconds),
            "short_hash": request.hash[:HASH_CHARS],
            "incident": incident if incident.startswith("inc") else "",
            "settled_by": ", ".join(question.settled.by) if question.settled else "",
            "settled_via": question.settled.via if question.settled else "",
            "settled_at": question.settled.at if question.settled else request.until,
            "note": question.settled.note if question.settled else "",
            "why_not_yes": why_not
            or question.tally.objection(person, approved=True)
            or ("you have approved it; others must, too" if approved else ""),
            "why_not_no": question.tally.objection(person, approved=False),
            "why_not_always": why_not_always(request),
        }

    def _is_irreversible_yes(self, question: ApprovalQuestion, verb: str) -> bool:
        return verb in YES_VERBS and IRREVERSIBLE_EFFECT in question.request.effects

    def _confirmation(self, question: ApprovalQuestion, verb: str, person: str) -> str:
        """Contained in the page that asks this person once more about exactly this, and nowhere
        else. It ends with this process."""
        request = question.request
        parts = "\n".join((request.approval, request.hash, verb, person))
        return hmac.new(self._key, parts.encode(), "sha256").hexdigest()

    async def answer(self, id: str, answer: PressedAnswer, *, person: str) -> str:
        verb = answer.verb
        if verb not in get_args(AnswerVerb):
            raise HermesError(f"an answer is one of: {', '.join(get_args(AnswerVerb))}")
        await self._index.refresh()
        question = self._index.question(id)
        if question is not None and question.request.hash and not answer.hash:
            raise PolicyDenied("the form does not say which action was shown; open the page again")
        if question is not None and self._is_irreversible_yes(question, verb):
            expected = self._confirmation(question, verb, person)
            if not hmac.compare_digest(expected.encode(), answer.confirmation.encode()):
                return ""
        outcome = await answer_approval(
            self._loaded,
            self._journal,
            id,
            cast("AnswerVerb", verb),
            person=person,
            via=VIA,
            hash=answer.hash,
            note=answer.note,
        )
        if outcome.refusal == "unknown":
            raise UnknownIdError(outcome.text)
        if not outcome.counts:
            raise PolicyDenied(outcome.text)
        return f"{outcome.approval}: {outcome.text}"

    async def revoke(self, grant: str, *, person: str) -> str:
        return f"{await revoke_grant(self._journal, grant, person=person)} is revoked"
