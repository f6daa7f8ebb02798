"""What the turns of one conversation share: its means, its history, and what waits to be said."""

from collections import deque
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field

from hermes.agent.budget import Ledger
from hermes.agent.hearing import Hearing
from hermes.agent.history import History
from hermes.agent.marking import Marking
from hermes.agent.means import Means
from hermes.core.events import Event
from hermes.core.events.runs import MessageAdded
from hermes.core.messages import Message, ToolSpec
from hermes.core.protocols import ToolContext
from hermes.tools.executor import Executor

WITHHELD = (
    "what you wrote holds what looks like a secret: neither the journal nor the model got it, only "
    "«redacted:…» in its place. To let commands use it, export it as a variable before you start, "
    "name it in terminal.pass_variables, and speak of $ITS_NAME"
)


class Gauge:
    """How full the window is, without counting the whole conversation again at each call."""

    def __init__(self, means: Means, tools: Sequence[ToolSpec]) -> None:
        self._estimate = means.estimate
        self._tools = tools
        self._known: tuple[int, int] | None = None

    def tokens(self, messages: Sequence[Message]) -> int:
        if self._known is None or self._known[1] > len(messages):
            tokens = self._estimate(messages, self._tools)
        else:
            tokens = self._known[0] + self._estimate(messages[self._known[1] :], ())
        self._known = tokens, len(messages)
        return tokens

    def measured(self, tokens: int, messages: int) -> None:
        """The provider counted: better than any estimate."""
        if tokens:
            self._known = tokens, messages

    def forget(self) -> None:
        self._known = None


@dataclass
class Session:
    run: str
    means: Means
    history: History
    executor: Executor
    ledger: Ledger
    gauge: Gauge = field(init=False)
    inbox: deque[str] = field(default_factory=deque)
    """What was said while a turn runs, taken before the next call of the model."""
    notes: list[str] = field(default_factory=list)
    """What the person should know once, such as a limit that cannot be checked."""
    notes_kept: int = 0
    """How many of the notes are in the journal already."""
    failed_compressions: int = 0
    resumed: InitVar[bool] = False
    hearing: Hearing = field(init=False)
    marking: Marking = field(init=False)

    def __post_init__(self, resumed: bool) -> None:
        self.hearing = Hearing(self.run, self.means.origin, resumed=resumed)
        self.marking = Marking(self.run)
        self.equip(self.means, self.executor)

    def equip(self, means: Means, executor: Executor) -> None:
        self.means, self.executor = means, executor
        self.gauge = Gauge(means, self.specs)

    @property
    def specs(self) -> list[ToolSpec]:
        """Asked each time: a tool that this run made is there for its next step."""
        return self.executor.specs

    async def record(self, *events: Event) -> None:
        """Write down first; only what is in the journal has happened."""
        for given, (_, kept) in zip(events, await self.means.bus.record(*events), strict=True):
            self.history.apply(kept)
            self.hearing.note(kept)
            if isinstance(given, MessageAdded) and given.message.role == "user" and kept != given:
                self.note(WITHHELD)

    def shown(self) -> tuple[Message, ...]:
        """The conversation as the model sees it: what tools brought along is marked as data."""
        return self.marking.over(self.history.view, self.history.remarks)

    async def before_calls(self) -> None:
        """The gate is told what was said since it was last asked."""
        means = self.means
        if not self.hearing.knows_prompt:
            first = next(iter(self.history.view), None)
            self.hearing.read_prompt(first.text if first and first.role == "system" else "")
        await self.hearing.tell(self.executor.policy, means.bus.journal, means.artifacts)

    async def _ask(self, question: str, choices: Sequence[str]) -> str | None:
        ask = self.means.ask
        answer = await ask(question, choices) if ask is not None else None
        if answer is not None:
            self.hearing.answered(answer)
        return answer

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def new_notes(self) -> list[str]:
        new, self.notes_kept = self.notes[self.notes_kept :], len(self.notes)
        return new

    @property
    def context(self) -> ToolContext:
        means = self.means
        return ToolContext(
            run=self.run,
            environment=means.environment,
            publish=means.bus.publish,
            call=lambda call: self.executor.execute(call, self.context),
            artifacts=means.artifacts,
            ask=self._ask if means.ask is not None else None,
            processes=means.processes,
            origin=means.origin,
        )
