"""`GET /openapi.json`: the document of the API, made from the table of routes and its types."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hermes.plumbing.http_service import HttpReply, HttpRequest
from hermes.web.api_routes import ApiRoute, QueryParameter
from hermes.web.event_stream import STREAM_TYPE
from hermes.web.job_types import ScheduleText
from hermes.web.metrics import METRICS_CONTENT_TYPE

DOCUMENT_PATH = "/openapi.json"
BEARER, SIGNATURE = "token", "signature"
PROBLEM_TYPE = "application/problem+json"
KEY_HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key and request get the same answer for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
ERROR_TEXTS = {
    "400": "The request is not understood.",
    "401": "The token or the signature is missing, unknown, expired or revoked.",
    "403": "The token lacks the right, or the request is not allowed.",
    "404": "There is no such thing, or you may not see it.",
    "409": "It cannot be done now; the text says why.",
    "413": "The body is too large.",
    "415": "The body has a content encoding.",
    "421": "Without a token, only names of this machine are answered.",
    "422": "The words are no schedule, or the Idempotency-Key was used for another request.",
    "429": "Too many requests or streams; `Retry-After` says when to try again.",
    "503": "The journal cannot be used, or too much is going on; try again.",
}
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class ApiProblem(msgspec.Struct, kw_only=True, frozen=True):
    """An error outside of `/v1`, by RFC 9457."""

    title: str
    status: int
    detail: str


class OpenaiErrorDetail(msgspec.Struct, kw_only=True, frozen=True):
    message: str
    type: str
    param: str | None
    code: str


class OpenaiError(msgspec.Struct, kw_only=True, frozen=True):
    """An error under `/v1`, in the shape of OpenAI."""

    error: OpenaiErrorDetail


class PlainError(msgspec.Struct, kw_only=True, frozen=True):
    """An error of the other routes."""

    error: str


class WatchHealth(msgspec.Struct, kw_only=True, frozen=True):
    ok: bool
    wrong: list[str]
    heartbeat: str | None


class ServerReadiness(msgspec.Struct, kw_only=True, frozen=True):
    ok: bool
    wrong: list[str]


async def _served_elsewhere(request: HttpRequest) -> object:
    raise NotImplementedError("the watch serves this route")


WATCH_ROUTES = tuple(
    ApiRoute(respond=_served_elsewhere, method=method, path=path, about=about, **more)
    for method, path, about, more in (
        ("POST", "/alerts", "Alerts of Alertmanager (webhook version 4).",
         {"body": dict[str, Any], "answer": dict[str, Any]}),
        ("POST", "/alerts/generic", "One alert: `title`, and any of `text`, `labels`, `severity`.",
         {"body": dict[str, Any], "answer": dict[str, Any]}),
        ("GET", "/healthz", "Whether the watch works; 503 with the reasons where not.",
         {"answer": WatchHealth}),
        ("GET", "/readyz", "Whether requests can be sent here now; 503 with the reasons where not.",
         {"answer": ServerReadiness}),
        ("GET", "/metrics", "Figures in the text format of Prometheus.",
         {"content_type": METRICS_CONTENT_TYPE}),
    )
)  # fmt: skip
"""Routes that the watch serves also without the API: with `web.token_variable` in place of tokens.
"""


def describe_api(table: Sequence[ApiRoute], version: str) -> ApiRoute:
    """The route of the document about these routes, the watch's and itself."""
    encoded = b""

    async def respond(request: HttpRequest) -> HttpReply:
        nonlocal encoded
        encoded = encoded or msgspec.json.encode(build_document(rows, version))
        return HttpReply(body=encoded)

    own = ApiRoute(
        method="GET", path=DOCUMENT_PATH, about="This document.", respond=respond,
        answer=dict[str, Any],
    )  # fmt: skip
    rows = [*table, *WATCH_ROUTES, own]
    return own


def build_document(table: Sequence[ApiRoute], version: str) -> dict[str, Any]:
    types = [ApiProblem, OpenaiError, PlainError]
    types += [each for row in table for each in (row.body, row.answer) if each is not None]
    unique = list(dict.fromkeys(types))
    schemas, components = msgspec.json.schema_components(
        unique, ref_template="#/components/schemas/{name}"
    )
    schema_of = dict(zip(unique, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for row in table:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hermes",
            "version": version,
            "description": "An operations agent: conversations, incidents, approvals and jobs.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                BEARER: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "hermes token add --as NAME",
                },
                SIGNATURE: {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-Hub-Signature-256",
                    "description": "HMAC-SHA256 of the body with the secret of the hook.",
                },
            },
        },
    }


def _operation(row: ApiRoute, schema_of: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    parameters = [_path_parameter(name) for name in _PLACEHOLDER.findall(row.path)]
    parameters += [_query_parameter(each) for each in row.query]
    if row.makes_changes and row.right is not None:
        parameters.append(KEY_HEADER)
    found: dict[str, Any] = {
        "operationId": _operation_id(row),
        "summary": row.about,
        "tags": [_tag(row.path)],
        "responses": _responses(row, schema_of),
    }
    if parameters:
        found["parameters"] = parameters
    if row.right is not None:
        found["security"] = [{BEARER: [row.right]}]
        found["x-hermes-right"] = row.right
    elif row.signed:
        found["security"] = [{SIGNATURE: []}]
    if row.body is not None:
        content = {"application/json": {"schema": schema_of[row.body]}}
        found["requestBody"] = {"required": row.body_needed, "content": content}
    return found


def _responses(row: ApiRoute, schema_of: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    media_type = row.content_type.partition(";")[0]
    content: dict[str, Any] = {media_type: {}}
    if row.answer is not None:
        content[media_type] = {"schema": schema_of[row.answer]}
    if row.streams:
        content[STREAM_TYPE] = {}
    found: dict[str, Any] = {"200": {"description": "Done.", "content": content}}
    error = _error_content(row.path, schema_of)
    for status in error_statuses(row):
        found[status] = {"description": ERROR_TEXTS[status], "content": error}
    return found


def error_statuses(row: ApiRoute) -> list[str]:
    """Return what the route answers beside 200."""
    if row.path == DOCUMENT_PATH:
        return []
    if row.path in {each.path for each in WATCH_ROUTES}:
        return ["400", "401", "403", "413", "415", "421", "503"]
    found = ["400", "401", "403", "404", "409", "413", "429", "503"]
    repeatable = row.makes_changes and row.right is not None
    return sorted([*found, "422"] if repeatable or row.body is ScheduleText else found)


def _error_content(path: str, schema_of: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    if path.startswith("/v1/"):
        return {"application/json": {"schema": schema_of[OpenaiError]}}
    if path.startswith("/api/"):
        return {PROBLEM_TYPE: {"schema": schema_of[ApiProblem]}}
    return {"application/json": {"schema": schema_of[PlainError]}}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameter(parameter: QueryParameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "description": parameter.about,
        "schema": {"type": "integer" if parameter.kind is int else "string"},
    }


def _operation_id(row: ApiRoute) -> str:
    words = re.findall(r"\w+", row.path)
    return "_".join([row.method.lower(), *words])


def _tag(path: str) -> str:
    words: list[str] = re.findall(r"\w+", path)
    return words[1] if words[0] in ("api", "v1") and len(words) > 1 else words[0]
