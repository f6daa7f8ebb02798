"""Serves episodes over HTTP in the shape of OpenEnv: JSON requests and JSON answers."""

import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

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
from hermes.plumbing.http_server import HttpListenError, serve_http
from hermes.plumbing.http_service import (
    HttpRefusal,
    HttpReply,
    HttpRequest,
    HttpRoute,
    HttpServerLimits,
    HttpService,
)
from hermes.policy.rules.evaluation import RuleSet

SERVER_LIMITS = HttpServerLimits(max_body_bytes=1_048_576, request_timeout_s=30.0)


class OpenEnvRequest(Value, kw_only=True, frozen=True):
    body: dict[str, Any] = {}
    query: dict[str, str] = {}


RequestHandler = Callable[[OpenEnvRequest], Awaitable[object]]


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
        self.service = HttpService(
            routes=(
                _json_route("GET", "/health", self._health),
                _json_route("GET", "/schema", self._schema),
                _json_route("GET", "/state", self._state),
                _json_route("POST", "/reset", self._reset),
                _json_route("POST", "/step", self._step),
                _json_route("POST", "/close", self._close),
            ),
            limits=SERVER_LIMITS,
            check_head=self._authorize,
            error_field="detail",
        )

    async def _authorize(self, request: HttpRequest) -> None:
        if "origin" in request.headers:  # sent by a web page, not by a trainer
            raise HttpRefusal(HTTPStatus.FORBIDDEN, "browsers are not served")
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._options.token and not secrets.compare_digest(
            sent.encode(), self._options.token.encode()
        ):
            raise HttpRefusal(
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
            raise HttpRefusal(
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
            raise HttpRefusal(
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
                raise HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, f"no host could be made: {problem}")

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
            raise HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"action: {error}") from error
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
            raise HttpRefusal(
                HTTPStatus.CONFLICT, f"no episode {name!r} is open: POST /reset first"
            )
        return session


def _json_route(method: str, path: str, handler: RequestHandler) -> HttpRoute:
    async def respond(request: HttpRequest) -> HttpReply:
        try:
            body = msgspec.json.decode(request.body or b"{}", type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            message = f"not a JSON object: {error}"
            raise HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, message) from error
        try:
            answer = await handler(OpenEnvRequest(body=body, query=dict(request.query)))
        except HermesError as error:  # an error of one episode goes to its client
            raise HttpRefusal(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
        return HttpReply(body=msgspec.json.encode(answer))

    return HttpRoute(path, (method,), respond)


def _episode_id(request: OpenEnvRequest) -> str:
    named = request.body.get("episode_id") or request.query.get("episode_id") or DEFAULT_EPISODE_ID
    if not isinstance(named, str) or len(named) > 255:
        raise HttpRefusal(
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
    problem: HttpListenError | None = None
    async with anyio.create_task_group() as group:
        server = OpenEnvServer(group, sampler, rules, options)
        try:
            await serve_http(server.service, host, port, ready=task_status.started)
        except HttpListenError as error:  # raised below, outside of the group
            problem = error
    if problem is not None:
        raise SettingsError(f"cannot listen on {host}:{port}: {problem}") from problem
