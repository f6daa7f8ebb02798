"""Builds training examples from a run in the journal: its messages, its tools, how it ended."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from hermes.agent.history import ConversationHistory
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.runs import ContextCompressed, ModelAnswered, TurnUndone
from hermes.core.messages import Message, Risk, ToolSpec, Value

UNDESCRIBED_TOOL = "Not installed here any more: only its name is known."


class TrajectoryMetadata(Value, kw_only=True, frozen=True, omit_defaults=False):
    """For choosing examples to train on."""

    run: str
    parent: str = ""
    """The run whose subagent this was."""
    origin: str = ""
    task: str = ""
    part: int = 1
    """A run whose context was compressed becomes several examples, each as the model saw it."""
    parts: int = 1
    carried: int = 0
    """Leading messages that an earlier part has too; do not train on them twice."""
    outcome: str = ""
    """How the last turn ended: answered, interrupted, exhausted, failed, or open."""
    turns: int = 0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    tool_denials: int = 0
    malformed_calls: int = 0
    undescribed: tuple[str, ...] = ()
    """Tools of the run that are no longer installed."""


class Trajectory(Value, kw_only=True, frozen=True):
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    model: str = ""
    at: datetime | None = None
    completed: bool = False
    about: TrajectoryMetadata


def build_trajectories(
    events: Sequence[Event | UnknownEvent], tools: Mapping[str, ToolSpec]
) -> list[Trajectory]:
    """From the events of one run; none when no model answered in it.

    Undone turns are left out. Interrupted calls get a result that says so.
    """
    cuts = [number for number, event in enumerate(events) if isinstance(event, ContextCompressed)]
    ends = [*cuts, len(events)]
    found, before = [], 0
    for number, end in enumerate(ends):
        later = [event for event in events[end:] if isinstance(event, TurnUndone)]
        history = replay_events((*events[:end], *later))
        messages = history.view
        if not _has_answer(messages[before:]) or history.run_started is None or history.deleted:
            continue
        about = _metadata_fields(history, messages, events[:end], tools)
        found.append((history, messages, about, before))
        compressed = (
            replay_events((*events[: end + 1], *later)).messages if number < len(cuts) else []
        )
        before = len(compressed)
    return [_build_trajectory(*each, tools, part, len(found)) for part, each in enumerate(found, 1)]


def replay_events(events: Iterable[Event | UnknownEvent]) -> ConversationHistory:
    history = ConversationHistory()
    for event in events:
        history.apply(event)
    return history


def describe_tools(names: Sequence[str], tools: Mapping[str, ToolSpec]) -> tuple[ToolSpec, ...]:
    """The journal keeps only the names of a run's tools; `tools` describes those installed."""
    return tuple(tools.get(name) or _undescribed_tool(name) for name in names)


def _offered_tools(names: Sequence[str], messages: Sequence[Message]) -> list[str]:
    """The tools at the start of the run, and those it called later."""
    called = [call.name for message in messages for call in message.calls]
    return list(dict.fromkeys((*names, *called)))


def _undescribed_tool(name: str) -> ToolSpec:
    return ToolSpec(
        name=name, description=UNDESCRIBED_TOOL, parameters={"type": "object"}, risk=Risk.DESTROY
    )


def _has_answer(messages: Sequence[Message]) -> bool:
    return any(message.role == "assistant" for message in messages)


def _build_trajectory(
    history: ConversationHistory,
    messages: tuple[Message, ...],
    about: dict[str, object],
    carried: int,
    tools: Mapping[str, ToolSpec],
    part: int,
    parts: int,
) -> Trajectory:
    begun = history.run_started
    assert begun is not None
    last = messages[-1]
    answered = last.role == "assistant" and not last.calls
    return Trajectory(
        messages=messages,
        tools=describe_tools(_offered_tools(begun.tools, messages), tools),
        model=history.model or begun.model,
        at=begun.at,
        # A part that ends with a compression of the context is complete.
        completed=part < parts or (answered and not history.open),
        about=TrajectoryMetadata(**about, carried=carried, part=part, parts=parts),  # type: ignore[arg-type]
    )


def _metadata_fields(
    history: ConversationHistory,
    messages: Sequence[Message],
    events: Sequence[Event | UnknownEvent],
    tools: Mapping[str, ToolSpec],
) -> dict[str, object]:
    begun, ended = history.run_started, history.ended
    assert begun is not None
    states = [message.result.status for message in messages if message.result is not None]
    calls = [call for message in messages for call in message.calls]
    return {
        "run": begun.run,
        "parent": begun.parent,
        "origin": begun.origin,
        "task": begun.task,
        "outcome": ended.outcome if ended is not None and not history.open else "open",
        "turns": len({turn for turn, _ in history.asked}),
        "model_calls": sum(isinstance(event, ModelAnswered) for event in events),
        "input_tokens": history.usage.input_tokens,
        "output_tokens": history.usage.output_tokens,
        "tool_calls": len(calls),
        "tool_errors": states.count("error"),
        "tool_denials": states.count("denied"),
        "malformed_calls": sum(bool(call.malformed) for call in calls),
        "undescribed": tuple(
            name for name in _offered_tools(begun.tools, messages) if name not in tools
        ),
    }


def count_tool_calls(messages: Iterable[Message]) -> dict[str, dict[str, int]]:
    """By tool: how often it was called, and how those calls ended."""
    counts: dict[str, dict[str, int]] = {}
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.id: call.name for call in message.calls}
        if message.result is None:
            continue
        name = names.get(message.result.call_id, "")
        tool_counts = counts.setdefault(name, {"count": 0, "success": 0, "failure": 0, "denied": 0})
        tool_counts["count"] += 1
        tool_counts[
            {"ok": "success", "error": "failure", "denied": "denied"}[message.result.status]
        ] += 1
    return counts


def group_by_speaker(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """Groups the tool results that answer the calls of one message."""
    together: list[Message] = []
    for message in messages:
        if together and (message.role != "tool" or together[-1].role != "tool"):
            yield tuple(together)
            together = []
        together.append(message)
    if together:
        yield tuple(together)
