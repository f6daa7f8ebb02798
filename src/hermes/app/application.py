"""Opens the application: every package gets what it needs from the settings, and is closed.

Also resumes unattended runs after a crash.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from hermes.agent.conversation import Conversation
from hermes.agent.dependencies import AgentDependencies
from hermes.agent.history import find_interrupted_runs, rebuild_history
from hermes.app.journal.search import AudienceSearch, JournalSearch, index_in_background
from hermes.app.journal.upkeep import CheckpointSigner, open_buffered_journal
from hermes.app.mcp.servers import open_mcp_tools
from hermes.app.models import ApplicationModels
from hermes.app.people import PeopleRegister
from hermes.app.policy import ApplicationApprover, LazyPolicy, deny_unattended
from hermes.app.run_locks import RunLocked, RunLocks, lock_run, unlock_run
from hermes.app.secret_redactor import SecretRedactor
from hermes.app.skills.library import SKILL_VIEW_TOOL, ApplicationSkills, python_skill_tools
from hermes.app.tools.tooling import (
    AgentTooling,
    application_tools,
    build_tooling,
    configured_environment,
    copy_tools,
    schedule_tools,
)
from hermes.core.actions import AnswersApprovals, Approver
from hermes.core.bus import Bus
from hermes.core.errors import HermesError, SettingsError
from hermes.core.events.base import RunOrigin
from hermes.core.events.operations import HOOKS_FOLDER
from hermes.core.events.runs import RunStarted
from hermes.core.messages import Value
from hermes.core.protocols import Environment, Model, Tool
from hermes.core.run_ids import new_id
from hermes.environments.process_registry import ProcessRegistry
from hermes.learning.session_memory import SessionMemory, private_person
from hermes.memory.artifacts import FileArtifacts
from hermes.memory.store import JournalStore, display_location, open_journal
from hermes.models.catalog import reference_for_role, usage_cost
from hermes.models.message_format import estimate_tokens
from hermes.models.open import ModelConnections
from hermes.settings.load import LoadedSettings
from hermes.tools.executor import Executor, LayeredTools
from hermes.tools.toolsets import resolve_toolsets, with_own_toolsets

if TYPE_CHECKING:
    from hermes.memory.journal.runs import RunSummary

MAX_RECENT_RUNS = 50
"""Runs among which the latest conversation is searched; drills do not count."""

CHAT_ORIGINS = ("cli", "python", "chat", "web", "acp")
"""Origins with a person; a drill or a batch gets the model that it names, however small."""

LOCAL_ORIGINS = ("cli", "python", "batch", "acp")
"""Origins where the user of this process is the person; others name one, or there is none."""

HOOK_SEARCH_PAUSE_S = 15.0

AskPerson = Callable[[str, Sequence[str]], Awaitable[str | None]]
EndRun = Callable[[str], Awaitable[None]]
"""Ends what a run has left open."""
BROWSER_PREFIX = "browser_"


@dataclass(frozen=True)
class Application:
    """All parts, joined. Valid inside `open_application`."""

    loaded: LoadedSettings
    journal: JournalStore
    bus: Bus
    agent_dependencies: AgentDependencies
    models: ApplicationModels
    tooling: AgentTooling
    directory: str
    run_locks: RunLocks
    memory: SessionMemory
    people: PeopleRegister
    policy: LazyPolicy
    approver: ApplicationApprover
    end_browser: EndRun | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the person should know before they begin."""
        detected = self.tooling.detected
        found = (*self.tooling.problems, *self.memory.warnings)
        return (*([detected] if detected else []), *found)

    async def begin(
        self,
        task: str = "",
        *,
        run: str = "",
        unattended: bool = False,
        by: str = "",
        audience: str = "",
        environment: Environment | None = None,
        ask: AskPerson | None = None,
    ) -> Conversation:
        """`by` is the person for whom it works; empty: the user of this process. `audience` is the
        address of a direct chat or a private thread: it is recalled only there.

        `environment` is that of this conversation alone; it is open, and stays so until `release`.
        `ask` reaches the people of this conversation.
        """
        run = run or new_id("run")
        await self._hold(run)
        private_to = private_person(by, audience) if audience else ""
        sections = (*self.agent_dependencies.sections, *self.memory.sections(private_to))
        dependencies = replace(
            self._chat_dependencies(environment, ask), sections=sections, audience=audience
        )
        return await Conversation.begin(
            dependencies,
            task=task,
            run=run,
            directory=self.directory,
            unattended=unattended,
            by=by,
        )

    async def resume(
        self,
        run: str = "",
        *,
        environment: Environment | None = None,
        ask: AskPerson | None = None,
    ) -> Conversation:
        """Resume a conversation from the journal; the latest when none is named.

        Raises `RunLocked` while another process works on it.
        """
        run = run or await self._latest()
        await self._refuse_drill_run(run)
        await self._hold(run)
        return await Conversation.resume(self._chat_dependencies(environment, ask), run)

    async def release(self, run: str) -> None:
        """The opposite of `begin` and `resume`: learn from the run, forget it, give it back.

        Any process may resume it then. What it said and did is in the journal.
        """
        try:
            await self.memory.release_run(run)
        finally:
            self.policy.forget(run)
            self.approver.forget(run)
            if self.end_browser is not None:
                await self.end_browser(run)
            if self.agent_dependencies.budget is not None:
                self.agent_dependencies.budget.forget(run)
            await unlock_run(run, self.run_locks, self.journal)

    def has_running_processes(self, run: str) -> bool:
        processes = self.agent_dependencies.processes
        return processes is not None and any(
            process.status == "running" for process in processes.list(run)
        )

    async def end_processes(self, run: str) -> list[str]:
        """End the background processes of a run and of its subagents; returns their commands."""
        processes = self.agent_dependencies.processes
        if processes is None:
            return []
        ended = []
        for each in processes.list():
            if each.status == "running" and each.run.partition("/")[0] == run:
                await processes.kill(each.id)
                ended.append(each.command)
        return ended

    async def keep_hooks(self, loaded: LoadedSettings | None = None) -> None:
        """Tell hooks and webhooks about events until cancelled, those that no other process tells.

        `loaded` are the settings that they run under. Nothing is loaded while there are none.
        """
        while True:
            if self.loaded.settings.hooks.webhooks or (self.loaded.home / HOOKS_FOLDER).is_dir():
                break
            await anyio.sleep(HOOK_SEARCH_PAUSE_S)
        from hermes.app.hooks.runner import HookRunner

        await HookRunner(loaded or self.loaded, self.bus, self.run_locks).run()

    async def keep_traces(self, report: Callable[[str], object]) -> None:
        """Send traces until cancelled; nothing is loaded without a collector in the settings."""
        if not self.loaded.settings.otlp.url:
            return
        from hermes.app.journal.traces import TraceExporter

        try:
            exporter = TraceExporter(self.loaded, self.bus, self.run_locks)
        except SettingsError as error:
            report(f"traces are not sent: {error}")
            return
        await exporter.run(report)

    async def _hold(self, run: str) -> None:
        await lock_run(run, self.run_locks, self.journal)
        self.policy.remember(run)
        self.memory.learn_from_run(run)

    def open_model(self, reference: str) -> Model:
        """Open a model for a conversation. Raises `SettingsError`."""
        instead = self.models.substitute_for(reference, Path(self.directory))
        return instead or self.models.open(reference)

    async def checked_model(self, reference: str) -> Model:
        """Like `open_model`, after a test that it can be used. Raises `ModelError` as well."""
        await self.models.open_checked(reference)
        return self.open_model(reference)

    def _chat_dependencies(
        self, environment: Environment | None, ask: AskPerson | None
    ) -> AgentDependencies:
        own = environment or self.agent_dependencies.environment
        ask = ask or self.agent_dependencies.ask
        if self.agent_dependencies.origin not in (*CHAT_ORIGINS, "cron"):
            return replace(self.agent_dependencies, environment=own, ask=ask)
        instead = self.models.substitute_for(
            self.agent_dependencies.model.name, Path(self.directory)
        )
        return replace(
            self.agent_dependencies,
            model=instead or self.agent_dependencies.model,
            environment=own,
            ask=ask,
            open_model=self.open_model,
        )

    async def _latest(self) -> str:
        runs: Sequence[RunSummary] = await self.journal.runs(limit=MAX_RECENT_RUNS)
        own = [run.id for run in runs if run.origin != "gym"]
        if not own:
            raise SettingsError("there is no conversation to resume yet; begin one with: hermes")
        return own[0]

    async def _refuse_drill_run(self, run: str) -> None:
        """Actions meant for a gym box must not run on this host."""
        async for recorded in self.journal.read(run=run, kinds=("run.started",)):
            if isinstance(recorded.event, RunStarted) and recorded.event.origin == "gym":
                raise SettingsError(f"{run} was a drill; its box is gone, so it cannot go on")


