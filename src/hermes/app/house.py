"""Settings become a working house: every room is opened, handed what it needs, and closed."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.agent.budget import Ledger
from hermes.agent.conversation import Conversation
from hermes.agent.means import Means
from hermes.app.approving import People, nobody
from hermes.app.audit import Notary
from hermes.app.claims import Claims, claim
from hermes.app.environment import place
from hermes.app.equipment import Equipment, equip, own_tools
from hermes.app.gate import Gate
from hermes.app.journal_keeper import open_buffered
from hermes.app.learning import skill_tools
from hermes.app.models import Models
from hermes.app.recall import Past, kept_up
from hermes.app.remembering import Memory
from hermes.app.skills import SHOWN, HouseSkills
from hermes.app.veil import Veil
from hermes.core.actions import Answers, Approver
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.events.happening import Origin
from hermes.core.events.runs import RunStarted
from hermes.core.ids import new_id
from hermes.core.protocols import Environment, Model, Tool
from hermes.environments.registry import ProcessRegistry
from hermes.memory.artifacts import FileArtifacts
from hermes.memory.opening import Store, open_journal, shown
from hermes.models.catalogue import price
from hermes.models.connections import Connections
from hermes.models.reference import for_role
from hermes.models.tokens import estimate_tokens
from hermes.settings.load import Loaded
from hermes.tools.executor import Executor
from hermes.tools.table import ToolTable

if TYPE_CHECKING:
    from hermes.memory.runs import RunSummary

LOOK_BACK = 50
"""Runs among which the latest conversation is sought; drills do not count."""

CHAT_ORIGINS = ("cli", "python", "chat")
"""Where people ask; a drill or a batch gets the model that it names, however small."""

Ask = Callable[[str, Sequence[str]], Awaitable[str | None]]


@dataclass(frozen=True)
class House:
    """Working rooms, joined. Lives inside `open_house`."""

    loaded: Loaded
    journal: Store
    bus: Bus
    means: Means
    models: Models
    equipment: Equipment
    directory: str
    claims: Claims
    memory: Memory

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the person should know before they begin."""
        detected = self.equipment.detected
        found = (*self.equipment.mistakes, *self.memory.troubles)
        return (*([detected] if detected else []), *found)

    async def begin(self, task: str = "", *, unattended: bool = False) -> Conversation:
        run = new_id("run")
        await claim(run, self.claims, self.journal)
        self.memory.follow(run)
        sections = (*self.means.sections, *self.memory.sections())
        means = replace(self._for_chat(), sections=sections)
        return await Conversation.begin(
            means, task=task, run=run, directory=self.directory, unattended=unattended
        )

    async def resume(self, run: str = "") -> Conversation:
        """A conversation as the journal has it; the latest when none is named.

        Raises `RunTaken` while another process works on it.
        """
        run = run or await self._latest()
        await self._refuse_a_drill(run)
        await claim(run, self.claims, self.journal)
        self.memory.follow(run)
        return await Conversation.resume(self._for_chat(), run)

    def open_model(self, reference: str) -> Model:
        """For a conversation. Raises `SettingsError`."""
        instead = self.models.instead_of(reference, Path(self.directory))
        return instead or self.models.open(reference)

    async def checked_model(self, reference: str) -> Model:
        """Like `open_model`, after a test that it can be used. Raises `ModelError` as well."""
        await self.models.checked(reference)
        return self.open_model(reference)

    def _for_chat(self) -> Means:
        if self.means.origin not in CHAT_ORIGINS:
            return self.means
        instead = self.models.instead_of(self.means.model.name, Path(self.directory))
        return replace(self.means, model=instead or self.means.model, open_model=self.open_model)

    async def _latest(self) -> str:
        runs: Sequence[RunSummary] = await self.journal.runs(limit=LOOK_BACK)
        own = [run.id for run in runs if run.origin != "gym"]
        if not own:
            raise SettingsError("there is no conversation to resume yet; begin one with: hermes")
        return own[0]

    async def _refuse_a_drill(self, run: str) -> None:
        """What it meant for a box must not be done here."""
        async for recorded in self.journal.read(run=run, kinds=("run.started",)):
            if isinstance(recorded.event, RunStarted) and recorded.event.origin == "gym":
                raise SettingsError(f"{run} was a drill; its box is gone, so it cannot go on")


@asynccontextmanager
async def open_house(
    loaded: Loaded,
    *,
    approver: Approver | Answers = nobody,
    ask: Ask | None = None,
    origin: Origin = "cli",
    model: str = "",
    toolsets: Sequence[str] = (),
    directory: Path | None = None,
    environment: Environment | None = None,
) -> AsyncIterator[House]:
    """A house to work in. What is not said here is as the settings say."""
    settings, folder = loaded.settings, directory or Path.cwd()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(
            # A watch goes on without its file; whatever else works here must not.
            open_buffered(loaded)
            if origin == "incident"
            else open_journal(loaded.store, patience=settings.store.patience)
        )
        veil = Veil(loaded)
        notary = Notary(store, loaded.home, shown(loaded.store))
        bus = Bus(store, clean=veil.event, heard=notary.heard)
        await stack.enter_async_context(notary)
        connections = await stack.enter_async_context(Connections())
        models = Models(loaded, connections, bus)
        environment = await stack.enter_async_context(environment or place(loaded, folder))
        processes = await stack.enter_async_context(
            ProcessRegistry(loaded.home, bus.publish, settings=settings.terminal)
        )
        await processes.recover(environment)
        memory = Memory(loaded.home, settings.memory, store, bus)
        await stack.enter_async_context(memory)
        past = Past(loaded)
        stack.callback(past.close)
        await stack.enter_async_context(kept_up(past, store))
        memory.past = past if past.known else None
        skills = HouseSkills(loaded, folder, store)
        own = own_tools(loaded, memory, past, skills)
        strong = model or for_role("strong", settings.model)
        made: dict[str, Tool] = {}
        own |= await skill_tools(loaded, store, lambda: models.open(strong), made)
        equipment = equip(loaded, model=model, toolsets=toolsets, own=own)
        tools = ToolTable(equipment.catalogue.tools, made)
        gate = Gate(loaded, folder, isolated=environment.isolated)
        people = People(loaded, bus, gate, veil, approver)
        chosen = models.open(model or settings.model.default)
        summary = for_role("summary", settings.model)
        means = Means(
            model=chosen,
            executor=Executor(tools, gate, people, bus, redact=veil),
            environment=environment,
            bus=bus,
            artifacts=FileArtifacts(loaded.home / "artifacts"),
            settings=equipment.agent,
            summary_model=models.open(summary) if summary != settings.model.default else chosen,
            open_model=models.open,
            processes=processes,
            ask=ask,
            price=price,
            estimate=estimate_tokens,
            origin=origin,
            recall=memory.recall,
            ledger=Ledger(store, settings.agent.limits),
            sections=(skills.section(),) if SHOWN in equipment.catalogue.tools else (),
        )
        memory.serve(means)
        claims = Claims(loaded.home / "locks")
        stack.callback(claims.close)
        yield House(loaded, store, bus, means, models, equipment, str(folder), claims, memory)
