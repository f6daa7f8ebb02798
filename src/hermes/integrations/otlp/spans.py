"""Derives spans from the events of a run: incident, phases, turns, model calls, tool calls.

Every id is a hash of what the span is about, so a span that is sent again is the same span, and a
parent is known before it has ended.
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta

from hermes.core.events import Event
from hermes.core.events.incidents import (
    AlertsJoined,
    ChangeBegan,
    ChangesUndone,
    IncidentAcknowledged,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentGraded,
    IncidentOpened,
    IncidentReopened,
    IncidentVerified,
    LayerInvestigated,
    PhaseEntered,
)
from hermes.core.events.runs import ModelAnswered, ModelFailed, RunStarted, TurnEnded, TurnStarted
from hermes.core.events.tools import ToolDecided, ToolFinished, ToolRequested
from hermes.core.messages import Value

AttributeValue = str | int | float | bool
SPAN_KINDS = (
    *("run.started", "turn.started", "turn.ended", "model.answered", "model.failed"),
    *("tool.requested", "tool.decided", "tool.finished", "incident.opened", "incident.reopened"),
    *("incident.phase", "incident.layer", "incident.diagnosed", "incident.verified"),
    *("incident.graded", "incident.acknowledged", "incident.joined", "incident.closed"),
    *("change.began", "changes.undone"),
)
"""The kinds of events from which spans are derived."""
INTERNAL, CLIENT = 1, 3
"""Kinds of spans, as OTLP numbers them."""
MAX_POINTS = 64
"""Points of time that one span has."""
MAX_OPEN_CALLS = 500
TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8


class SpanContext(Value, frozen=True):
    """Where a span belongs: its trace, and the span that contains it."""

    trace: str
    span: str = ""


class SpanPoint(Value, frozen=True):
    """Something that happened at one time within a span."""

    name: str
    at: datetime
    attributes: dict[str, AttributeValue] = {}


class Span(Value, kw_only=True, frozen=True):
    trace: str
    id: str
    parent: str = ""
    name: str
    began: datetime
    ended: datetime
    kind: int = INTERNAL
    attributes: dict[str, AttributeValue] = {}
    points: tuple[SpanPoint, ...] = ()
    error: str = ""
    """Why it failed; empty when it did not."""


def trace_id(*words: object) -> str:
    return _digest("trace", *words)[: 2 * TRACE_ID_BYTES]


def span_id(*words: object) -> str:
    return _digest("span", *words)[: 2 * SPAN_ID_BYTES]


def _digest(*words: object) -> str:
    return hashlib.sha256("\n".join(map(str, words)).encode()).hexdigest()


class RunSpans:
    """Folds the events of one run, in their order. `apply` returns the spans that have ended."""

    def __init__(self, run: str, parent: SpanContext | None = None) -> None:
        self._run, self._parent = run, parent
        self._origin = self._agent = ""
        self._turn: TurnStarted | None = None
        self._incident: IncidentOpened | None = None
        self._opened_at: datetime | None = None
        self._openings = 0
        self._points: list[SpanPoint] = []
        self._phase: PhaseEntered | None = None
        self._phases = 0
        self._calls: dict[str, ToolRequested] = {}
        self._decisions: dict[str, ToolDecided] = {}
        self._models = 0

    @property
    def context(self) -> SpanContext | None:
        """Where a span that begins now belongs; None outside of an incident and a turn."""
        incident = self._incident_context()
        if self._phase is not None and incident is not None:
            return SpanContext(incident.trace, self._phase_id())
        if incident is not None:
            return incident
        if self._turn is not None:
            above = self._parent or SpanContext(trace_id("turn", self._run, self._turn.turn))
            return SpanContext(above.trace, span_id("turn", self._run, self._turn.turn))
        return self._parent

    def apply(self, event: Event) -> list[Span]:
        return list(self._apply(event))

    def _apply(self, event: Event) -> Iterator[Span]:
        match event:
            case RunStarted():
                self._origin, self._agent = event.origin, event.model
            case TurnStarted():
                if self._turn is not None:  # its process ended
                    yield self._turn_span(self._turn, event.at, "interrupted", "its process ended")
                self._turn = event
            case TurnEnded():
                if self._turn is not None:
                    yield self._turn_span(self._turn, event.at, event.outcome, event.reason)
                self._turn = None
            case ModelAnswered() | ModelFailed():
                yield self._model_span(event)
            case ToolRequested() | ToolDecided() | ToolFinished():
                yield from self._apply_to_call(event)
            case _:
                yield from self._apply_to_incident(event)

    def _apply_to_call(self, event: ToolRequested | ToolDecided | ToolFinished) -> Iterator[Span]:
        match event:
            case ToolRequested():
                if len(self._calls) >= MAX_OPEN_CALLS:
                    self._calls.pop(next(iter(self._calls)))
                self._calls[event.call.id] = event
            case ToolDecided():
                if event.call_id in self._calls:
                    self._decisions[event.call_id] = event
            case ToolFinished():
                requested = self._calls.pop(event.result.call_id, None)
                if requested is not None:
                    yield self._tool_span(requested, event)

    def _apply_to_incident(self, event: Event) -> Iterator[Span]:
        match event:
            case IncidentOpened():
                self._incident, self._opened_at = event, event.at
            case IncidentReopened():
                self._opened_at = event.at
                self._openings += 1
            case PhaseEntered():
                yield from self._end_phase(event.at)
                self._phase = event
                self._phases += 1
            case IncidentClosed():
                yield from self._end_phase(event.at)
                if self._incident is not None and self._opened_at is not None:
                    yield self._incident_span(self._incident, self._opened_at, event)
                self._opened_at, self._points = None, []
            case _:
                point = _point_of(event)
                if point is not None and len(self._points) < MAX_POINTS:
                    self._points.append(point)

    def _incident_context(self) -> SpanContext | None:
        if self._incident is None or self._opened_at is None:
            return None
        id = self._incident.incident
        return SpanContext(trace_id("incident", id), span_id("incident", id, self._openings))

    def _phase_id(self) -> str:
        return span_id("phase", self._run, self._phases)

    def _end_phase(self, at: datetime) -> Iterator[Span]:
        phase, above = self._phase, self._incident_context()
        if phase is not None and above is not None:
            yield Span(
                trace=above.trace,
                id=self._phase_id(),
                parent=above.span,
                name=f"phase {phase.phase}",
                began=phase.at,
                ended=at,
                attributes={
                    "hermes.phase": phase.phase,
                    "hermes.attempt": phase.attempt,
                    "hermes.resumed": phase.resumed,
                },
            )
        self._phase = None

    def _incident_span(
        self, opened: IncidentOpened, began: datetime, closed: IncidentClosed
    ) -> Span:
        context = self._incident_context()
        assert context is not None  # it is open until this event
        return Span(
            trace=context.trace,
            id=context.span,
            name="incident",
            began=began,
            ended=closed.at,
            attributes={
                "hermes.incident.id": opened.incident,
                "hermes.incident.title": opened.title,
                "hermes.incident.severity": opened.severity,
                "hermes.incident.service": opened.service,
                "hermes.incident.outcome": closed.outcome,
                "hermes.incident.answered_by": closed.answered_by,
            },
            points=tuple(self._points),
            error=(closed.reason or "escalated") if closed.outcome == "escalated" else "",
        )

    def _turn_span(self, turn: TurnStarted, at: datetime, outcome: str, reason: str) -> Span:
        above = self._parent or SpanContext(trace_id("turn", self._run, turn.turn))
        return Span(
            trace=above.trace,
            id=span_id("turn", self._run, turn.turn),
            parent=above.span,
            name="invoke_agent hermes",
            began=turn.at,
            ended=at,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "hermes",
                "gen_ai.conversation.id": self._run,
                "gen_ai.request.model": self._agent,
                "hermes.run.origin": self._origin,
                "hermes.turn": turn.turn,
                "hermes.turn.outcome": outcome,
            },
            error=(reason or outcome) if outcome != "answered" else "",
        )

    def _model_span(self, event: ModelAnswered | ModelFailed) -> Span:
        self._models += 1
        id = span_id("model", self._run, event.at.isoformat(), self._models)
        context = self.context or SpanContext(trace_id("model", self._run, id))
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": event.model,
        }
        seconds, error = 0.0, ""
        if isinstance(event, ModelAnswered):
            seconds = max(event.seconds, 0.0)
            attributes |= {
                "gen_ai.usage.input_tokens": event.usage.input_tokens,
                "gen_ai.usage.output_tokens": event.usage.output_tokens,
                "hermes.cost_usd": event.usage.cost_usd,
            }
        else:
            error = event.error or "failed"
        return Span(
            trace=context.trace,
            id=id,
            parent=context.span,
            name=f"chat {event.model}",
            began=event.at - timedelta(seconds=seconds),
            ended=event.at,
            kind=CLIENT,
            attributes=attributes,
            error=error,
        )

    def _tool_span(self, requested: ToolRequested, finished: ToolFinished) -> Span:
        call, result = requested.call, finished.result
        context = self.context or SpanContext(trace_id("tool", self._run, call.id))
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "hermes.tool.status": result.status,
            "hermes.tool.command": requested.command,
            "hermes.tool.seconds": finished.seconds,
        }
        if (decision := self._decisions.pop(call.id, None)) is not None:
            attributes |= {
                "hermes.policy.verdict": decision.verdict,
                "hermes.policy.rule": decision.rule,
            }
        return Span(
            trace=context.trace,
            id=span_id("tool", self._run, call.id),
            parent=context.span,
            name=f"execute_tool {call.name}",
            began=requested.at,
            ended=finished.at,
            attributes=attributes,
            error=result.status if result.status != "ok" else "",
        )


def _point_of(event: Event) -> SpanPoint | None:
    match event:
        case IncidentDiagnosed():
            found: dict[str, AttributeValue] = {
                "component": event.component,
                "mechanism": event.mechanism,
                "value": event.value,
                "verdict": event.verdict,
                "confidence": event.confidence,
            }
        case ChangeBegan():
            found = {"command": event.command, "undo": event.undo, "by": event.by}
        case ChangesUndone():
            found = {"count": len(event.calls), "reason": event.reason}
        case IncidentVerified():
            found = {"ok": event.ok, "seconds": event.seconds}
        case LayerInvestigated():
            found = {"layer": event.layer, "findings": "; ".join(event.findings)}
        case IncidentGraded():
            found = {"severity": event.severity, "reason": event.reason}
        case IncidentAcknowledged():
            found = {"by": event.by}
        case AlertsJoined():
            found = {"count": event.count, "why": event.why}
        case _:
            return None
    return SpanPoint(event.kind, event.at, {f"hermes.{key}": value for key, value in found.items()})
