"""Settings become a working house: every room is opened, handed what it needs, and closed."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.agent.budget import Ledger
from hermes.agent.conversation import Conversation
from hermes.agent.means import Means
from hermes.agent.settings import AgentSettings
from hermes.app.claims import Claims
from hermes.core.bus import Bus
from hermes.core.errors import ModelError, SettingsError
from hermes.core.events import ModelFailed, Origin
from hermes.core.ids import new_id
from hermes.core.plugins import names
from hermes.core.protocols import (
    Action,
    Approval,
    Approver,
    Decision,
    Environment,
    Model,
    Tool,
)
from hermes.core.whose import whose_run
from hermes.environments.open import Opening, open_environment
from hermes.environments.registry import ProcessRegistry
from hermes.environments.variables import child_variables
from hermes.memory.artifacts import FileArtifacts
from hermes.memory.journal import SqliteJournal
from hermes.models.catalogue import price
from hermes.models.chain import open_chain
from hermes.models.connections import Connections
from hermes.models.reference import for_role
from hermes.models.tokens import estimate_tokens
from hermes.policy.by_risk import RiskPolicy
from hermes.settings.load import Loaded
from hermes.tools.catalogue import Catalogue, build
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal

if TYPE_CHECKING:
    from hermes.memory.runs import RunSummary

DELEGATE = "delegate"
Ask = Callable[[str, Sequence[str]], Awaitable[str | None]]


async def nobody(action: Action, decision: Decision) -> Approval:
    """Where no person can be asked, the answer is no."""
    return Approval(approved=False, by="nobody")


@dataclass(frozen=True)
class House:
    """Working rooms, joined. Lives inside `open_house`."""

    loaded: Loaded
    journal: SqliteJournal
    bus: Bus
    means: Means
    catalogue: Catalogue
    models: "Models"
    directory: str
    claims: Claims
    warnings: tuple[str, ...] = ()
    """What the person should know: tools that could not be read, with file and line."""

    async def begin(self, task: str = "", *, unattended: bool = False) -> Conversation:
        run = new_id("run")
        self.claims.take(run)
        return await Conversation.begin(
            self.means, task=task, run=run, directory=self.directory, unattended=unattended
        )

    async def resume(self, run: str = "") -> Conversation:
        """A conversation as the journal has it; the latest when none is named.

        Raises `RunTaken` while another process works on it.
        """
        run = run or await self._latest()
        self.claims.take(run)
        return await Conversation.resume(self.means, run)

    def open_model(self, reference: str) -> Model:
        return self.models.open(reference)

    async def _latest(self) -> str:
        runs: Sequence[RunSummary] = await self.journal.runs(limit=1)
        if not runs:
            raise SettingsError("there is no conversation to resume yet; begin one with: hermes")
        return runs[0].id


class Models:
    """Opens models by reference, each with its retries and the fallbacks behind it."""

    def __init__(self, loaded: Loaded, connections: Connections, bus: Bus) -> None:
        self._loaded = loaded
        self._connections = connections
        self._bus = bus

    def open(self, reference: str) -> Model:
        loaded = self._loaded
        return open_chain(
            reference, loaded.settings.model, loaded.secrets, self._connections, self._failed
        )

    async def _failed(self, model: str, error: ModelError, following: str, wait: float) -> None:
        await self._bus.publish(
            ModelFailed(run=whose_run(), model=model, error=str(error), next=following, wait=wait)
        )


@asynccontextmanager
async def open_house(
    loaded: Loaded,
    *,
    approver: Approver = nobody,
    ask: Ask | None = None,
    origin: Origin = "cli",
    model: str = "",
    toolsets: Sequence[str] = (),
    directory: Path | None = None,
) -> AsyncIterator[House]:
    """A house to work in. What is not said here is as the settings say."""
    settings, folder = loaded.settings, directory or Path.cwd()
    async with AsyncExitStack() as stack:
        journal = await stack.enter_async_context(SqliteJournal.open(loaded.journal))
        bus = Bus(journal)
        connections = await stack.enter_async_context(Connections())
        models = Models(loaded, connections, bus)
        environment = await stack.enter_async_context(place(loaded, folder))
        processes = await stack.enter_async_context(
            ProcessRegistry(loaded.home, bus.publish, settings=settings.terminal)
        )
        await processes.recover(environment)
        catalogue, warnings = build_tools(loaded, toolsets)
        if not model and loaded.origin("model.default").source == "detected":
            warnings += (detected(loaded),)
        chosen = models.open(model or settings.model.default)
        summary = for_role("summary", settings.model)
        means = Means(
            model=chosen,
            executor=Executor(catalogue.tools, RiskPolicy(), approver, bus),
            environment=environment,
            bus=bus,
            artifacts=FileArtifacts(loaded.home / "artifacts"),
            settings=agent_settings(loaded, catalogue),
            summary_model=models.open(summary) if summary != settings.model.default else chosen,
            open_model=models.open,
            processes=processes,
            ask=ask,
            price=price,
            estimate=estimate_tokens,
            origin=origin,
            ledger=Ledger(journal, settings.agent.limits),
        )
        claims = Claims(loaded.home / "locks")
        stack.callback(claims.close)
        yield House(loaded, journal, bus, means, catalogue, models, str(folder), claims, warnings)


def agent_settings(loaded: Loaded, catalogue: Catalogue) -> AgentSettings:
    """The agent brings `delegate` along by itself, unless the chosen toolsets leave it out."""
    settings = loaded.settings.agent
    if DELEGATE in catalogue.elsewhere:
        return settings
    return msgspec.structs.replace(settings, max_depth=0)


def detected(loaded: Loaded) -> str:
    model, why = loaded.settings.model.default, loaded.origin("model.default").where
    if model != "local:":
        return f"{model} answers, because {why}"
    return f"{why}, so the small model on board answers; it is no expert: `hermes setup`"


def place(loaded: Loaded, folder: Path) -> Environment:
    """The environment that the settings name, not yet entered."""
    terminal = loaded.settings.terminal
    return open_environment(
        Opening(
            settings=terminal,
            directory=folder,
            home=loaded.home,
            variables=child_variables(
                loaded.secrets, terminal.pass_variables, withheld=loaded.secrets.kept
            ),
            secrets=loaded.secrets,
        )
    )


def build_tools(loaded: Loaded, toolsets: Sequence[str] = ()) -> tuple[Catalogue, tuple[str, ...]]:
    """The tools, and what is wrong with those declared in the home."""
    settings = loaded.settings.tools
    if toolsets:
        settings = msgspec.structs.replace(settings, toolsets=tuple(toolsets))
    terminal = loaded.settings.terminal
    made: dict[str, Tool] = {
        "terminal": make_terminal(timeout=terminal.timeout, max_timeout=terminal.max_timeout)
    }
    folder = loaded.home / "tools"
    if not folder.is_dir():
        return build(settings, extra=made, elsewhere=[DELEGATE]), ()
    from hermes.tools.declared import load_folder

    declared = load_folder(folder, taken=names("tools"))
    catalogue = build(settings, extra={**made, **declared.tools}, elsewhere=[DELEGATE])
    return catalogue, declared.mistakes
