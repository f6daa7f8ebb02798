"""A tool that sends one HTTP request to a configured system and shapes the answer for its reader.

The request is shown to the policy before it is sent, with exactly the values that are sent.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hermes.core.errors import StoreError, ToolError
from hermes.core.foreign_text import visible_line
from hermes.core.messages import OutgoingRequest, RemoteTarget, ToolDefinition, ToolSpec, Value
from hermes.core.protocols import ToolContext
from hermes.plumbing.http_client import (
    GuardsConnections,
    HttpAnswer,
    HttpAnswerTooLarge,
    HttpError,
    HttpLimits,
    HttpTimedOut,
    send_http_request,
)
from hermes.tools.answer_shapes import ShapeForm, pick_value, shape_answer
from hermes.tools.declare import ToolRequirements, check_arguments
from hermes.tools.parameters import CommandParameter, build_arguments_struct, check_pattern
from hermes.tools.request_template import (
    RenderedRequest,
    RequestForm,
    render_path,
    render_request_template,
    render_value,
)

MAX_ANSWER_BYTES = 8 * 2**20
_MAX_ERROR_CHARS = 500
_ANSWER_PREFIX = "{{answer."


class SystemEndpoint(Value, kw_only=True, frozen=True):
    """The address of a system, and what is sent with each request to it."""

    name: str
    url: str
    headers: dict[str, str] = {}
    key: str = ""
    """The name of the variable with its key, for messages."""
    guard: GuardsConnections | None = None


def reads_only(form: RequestForm) -> bool:
    return not form.effect and (form.method in ("GET", "HEAD") or form.reads)


class RequestTool:
    def __init__(
        self,
        spec: ToolSpec,
        parameters: Mapping[str, CommandParameter],
        form: RequestForm,
        shape: ShapeForm,
        *,
        needs: ToolRequirements,
        endpoint: SystemEndpoint | None,
        timeout: float,
    ) -> None:
        self.spec = spec
        needed = (*needs.settings, f"systems.{form.system}.url")
        self.needs = msgspec.structs.replace(needs, settings=needed)
        self.definition = ToolDefinition(name=spec.name, digest=_definition_digest(spec, form))
        self._parameters, self._form, self._shape = parameters, form, shape
        self._arguments = build_arguments_struct(spec.name, parameters)
        self._endpoint, self._timeout = endpoint, timeout

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        now, values = datetime.now(UTC), self._values(arguments)
        await self._check_estimate(values, now)
        request = render_request_template(self._form, values, now)
        answer = await self._send(request)
        data = self._decode(answer)
        shaped = shape_answer(data, self._shape, values)
        notes = [] if shaped.complete else [await self._keep(context, answer)]
        if undo := self._undo_note(data):
            notes.append(undo)
        return "\n".join([shaped.text, *notes])

    def validate(self, arguments: Mapping[str, Any]) -> object:
        return render_request_template(self._form, self._values(arguments), datetime.now(UTC))

    def request(self, arguments: Mapping[str, Any]) -> OutgoingRequest:
        """Times such as `now-15m` are rendered for the moment at which they are shown."""
        made = render_request_template(self._form, self._values(arguments), datetime.now(UTC))
        undo = self._form.undo
        return OutgoingRequest(
            method=made.method,
            url=self._base + made.path,
            body=made.body.decode(),
            effect="read" if reads_only(self._form) else self._form.effect or "write",
            configured=self._endpoint is not None,
            undo=f"{undo.tool}, with the values of the answer" if undo else "",
        )

    def acts_on(self, arguments: Mapping[str, Any]) -> RemoteTarget:
        values, now = self._values(arguments), datetime.now(UTC)
        named = render_value(
            {"namespace": self._form.namespace, "service": self._form.service}, values, now
        )
        host = urlsplit(self._base).hostname or ""
        return RemoteTarget(
            kind=self._form.system, host=host, **{key: str(each) for key, each in named.items()}
        )

    @property
    def _base(self) -> str:
        return self._endpoint.url.rstrip("/") if self._endpoint else ""

    def _values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        checked = check_arguments(self.spec.name, self._arguments, arguments)
        values = msgspec.structs.asdict(checked)
        for name, value in values.items():
            for each in value if isinstance(value, list) else [value]:
                check_pattern(name, self._parameters[name], each)
        return values

    async def _send(self, request: RenderedRequest) -> HttpAnswer:
        endpoint = self._endpoint
        if endpoint is None:
            key = f"systems.{self._form.system}.url"
            raise ToolError(f"no address is set; set it: hermes config set {key} <url>")
        headers = {"Accept": self._form.accept, "User-Agent": "hermes-sre", **endpoint.headers}
        if request.content_type:
            headers["Content-Type"] = request.content_type
        limits = HttpLimits(
            timeout_s=self._timeout,
            total_timeout_s=self._timeout,
            max_answer_bytes=MAX_ANSWER_BYTES,
            max_redirects=3 if request.method == "GET" and endpoint.guard else 0,
        )
        try:
            answer = await send_http_request(
                request.method,
                endpoint.url.rstrip("/") + request.path,
                limits,
                headers=headers,
                body=request.body or None,
                proxies=False,
                guard=endpoint.guard,
            )
        except HttpAnswerTooLarge as error:
            raise ToolError(f"{endpoint.name}: {error}; narrow the question down") from error
        except HttpTimedOut as error:
            raise ToolError(f"{endpoint.name}: {error}; ask for less") from error
        except HttpError as error:
            raise ToolError(f"{endpoint.name} at {endpoint.url}: {error}") from error
        if problem := _status_problem(answer, endpoint):
            raise ToolError(f"{endpoint.name}: {problem}")
        return answer

    def _decode(self, answer: HttpAnswer) -> Any:
        if self._shape.as_ == "text":
            return answer.body.decode("utf-8", "replace")
        if not answer.body.strip():
            return {}
        try:
            return json.loads(answer.body)  # unlike msgspec it reads NaN
        except (ValueError, RecursionError) as error:
            kind = answer.content_type.partition(";")[0] or "no type"
            raise ToolError(
                f"{self._form.system} answered {kind}, not JSON ({visible_line(str(error), 80)}); "
                f"is systems.{self._form.system}.url its address?"
            ) from error

    async def _check_estimate(self, values: Mapping[str, Any], now: datetime) -> None:
        estimate = self._form.estimate
        if estimate is None:
            return
        path = render_path(estimate.path, estimate.query, values, now)
        answer = await self._send(RenderedRequest("GET", path))
        found = pick_value(self._decode(answer), estimate.pick)
        if isinstance(found, int | float) and found > estimate.at_most:
            raise ToolError(
                f"this would read {found:,.0f} {estimate.what}, more than {estimate.at_most:,}: "
                "add labels, or make the time shorter"
            )

    async def _keep(self, context: ToolContext, answer: HttpAnswer) -> str:
        whole = context.redact(answer.body.decode("utf-8", "replace"))
        name = f"{self.spec.name}-{hashlib.sha256(answer.body).hexdigest()[:12]}"
        try:
            reference = await context.artifacts.save(context.run, name, whole)
        except StoreError as error:
            return f"[the whole answer could not be kept: {error}]"
        return f"[the whole answer ({len(whole):,} characters) is {reference}: read_file opens it]"

    def _undo_note(self, data: Any) -> str:
        undo = self._form.undo
        if undo is None:
            return ""
        try:
            arguments = {
                name: pick_value(data, text.removeprefix(_ANSWER_PREFIX).removesuffix("}}"))
                for name, text in undo.arguments.items()
            }
        except ToolError as error:
            return f"[no undo is known: {error}]"
        return f"[to undo: {undo.tool} {json.dumps(arguments)}]"


def _definition_digest(spec: ToolSpec, form: RequestForm) -> str:
    data = msgspec.json.encode((spec, form), order="deterministic")
    return hashlib.sha256(data).hexdigest()


def _status_problem(answer: HttpAnswer, endpoint: SystemEndpoint) -> str:
    status = answer.status
    if answer.location:
        return f"it sends us on to {answer.location}: not followed; a person may set the address"
    if status < 400:
        return ""
    words = _error_words(answer)
    if status in (401, 403):
        key = f"; is the key {endpoint.key} right?" if endpoint.key else "; it wants a key"
        return f"it answers {status} {words}{key}"
    if status == 429:
        wait = f"; it asks to wait for {answer.retry_after}" if answer.retry_after else ""
        return f"it answers 429, too many requests{wait}"
    return f"it answers {status} {words}"


def _error_words(answer: HttpAnswer) -> str:
    return visible_line(answer.error_text, _MAX_ERROR_CHARS) or answer.reason
