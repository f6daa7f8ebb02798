"""Serves episodes over HTTP in the shape of OpenEnv: JSON requests, one for each connection."""

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
"""For a whole request to arrive."""


class OpenEnvRequest(Value, kw_only=True, frozen=True):
    method: str
    path: str
    headers: dict[str, str] = {}
    """Names in lower case."""
    body: dict[str, Any] = {}
    query: dict[str, str] = {}


class OpenEnvRequestError(Exception):
    """Answered with this status and message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


RequestHandler = Callable[[OpenEnvRequest], Awaitable[object]]


async def serve_connection(stream: ByteStream, handler: RequestHandler) -> None:
    """Reads one request and answers it. A client that disconnects is no error."""
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
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long"
        ) from error
    first, *rest = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise OpenEnvRequestError(HTTPStatus.BAD_REQUEST, "not an HTTP request")
    pairs = (line.partition(":") for line in rest)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    path, _, query = words[1].partition("?")
    body = await _read_body(buffered, headers)
    named = dict(each.split("=", 1) for each in query.split("&") if "=" in each)
    return OpenEnvRequest(method=words[0], path=path, headers=headers, body=body, query=named)


async def _read_body(stream: BufferedByteReceiveStream, headers: dict[str, str]) -> dict[str, Any]:
    size = headers.get("content-length", "0")
    if not size.isdecimal() or "transfer-encoding" in headers:
        raise OpenEnvRequestError(HTTPStatus.LENGTH_REQUIRED, "a content-length header is needed")
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
"""How many incidents are drawn when a host cannot be built or broken, if the client names none."""


class OpenEnvOptions(Value, kw_only=True, frozen=True):
    max_sessions: int = 8
    """Episodes open at once."""
    idle_timeout_s: float = 900.0
    """An episode without a step for so long is ended."""
    max_steps: int = 40
    token: str = ""
    """The bearer token that clients must send; empty for none."""
    terms: DrillTerms = DrillTerms()


class Action(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A tool call; `command` alone calls `terminal`."""

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
    """The open episodes by id, and the handlers of the routes."""

    def __init__(
        self, group: TaskGroup, sampler: IncidentSampler, rules: RuleSet, options: OpenEnvOptions
    ) -> None:
        self._group, self._sampler, self._rules, self._options = group, sampler, rules, options
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
            raise OpenEnvRequestError(HTTPStatus.NOT_FOUND, f"the routes are: {known}")
        try:
            return await route(request)
        except HermesError as error:  # an error of one episode goes to its client
            raise OpenEnvRequestError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error

    def _authorize(self, request: OpenEnvRequest) -> None:
        if "origin" in request.headers:  # sent by a web page, not by a trainer
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
        episode = self._find_episode(name).episode
        return {"episode_id": name, "step_count": episode.steps, "done": episode.done}

    async def _reset(self, request: OpenEnvRequest) -> object:
        name = _episode_id(request)
        await self._close_episode(name)
        if len(self._episodes) + self._opening >= self._options.max_sessions:
            raise OpenEnvRequestError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"all {self._options.max_sessions} sessions are in use",
            )
        self._opening += 1
        try:
            session = await self._open_episode(name, request.body)
        finally:
            self._opening -= 1
        episode = session.episode
        observation = {
            "text": episode.task,
            "status": "ok",
            "task": episode.task,
            "tools": [to_function_schema(spec) for spec in episode.tools],
            "metadata": {"episode_id": name, "severity": episode.incident.spec.alert.severity},
        }
        return {"observation": observation, "reward": None, "done": False}

    async def _open_episode(self, name: str, body: dict[str, Any]) -> OpenEnvEpisode:
        wanted, seed = body.get("scenario"), body.get("seed")
        if not isinstance(wanted, str | None) or not isinstance(seed, int | None):
            raise OpenEnvRequestError(
                HTTPStatus.UNPROCESSABLE_ENTITY, "scenario must be a text, seed a number"
            )
        problem = ""
        for _ in range(1 if wanted or seed is not None else MAX_HOST_ATTEMPTS):
            try:
                drawn = self._sample(wanted, seed)
                session: OpenEnvEpisode = await self._group.start(self._hold_open, name, drawn)
                return session
            except EpisodeVoid as error:
                problem = str(error)
            except HermesError as error:
                raise OpenEnvRequestError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        raise OpenEnvRequestError(
            HTTPStatus.SERVICE_UNAVAILABLE, f"no host could be made: {problem}"
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
        """Keeps the host open; it ends with this task."""
        session: OpenEnvEpisode | None = None
        try:
            async with open_external_episode(drawn, self._rules, self._options.terms) as episode:
                session = self._episodes[name] = OpenEnvEpisode(
                    episode, self._options.idle_timeout_s
                )
                task_status.started(session)
                with session.scope:
                    await anyio.sleep_forever()
        except HermesError:
            if session is None:
                raise  # reported to the client of this reset
        finally:
            if session is not None:
                if self._episodes.get(name) is session:
                    del self._episodes[name]
                session.closed.set()

    async def _close_episode(self, name: str) -> None:
        session = self._episodes.pop(name, None)
        if session is not None:
            session.scope.cancel()
            await session.closed.wait()

    async def _step(self, request: OpenEnvRequest) -> object:
        session = self._find_episode(_episode_id(request))
        try:
            action = msgspec.convert(request.body.get("action"), Action)
        except msgspec.ValidationError as error:
            raise OpenEnvRequestError(
                HTTPStatus.UNPROCESSABLE_ENTITY, f"action: {error}"
            ) from error
        arguments = {"command": action.command} if action.command else action.arguments
        session.touch()
        taken = await session.episode.step(
            action.tool, arguments, max_steps=self._options.max_steps
        )
        session.touch()
        return _step_response(session.episode, taken)

    async def _close(self, request: OpenEnvRequest) -> object:
        """Judges the current state and ends the episode."""
        name = _episode_id(request)
        result = await self._find_episode(name).episode.finish()
        await self._close_episode(name)
        return {"closed": name, "reward": result.reward.total, "result": result}

    def _find_episode(self, name: str) -> OpenEnvEpisode:
        session = self._episodes.get(name)
        if session is None:
            raise OpenEnvRequestError(
                HTTPStatus.CONFLICT, f"no episode {name!r} is open: POST /reset first"
            )
        return session


def _episode_id(request: OpenEnvRequest) -> str:
    named = request.body.get("episode_id") or request.query.get("episode_id") or DEFAULT_EPISODE_ID
    if not isinstance(named, str) or len(named) > 255:
        raise OpenEnvRequestError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "episode_id is a text of at most 255 characters"
        )
    return named


def _step_response(episode: ExternalEpisode, taken: StepResult) -> dict[str, Any]:
    metadata: dict[str, Any] = {"steps": taken.steps}
    if episode.result is not None:
        result = episode.result
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
    rules: RuleSet,
    options: OpenEnvOptions,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Until cancelled; then all episodes end. Reports the port through `task_status`."""
    if host not in ("127.0.0.1", "::1", "localhost") and not options.token:
        raise SettingsError(
            f"{host} can be reached from other machines: set a token (--token-file)"
        )
    try:
        listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    async with anyio.create_task_group() as group:
        server = OpenEnvServer(group, sampler, rules, options)

        async def serve_stream(stream: ByteStream) -> None:
            await serve_connection(stream, server.handle)

        async with listener:
            task_status.started(listener.extra(SocketAttribute.local_port))
            await listener.serve(serve_stream)
