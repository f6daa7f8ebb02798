"""A conversation: one run in the journal, and the operations on it."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import anyio

from hermes.agent.budget import SpendingBudget
from hermes.agent.compression import compress
from hermes.agent.delegation import SubagentRun, delegate_tool, delegation_depth
from hermes.agent.dependencies import AgentDependencies
from hermes.agent.history import ConversationHistory, InterruptionCause, rebuild_history
from hermes.agent.loop import TurnOutcome, run_calls, run_turn, turn_ended, user_message
from hermes.agent.prompt import build_prompt
from hermes.agent.session import ConversationSession
from hermes.core.errors import HermesError, SettingsError, StoreError
from hermes.core.events import Event
from hermes.core.events.runs import (
    ContextCompressed,
    MessageAdded,
    ModelSwitched,
    RunStarted,
    TurnEnded,
    TurnStarted,
    TurnUndone,
)
from hermes.core.events.tools import ToolFinished
from hermes.core.messages import AttachedText, Message, Picture, Usage
from hermes.core.protocols import Model
from hermes.core.run_ids import new_id, working_for_run
from hermes.tools.executor import Executor


class Conversation:
    """Made with `begin` or `resume`. One turn at a time; `steer` and `interrupt` act on it."""

    def __init__(self, session: ConversationSession) -> None:
        self._session = session
        self._scope: anyio.CancelScope | None = None
        self._interruptions: list[str] = []
        """The reasons of those of the running turn."""
        self.resumable = False
        """True: a turn that is cancelled from outside stays open, and a later process finishes it
        with `finish_open_turn`."""

    @classmethod
    async def begin(
        cls,
        dependencies: AgentDependencies,
        *,
        task: str = "",
        run: str = "",
        parent: str = "",
        directory: str = "",
        system: str | None = None,
        unattended: bool = False,
        by: str = "",
    ) -> "Conversation":
        """`by` is the person for whom it works; empty: the one of the dependencies."""
        if run and await _run_exists(dependencies, run):
            raise SettingsError(f"run {run!r} is already in the journal; resume it instead")
        begun = RunStarted(
            run=run or new_id("run"),
            origin=dependencies.origin,
            parent=parent,
            task=task[:200],
            model=dependencies.model.name,
            directory=directory,
            tools=tuple(spec.name for spec in dependencies.executor.specs),
            unattended=unattended,
            by=by or dependencies.by,
            audience=dependencies.audience,
        )
        events: list[Event] = [begun]
        prompt = build_prompt(dependencies, directory) if system is None else system
        if prompt:
            message = Message(role="system", text=prompt)
            events.append(MessageAdded(run=begun.run, message=message))
        written = await dependencies.bus.record(*events)
        history = ConversationHistory()
        history.first_seq = written[0][0]
        for _, event in written:
            history.apply(event)
        return cls(_open_session(dependencies, begun.run, history))

    @classmethod
    async def resume(cls, dependencies: AgentDependencies, run: str) -> "Conversation":
        """Rebuilt from the journal alone; writes nothing. Raises `SettingsError`."""
        history = await rebuild_history(dependencies.bus.journal, run)
        missing = ""
        if (
            history.model
            and history.model != dependencies.model.name
            and dependencies.open_model is not None
        ):
            try:
                dependencies = replace(dependencies, model=dependencies.open_model(history.model))
            except SettingsError as error:  # another model is better than a lost conversation
                missing = f"{history.model} could not be opened ({error}); going on with another"
        session = _open_session(dependencies, run, history, resumed=True)
        if missing:
            session.note(missing)
        return cls(session)

    @property
    def run(self) -> str:
        return self._session.run

    @property
    def messages(self) -> tuple[Message, ...]:
        """As the model would see them now."""
        return self._session.history.view

    @property
    def usage(self) -> Usage:
        return self._session.history.usage

    @property
    def ended(self) -> TurnEnded | None:
        """How the last turn ended; None before the first end."""
        return self._session.history.ended

    @property
    def next_turn(self) -> int:
        return self._session.history.turn + 1

    @property
    def open(self) -> bool:
        """True while a turn runs, and after a crash in a turn: `finish_open_turn` finishes it."""
        return self._session.history.open

    @property
    def running(self) -> bool:
        return self._scope is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the person should know, such as a limit that cannot be checked."""
        return tuple(self._session.notes)

    @property
    def model(self) -> Model:
        return self._session.dependencies.model

    @property
    def waiting(self) -> int:
        """Messages that steer the turn with its next step."""
        return len(self._session.inbox)

    def take_waiting(self) -> list[Message]:
        """Take back the messages that no turn has taken; notes of Hermes itself stay."""
        inbox = self._session.inbox
        taken = [message for message in inbox if message.key]
        left = [message for message in inbox if not message.key]
        inbox.clear()
        inbox.extend(left)
        return taken

    async def say(
        self,
        text: str,
        *,
        attached: Sequence[AttachedText] = (),
        pictures: Sequence[Picture] = (),
        by: str = "",
        key: str = "",
    ) -> str:
        """Run one turn until the model answers in words; the answer is empty when it was
        interrupted.

        `attached` is text that others wrote, which the policy does not trust; `by` is the person
        who speaks. Raises errors of models, budgets and the store, after recording that the turn
        failed.
        """
        self._require_idle()
        if self.open:
            await self._close("interrupted", "cut off before", "a crash")
        message = user_message(text, attached, key, pictures)
        answer = await self._turn(partial(self._begin_turn, message, by))
        inbox = self._session.inbox
        while inbox and self.ended is not None and self.ended.outcome in ("answered", "exhausted"):
            later = inbox.popleft()  # sent at the moment in which the turn ended
            answer = await self._turn(partial(self._begin_turn, later, by))
        return answer

    async def finish_open_turn(self) -> str | None:
        """Finish a turn that was cut off; None when there is nothing to finish.

        A call that was started and may have changed something is not run again.
        """
        self._require_idle()
        await self._reload_history()
        history = self._session.history
        if not history.open:
            return None
        if history.request(history.turn) is None:
            await self._close("interrupted", "nothing was asked", "a crash")
            return None
        return await self._turn(self._finish_turn)

    def steer(
        self,
        text: str,
        *,
        attached: Sequence[AttachedText] = (),
        pictures: Sequence[Picture] = (),
        key: str = "",
    ) -> None:
        """Text for the running turn: added before the next call of the model."""
        self._session.inbox.append(user_message(text, attached, key, pictures))

    def interrupt(self, reason: str = "") -> None:
        """End the running turn: running tools are cancelled, and their calls answered
        accordingly. The end of the turn says the reason."""
        if self._scope is not None:
            self._interruptions.append(reason)
            self._scope.cancel()

    async def compress(self) -> ContextCompressed | None:
        self._require_idle()
        return await compress(self._session)

    async def undo(self) -> str | None:
        """Undo the last turn; returns its request, or None when there is none."""
        self._require_idle()
        history = self._session.history
        turn = history.last_turn
        if not turn:
            return None
        text = history.request(turn)
        await self._session.record(TurnUndone(run=self.run, turn=turn))
        self._session.gauge.reset()
        return text

    async def switch(self, model: Model) -> None:
        self._require_idle()
        await self._session.record(ModelSwitched(run=self.run, model=model.name))
        session = self._session
        dependencies = replace(session.dependencies, model=model)
        session.set_dependencies(
            dependencies, _build_executor(dependencies, session.run, session.history)
        )

    def _require_idle(self) -> None:
        if self._scope is not None:
            raise SettingsError("a turn is running: steer or interrupt it, or wait for its end")

    async def _begin_turn(self, message: Message, by: str) -> str:
        session = self._session
        begun = session.history.run_started
        by = by or session.dependencies.by or (begun.by if begun else "")
        session.failed_compressions = 0
        await session.record(
            TurnStarted(run=self.run, turn=session.history.turn + 1, by=by),
            MessageAdded(run=self.run, message=message),
            *await session.dependencies.recall(self.run, message.text),
        )
        return await run_turn(session)

    async def _finish_turn(self) -> str:
        session, history = self._session, self._session.history
        again = [call for call in history.unanswered() if history.may_run(call)]
        lost = [
            history.lost_result(call) for call in history.unanswered() if not history.may_run(call)
        ]
        if lost:
            await session.record(*(ToolFinished(run=self.run, result=result) for result in lost))
        if again:
            await run_calls(session, again)
        last = history.messages[-1]
        if last.role == "assistant" and not last.calls:  # only its end had not been recorded
            await session.record(turn_ended(session, "answered"))
            return last.text
        return await run_turn(session)

    async def _turn(self, work: Callable[[], Awaitable[str]]) -> str:
        with anyio.CancelScope() as scope, working_for_run(self.run):
            self._scope, self._interruptions = scope, []
            try:
                return await work()
            except anyio.get_cancelled_exc_class():
                if self._interruptions or not self.resumable:
                    reason = next(iter(self._interruptions), "")
                    with anyio.move_on_after(5, shield=True):
                        await self._close("interrupted", reason, "an interruption")
                raise
            except HermesError as error:
                await self._close("failed", str(error), "a crash")
                raise
            finally:
                self._scope = None
        return ""

    async def _close(self, outcome: TurnOutcome, reason: str, cause: InterruptionCause) -> None:
        """Answer all open calls and end the turn, as far as the store allows."""
        with suppress(StoreError):
            await self._reload_history()
            session, history = self._session, self._session.history
            if not history.open:
                return
            results = [history.lost_result(call, cause) for call in history.unanswered()]
            notes = "; ".join(part for part in (reason, *session.new_notes()) if part)
            await session.record(
                *(ToolFinished(run=self.run, result=result) for result in results),
                turn_ended(session, outcome, notes),
            )

    async def _reload_history(self) -> None:
        """Read the history again: the journal knows what had started when a turn was cut off."""
        self._session.history = await rebuild_history(
            self._session.dependencies.bus.journal, self.run
        )


