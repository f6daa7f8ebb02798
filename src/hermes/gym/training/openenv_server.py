"""Just enough of HTTP to answer JSON with JSON, one request a connection."""

import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import anyio
import msgspec
from anyio.abc import ByteStream, SocketAttribute, TaskGroup, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream

from hermes.core.errors import HermesError, SettingsError
from hermes.core.messages import Value
from hermes.gym.drill import DrillTerms
from hermes.gym.episodes.episode import EpisodeVoid
from hermes.gym.training.external_episodes import (
    ExternalEpisode,
    IncidentSampler,
    SampledIncident,
    StepResult,
    open_external_episode,
)
from hermes.gym.training.trajectory_formats import to_function_schema
from hermes.policy.rules.evaluation import RuleSet

MAX_HEAD_BYTES, MAX_BODY_BYTES = 16_384, 1_048_576
REQUEST_TIMEOUT_S = 30.0
"""Seconds for a request to arrive."""


class OpenEnvRequest(Value, kw_only=True, frozen=True):
    method: str
    path: str
    headers: dict[str, str] = {}
    """Names in small letters."""
    body: dict[str, Any] = {}
    query: dict[str, str] = {}


class OpenEnvRequestError(Exception):
    """The answer is this status and these words."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


RequestHandler = Callable[[OpenEnvRequest], Awaitable[object]]


async def serve_connection(stream: ByteStream, handler: RequestHandler) -> None:
    """One request, one answer. A peer that goes away in the middle of it is nobody's error."""
    async with stream:
        try:
            with anyio.fail_after(REQUEST_TIMEOUT_S):
                request = await read_request(stream)
            status, body = HTTPStatus.OK, await handler(request)
        except OpenEnvRequestError as refused:
            status, body = refused.status, {"detail": str(refused)}
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, TimeoutError):
            return
        try:
            await stream.send(encode_response(status, body))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return


async def read_request(stream: ByteStream) -> OpenEnvRequest:
    buffered = BufferedByteReceiveStream(stream)
    try:
        head = (await buffered.receive_until(b"\r\n\r\n", MAX_HEAD_BYTES)).decode("latin-1")
    except anyio.DelimiterNotFound as error:
        raise OpenEnvRequestError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too long a head"
        ) from error
    first, *rest = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise OpenEnvRequestError(HTTPStatus.BAD_REQUEST, "that is not HTTP")
    pairs = (line.partition(":") for line in rest)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    path, _, query = words[1].partition("?")
    body = await _read_body(buffered, headers)
    named = dict(each.split("=", 1) for each in query.split("&") if "=" in each)
    return OpenEnvRequest(method=words[0], path=path, headers=headers, body=body, query=named)


async def _read_body(stream: BufferedByteReceiveStream, headers: dict[str, str]) -> dict[str, Any]:
    size = headers.get("content-length", "0")
    if not size.isdecimal() or "transfer-encoding" in headers:
        raise OpenEnvRequestError(
            HTTPStatus.LENGTH_REQUIRED, "say how long the body is: content-length"
        )
    if int(size) > MAX_BODY_BYTES:
        raise OpenEnvRequestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MAX_BODY_BYTES:,} bytes"
        )
    raw = await stream.receive_exactly(int(size)) if int(size) else b"{}"
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OpenEnvRequestError(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"not a JSON object: {error}"
        ) from error


def encode_response(status: HTTPStatus, body: object) -> bytes:
    data = msgspec.json.encode(body)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(data)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + data


DEFAULT_EPISODE_ID = "default"
MAX_HOST_ATTEMPTS = 3
"""Hosts tried when one cannot be made or broken; only for incidents drawn by us."""


class OpenEnvOptions(Value, kw_only=True, frozen=True):
    """The rules of the server."""

    max_sessions: int = 8
    """Episodes open at once."""
    idle_timeout_s: float = 900.0
    """Seconds without a step after which an episode is ended."""
    max_steps: int = 40
    token: str = ""
    """What a client must send as a bearer; empty: nothing."""
    terms: DrillTerms = DrillTerms()