@asynccontextmanager
async def open_application(
    loaded: LoadedSettings,
    *,
    approver: Approver | AnswersApprovals = deny_unattended,
    ask: AskPerson | None = None,
    origin: RunOrigin = "cli",
    model: str = "",
    toolsets: Sequence[str] = (),
    directory: Path | None = None,
    environment: Environment | None = None,
) -> AsyncIterator[Application]:
    """Open the application. Arguments override the settings."""
    settings, folder = loaded.settings, directory or Path.cwd()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(
            # Only a watch continues when its journal file cannot be written.
            open_buffered_journal(loaded)
            if origin == "incident"
            else open_journal(loaded.store, timeout_s=settings.store.patience)
        )
        redactor = SecretRedactor(loaded)
        signer = CheckpointSigner(
            store,
            loaded.home,
            display_location(loaded.store),
            in_own_process=origin == "incident",  # a watch runs for months
        )
        bus = Bus(store, clean=redactor.clean_event, on_recorded=signer.note_event)
        await stack.enter_async_context(signer)
        connections = await stack.enter_async_context(ModelConnections())
        models = ApplicationModels(loaded, connections, bus)
        environment = await stack.enter_async_context(
            environment or configured_environment(loaded, folder)
        )
        processes = await stack.enter_async_context(
            ProcessRegistry(loaded.home, bus.publish, settings=settings.terminal)
        )
        await processes.recover(environment)
        memory = SessionMemory(loaded.home, settings.memory, store, bus)
        await stack.enter_async_context(memory)
        search = JournalSearch(loaded)
        stack.callback(search.close)
        if settings.memory.index:
            await stack.enter_async_context(index_in_background(search, store))
        earlier = AudienceSearch(search, store) if search.has_index else None
        memory.session_recall = earlier
        skills = ApplicationSkills(loaded, folder, store)
        own = application_tools(loaded, memory, earlier, skills) | copy_tools(environment)
        policy = LazyPolicy(loaded, folder, isolated=environment.isolated)
        browser_tools, end_browser = await stack.enter_async_context(
            _open_browser_tools(loaded, folder, toolsets)
        )
        own |= schedule_tools(loaded, store, policy) | browser_tools | models.tools(model)
        strong = model or reference_for_role("strong", settings.model)
        made_tools: dict[str, Tool] = {}
        own |= await python_skill_tools(loaded, store, lambda: models.open(strong), made_tools)
        foreign, foreign_problems = await stack.enter_async_context(
            open_mcp_tools(loaded, folder, bus.publish)
        )
        tooling = build_tooling(
            loaded,
            model=model,
            toolsets=toolsets,
            own=own,
            foreign=foreign,
            problems=foreign_problems,
        )
        people = PeopleRegister(loaded, store)
        person = ApplicationApprover(loaded, bus, policy, redactor, approver, people)
        chosen = models.open(model or settings.model.default)
        summary = reference_for_role("summary", settings.model)
        dependencies = AgentDependencies(
            model=chosen,
            executor=Executor(
                LayeredTools(tooling.catalogue.tools, made_tools),
                policy,
                person,
                bus,
                redact=redactor,
                find_secret=redactor.find_secret,
            ),
            environment=environment,
            bus=bus,
            artifacts=FileArtifacts(loaded.home / "artifacts"),
            settings=tooling.agent,
            summary_model=models.open(summary) if summary != settings.model.default else chosen,
            open_model=models.open,
            processes=processes,
            ask=ask,
            price=usage_cost,
            estimate=estimate_tokens,
            origin=origin,
            by=await people.local_actor() if origin in LOCAL_ORIGINS else "",
            recall=memory.recall,
            budget=models.budget,
            sections=(skills.section(),) if SKILL_VIEW_TOOL in tooling.catalogue.tools else (),
        )
        memory.set_dependencies(dependencies)
        run_locks = RunLocks(loaded.home / "locks")
        stack.callback(run_locks.close)
        yield Application(
            loaded,
            store,
            bus,
            dependencies,
            models,
            tooling,
            str(folder),
            run_locks,
            memory,
            people,
            policy,
            person,
            end_browser,
        )


