"""Episodes over HTTP in the shape of OpenEnv: reset, step, state.

A client that names no episode has one of its own kind, `default`, which each reset replaces; one
that plays several at once names them with `episode_id`.
"""

import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import anyio
import msgspec
from anyio.abc import ByteStream, SocketAttribute, TaskGroup, TaskStatus

from hermes.core.errors import HermesError, SettingsError
from hermes.core.messages import Value
from hermes.gym.doors.http import Refused, Request, converse
from hermes.gym.doors.sampling import Drawn, Sampler
from hermes.gym.doors.sitting import Sitting, Step, open_sitting
from hermes.gym.drill import Terms
from hermes.gym.episode import Void
from hermes.gym.trajectories.sharegpt import as_function
from hermes.policy.judgement import RuleBook

DEFAULT = "default"
ATTEMPTS = 3
"""Hosts tried when one cannot be made or broken; only for incidents drawn by us."""


class House(Value, kw_only=True, frozen=True):
    """The rules of the server."""

    sessions: int = 8
    """Episodes open at once."""
    idle: float = 900.0
    """Seconds without a step after which an episode is ended."""
    steps: int = 40
    token: str = ""
    """What a client must send as a bearer; empty: nothing."""
    terms: Terms = Terms()


class Action(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A call of a tool; `command` alone is one of `terminal`."""

    tool: str = "terminal"
    arguments: dict[str, Any] = {}
    command: str = ""
    metadata: dict[str, Any] = {}


class _Seat:
    def __init__(self, sitting: Sitting, idle: float) -> None:
        self.sitting = sitting
        self.scope = anyio.CancelScope()
        self.gone = anyio.Event()
        self._idle = idle
        self.touch()

    def touch(self) -> None:
        self.scope.deadline = anyio.current_time() + self._idle


class Door:
    """What the server knows: who sits where. Lives inside `serve`."""

    def __init__(self, group: TaskGroup, sampler: Sampler, book: RuleBook, house: House) -> None:
        self._group, self._sampler, self._book, self._house = group, sampler, book, house
        self._seats: dict[str, _Seat] = {}
        self._opening = 0
        self._routes: dict[tuple[str, str], Callable[[Request], Awaitable[object]]] = {
            ("GET", "/health"): self._health,
            ("GET", "/schema"): self._schema,
            ("GET", "/state"): self._state,
            ("POST", "/reset"): self._reset,
            ("POST", "/step"): self._step,
            ("POST", "/close"): self._close,
        }

    async def answer(self, request: Request) -> object:
        self._admit(request)
        route = self._routes.get((request.method, request.path))
        if route is None:
            known = ", ".join(f"{method} {path}" for method, path in self._routes)
            raise Refused(HTTPStatus.NOT_FOUND, f"there is: {known}")
        try:
            return await route(request)
        except HermesError as error:  # one episode's trouble is told to its player
            raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error

    def _admit(self, request: Request) -> None:
        if "origin" in request.headers:  # a page in somebody's browser, not a trainer
            raise Refused(HTTPStatus.FORBIDDEN, "browsers are not served")
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._house.token and not secrets.compare_digest(
            sent.encode(), self._house.token.encode()
        ):
            raise Refused(HTTPStatus.UNAUTHORIZED, "send the token as `Authorization: Bearer ...`")

    async def _health(self, request: Request) -> object:
        return {"status": "healthy", "sessions": len(self._seats)}

    async def _schema(self, request: Request) -> object:
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

    async def _state(self, request: Request) -> object:
        name = _name(request)
        sitting = self._seat(name).sitting
        return {"episode_id": name, "step_count": sitting.steps, "done": sitting.done}

    async def _reset(self, request: Request) -> object:
        name = _name(request)
        await self._leave(name)
        if len(self._seats) + self._opening >= self._house.sessions:
            raise Refused(
                HTTPStatus.SERVICE_UNAVAILABLE, f"all {self._house.sessions} seats are taken"
            )
        self._opening += 1
        try:
            seat = await self._sit_down(name, request.body)
        finally:
            self._opening -= 1
        sitting = seat.sitting
        observation = {
            "text": sitting.task,
            "status": "ok",
            "task": sitting.task,
            "tools": [as_function(spec) for spec in sitting.tools],
            "metadata": {"episode_id": name, "severity": sitting.drawn.story.alert.severity},
        }
        return {"observation": observation, "reward": None, "done": False}

    async def _sit_down(self, name: str, body: dict[str, Any]) -> _Seat:
        wanted, seed = body.get("scenario"), body.get("seed")
        if not isinstance(wanted, str | None) or not isinstance(seed, int | None):
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "scenario is text, seed a number")
        trouble = ""
        for _ in range(1 if wanted or seed is not None else ATTEMPTS):
            try:
                drawn = self._drawn(wanted, seed)
                seat: _Seat = await self._group.start(self._keep, name, drawn)
                return seat
            except Void as error:
                trouble = str(error)
            except HermesError as error:
                raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"no host could be made: {trouble}")

    def _drawn(self, wanted: str | None, seed: int | None) -> Drawn:
        if wanted:
            return self._sampler.named(wanted, seed)
        return self._sampler.draw() if seed is None else self._sampler.seeded(seed)

    async def _keep(
        self, name: str, drawn: Drawn, *, task_status: TaskStatus[_Seat] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Holds the host open. Everything on it ends when this task does."""
        seat: _Seat | None = None
        try:
            async with open_sitting(drawn, self._book, self._house.terms) as sitting:
                seat = self._seats[name] = _Seat(sitting, self._house.idle)
                task_status.started(seat)
                with seat.scope:
                    await anyio.sleep_forever()
        except HermesError:
            if seat is None:
                raise  # told to the one who wants to sit down
        finally:
            if seat is not None:
                if self._seats.get(name) is seat:
                    del self._seats[name]
                seat.gone.set()

    async def _leave(self, name: str) -> None:
        seat = self._seats.pop(name, None)
        if seat is not None:
            seat.scope.cancel()
            await seat.gone.wait()

    async def _step(self, request: Request) -> object:
        seat = self._seat(_name(request))
        try:
            action = msgspec.convert(request.body.get("action"), Action)
        except msgspec.ValidationError as error:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"action: {error}") from error
        arguments = {"command": action.command} if action.command else action.arguments
        seat.touch()
        taken = await seat.sitting.step(action.tool, arguments, most=self._house.steps)
        seat.touch()
        return _observed(seat.sitting, taken)

    async def _close(self, request: Request) -> object:
        """The score as it stands, and the end of everything on the host."""
        name = _name(request)
        result = await self._seat(name).sitting.finish()
        await self._leave(name)
        return {"closed": name, "reward": result.reward.total, "result": result}

    def _seat(self, name: str) -> _Seat:
        seat = self._seats.get(name)
        if seat is None:
            raise Refused(HTTPStatus.CONFLICT, f"no episode {name!r} is open: POST /reset first")
        return seat


def _name(request: Request) -> str:
    named = request.body.get("episode_id") or request.query.get("episode_id") or DEFAULT
    if not isinstance(named, str) or len(named) > 255:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "episode_id is a text of at most 255")
    return named


def _observed(sitting: Sitting, taken: Step) -> dict[str, Any]:
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


async def serve(
    sampler: Sampler,
    book: RuleBook,
    house: House,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Until it is cancelled; then every episode ends. Starts with the port it listens on."""
    if host not in ("127.0.0.1", "::1", "localhost") and not house.token:
        raise SettingsError(f"others reach {host}: set a token for them (--token-file)")
    try:
        listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    async with anyio.create_task_group() as group:
        door = Door(group, sampler, book, house)

        async def one(stream: ByteStream) -> None:
            await converse(stream, door.answer)

        async with listener:
            task_status.started(listener.extra(SocketAttribute.local_port))
            await listener.serve(one)
