"""Hermes from Python: `Agent` for async code, `AIAgent` for other code."""

import atexit
import sys
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, Self

import anyio
import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal

from hermes.agent.conversation import Conversation
from hermes.app.application import Application, AskPerson, open_application
from hermes.app.policy import deny_unattended
from hermes.app.trajectories import save_trajectories
from hermes.core.actions import Approver
from hermes.core.bus import BusItem
from hermes.core.errors import SettingsError
from hermes.core.events.tools import ToolRequested
from hermes.core.messages import Message, Usage
from hermes.core.protocols import JournalRecord
from hermes.settings.load import load
from hermes.settings.secrets import Secrets

ToolProgressCallback = Callable[[str, Mapping[str, Any]], None]
"""Called with the name and the arguments of each requested tool call."""

DEFAULT_KEY_VARIABLE = "OPENROUTER_API_KEY"
OWN_KEY_VARIABLE = "OWN_API_KEY"
OWN_PROVIDER_SETTINGS = {
    "model.providers.own.base_url": "{}",
    "model.providers.own.dialect": "openai",
    "model.providers.own.key_variable": OWN_KEY_VARIABLE,
}
"""Settings for a provider of which only the address is known."""


class Agent:
    """One conversation, open for as long as the `async with` lasts.

    async with Agent(model="anthropic:claude-sonnet-5") as agent:
        print(await agent.ask("what fills my disk?"))

    `settings` are dotted keys as in `hermes config set`. Without an `approver`, whatever a rule
    wants a person to be asked about is refused.
    """

    def __init__(  # noqa: PLR0913 - each is one thing a caller may decide
        self,
        model: str = "",
        *,
        home: Path | None = None,
        settings: Mapping[str, str] | None = None,
        toolsets: Sequence[str] = (),
        directory: Path | None = None,
        resume: str | None = None,
        secrets: Mapping[str, str] | None = None,
        approver: Approver = deny_unattended,
        ask: AskPerson | None = None,
    ) -> None:
        loaded = load(home=home, overrides=settings or {})
        known = Secrets(
            {**loaded.secrets, **(secrets or {})}, {*loaded.secrets.kept, *(secrets or {})}
        )
        self._loaded = msgspec.structs.replace(loaded, secrets=known)
        self._resume = resume
        self._options: dict[str, Any] = {
            "model": model,
            "toolsets": toolsets,
            "directory": directory,
            "approver": approver,
            "ask": ask,
        }
        self._stack = AsyncExitStack()
        self._conversation: Conversation | None = None
        self._application: Application | None = None

    async def __aenter__(self) -> Self:
        application = await self._stack.enter_async_context(
            open_application(self._loaded, origin="python", **self._options)
        )
        self._application = application
        if self._resume is None:
            self._conversation = await application.begin()
        else:
            self._conversation = await application.resume(self._resume)
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self._conversation = self._application = None
        await self._stack.__aexit__(*exc_info)

    @property
    def conversation(self) -> Conversation:
        """For everything beyond asking: steer, interrupt, undo, compress, switch."""
        if self._conversation is None:
            raise SettingsError("the agent is not open: use it inside `async with Agent(...)`")
        return self._conversation

    @property
    def application(self) -> Application:
        if self._application is None:
            raise SettingsError("the agent is not open: use it inside `async with Agent(...)`")
        return self._application

    @property
    def house(self) -> Application:
        """The earlier name of `application`."""
        return self.application

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.conversation.messages

    @property
    def usage(self) -> Usage:
        return self.conversation.usage

    async def ask(self, text: str) -> str:
        """Run one turn and return its answer. Raises errors of models, budgets and the store."""
        return await self.conversation.say(text)


class AIAgent:
    """The agent for code without `async`: `AIAgent(model=...).chat("...")`.

    It works in a thread of its own until `close`, or the end of a `with` block. With
    `save_trajectories` each conversation is kept as examples in `trajectories/` after each turn.
    """

    def __init__(  # noqa: PLR0913 - the arguments its users know it by
        self,
        model: str = "",
        api_key: str | None = None,
        base_url: str | None = None,
        max_iterations: int | None = None,
        enabled_toolsets: Sequence[str] | None = None,
        disabled_toolsets: Sequence[str] | None = None,
        verbose_logging: bool = False,
        quiet_mode: bool = False,
        tool_progress_callback: ToolProgressCallback | None = None,
        **options: Any,
    ) -> None:
        self._saving = bool(options.pop("save_trajectories", False))
        settings = dict(options.pop("settings", {}))
        if base_url:
            settings |= {
                key: value.format(base_url) for key, value in OWN_PROVIDER_SETTINGS.items()
            }
            # the key of the default provider is known, a server of one's own needs none
            if not api_key:
                default = base_url.startswith("https://openrouter.ai/")
                settings["model.providers.own.key_variable"] = (
                    DEFAULT_KEY_VARIABLE if default else "none"
                )
            model = f"own:{model}"
        if max_iterations is not None:
            settings["agent.max_iterations"] = str(max_iterations)
        if disabled_toolsets:
            settings["tools.disabled"] = ",".join(disabled_toolsets)
        if api_key:
            variable = OWN_KEY_VARIABLE if base_url else DEFAULT_KEY_VARIABLE
            options["secrets"] = {**options.get("secrets", {}), variable: api_key}
        options["toolsets"] = tuple(enabled_toolsets or options.get("toolsets", ()))
        self._agent = Agent(model, settings=settings, **options)
        self._progress = tool_progress_callback
        if self._progress is None and verbose_logging and not quiet_mode:
            self._progress = _log_tool_call
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._conversations: dict[str, Conversation] = {}

    def chat(self, user_message: str, task_id: str | None = None) -> str:
        """The answer. Each `task_id` is a conversation of its own."""
        return self._open().call(self._say, user_message, task_id or "")

    def close(self) -> None:
        self._portal = None
        self._conversations.clear()
        self._stack.close()

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _open(self) -> BlockingPortal:
        if self._portal is None:
            with ExitStack() as opening:
                portal = opening.enter_context(start_blocking_portal())
                opening.enter_context(portal.wrap_async_context_manager(self._agent))
                self._stack = opening.pop_all()
            self._portal = portal
            atexit.register(self.close)
        return self._portal

    async def _say(self, text: str, task: str) -> str:
        if not self._conversations:
            self._conversations[task] = self._agent.conversation
        if task not in self._conversations:
            self._conversations[task] = await self._agent.application.begin(text)
        conversation = self._conversations[task]
        try:
            return await self._ask(conversation, text)
        finally:
            if self._saving:
                await save_trajectories(self._agent.application, conversation.run)

    async def _ask(self, conversation: Conversation, text: str) -> str:
        if self._progress is None:
            return await conversation.say(text)
        async with (
            anyio.create_task_group() as group,
            self._agent.application.bus.subscribe() as stream,
        ):
            group.start_soon(_report_progress, stream, self._progress)
            answer = await conversation.say(text)
            group.cancel_scope.cancel()
        return answer


async def _report_progress(stream: AsyncIterable[BusItem], progress: ToolProgressCallback) -> None:
    async for shown in stream:
        if isinstance(shown, JournalRecord) and isinstance(shown.event, ToolRequested):
            progress(shown.event.call.name, shown.event.call.arguments)


def _log_tool_call(name: str, arguments: Mapping[str, Any]) -> None:
    sys.stderr.write(f"{name} {dict(arguments)}\n")
