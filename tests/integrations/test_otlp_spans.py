"""Spans are derived from events alone, and written as OTLP/JSON."""

import json
from datetime import UTC, datetime, timedelta

from hermes.core.events import Event
from hermes.core.events.incidents import (
    ChangeBegan,
    IncidentClosed,
    IncidentOpened,
    IncidentReopened,
    PhaseEntered,
)
from hermes.core.events.runs import ModelAnswered, ModelFailed, TurnEnded, TurnStarted
from hermes.core.events.tools import ToolDecided, ToolFinished, ToolRequested
from hermes.core.messages import ToolCall, ToolResult, Usage
from hermes.integrations.otlp.encoding import encode_spans, read_rejection
from hermes.integrations.otlp.spans import RunSpans, Span

BEGAN = datetime(2026, 11, 18, 5, 0, tzinfo=UTC)
RUN = "incident-1"


def at(second: float) -> datetime:
    return BEGAN + timedelta(seconds=second)


def tool(second: float, id: str = "c1") -> list[Event]:
    call = ToolCall(id, "terminal", {"command": "df"})
    return [
        ToolRequested(run=RUN, at=at(second), call=call, command="df"),
        ToolDecided(run=RUN, at=at(second), call_id=id, verdict="allow", rule="reads"),
        ToolFinished(
            run=RUN, at=at(second + 1), result=ToolResult(call_id=id, content="97%"), seconds=1.0
        ),
    ]


def incident() -> list[Event]:
    own = {"run": RUN, "incident": RUN}
    return [
        IncidentOpened(**own, at=at(0), title="disk full", severity="P1", service="db"),
        PhaseEntered(**own, at=at(1), phase="assess"),
        *tool(2),
        PhaseEntered(**own, at=at(4), phase="reflex", attempt=1),
        ChangeBegan(**own, at=at(5), call_id="c2", command="rm /var/x", undo="none"),
        IncidentClosed(**own, at=at(9), outcome="resolved", answered_by="playbook"),
    ]


def fold(events: list[Event]) -> dict[str, Span]:
    spans = RunSpans(RUN)
    return {each.name: each for event in events for each in spans.apply(event)}


def test_an_incident_is_one_trace_of_phases_and_calls() -> None:
    spans = fold(incident())
    whole, assess, reflex = spans["incident"], spans["phase assess"], spans["phase reflex"]
    assert {each.trace for each in spans.values()} == {whole.trace}
    assert not whole.parent and assess.parent == reflex.parent == whole.id
    assert spans["execute_tool terminal"].parent == assess.id
    assert spans["execute_tool terminal"].attributes["hermes.policy.rule"] == "reads"
    assert (assess.began, assess.ended) == (at(1), at(4))
    assert (whole.began, whole.ended) == (at(0), at(9))
    (point,) = whole.points
    assert point.attributes["hermes.command"] == "rm /var/x"
    assert len({each.id for each in spans.values()}) == len(spans)


def test_the_same_events_give_the_same_ids() -> None:
    assert fold(incident()) == fold(incident())


def test_an_incident_that_was_opened_again_has_a_second_span_in_the_same_trace() -> None:
    spans = RunSpans(RUN)
    again = [
        IncidentReopened(run=RUN, incident=RUN, at=at(20), by="ann"),
        IncidentClosed(run=RUN, incident=RUN, at=at(30), outcome="escalated", reason="no idea"),
    ]
    found = [each for event in (*incident(), *again) for each in spans.apply(event)]
    first, second = [each for each in found if each.name == "incident"]
    assert first.trace == second.trace and first.id != second.id
    assert second.error == "no idea" and not first.error


def test_a_turn_contains_its_model_calls_and_one_that_was_cut_off_ends() -> None:
    spans = RunSpans("chat")
    events: list[Event] = [
        TurnStarted(run="chat", at=at(0), turn=1),
        ModelFailed(run="chat", at=at(1), model="big", error="overloaded"),
        ModelAnswered(run="chat", at=at(5), model="big", usage=Usage(10, 2), seconds=3.0),
        TurnEnded(run="chat", at=at(6), turn=1, outcome="answered"),
        TurnStarted(run="chat", at=at(10), turn=2),
        TurnStarted(run="chat", at=at(20), turn=3),
    ]
    failed, answered, turn, cut = [each for event in events for each in spans.apply(event)]
    assert failed.error == "overloaded"
    assert answered.parent == failed.parent == turn.id and answered.trace == turn.trace
    assert answered.began == at(2)
    assert answered.attributes["gen_ai.usage.input_tokens"] == 10
    assert cut.error and cut.trace != turn.trace


def test_a_call_outside_of_everything_is_a_trace_of_its_own() -> None:
    (span,) = fold(tool(0)).values()
    assert not span.parent and len(span.trace) == 32 and len(span.id) == 16


def test_the_form_is_that_of_otlp_and_every_text_is_redacted() -> None:
    spans = list(fold(incident()).values())
    body = encode_spans(
        spans,
        {"service.name": "hermes"},
        version="1",
        redact=lambda text: text.replace("/var", "*"),
    )
    assert b"/var" not in body
    (held,) = json.loads(body)["resourceSpans"]
    (scoped,) = held["scopeSpans"]
    whole = next(each for each in scoped["spans"] if each["name"] == "incident")
    assert whole["startTimeUnixNano"] == "1794978000000000000"
    assert whole["status"] == {"code": 0}
    assert {"key": "hermes.incident.service", "value": {"stringValue": "db"}} in whole["attributes"]
    assert "parentSpanId" not in whole
    phase = next(each for each in scoped["spans"] if each["name"] == "phase reflex")
    assert {"key": "hermes.attempt", "value": {"intValue": "1"}} in phase["attributes"]
    assert {"key": "hermes.resumed", "value": {"boolValue": False}} in phase["attributes"]


def test_what_a_collector_rejects_is_read_and_nonsense_is_not_an_error() -> None:
    said = b'{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}'
    assert read_rejection(said) == "3 spans were rejected: too old"
    for fine in (b"", b"{}", b'{"partialSuccess": {}}', b"<html>", b"[1]", b'"x"'):
        assert read_rejection(fine) == ""
