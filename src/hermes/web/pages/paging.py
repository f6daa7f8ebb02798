"""Pages of long lists: how many rows to skip is in the address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from hermes.plumbing.http_service import HttpRefusal, HttpRequest

MAX_SKIPPED_ROWS = 1_000_000
MAX_QUERY_CHARS = 200


@dataclass(frozen=True)
class PagePart:
    rows: Sequence[Any]
    older: str
    """The address of the rest; empty at the end."""


def cut_page(rows: Sequence[Any], request: HttpRequest, most: int) -> PagePart:
    """The rows that this request asks for. Raises `HttpRefusal`."""
    skip = whole_number(request, "skip")
    more = page_address(request, skip=skip + most) if len(rows) > skip + most else ""
    return PagePart(rows[skip : skip + most], more)


def page_address(request: HttpRequest, path: str = "", **changed: object) -> str:
    """The address of this page, with some fields of its query changed."""
    query: Mapping[str, object] = {**request.query, **changed}
    kept = {name: value for name, value in query.items() if value not in ("", None, 0)}
    return f"{path}?{urlencode(kept)}"


def query_text(request: HttpRequest, name: str) -> str:
    """A field of the query, cut to the longest plausible length."""
    return request.query.get(name, "").strip()[:MAX_QUERY_CHARS]


def whole_number(request: HttpRequest, name: str) -> int:
    """0 where it is not given. Raises `HttpRefusal`."""
    text = request.query.get(name, "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or int(text[:18]) > MAX_SKIPPED_ROWS:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, f"`{name}` is not a number of rows")
    return int(text)
