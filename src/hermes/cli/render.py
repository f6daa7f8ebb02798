"""Turns the events of a run into what a person reads. Knows no terminal: events in, pieces out."""

import time
from collections.abc import Callable

from hermes.cli.render_asking import ASKING, Refused, asking_words
from hermes.cli.render_lines import duration, usage_words
from hermes.cli.render_safe import clean, clip
from hermes.cli.render_work import Progress, Work
from hermes.cli.render_writing import Piece, Writing
from hermes.core.bus import Glimpse, Shown
from hermes.core.events.approvals import ApprovalEvent
from hermes.core.events.happening import Unknown
from hermes.core.events.runs import (
    ContextCompressed,
    MessageAdded,
    ModelAnswered,
    ModelFailed,
    ModelSwitched,
    RunStarted,
    TurnEnded,
    TurnStarted,
)
from hermes.core.events.skills import CompilerSaid
from hermes.core.events.tools import (
    ProcessEnded,
    ProcessMatched,
    ToolDecided,
    ToolFinished,
    ToolRequested,
)
from hermes.core.messages import Usage
from hermes.core.remembering import RECALLED


class Transcript:
    """One run as it is told, a piece at a time."""

    def __init__(
        self,
        run: str,
        *,
        whole: bool = True,
        reasoning: bool = False,
        progress: Progress = "all",
        width: Callable[[], int] = lambda: 80,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run = run
        self.outcome = ""
        """How the last turn ended; empty while one runs."""
        self.reason = ""
        self.doing = ""
        """What is going on now, for the spinner; empty when nothing is."""
        self.since = 0.0
        self.writing = Writing(whole=whole, reasoning=reasoning)
        self.work = Work(run, announce=not whole, progress=progress, width=width)
        self.refused = Refused()
        self._width = width
        self._clock = clock
        self._started: TurnStarted | None = None
        self._asked = 0
        self._usage = Usage()

    @property
    def live(self) -> str:
        return self.writing.live

    def feed(self, shown: Shown) -> list[Piece]:
        if isinstance(shown, Glimpse):
            return self._glimpse(shown) if shown.run == self.run else []
        event = shown.event
        if isinstance(event, RunStarted) and event.parent in self.work.depth:
            return self.work.child(event)
        if isinstance(event, Unknown) or event.run not in self.work.depth:
            return []
        self.refused.feed(event)
        table = _TOLD if event.run == self.run else _TOLD_BELOW
        tell = table.get(type(event))
        return tell(self, event) if tell else []

    def _glimpse(self, shown: Glimpse) -> list[Piece]:
        delta = shown.delta
        if delta.tool:
            self._busy(f"preparing {clip(clean(delta.tool), 30)}")
        elif delta.text or delta.reasoning:
            self._busy("writing" if delta.text else "thinking")
        return self.writing.feed(delta)

    def _message(self, event: MessageAdded) -> list[Piece]:
        message = event.message
        if message.role == "assistant":
            return self.writing.complete(message)
        if message.role != "user" or self._started is None:
            return []
        if message.text.startswith(RECALLED):
            count = message.text.count("\n- ")
            return [Piece("note", f"· {count} things recalled")]
        # The first words of a turn were typed a moment ago; later ones steered it.
        self._asked += 1
        steered = Piece("note", f"↪ {clip(clean(message.text), self._width() - 4)}")
        return [steered] if self._asked > 1 else []

    def _turn(self, event: TurnStarted) -> list[Piece]:
        self._started, self._usage, self._asked = event, Usage(), 0
        self.outcome = self.reason = ""
        self._busy("thinking")
        return self.writing.cut()

    def _ended(self, event: TurnEnded) -> list[Piece]:
        self.outcome, self.reason, self.doing = event.outcome, event.reason, ""
        self.work.forget()
        pieces = self.writing.cut()
        if event.outcome != "answered":
            pieces.append(Piece("error", _ending(event)))
        elif event.reason:  # a limit that could not be checked, an answer cut short
            pieces.append(Piece("note", _one_line(event.reason)))
        if self._started is not None:
            took = duration(max((event.at - self._started.at).total_seconds(), 0.0))
            pieces.append(Piece("usage", f"{usage_words(self._usage)} · {took}"))
            self._started = None
        return pieces

    def _answered(self, event: ModelAnswered) -> list[Piece]:
        self._usage += event.usage
        return []

    def _failed(self, event: ModelFailed) -> list[Piece]:
        if not event.next:  # nothing else is tried: the end of the turn says why
            return self.writing.cut()
        after = f" in {duration(event.wait)}" if event.wait else ""
        told = f"{clean(event.model)}: {_one_line(event.error)}; trying {clean(event.next)}{after}"
        return [*self.writing.cut(), Piece("error", told)]

    def _switched(self, event: ModelSwitched) -> list[Piece]:
        return [Piece("note", f"the model is now {clean(event.model)}")]

    def _compressed(self, event: ContextCompressed) -> list[Piece]:
        tokens = f", {event.tokens_before:,} → {event.tokens_after:,} tokens"
        told = f"compressed: {event.dropped} older messages became a summary"
        return [Piece("note", told + (tokens if event.tokens_before else ""))]

    def _requested(self, event: ToolRequested) -> list[Piece]:
        pieces = [*self.writing.cut(), *self.work.requested(event)]
        self._busy(self.work.doing)
        return pieces

    def _requested_below(self, event: ToolRequested) -> list[Piece]:
        return self._requested(event) if self.work.verbose else []

    def _decided(self, event: ToolDecided) -> list[Piece]:
        return self.work.decided(event)

    def _finished(self, event: ToolFinished) -> list[Piece]:
        pieces = [*self.writing.cut(), *self.work.finished(event)]
        self._busy(self.work.doing or "thinking")
        return pieces

    def _asking(self, event: ApprovalEvent) -> list[Piece]:
        return [Piece("note", told) for told in asking_words(event, self._width())]

    def _matched(self, event: ProcessMatched) -> list[Piece]:
        line = clip(clean(event.line), self._width() - 24)
        return [Piece("note", f"⚙️ {clean(event.process)} printed {line}")]

    def _compiling(self, event: CompilerSaid) -> list[Piece]:
        return [Piece("note", f"[{clean(event.speaker)}] {_one_line(event.text)}")]

    def _exited(self, event: ProcessEnded) -> list[Piece]:
        code = "" if event.exit_code is None else f" with {event.exit_code}"
        return [Piece("note", f"⚙️ {clean(event.process)} {event.reason}{code}")]

    def _busy(self, doing: str) -> None:
        if doing != self.doing:
            self.doing, self.since = doing, self._clock()


def _ending(event: TurnEnded) -> str:
    if event.outcome == "exhausted":
        return "stopped: the limit of steps for one turn is reached; say “go on” to continue"
    words = "interrupted" if event.outcome == "interrupted" else "this turn failed"
    return f"{words}: {_one_line(event.reason)}" if event.reason else words


def _one_line(text: str) -> str:
    return clip(clean(text), 600)


Teller = Callable[..., list[Piece]]
_TOLD: dict[type, Teller] = {
    TurnStarted: Transcript._turn,
    TurnEnded: Transcript._ended,
    MessageAdded: Transcript._message,
    ModelAnswered: Transcript._answered,
    ModelFailed: Transcript._failed,
    ModelSwitched: Transcript._switched,
    ContextCompressed: Transcript._compressed,
    ToolRequested: Transcript._requested,
    ToolDecided: Transcript._decided,
    ToolFinished: Transcript._finished,
    CompilerSaid: Transcript._compiling,
    ProcessMatched: Transcript._matched,
    ProcessEnded: Transcript._exited,
    **dict.fromkeys(ASKING, Transcript._asking),
}
_TOLD_BELOW: dict[type, Teller] = {
    ModelAnswered: Transcript._answered,
    ToolRequested: Transcript._requested_below,
    ToolDecided: Transcript._decided,
    ToolFinished: Transcript._finished,
    **dict.fromkeys(ASKING, Transcript._asking),
}
"""Of a subagent the cost is counted; its tools are told to those who want to see it all."""
