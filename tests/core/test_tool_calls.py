"""Tool calls joined from their events: by run and id, whole or as they arrive."""

from collections.abc import Sequence

from hermes.core.events import Event
from hermes.core.events.tools import (
    ToolApproved,
    ToolDecided,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from hermes.core.messages import Risk, ToolCall, ToolResult
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import OpenToolCalls, fold_finished_calls, fold_tool_calls


def numbered(events: Sequence[Event]) -> list[JournalRecord]:
    return [JournalRecord(number, event) for number, event in enumerate(events, 1)]


def requested(id: str = "c", run: str = "r", command: str = "df -h") -> ToolRequested:
    return ToolRequested(run=run, call=ToolCall(id, "terminal", {"command": command}))


def started(id: str = "c", run: str = "r") -> ToolStarted:
    return ToolStarted(run=run, call_id=id, risk=Risk.READ)


def finished(id: str = "c", run: str = "r", content: str = "") -> ToolFinished:
    return ToolFinished(run=run, result=ToolResult(call_id=id, content=content), seconds=2.0)


def test_a_call_holds_every_event_about_it() -> None:
    asked = ToolDecided(run="r", call_id="c", verdict="ask", rule="x", effects=("read",))
    answer = ToolApproved(run="r", call_id="c", approved=True, by="ann")
    events = [requested(), asked, answer, started(), finished(content="9 GB")]
    (call,) = fold_tool_calls(numbered(events))
    assert (call.request, call.decision, call.approval, call.start, call.finish) == tuple(events)
    assert (call.requested_seq, call.finished_seq) == (1, 5)
    assert (call.run, call.id, call.name, call.command) == ("r", "c", "terminal", "df -h")
    assert (call.effects, call.allowed) == (("read",), True)


def test_a_call_is_allowed_by_a_rule_or_a_person_and_by_nothing_else() -> None:
    def allowed(verdict: str, *answers: bool) -> bool:
        decided = ToolDecided(run="r", call_id="c", verdict=verdict, rule="x")  # type: ignore[arg-type]
        given = [ToolApproved(run="r", call_id="c", approved=yes, by="ann") for yes in answers]
        (call,) = fold_tool_calls(numbered([requested(), decided, *given]))
        return call.allowed

    assert allowed("allow")
    assert allowed("ask", True)
    assert not allowed("ask")
    assert not allowed("ask", False)
    assert not allowed("deny")
    assert not allowed("dry-run")


def test_the_same_id_in_two_runs_is_two_calls() -> None:
    events = [
        requested(run="i/net", command="ss -l"),
        requested(run="i/disk", command="df -h"),
        finished(run="i/net", content="ports"),
        finished(run="i/disk", content="disks"),
    ]
    found = [
        (call.command, end.result.content) for call, end in fold_finished_calls(numbered(events))
    ]
    assert found == [("ss -l", "ports"), ("df -h", "disks")]


def test_calls_are_in_the_order_of_requests_and_finished_ones_in_that_of_results() -> None:
    events = [requested("a"), requested("b"), requested("c"), finished("c"), finished("a")]
    assert [call.id for call in fold_tool_calls(numbered(events))] == ["a", "b", "c"]
    assert [call.id for call, _ in fold_finished_calls(numbered(events))] == ["c", "a"]


def test_a_request_repeated_after_a_crash_is_a_call_of_its_own() -> None:
    events = [requested(), started(), requested(), started(), finished(content="done")]
    cut_off, repeated = fold_tool_calls(numbered(events))
    assert (cut_off.requested_seq, cut_off.finish) == (1, None)
    assert (repeated.requested_seq, repeated.finished_seq) == (3, 5)


def test_only_the_first_result_counts_and_events_without_a_request_belong_to_no_call() -> None:
    events = [requested(), finished(content="first"), finished(content="second"), started("x")]
    ((call, end),) = fold_finished_calls(numbered(events))
    assert end.result.content == "first"
    assert call.start is None


def test_live_readers_see_each_step_and_keep_only_what_is_open() -> None:
    calls = OpenToolCalls()
    assert calls.apply(requested("a")) is not None
    assert calls.apply(requested("b")) is not None
    running = calls.apply(started("a"))
    assert running is not None
    assert running.start is not None
    assert [call.id for call in calls.calls] == ["a", "b"]
    ended = calls.apply(finished("a"), 9)
    assert ended is not None
    assert ended.finished_seq == 9
    assert [call.id for call in calls.calls] == ["b"]


def test_a_call_without_a_command_is_shown_by_its_arguments() -> None:
    call = ToolCall("c", "write_file", {"path": "/etc/x", "content": "y"})
    (found,) = fold_tool_calls(numbered([ToolRequested(run="r", call=call)]))
    assert (found.command, found.text) == ("", "/etc/x y")
    line = ToolRequested(run="r", call=ToolCall("c", "restart", {"unit": "web"}), command="sc web")
    (found,) = fold_tool_calls(numbered([line]))
    assert found.command == "sc web"


def open_calls(*events: Event) -> OpenToolCalls:
    calls = OpenToolCalls()
    for event in events:
        calls.apply(event)
    return calls


def asked(id: str = "c", run: str = "r") -> ToolDecided:
    return ToolDecided(run=run, call_id=id, verdict="ask", rule="x")


def test_a_run_waits_for_people_when_all_its_open_calls_do() -> None:
    waiting = requested(), asked()
    assert open_calls(*waiting).only_wait_for_people("r")
    assert not open_calls().only_wait_for_people("r"), "the model is asked"
    assert not open_calls(*waiting).only_wait_for_people("other")
    answered = ToolApproved(run="r", call_id="c", approved=True, by="ann")
    assert not open_calls(*waiting, answered).only_wait_for_people("r")
    beside = requested("d"), started("d")
    assert not open_calls(*waiting, *beside).only_wait_for_people("r")
    assert open_calls(*waiting, *beside, finished("d")).only_wait_for_people("r")


def test_a_run_waits_for_people_when_the_agent_or_its_subagent_asks() -> None:
    def called(name: str, run: str) -> list[Event]:
        return [ToolRequested(run=run, call=ToolCall(name, name, {})), started(name, run)]

    assert open_calls(*called("clarify", "r")).only_wait_for_people("r")
    delegated = called("delegate", "r")
    assert not open_calls(*delegated).only_wait_for_people("r")
    child = requested("c", "r/sub-1"), asked("c", "r/sub-1")
    assert open_calls(*delegated, *child).only_wait_for_people("r")
