"""What the turns of one conversation share: its means, its history, and what waits to be said."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes.agent.budget import Ledger
from hermes.agent.history import History
from hermes.agent.means import Means
from hermes.core.events import Event
from hermes.core.messages import Message, ToolSpec
from hermes.core.protocols import ToolContext
from hermes.tools.executor import Executor


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
    specs: list[ToolSpec] = field(init=False)
    gauge: Gauge = field(init=False)
    inbox: deque[str] = field(default_factory=deque)
    """What was said while a turn runs, taken before the next call of the model."""
    notes: list[str] = field(default_factory=list)
    """What the person should know once, such as a limit that cannot be checked."""
    notes_kept: int = 0
    """How many of the notes are in the journal already."""
    failed_compressions: int = 0

    def __post_init__(self) -> None:
        self.equip(self.means, self.executor)

    def equip(self, means: Means, executor: Executor) -> None:
        self.means, self.executor = means, executor
        self.specs = executor.specs
        self.gauge = Gauge(means, self.specs)

    async def record(self, *events: Event) -> None:
        """Write down first; only what is in the journal has happened."""
        await self.means.bus.publish(*events)
        for event in events:
            self.history.apply(event)

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
            ask=means.ask,
            processes=means.processes,
            origin=means.origin,
        )