@asynccontextmanager
async def _open_browser_tools(
    loaded: LoadedSettings, folder: Path, toolsets: Sequence[str] = ()
) -> AsyncIterator[tuple[dict[str, Tool], EndRun | None]]:
    """Return None unless a toolset asks for them; no browser is started before a page is opened."""
    settings = loaded.settings.tools
    sets = with_own_toolsets(settings.sets)
    asked = [
        tool
        for name in toolsets or settings.toolsets
        for tool in ([name] if name not in sets else resolve_toolsets([name], sets))
    ]
    if not any(tool.startswith(BROWSER_PREFIX) for tool in asked):
        yield {}, None
        return
    from hermes.app.tools.browsers import open_browsers

    async with open_browsers(loaded, folder) as (tools, browsers):
        yield tools, browsers.end_run


class ResumedRun(Value, frozen=True, kw_only=True):
    run: str
    outcome: str
    """How its turn ended now, or why it could not continue."""


async def resume_unattended_runs(loaded: LoadedSettings) -> AsyncIterator[ResumedRun]:
    """Finish every interrupted turn, one run after the other, each in its own folder.

    A run that another living process works on is skipped.
    """
    async with open_journal(loaded.store) as journal:
        waiting = [
            (run, (await rebuild_history(journal, run)).run_started)
            for run in await find_interrupted_runs(journal)
        ]
    for run, begun in waiting:
        folder = Path(begun.directory) if begun and begun.directory else None
        try:
            async with open_application(loaded, directory=folder) as application:
                conversation = await application.resume(run)
                await conversation.finish_open_turn()
                ended = conversation.ended
                yield ResumedRun(run=run, outcome=ended.outcome if ended else "nothing to do")
        except RunLocked:
            continue
        except HermesError as error:
            yield ResumedRun(run=run, outcome=f"failed: {error}")
