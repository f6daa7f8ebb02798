"""`hermes acp`: joins the sessions of an editor with the application."""

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from hermes import __version__
from hermes.app.application import Application, open_application
from hermes.app.people import PeopleRegister
from hermes.core.errors import SettingsError
from hermes.core.events.base import RunOrigin
from hermes.core.events.runs import RunStarted
from hermes.core.messages import Picture
from hermes.core.protocols import Environment, Journal
from hermes.memory.store import open_journal
from hermes.settings.load import LoadedSettings

if TYPE_CHECKING:
    from hermes.acp.session import EditorSession, OpenedConversation, SessionSummary

INSTALL_HINT = 'the library for editors is not installed: pip install "hermes-oncall[acp]"'
ORIGIN: RunOrigin = "acp"
MAX_LISTED = 50
MAX_SEARCHED = 500
NOTE_TOOLS = frozenset({"todo", "clarify"})
"""They change nothing outside the conversation."""


class ApplicationSessions:
    """Implements `EditorBackend`. Each session has an application of its own, because the rules and
    the skills depend on its folder."""

    def __init__(self, loaded: LoadedSettings, model: str = "") -> None:
        self._loaded = loaded
        self._model = model

    @asynccontextmanager
    async def open(
        self, session: "EditorSession", *, resume: bool
    ) -> AsyncIterator["OpenedConversation"]:
        from hermes.acp.session import OpenedConversation

        async with open_application(
            self._loaded,
            approver=session.approver,
            ask=session.approver.choose,
            origin=ORIGIN,
            model=self._model,
            directory=Path(session.folder),
        ) as opened:
            session.approver.person = opened.agent_dependencies.by
            application = _guarded(opened, session)
            environment = _with_editor_files(opened.agent_dependencies.environment, session)
            if resume:
                await self._find(opened.journal, session.id, opened.agent_dependencies.by)
                conversation = await application.resume(session.id, environment=environment)
            else:
                conversation = await application.begin(run=session.id, environment=environment)
            try:
                yield OpenedConversation(
                    conversation, opened.bus, partial(_keep_picture, application, session.id)
                )
            finally:
                with anyio.CancelScope(shield=True):
                    await application.end_processes(session.id)
                    await application.release(session.id)

    async def sessions(self, folder: str) -> Sequence["SessionSummary"]:
        from hermes.acp.session import SessionSummary

        async with open_journal(self._loaded.store) as journal:
            person = await PeopleRegister(self._loaded, journal).local_actor()
            found = list[SessionSummary]()
            for run in await journal.runs(limit=MAX_SEARCHED):
                if run.origin != ORIGIN or len(found) == MAX_LISTED:
                    continue
                begun = await _beginning(journal, run.id)
                if begun is None or begun.by != person or folder not in ("", begun.directory):
                    continue
                title = run.title or run.task
                found.append(
                    SessionSummary(
                        id=run.id, folder=begun.directory, title=title, last_at=run.last_at
                    )
                )
            return found

    async def _find(self, journal: Journal, run: str, person: str) -> None:
        begun = await _beginning(journal, run)
        if begun is None or begun.origin != ORIGIN or begun.by != person:
            raise SettingsError(f"there is no session {run!r} of an editor")


async def _beginning(journal: Journal, run: str) -> RunStarted | None:
    async for recorded in journal.read(run=run, kinds=("run.started",)):
        if isinstance(recorded.event, RunStarted):
            return recorded.event
    return None


def _guarded(application: Application, session: "EditorSession") -> Application:
    """The application under the mode of the session and the refusals of its person."""
    from hermes.sre.policies import ReadOnlyPolicy

    dependencies = application.agent_dependencies
    policy = dependencies.executor.policy
    guarded = session.guard(policy, ReadOnlyPolicy(policy, NOTE_TOOLS))
    executor = dependencies.executor.with_policy(guarded)
    return replace(application, agent_dependencies=replace(dependencies, executor=executor))


def _with_editor_files(environment: Environment, session: "EditorSession") -> Environment:
    """The environment with the files of the editor, where both are on one machine."""
    from hermes.acp.editor_files import EditorEnvironment, HostEnvironment

    if environment.name != "local" or not isinstance(environment, HostEnvironment):
        return environment
    seen = EditorEnvironment(environment, session.files())
    session.approver.read_text = seen.text_of
    return seen


async def _keep_picture(application: Application, run: str, data: bytes) -> Picture:
    from hermes.tools.picture_storage import store_picture

    artifacts = application.agent_dependencies.artifacts
    return await store_picture(artifacts, run, "picture", data, "a picture from the editor")


async def serve_editor(loaded: LoadedSettings, model: str = "") -> None:
    """`hermes acp`: until the editor closes our input, or a signal comes. Raises `SettingsError`
    when the library is not installed."""
    try:
        import hermes.acp.agent  # noqa: F401 - before anything else: the library may be missing
        from hermes.acp.message_stream import own_standard_streams
    except ImportError as error:
        raise SettingsError(f"{INSTALL_HINT} ({error})") from error
    with own_standard_streams() as streams:
        async with anyio.create_task_group() as group:
            group.start_soon(_end_on_signal, group.cancel_scope)
            await serve_streams(loaded, *streams, model=model)
            group.cancel_scope.cancel()


async def serve_streams(
    loaded: LoadedSettings, received: int, sent: int, *, model: str = ""
) -> None:
    """Talk with an editor over two file descriptors, until it closes the first."""
    from hermes.acp.agent import EditorAgent, connect_agent
    from hermes.acp.message_stream import MessageStream

    stream = MessageStream(received, sent)
    async with anyio.create_task_group() as group:
        group.start_soon(stream.write_messages)
        agent = EditorAgent(ApplicationSessions(loaded, model), group, __version__)
        connection = connect_agent(agent, stream)
        try:
            await connection.listen()
        finally:
            with anyio.CancelScope(shield=True):
                await connection.close()
            group.cancel_scope.cancel()


async def _end_on_signal(scope: anyio.CancelScope) -> None:
    signals = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    with anyio.open_signal_receiver(*signals) as received:
        async for _ in received:
            scope.cancel()
            return
