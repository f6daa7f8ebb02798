"""Events lose their secrets on the way to the journal, and nothing else."""

import time

import pytest
from secret_corpus import lines, secrets

from hermes.core.events.approvals import ApprovalRequested
from hermes.core.events.runs import (
    ContextCompressed,
    MessageAdded,
    ModelAnswered,
    ModelFailed,
    RunStarted,
)
from hermes.core.events.tools import (
    ProcessEnded,
    ProcessMatched,
    ProcessReported,
    ProcessStarted,
    ToolDecided,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from hermes.core.messages import Message, Risk, ToolCall, ToolResult, Usage
from hermes.policy.redaction.event_redactor import EventRedactor
from hermes.policy.redaction.redactor import Redactor

KEY = "ghp_" + "aB3dE6gH9k" * 4
OWN = "open sesame/42"


def cleaner() -> EventRedactor:
    return EventRedactor(Redactor({"SHOP_KEY": OWN}).clean)


CALL = ToolCall("call-1", "terminal", {"command": f"curl -H 'x: {KEY}' shop", "env": [OWN]})


@pytest.mark.parametrize(
    "event",
    [
        MessageAdded(run="r", message=Message(role="user", text=f"my key is {KEY}")),
        MessageAdded(run="r", message=Message(role="assistant", reasoning=OWN, calls=(CALL,))),
        MessageAdded(
            run="r", message=Message(role="assistant", calls=(ToolCall("c", "t", {}, KEY),))
        ),
        RunStarted(run="r", origin="cli", task=f"use {OWN}"),
        ToolRequested(run="r", call=CALL, command=f"echo {KEY}"),
        ToolDecided(run="r", call_id="c", verdict="ask", rule="x", reason=OWN, tainted=KEY),
        ApprovalRequested(run="r", approval="a", call_id="c", tool="t", shown=KEY, undo=OWN),
        ToolFinished(run="r", result=ToolResult(call_id="c", content=f"{KEY} {OWN}")),
        ProcessStarted(run="r", process="p", command=f"run {KEY}", environment="local"),
        ProcessMatched(run="r", process="p", pattern="x", line=KEY),
        ProcessReported(run="r", process="p", output=OWN),
        ProcessEnded(run="r", process="p", tail=OWN),
        ModelFailed(run="r", model="m", error=f"401 for {KEY}"),
        ContextCompressed(run="r", summary=f"they said {OWN}", kept_first=1, dropped=2),
    ],
    ids=lambda event: event.kind,
)
def test_no_text_of_an_event_keeps_a_secret(event: object) -> None:
    cleaned = cleaner()(event)  # type: ignore[arg-type]
    assert KEY not in str(cleaned)
    assert OWN not in str(cleaned)
    assert "«redacted:" in str(cleaned)
    assert type(cleaned) is type(event)
    assert cleaner()(cleaned) is cleaned, "cleaning twice changes nothing more"


def test_what_a_value_is_may_be_told_by_its_name_alone() -> None:
    call = ToolCall(
        "c", "login", {"user": "bob", "password": "Tr0ub4dor&3", "nested": {"pin": "9"}}
    )
    cleaned = cleaner()(ToolRequested(run="r", call=call))
    assert isinstance(cleaned, ToolRequested)
    assert cleaned.call.arguments["user"] == "bob"
    assert cleaned.call.arguments["password"] == "«redacted:password»"
    assert cleaned.call.arguments["nested"] == {"pin": "9"}


def test_names_by_which_things_are_found_again_stay() -> None:
    id_ = "call_" + "aB3dE6gH9k" * 5
    event = ToolFinished(run="r", result=ToolResult(call_id=id_, content="fine", artifact=id_))
    assert cleaner()(event) is event
    wire = ({"signature": "aB3dE6gH9kL2mN4pQ7rS0tUvWxYz1234" * 3},)
    thinking = MessageAdded(run="r", message=Message(role="assistant", text="so", wire=wire))
    assert cleaner()(thinking) is thinking


def test_an_equal_text_that_was_cleaned_before_counts_as_unchanged() -> None:
    clean = cleaner()
    words = ["please look", "at nginx"]
    for _ in range(2):
        event = MessageAdded(run="r", message=Message(role="user", text=" ".join(words)))
        assert clean(event) is event


@pytest.mark.parametrize("text", lines("harmless.txt"))
def test_a_look_alike_in_a_command_is_left_alone(text: str) -> None:
    event = ToolRequested(run="r", call=ToolCall("c", "terminal", {"command": text}))
    assert cleaner()(event) is event


@pytest.mark.parametrize(("text", "before", "secret", "after"), secrets())
def test_a_secret_in_a_command_leaves(text: str, before: str, secret: str, after: str) -> None:
    event = ToolRequested(run="r", call=ToolCall("c", "terminal", {"command": text}))
    shown = str(cleaner()(event))
    assert not [piece for piece in secret.split("\n") if len(piece) > 3 and piece in shown]


def test_a_turn_costs_little_and_a_megabyte_is_bounded() -> None:
    """A wall against blow-ups on a busy machine: about 0.1 ms and 65 ms in truth."""
    clean = EventRedactor(Redactor({f"K{n}": f"value-number-{n}" for n in range(20)}).clean)
    best = min(_timed(clean, number) for number in range(20))
    assert best < 0.002
    line = "2026-01-02T03:04:05Z INFO worker-3 GET /v1/items?limit=5 200 12ms user=alice\n"
    started = time.thread_time()
    clean.text(line * 13_000)
    assert time.thread_time() - started < 2


def _timed(clean: EventRedactor, number: int) -> float:
    call = ToolCall(f"c{number}", "terminal", {"command": f"systemctl status nginx-{number}"})
    asked = Message(role="assistant", text=f"I look at {number}.", calls=(call,))
    result = ToolResult(call_id=call.id, content=f"nginx-{number} is active (running)")
    started = time.thread_time()
    for event in (
        MessageAdded(run="r", message=asked),
        ModelAnswered(run="r", model="m", usage=Usage(100, 20)),
        ToolRequested(run="r", call=call, risk=Risk.CHANGE),
        ToolDecided(run="r", call_id=call.id, verdict="allow", rule="default-reads"),
        ToolStarted(run="r", call_id=call.id, risk=Risk.CHANGE),
        ToolFinished(run="r", result=result),
    ):
        clean(event)
    return time.thread_time() - started
