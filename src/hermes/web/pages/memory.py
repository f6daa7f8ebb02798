"""The pages of the memory: facts by words, and one fact with what it comes from."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hermes.plumbing.http_service import HttpRequest
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
from hermes.web.pages.paging import page_address, query_text, whole_number

ENDED = "ended"


class FactViews(Protocol):
    """What the person may read. Methods may raise `HermesError`."""

    async def facts(
        self, words: str = "", *, person: str, state: str = "current", limit: int, skip: int = 0
    ) -> Sequence[Mapping[str, Any]]: ...

    async def fact(self, id: str, *, person: str) -> Mapping[str, Any]: ...

    async def forget(self, id: str, *, person: str) -> str:
        """Returns one line about what was done."""
        ...


def memory_pages(views: FactViews) -> PageSet:
    async def search(request: HttpRequest, visitor: Visitor) -> PageContext:
        words, skip = query_text(request, "q"), whole_number(request, "skip")
        state = ENDED if request.query.get("state") == ENDED else "current"
        found = await views.facts(
            words, person=visitor.person, state=state, limit=MAX_ROWS + 1, skip=skip
        )
        more = page_address(request, skip=skip + MAX_ROWS) if len(found) > MAX_ROWS else ""
        return {"facts": found[:MAX_ROWS], "words": words, "state": state, "older": more}

    async def show(request: HttpRequest, visitor: Visitor) -> PageContext:
        return {"fact": await views.fact(request.params["id"], person=visitor.person)}

    async def forget(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        text = await views.forget(request.params["id"], person=visitor.person)
        return Submitted("/memory", text)

    return PageSet(
        pages=[
            Page("memory", "/memory", "memory.html", search, live=("memory.noted",)),
            Page("memory", "/memory/{id}", "fact.html", show, live=("memory.",)),
        ],
        forms=[Form("/memory/{id}/forget", forget)],
    )
