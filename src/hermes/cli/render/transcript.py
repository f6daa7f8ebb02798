"""Renders the events of a run as fragments to print, and follows a run live."""

import time
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskStatus

from hermes.cli.render.answer_stream import AnswerStream, OutputFragment
from hermes.cli.render.lines import call_line, format_usage
from hermes.cli.render.terminal_text import clean, clip
from hermes.cli.render.tool_progress import ProgressMode, ToolProgress
from hermes.core.bus import Bus, BusItem, Glimpse
from hermes.core.events.approvals import (
    ActionAnnounced,
    ApprovalEscalated,
    ApprovalEvent,
    ApprovalRequested,
    ApprovalSettled,
)
from hermes.core.events.base import UnknownEvent
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
from hermes.core.events.skills import CompilerReported
from hermes.core.events.tools import (
    ProcessEnded,
    ProcessMatched,
    ProcessReported,
    ToolApproved,
    ToolDecided,
    ToolFinished,
    ToolRequested,
)
from hermes.core.knowledge import RECALL_NOTE_PREFIX
from hermes.core.messages import CompletionDelta, Usage
from hermes.core.run_ids import new_id
from hermes.core.tool_calls import OpenToolCalls
from hermes.plumbing.units import format_duration

APPROVAL_EVENTS = (ApprovalRequested, ApprovalEscalated, ApprovalSettled, ActionAnnounced)
_OUTCOME_TEXTS = {
    "approved": "approved",
    "denied": "denied",
    "expired": "no one approved it in time",
    "changed": "what it would do has changed: not run",
}


def approval_lines(event: ApprovalEvent, width: int) -> list[str]:
    """What was asked and answered at this terminal is left out: it was shown there."""
    if isinstance(event, ApprovalRequested) and not event.prompted:
        what = clip(clean(event.shown), max(width - 24, 10))
        return [
            f"⏳ waits for approval: {what}",
            f"  hermes approvals approve {event.approval}   (or deny, or show)",
        ]
    if isinstance(event, ActionAnnounced) and not event.prompted:
        what = clip(clean(event.shown), max(width - 24, 10))
        return [
            f"📣 in {format_duration(event.seconds)}: {what}",
            f"  hermes approvals stop {event.approval}   prevents it",
        ]
    if isinstance(event, ApprovalEscalated):
        return [f"⏳ no answer yet: {clean(', '.join(event.to))} may answer as well"]
    return _settlement_lines(event) if isinstance(event, ApprovalSettled) else []


def _settlement_lines(event: ApprovalSettled) -> list[str]:
    notes = [clean(event.note)] if event.note else []
    if event.via == "terminal" or event.outcome == "withdrawn":
        return notes
    by = f" by {clean(', '.join(event.by))}" if event.by else ""
    via = f" ({clean(event.via)})" if event.via else ""
    silent = event.outcome in ("approved", "denied") and not event.by
    return notes if silent else [f"⏳ {_OUTCOME_TEXTS[event.outcome]}{by}{via}", *notes]


class UnapprovedCalls:
    """Collects calls that were refused because no one could be asked."""

    def __init__(self) -> None:
        self._open = OpenToolCalls()
        self._refused: dict[str, None] = {}

    def feed(self, event: object) -> None:
        call = self._open.apply(event)
        if call is None or not isinstance(event, ToolApproved):
            return
        if not event.approved and event.by == "nobody":
            decided, why = call.decision, ""
            if decided is not None:
                why = f"rule {decided.rule}" + (f": {decided.reason}" if decided.reason else "")
            self._refused[f"  {call_line(call.request.call, 80)}  ({why})"] = None

    def hint(self) -> str:
        """Return how to allow the refused calls; empty when there are none."""
        if not self._refused:
            return ""
        return "\n".join(
            (
                "not run, because no one is here to approve it:",
                *self._refused,
                "To allow it: approve it in a conversation (`hermes`), let others answer "
                "(`hermes -s policy.wait=true ...`, then `hermes approvals`), or use the sandbox "
                "(`hermes -s terminal.backend=sandbox ...`).",
            )
        )