def _open_session(
    dependencies: AgentDependencies,
    run: str,
    history: ConversationHistory,
    *,
    resumed: bool = False,
) -> ConversationSession:
    budget = dependencies.budget or SpendingBudget(
        dependencies.bus.journal, dependencies.settings.limits
    )
    budget.track(run, after=history.first_seq - 1)
    dependencies = replace(dependencies, budget=budget)
    return ConversationSession(
        run,
        dependencies,
        history,
        _build_executor(dependencies, run, history),
        budget,
        resumed=resumed,
    )


def _build_executor(
    dependencies: AgentDependencies, run: str, history: ConversationHistory
) -> Executor:
    if delegation_depth(run) >= dependencies.settings.max_depth:
        return dependencies.executor
    directory = history.run_started.directory if history.run_started else ""
    return dependencies.executor.with_tool(
        delegate_tool(dependencies, _open_subagent, directory=directory)
    )


async def _open_subagent(dependencies: AgentDependencies, sub: SubagentRun) -> Conversation:
    if sub.known:
        return await Conversation.resume(dependencies, sub.run)
    return await Conversation.begin(
        dependencies, task=sub.goal, run=sub.run, parent=sub.parent, directory=sub.directory
    )


async def _run_exists(dependencies: AgentDependencies, run: str) -> bool:
    return bool([0 async for _ in dependencies.bus.journal.read(run=run, kinds=("run.started",))])