class Action(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A call of a tool; `command` alone is one of `terminal`."""

    tool: str = "terminal"
    arguments: dict[str, Any] = {}
    command: str = ""
    metadata: dict[str, Any] = {}


class OpenEnvEpisode:
    def __init__(self, episode: ExternalEpisode, idle_timeout_s: float) -> None:
        self.episode = episode
        self.scope = anyio.CancelScope()
        self.closed = anyio.Event()
        self._idle_timeout_s = idle_timeout_s
        self.touch()

    def touch(self) -> None:
        self.scope.deadline = anyio.current_time() + self._idle_timeout_s


class OpenEnvServer:
    """What the server knows: who sits where. Lives inside `serve`."""

    def __init__(
        self, group: TaskGroup, sampler: IncidentSampler, book: RuleSet, options: OpenEnvOptions
    ) -> None:
        self._group, self._sampler, self._book, self._options = group, sampler, book, options
        self._episodes: dict[str, OpenEnvEpisode] = {}
        self._opening = 0
        self._routes: dict[tuple[str, str], Callable[[OpenEnvRequest], Awaitable[object]]] = {
            ("GET", "/health"): self._health,
            ("GET", "/schema"): self._schema,
            ("GET", "/state"): self._state,
            ("POST", "/reset"): self._reset,
            ("POST", "/step"): self._step,
            ("POST", "/close"): self._close,
        }

    async def handle(self, request: OpenEnvRequest) -> object:
        self._authorize(request)
        route = self._routes.get((request.method, request.path))
        if route is None:
            known = ", ".join(f"{method} {path}" for method, path in self._routes)
            raise OpenEnvRequestError(HTTPStatus.NOT_FOUND, f"there is: {known}")
        try:
            return await route(request)
        except HermesError as error:  # one episode's trouble is told to its player
            raise OpenEnvRequestError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error

    def _authorize(self, request: OpenEnvRequest) -> None:
        if "origin" in request.headers:  # a page in somebody's browser, not a trainer
            raise OpenEnvRequestError(HTTPStatus.FORBIDDEN, "browsers are not served")
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._options.token and not secrets.compare_digest(
            sent.encode(), self._options.token.encode()
        ):
            raise OpenEnvRequestError(
                HTTPStatus.UNAUTHORIZED, "send the token as `Authorization: Bearer ...`"
            )

    async def _health(self, request: OpenEnvRequest) -> object:
        return {"status": "healthy", "sessions": len(self._episodes)}

    async def _schema(self, request: OpenEnvRequest) -> object:
        text = {"type": "string"}
        observed = {"text": text, "status": text, "task": text, "tools": {"type": "array"}}
        return {
            "action": msgspec.json.schema(Action),
            "observation": {"type": "object", "properties": observed},
            "state": {
                "type": "object",
                "properties": {"episode_id": text, "step_count": {"type": "integer"}},
            },
        }

    async def _state(self, request: OpenEnvRequest) -> object:
        name = _episode_id(request)
        sitting = self._find_episode(name).episode
        return {"episode_id": name, "step_count": sitting.steps, "done": sitting.done}

    async def _reset(self, request: OpenEnvRequest) -> object:
        name = _episode_id(request)
        await self._close_episode(name)
        if len(self._episodes) + self._opening >= self._options.max_sessions:
            raise OpenEnvRequestError(
                HTTPStatus.SERVICE_UNAVAILABLE, f"all {self._options.max_sessions} seats are taken"
            )
        self._opening += 1
        try:
            seat = await self._open_episode(name, request.body)
        finally:
            self._opening -= 1
        sitting = seat.episode
        observation = {
            "text": sitting.task,
            "status": "ok",
            "task": sitting.task,
            "tools": [to_function_schema(spec) for spec in sitting.tools],
            "metadata": {"episode_id": name, "severity": sitting.incident.spec.alert.severity},
        }
        return {"observation": observation, "reward": None, "done": False}

    async def _open_episode(self, name: str, body: dict[str, Any]) -> OpenEnvEpisode:
        wanted, seed = body.get("scenario"), body.get("seed")
        if not isinstance(wanted, str | None) or not isinstance(seed, int | None):
            raise OpenEnvRequestError(
                HTTPStatus.UNPROCESSABLE_ENTITY, "scenario is text, seed a number"
            )
        trouble = ""
        for _ in range(1 if wanted or seed is not None else MAX_HOST_ATTEMPTS):
            try:
                drawn = self._sample(wanted, seed)
                seat: OpenEnvEpisode = await self._group.start(self._hold_open, name, drawn)
                return seat
            except EpisodeVoid as error:
                trouble = str(error)
            except HermesError as error:
                raise OpenEnvRequestError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        raise OpenEnvRequestError(
            HTTPStatus.SERVICE_UNAVAILABLE, f"no host could be made: {trouble}"
        )

    def _sample(self, wanted: str | None, seed: int | None) -> SampledIncident:
        if wanted:
            return self._sampler.draw_by_name(wanted, seed)
        return self._sampler.draw() if seed is None else self._sampler.draw_by_seed(seed)

    async def _hold_open(
        self,
        name: str,
        drawn: SampledIncident,
        *,
        task_status: TaskStatus[OpenEnvEpisode] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Holds the host open. Everything on it ends when this task does."""
        seat: OpenEnvEpisode | None = None
        try:
            async with open_external_episode(drawn, self._book, self._options.terms) as sitting:
                seat = self._episodes[name] = OpenEnvEpisode(sitting, self._options.idle_timeout_s)
                task_status.started(seat)
                with seat.scope:
                    await anyio.sleep_forever()
        except HermesError:
            if seat is None:
                raise  # told to the one who wants to sit down
        finally:
            if seat is not None:
                if self._episodes.get(name) is seat:
                    del self._episodes[name]
                seat.closed.set()

    async def _close_episode(self, name: str) -> None:
        seat = self._episodes.pop(name, None)
        if seat is not None:
            seat.scope.cancel()
            await seat.closed.wait()

    async def _step(self, request: OpenEnvRequest) -> object:
        seat = self._find_episode(_episode_id(request))
        try:
            action = msgspec.convert(request.body.get("action"), Action)
        except msgspec.ValidationError as error:
            raise OpenEnvRequestError(
                HTTPStatus.UNPROCESSABLE_ENTITY, f"action: {error}"
            ) from error
        arguments = {"command": action.command} if action.command else action.arguments
        seat.touch()
        taken = await seat.episode.step(action.tool, arguments, max_steps=self._options.max_steps)
        seat.touch()
        return _step_response(seat.episode, taken)

    async def _close(self, request: OpenEnvRequest) -> object:
        """The score as it stands, and the end of everything on the host."""
        name = _episode_id(request)
        result = await self._find_episode(name).episode.finish()
        await self._close_episode(name)
        return {"closed": name, "reward": result.reward.total, "result": result}

    def _find_episode(self, name: str) -> OpenEnvEpisode:
        seat = self._episodes.get(name)
        if seat is None:
            raise OpenEnvRequestError(
                HTTPStatus.CONFLICT, f"no episode {name!r} is open: POST /reset first"
            )
        return seat


def _episode_id(request: OpenEnvRequest) -> str:
    named = request.body.get("episode_id") or request.query.get("episode_id") or DEFAULT_EPISODE_ID
    if not isinstance(named, str) or len(named) > 255:
        raise OpenEnvRequestError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "episode_id is a text of at most 255"
        )
    return named


def _step_response(sitting: ExternalEpisode, taken: StepResult) -> dict[str, Any]:
    metadata: dict[str, Any] = {"steps": taken.steps}
    if sitting.result is not None:
        result = sitting.result
        metadata |= {
            "scenario": result.scenario,
            "seed": result.seed,
            "resolved": result.resolved,
            "parts": msgspec.to_builtins(result.reward),
            "ended": result.ended,
        }
    observation = {"text": taken.text, "status": taken.status, "metadata": metadata}
    return {"observation": observation, "reward": taken.reward, "done": taken.done}


async def serve_openenv(
    sampler: IncidentSampler,
    book: RuleSet,
    options: OpenEnvOptions,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Until it is cancelled; then every episode ends. Starts with the port it listens on."""
    if host not in ("127.0.0.1", "::1", "localhost") and not options.token:
        raise SettingsError(f"others reach {host}: set a token for them (--token-file)")
    try:
        listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    async with anyio.create_task_group() as group:
        door = OpenEnvServer(group, sampler, book, options)

        async def one(stream: ByteStream) -> None:
            await serve_connection(stream, door.handle)

        async with listener:
            task_status.started(listener.extra(SocketAttribute.local_port))
            await listener.serve(one)