class Transcript:
    """The output of one run, event by event."""

    def __init__(
        self,
        run: str,
        *,
        block_mode: bool = True,
        reasoning: bool = False,
        progress: ProgressMode = "all",
        width: Callable[[], int] = lambda: 80,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run = run
        self.outcome = ""
        """How the last turn ended; empty while one runs."""
        self.reason = ""
        self.current_activity = ""
        """The text of the spinner; empty when nothing is running."""
        self.activity_started_at = 0.0
        self.answer_stream = AnswerStream(block_mode=block_mode, reasoning=reasoning)
        self.tool_progress = ToolProgress(
            run, announce=not block_mode, progress=progress, width=width
        )
        self.refused = UnapprovedCalls()
        self._width = width
        self._clock = clock
        self._started: TurnStarted | None = None
        self._asked = 0
        self._usage = Usage()

    @property
    def pending_text(self) -> str:
        return self.answer_stream.pending_text

    def feed(self, shown: BusItem) -> list[OutputFragment]:
        if isinstance(shown, Glimpse):
            return self._glimpse(shown) if shown.run == self.run else []
        event = shown.event
        if isinstance(event, RunStarted) and event.parent in self.tool_progress.depth:
            return self.tool_progress.subagent_started(event)
        if isinstance(event, UnknownEvent) or event.run not in self.tool_progress.depth:
            return []
        self.refused.feed(event)
        table = _RENDERERS if event.run == self.run else _SUBAGENT_RENDERERS
        render = table.get(type(event))
        return render(self, event) if render else []

    def _glimpse(self, shown: Glimpse) -> list[OutputFragment]:
        delta = shown.delta
        if delta.tool:
            self._set_activity(f"preparing {clip(clean(delta.tool), 30)}")
        elif delta.text or delta.reasoning:
            self._set_activity("writing" if delta.text else "thinking")
        return self.answer_stream.feed(delta)

    def _message(self, event: MessageAdded) -> list[OutputFragment]:
        message = event.message
        if message.role == "assistant":
            return self.answer_stream.complete(message)
        if message.role != "user" or self._started is None:
            return []
        if message.text.startswith(RECALL_NOTE_PREFIX):
            count = message.text.count("\n- ")
            return [OutputFragment("note", f"· {count} things recalled")]
        # The first message of a turn was typed just now; later ones steer the turn.
        self._asked += 1
        steered = OutputFragment("note", f"↪ {clip(clean(message.text), self._width() - 4)}")
        return [steered] if self._asked > 1 else []

    def _turn(self, event: TurnStarted) -> list[OutputFragment]:
        self._started, self._usage, self._asked = event, Usage(), 0
        self.outcome = self.reason = ""
        self._set_activity("thinking")
        return self.answer_stream.finish()

    def _ended(self, event: TurnEnded) -> list[OutputFragment]:
        self.outcome, self.reason, self.current_activity = event.outcome, event.reason, ""
        self.tool_progress.clear()
        fragments = self.answer_stream.finish()
        if event.outcome != "answered":
            fragments.append(OutputFragment("error", _turn_end_text(event)))
        elif event.reason:  # a limit that could not be checked, an answer cut short
            fragments.append(OutputFragment("note", _one_line(event.reason)))
        if self._started is not None:
            took = format_duration(max((event.at - self._started.at).total_seconds(), 0.0))
            fragments.append(OutputFragment("usage", f"{format_usage(self._usage)} · {took}"))
            self._started = None
        return fragments

    def _answered(self, event: ModelAnswered) -> list[OutputFragment]:
        self._usage += event.usage
        return []

    def _failed(self, event: ModelFailed) -> list[OutputFragment]:
        if not event.next:  # no retry: the end of the turn shows the error
            return self.answer_stream.finish()
        after = f" in {format_duration(event.wait)}" if event.wait else ""
        text = f"{clean(event.model)}: {_one_line(event.error)}; trying {clean(event.next)}{after}"
        return [*self.answer_stream.finish(), OutputFragment("error", text)]

    def _switched(self, event: ModelSwitched) -> list[OutputFragment]:
        return [OutputFragment("note", f"the model is now {clean(event.model)}")]

    def _compressed(self, event: ContextCompressed) -> list[OutputFragment]:
        tokens = f", {event.tokens_before:,} → {event.tokens_after:,} tokens"
        text = f"compressed: {event.dropped} older messages became a summary"
        return [OutputFragment("note", text + (tokens if event.tokens_before else ""))]

    def _requested(self, event: ToolRequested) -> list[OutputFragment]:
        fragments = [*self.answer_stream.finish(), *self.tool_progress.requested(event)]
        self._set_activity(self.tool_progress.current_call)
        return fragments

    def _requested_below(self, event: ToolRequested) -> list[OutputFragment]:
        return self._requested(event) if self.tool_progress.verbose else []

    def _decided(self, event: ToolDecided) -> list[OutputFragment]:
        return self.tool_progress.decided(event)

    def _finished(self, event: ToolFinished) -> list[OutputFragment]:
        fragments = [*self.answer_stream.finish(), *self.tool_progress.finished(event)]
        self._set_activity(self.tool_progress.current_call or "thinking")
        return fragments

    def _asking(self, event: ApprovalEvent) -> list[OutputFragment]:
        return [OutputFragment("note", text) for text in approval_lines(event, self._width())]

    def _reported(self, event: ProcessReported) -> list[OutputFragment]:
        lines = clean(event.output).strip().splitlines()
        line = clip(lines[-1], self._width() - 40) if lines else "nothing since"
        return [OutputFragment("note", f"⚙️ {clean(event.process)} is running; printed {line}")]

    def _matched(self, event: ProcessMatched) -> list[OutputFragment]:
        line = clip(clean(event.line), self._width() - 24)
        return [OutputFragment("note", f"⚙️ {clean(event.process)} printed {line}")]

    def _compiling(self, event: CompilerReported) -> list[OutputFragment]:
        return [OutputFragment("note", f"[{clean(event.speaker)}] {_one_line(event.text)}")]

    def _exited(self, event: ProcessEnded) -> list[OutputFragment]:
        code = "" if event.exit_code is None else f" with {event.exit_code}"
        return [OutputFragment("note", f"⚙️ {clean(event.process)} {event.reason}{code}")]

    def _set_activity(self, doing: str) -> None:
        if doing != self.current_activity:
            self.current_activity, self.activity_started_at = doing, self._clock()


def _turn_end_text(event: TurnEnded) -> str:
    if event.outcome == "exhausted":
        return "stopped: the limit of steps for one turn is reached; write “go on” to continue"
    words = "interrupted" if event.outcome == "interrupted" else "this turn failed"
    return f"{words}: {_one_line(event.reason)}" if event.reason else words


def _one_line(text: str) -> str:
    return clip(clean(text), 600)


EventRenderer = Callable[..., list[OutputFragment]]
_RENDERERS: dict[type, EventRenderer] = {
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
    CompilerReported: Transcript._compiling,
    ProcessMatched: Transcript._matched,
    ProcessReported: Transcript._reported,
    ProcessEnded: Transcript._exited,
    **dict.fromkeys(APPROVAL_EVENTS, Transcript._asking),
}
_SUBAGENT_RENDERERS: dict[type, EventRenderer] = {
    ModelAnswered: Transcript._answered,
    ToolRequested: Transcript._requested_below,
    ToolDecided: Transcript._decided,
    ToolFinished: Transcript._finished,
    **dict.fromkeys(APPROVAL_EVENTS, Transcript._asking),
}
"""For subagents: usage is counted, tool calls are shown in verbose mode."""


class TranscriptFollower:
    """Prints a transcript live: run it in a task group beside the conversation."""

    def __init__(
        self,
        bus: Bus,
        transcript: Transcript,
        print_fragments: Callable[[list[OutputFragment]], Awaitable[None]],
    ) -> None:
        self.transcript = transcript
        self._bus = bus
        self._print_fragments = print_fragments
        self._after = 0
        self._settling: dict[str, anyio.Event] = {}

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        self._after = await self._bus.journal.last()
        started: Callable[[], None] = task_status.started
        while True:
            async with self._bus.subscribe() as stream:
                stale = list(self._settling)  # requested before this stream started
                started()
                started = _already_started
                await self._catch_up(stale)
                async for shown in stream:
                    await self._show(shown)
            # The stream ended because we fell behind. The missed events are in the journal, and the
            # streamed text follows as a complete message.
            self.transcript.answer_stream.discard_stream()

    async def wait_until_shown(self) -> None:
        """Return once everything published so far is shown."""
        token = new_id("settle")
        shown = self._settling[token] = anyio.Event()
        self._bus.glimpse(token, CompletionDelta())  # queued behind everything published so far
        await shown.wait()

    async def _catch_up(self, stale: list[str]) -> None:
        async for recorded in self._bus.journal.read(after=self._after):
            await self._show(recorded)
        for token in stale:  # it may have been in the missed part
            self._settling.pop(token).set()

    async def _show(self, shown: BusItem) -> None:
        if isinstance(shown, Glimpse):
            if (waiting := self._settling.pop(shown.run, None)) is not None:
                waiting.set()
                return
        elif shown.seq <= self._after:
            return
        else:
            self._after = shown.seq
        await self._print_fragments(self.transcript.feed(shown))


def _already_started() -> None:
    """A task may report only once that it has started."""
