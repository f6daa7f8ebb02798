"""The pages of skills: all of them, and one with its proofs, uses and text."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

from hermes.plumbing.http_service import HttpRefusal, HttpRequest
from hermes.web.pages import (
    MAX_ROWS,
    Form,
    FormFields,
    Page,
    PageContext,
    PageSet,
    Submitted,
    Visitor,
)
from hermes.web.pages.paging import cut_page, query_text

STATES = ("trusted", "validated", "compiled", "draft", "retired")


class SkillViews(Protocol):
    """Methods may raise `HermesError`."""

    async def skills(self, *, state: str = "", words: str = "") -> Sequence[Mapping[str, Any]]: ...
    async def skill(self, name: str) -> Mapping[str, Any]: ...

    async def retire(self, name: str, *, back: bool, reason: str, person: str) -> str:
        """Returns one line about what was done."""
        ...


def skill_pages(views: SkillViews) -> PageSet:
    async def show_all(request: HttpRequest, visitor: Visitor) -> PageContext:
        state, words = query_text(request, "state"), query_text(request, "q")
        if state and state not in STATES:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "there is no such state of skills")
        every = await views.skills(words=words)
        counts = {name: sum(each["state"] == name for each in every) for name in STATES}
        chosen = [each for each in every if state in ("", each["state"])]
        part = cut_page(chosen, request, MAX_ROWS)
        return {
            "skills": part.rows,
            "older": part.older,
            "counts": counts,
            "every": len(every),
            "state": state,
            "words": words,
        }

    async def show(request: HttpRequest, visitor: Visitor) -> PageContext:
        return {"skill": await views.skill(request.params["name"])}

    async def retire(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        name = request.params["name"]
        text = await views.retire(
            name,
            back=fields.get("back", "") == "yes",
            reason=fields.get("reason", "").strip(),
            person=visitor.person,
        )
        return Submitted(f"/skills/{quote(name, safe='')}", text)

    return PageSet(
        pages=[
            Page("skills", "/skills", "skills.html", show_all, live=("skill.",)),
            Page("skills", "/skills/{name}", "skill.html", show, live=("skill.",)),
        ],
        forms=[Form("/skills/{name}/retire", retire)],
    )
