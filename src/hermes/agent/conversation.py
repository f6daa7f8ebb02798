"""A conversation: one run in the journal, with the verbs a person or another room has for it."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import anyio

from hermes.agent.budget import Ledger
from hermes.agent.compression import compress
from hermes.agent.delegation import SubRun, delegate_tool, depth
from hermes.agent.history import Cause, History, recall
from hermes.agent.loop import Outcome, ended, run_calls, run_turn, said
from hermes.agent.means import Means
from hermes.agent.prompt import prompt_for
from hermes.agent.session import Session
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
from hermes.core.ids import new_id
from hermes.core.messages import Message, Usage
from hermes.core.protocols import Model
from hermes.core.whose import in_the_name_of
from hermes.tools.executor import Executor


class Conversation:
    """Made with `begin` or `resume`. One turn at a time; `steer` and `interrupt` act on it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._scope: anyio.CancelScope | None = None

    @classmethod
    async def begin(
        cls,
        means: Means,
        *,
        task: str = "",
        run: str = "",
        parent: str = "",
        directory: str = "",
        system: str | None = None,
        unattended: bool = False,
    ) -> "Conversation":
        if run and await _exists(means, run):
            raise SettingsError(f"run {run!r} is already in the journal; resume it instead")
        begun = RunStarted(
            run=run or new_id("run"),
            origin=means.origin,
            parent=parent,
            task=task[:200],
            model=means.model.name,
            directory=directory,
            tools=tuple(spec.name for spec in means.executor.specs),
            unattended=unattended,
        )
        events: list[Event] = [begun]
        prompt = prompt_for(means, directory) if system is None else system
        if prompt:
            message = Message(role="system", text=prompt)
            events.append(MessageAdded(run=begun.run, message=message))
        written = await means.bus.record(*events)
        history = History()
        history.first_seq = written[0][0]
        for _, event in written:
            history.apply(event)
        return cls(_open(means, begun.run, history))

    @classmethod
    async def resume(cls, means: Means, run: str) -> "Conversation":
        """Rebuilt from the journal alone; writes nothing. Raises `SettingsError`."""
        history = await recall(means.bus.journal, run)
        missing = ""
        if history.model and history.model != means.model.name and means.open_model is not None:
            try:
                means = replace(means, model=means.open_model(history.model))
            except SettingsError as error:  # better another model than a lost conversation
                missing = f"{history.model} could not be opened ({error}); going on with another"
        session = _open(means, run, history, resumed=True)
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
        """How the last turn ended; None before any did."""
        return self._session.history.ended

    @property
    def open(self) -> bool:
        """True while a turn runs, and when one was cut off: then `carry_on` finishes it."""
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
        return self._session.means.model

    async def say(self, text: str) -> str:
        """One turn, until the model answers in words; empty when it was interrupted.

        Raises errors of models, budgets and the store, after writing down that the turn failed.
        """
        self._must_rest()
        if self.open:
            await self._close("interrupted", "cut off before", "a crash")
        answer = await self._turn(partial(self._begin_turn, text))
        inbox = self._session.inbox
        while inbox and self.ended is not None and self.ended.outcome in ("answered", "exhausted"):
            later = inbox.popleft()  # said in the very moment in which the turn ended
            answer = await self._turn(partial(self._begin_turn, later))
        return answer

    async def carry_on(self) -> str | None:
        """Finish a turn that was cut off; None when there is nothing to finish.

        A call that was started and may have changed something is not run again.
        """
        self._must_rest()
        await self._reread()
        history = self._session.history
        if not history.open:
            return None
        if history.request(history.turn) is None:
            await self._close("interrupted", "nothing was asked", "a crash")
            return None
        return await self._turn(self._finish_turn)

    def steer(self, text: str) -> None:
        """Said while a turn runs: taken before the next call of the model."""
        self._session.inbox.append(text)

    def interrupt(self) -> None:
        """End the running turn: running tools are cancelled, their calls answered as such."""
        if self._scope is not None:
            self._scope.cancel()

    async def compress(self) -> ContextCompressed | None:
        self._must_rest()
        return await compress(self._session)

    async def undo(self) -> str | None:
        """Take back the last turn; what was asked in it, or None when there is none."""
        self._must_rest()
        history = self._session.history
        turn = history.last_turn
        if not turn:
            return None
        text = history.request(turn)
        await self._session.record(TurnUndone(run=self.run, turn=turn))
        self._session.gauge.forget()
        return text

    async def switch(self, model: Model) -> None:
        self._must_rest()
        await self._session.record(ModelSwitched(run=self.run, model=model.name))
        session = self._session
        means = replace(session.means, model=model)
        session.equip(means, _equipped(means, session.run, session.history))

    def _must_rest(self) -> None:
        if self._scope is not None:
            raise SettingsError("a turn is running: steer or interrupt it, or wait for its end")

    async def _begin_turn(self, text: str) -> str:
        session = self._session
        session.failed_compressions = 0
        await session.record(
            TurnStarted(run=self.run, turn=session.history.turn + 1),
            MessageAdded(run=self.run, message=said(text)),
            *await session.means.recall(self.run, text),
        )
        return await run_turn(session)

    async def _finish_turn(self) -> str:
        session, history = self._session, self._session.history
        again = [call for call in history.unanswered() if history.may_run(call)]
        lost = [history.lost(call) for call in history.unanswered() if not history.may_run(call)]
        if lost:
            await session.record(*(ToolFinished(run=self.run, result=result) for result in lost))
        if again:
            await run_calls(session, again)
        last = history.messages[-1]
        if last.role == "assistant" and not last.calls:  # only its ending had not been written
            await session.record(ended(session, "answered"))
            return last.text
        return await run_turn(session)

    async def _turn(self, work: Callable[[], Awaitable[str]]) -> str:
        with anyio.CancelScope() as scope, in_the_name_of(self.run):
            self._scope = scope
            try:
                return await work()
            except anyio.get_cancelled_exc_class():
                with anyio.move_on_after(5, shield=True):
                    await self._close("interrupted", "", "an interruption")
                raise
            except HermesError as error:
                await self._close("failed", str(error), "a crash")
                raise
            finally:
                self._scope = None
        return ""

    async def _close(self, outcome: Outcome, reason: str, cause: Cause) -> None:
        """Answer what is unanswered and end the turn, as far as the store lets us."""
        with suppress(StoreError):
            await self._reread()
            session, history = self._session, self._session.history
            if not history.open:
                return
            results = [history.lost(call, cause) for call in history.unanswered()]
            notes = "; ".join(part for part in (reason, *session.new_notes()) if part)
            await session.record(
                *(ToolFinished(run=self.run, result=result) for result in results),
                ended(session, outcome, notes),
            )

    async def _reread(self) -> None:
        """The journal knows better than we do what had begun when something was cut off."""
        self._session.history = await recall(self._session.means.bus.journal, self.run)


def _open(means: Means, run: str, history: History, *, resumed: bool = False) -> Session:
    ledger = means.ledger or Ledger(means.bus.journal, means.settings.limits)
    ledger.watch(run, after=history.first_seq - 1)
    means = replace(means, ledger=ledger)
    return Session(run, means, history, _equipped(means, run, history), ledger, resumed=resumed)


def _equipped(means: Means, run: str, history: History) -> Executor:
    if depth(run) >= means.settings.max_depth:
        return means.executor
    directory = history.begun.directory if history.begun else ""
    return means.executor.plus(delegate_tool(means, _open_subagent, directory=directory))


async def _open_subagent(means: Means, sub: SubRun) -> Conversation:
    if sub.known:
        return await Conversation.resume(means, sub.run)
    return await Conversation.begin(
        means, task=sub.goal, run=sub.run, parent=sub.parent, directory=sub.directory
    )


async def _exists(means: Means, run: str) -> bool:
    return bool([0 async for _ in means.bus.journal.read(run=run, kinds=("run.started",))])
