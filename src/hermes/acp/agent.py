"""The agent as the protocol sees it: each method of a client, and the errors it may get."""

import base64
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import acp
import acp.helpers
from acp import schema
from acp.agent.connection import AgentSideConnection
from acp.exceptions import RequestError
from anyio.abc import TaskGroup

from hermes.acp.message_stream import MessageStream
from hermes.acp.permissions import MODES
from hermes.acp.session import EditorBackend, EditorPrompt, EditorSession
from hermes.core.errors import HermesError
from hermes.core.foreign_text import visible_line
from hermes.core.messages import AttachedText
from hermes.core.run_ids import new_id
from hermes.plumbing.picture_format import PictureRefused, read_picture

logger = logging.getLogger(__name__)
LOCAL_USER = "local"
MAX_LISTED_SERVERS = 20
NOT_FOUND, INVALID_PARAMS, FAILED = -32002, -32602, -32603
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])


def _explained(handler: Handler) -> Handler:
    """The handler, whose failures reach the client in words."""

    @wraps(handler)
    async def answer(*arguments: Any, **named: Any) -> Any:
        try:
            return await handler(*arguments, **named)
        except HermesError as error:
            raise RequestError(FAILED, str(error)) from error

    return answer  # type: ignore[return-value]


class EditorAgent:
    """Implements the `Agent` of the library. `group` runs the sessions."""

    def __init__(self, backend: EditorBackend, group: TaskGroup, version: str) -> None:
        self._backend = backend
        self._group = group
        self._version = version
        self._client: Any = None
        self._files = (False, False)
        self._sessions: dict[str, EditorSession] = {}

    def on_connect(self, conn: Any) -> None:
        self._client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, **_: Any
    ) -> Any:
        files = getattr(client_capabilities, "fs", None)
        self._files = (
            bool(getattr(files, "read_text_file", False)),
            bool(getattr(files, "write_text_file", False)),
        )
        user = schema.AuthMethodAgent(
            id=LOCAL_USER,
            name="The user of this machine",
            description="Nothing to do: models and keys are those of `hermes setup`",
        )
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(embedded_context=True, image=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities()
                ),
            ),
            agent_info=schema.Implementation(name="hermes", title="Hermes", version=self._version),
            auth_methods=[user],
        )

    async def authenticate(self, method_id: str, **_: Any) -> Any:
        if method_id != LOCAL_USER:
            raise RequestError(INVALID_PARAMS, f"there is no way to log in named {method_id!r}")
        return schema.AuthenticateResponse()

    @_explained
    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> Any:
        session = self._make_session(new_id("run"), cwd, mcp_servers)
        await self._start(session, resume=False)
        return schema.NewSessionResponse(session_id=session.id, modes=_modes(session))

    @_explained
    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any
    ) -> Any:
        if earlier := self._sessions.pop(session_id, None):
            await earlier.close()
        session = self._make_session(session_id, cwd, mcp_servers)
        try:
            await self._start(session, resume=True)
        except HermesError as error:
            raise RequestError(NOT_FOUND, str(error)) from error
        await session.replay()
        return schema.LoadSessionResponse(modes=_modes(session))

    @_explained
    async def list_sessions(self, cwd: str | None = None, **_: Any) -> Any:
        found = await self._backend.sessions(cwd or "")
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=each.id,
                    cwd=each.folder,
                    title=visible_line(each.title) or None,
                    updated_at=each.last_at.isoformat(),
                )
                for each in found
            ]
        )

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> Any:
        session = self._find(session_id)
        if mode_id not in MODES:
            known = ", ".join(MODES)
            raise RequestError(INVALID_PARAMS, f"there is no mode {mode_id!r}; there are: {known}")
        session.set_mode(mode_id)
        await self._client.session_update(session_id, acp.helpers.update_current_mode(mode_id))
        return schema.SetSessionModeResponse()

    @_explained
    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> Any:
        session = self._find(session_id)
        return schema.PromptResponse(stop_reason=await session.prompt(_read_prompt(prompt)))

    async def cancel(self, session_id: str, **_: Any) -> None:
        if session := self._sessions.get(session_id):
            session.cancel()

    def _make_session(self, id: str, folder: str, servers: Sequence[Any] | None) -> EditorSession:
        if not Path(folder).is_absolute() or not Path(folder).is_dir():
            raise RequestError(INVALID_PARAMS, f"cwd must be an existing absolute folder: {folder}")
        session = EditorSession(self._client, id, folder, self._files)
        session.notice = _describe_servers(servers or ())
        return session

    async def _start(self, session: EditorSession, *, resume: bool) -> None:
        async def serve(*, task_status: Any) -> None:
            try:
                await session.serve(self._backend, resume=resume, task_status=task_status)
            except HermesError as error:
                if not session.started:
                    raise
                logger.error("session %s ended: %s", session.id, error)

        await self._group.start(serve)
        self._sessions[session.id] = session

    def _find(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None:
            text = f"there is no open session {session_id!r}; begin or load one"
            raise RequestError(NOT_FOUND, text)
        return session


def _modes(session: EditorSession) -> Any:
    return schema.SessionModeState(
        current_mode_id=session.mode,
        available_modes=[
            schema.SessionMode(id=mode, name=mode.capitalize(), description=text)
            for mode, text in MODES.items()
        ],
    )


def _read_prompt(blocks: Sequence[Any]) -> EditorPrompt:
    words, attached, pictures = [], list[AttachedText](), list[bytes]()
    for block in blocks:
        match block.type:
            case "text":
                words.append(block.text)
            case "resource_link":
                attached.append(AttachedText("link", block.uri, block.name))
            case "resource" if isinstance(getattr(block.resource, "text", None), str):
                attached.append(AttachedText("file", block.resource.text, block.resource.uri))
            case "image":
                pictures.append(_decode_picture(block.data))
            case other:
                text = f"a prompt may hold text, links, text of files, and images; not: {other}"
                raise RequestError(INVALID_PARAMS, text)
    text = "\n".join(words)
    if not text.strip() and not attached and not pictures:
        raise RequestError(INVALID_PARAMS, "the prompt is empty")
    return EditorPrompt(text, tuple(attached), tuple(pictures))


def _decode_picture(data: str) -> bytes:
    try:
        picture = base64.b64decode(data, validate=True)
        read_picture(picture)
    except PictureRefused as error:
        raise RequestError(INVALID_PARAMS, f"an image cannot be used: {error}") from error
    except ValueError as error:
        raise RequestError(INVALID_PARAMS, f"an image is not base64: {error}") from error
    return picture


def _describe_servers(servers: Sequence[Any]) -> str:
    """What an editor hands over is not started: it was not reviewed."""
    if not servers:
        return ""
    names = [visible_line(str(each.name), 60) for each in servers[:MAX_LISTED_SERVERS]]
    return (
        f"The editor offers MCP servers that are not reviewed; none was started: "
        f"{', '.join(names)}. To use one, run `hermes mcp add NAME -- COMMAND`."
    )


def connect_agent(agent: EditorAgent, stream: MessageStream) -> Any:
    """The connection to a client; `listen` of it returns at the end of the input."""
    return AgentSideConnection(agent, stream, listening=False)
