"""Old journals are read for ever: fields of an event are only ever added."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pinned_chats import PINNED_CHATS
from pinned_incidents import PINNED_INCIDENTS
from pinned_jobs import PINNED_JOBS
from pinned_people import PINNED_PEOPLE
from pinned_skills import PINNED_SKILLS
from pinned_watch import PINNED_WATCH

from hermes.core.events import EVENT_TYPES, Event, decode_event, encode_event
from hermes.core.events.approvals import (
    ActionAnnounced,
    ActionStopped,
    ApprovalAnswered,
    ApprovalEscalated,
    ApprovalRequested,
    ApprovalSettled,
    GrantGiven,
    GrantRevoked,
    GrantUsed,
)
from hermes.core.events.base import UnknownEvent
from hermes.core.events.memory import (
    FactConfirmed,
    FactEnded,
    FactForgotten,
    FactNoted,
    FactsShown,
    MessageForgotten,
    MessageImported,
    NoteChanged,
    RunSummarised,
)
from hermes.core.events.operations import CheckpointSigned
from hermes.core.events.runs import (
    ContextCompressed,
    MessageAdded,
    ModelAnswered,
    ModelFailed,
    ModelSwitched,
    RunDeleted,
    RunRenamed,
    RunStarted,
    TurnEnded,
    TurnStarted,
    TurnUndone,
)
from hermes.core.events.tools import (
    ProcessEnded,
    ProcessMatched,
    ProcessReported,
    ProcessStarted,
    ToolApproved,
    ToolBlocked,
    ToolDecided,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from hermes.core.messages import Message, Picture, Risk, ToolCall, ToolResult, Usage
from hermes.memory.journal.rows import read_event, row_from_event

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
CALL = ToolCall("c1", "terminal", {"command": "ls"})
HEAD = '"run":"r","at":"2026-01-02T03:04:05.678901Z"'

PINNED: dict[Event, str] = {
    RunStarted(
        run="r",
        at=AT,
        origin="cli",
        parent="p",
        task="t",
        model="m",
        directory="/d",
        tools=("a",),
        unattended=True,
    ): '{"kind":"run.started",HEAD,"origin":"cli","parent":"p","task":"t","model":"m",'
    '"directory":"/d","tools":["a"],"unattended":true}',
    RunRenamed(run="r", at=AT, title="t"): '{"kind":"run.renamed",HEAD,"title":"t"}',
    RunDeleted(run="r", at=AT): '{"kind":"run.deleted",HEAD}',
    TurnStarted(run="r", at=AT, turn=1): '{"kind":"turn.started",HEAD,"turn":1}',
    TurnEnded(
        run="r", at=AT, turn=1, outcome="failed", reason="why"
    ): '{"kind":"turn.ended",HEAD,"turn":1,"outcome":"failed","reason":"why"}',
    TurnUndone(run="r", at=AT, turn=1): '{"kind":"turn.undone",HEAD,"turn":1}',
    ModelAnswered(
        run="r", at=AT, model="m", usage=Usage(1, 2, 3, 0.5), seconds=1.5
    ): '{"kind":"model.answered",HEAD,"model":"m","usage":{"input_tokens":1,"output_tokens":2,'
    '"cached_tokens":3,"cost_usd":0.5},"seconds":1.5}',
    ModelFailed(
        run="r", at=AT, model="m", error="e", next="n", wait=2.0
    ): '{"kind":"model.failed",HEAD,"model":"m","error":"e","next":"n","wait":2.0}',
    ModelSwitched(run="r", at=AT, model="m"): '{"kind":"model.switched",HEAD,"model":"m"}',
    ContextCompressed(
        run="r", at=AT, summary="s", kept_first=1, dropped=2, tokens_before=3, tokens_after=4
    ): '{"kind":"context.compressed",HEAD,"summary":"s","kept_first":1,"dropped":2,'
    '"tokens_before":3,"tokens_after":4}',
    ToolDecided(
        run="r", at=AT, call_id="c1", verdict="dry-run", rule="x", reason="why"
    ): '{"kind":"tool.decided",HEAD,"call_id":"c1","verdict":"dry-run","rule":"x","reason":"why"}',
    ToolApproved(
        run="r", at=AT, call_id="c1", approved=True, by="me", scope="session"
    ): '{"kind":"tool.approved",HEAD,"call_id":"c1","approved":true,"by":"me","scope":"session"}',
    ToolStarted(
        run="r", at=AT, call_id="c1", risk=Risk.CHANGE
    ): '{"kind":"tool.started",HEAD,"call_id":"c1","risk":"change"}',
    ToolBlocked(
        run="r", at=AT, call_id="c1", what="write to /x", program="sed", reason="read only"
    ): '{"kind":"tool.blocked",HEAD,"call_id":"c1","what":"write to /x","program":"sed",'
    '"reason":"read only"}',
    ToolFinished(
        run="r",
        at=AT,
        result=ToolResult(call_id="c1", content="x", status="error", artifact="artifact://r/c1"),
        seconds=0.5,
    ): '{"kind":"tool.finished",HEAD,"result":{"call_id":"c1","content":"x","status":"error",'
    '"artifact":"artifact://r/c1"},"seconds":0.5}',
    ToolFinished(
        run="r",
        at=AT,
        result=ToolResult(
            call_id="c1",
            content="x",
            pictures=(
                Picture(
                    artifact="artifact://r/c1-1",
                    media="image/png",
                    width=4,
                    height=3,
                    bytes=99,
                    alt="a",
                ),
            ),
        ),
    ): '{"kind":"tool.finished",HEAD,"result":{"call_id":"c1","content":"x","pictures":'
    '[{"artifact":"artifact://r/c1-1","media":"image/png","width":4,"height":3,"bytes":99,'
    '"alt":"a"}]}}',
    ApprovalRequested(
        run="r",
        at=AT,
        approval="a",
        call_id="c1",
        tool="t",
        shown="ls",
        effects=("write",),
        rule="x",
        reason="why",
        undo="no",
        hash="h",
        requester="me",
        approvers=("ann",),
        count=2,
        barred=("me",),
        until=AT,
        place="local",
        tainted="w",
        prompted=True,
    ): '{"kind":"approval.requested",HEAD,"approval":"a","call_id":"c1","tool":"t","shown":"ls",'
    '"effects":["write"],"rule":"x","reason":"why","undo":"no","hash":"h","requester":"me",'
    '"approvers":["ann"],"count":2,"barred":["me"],"until":"2026-01-02T03:04:05.678901Z",'
    '"place":"local","tainted":"w","prompted":true}',
    ApprovalEscalated(
        run="r", at=AT, approval="a", to=("lea",)
    ): '{"kind":"approval.escalated",HEAD,"approval":"a","to":["lea"]}',
    ApprovalAnswered(
        run="r", at=AT, approval="a", approved=True, by="ann", scope="always", via="cli", note="n"
    ): '{"kind":"approval.answered",HEAD,"approval":"a","approved":true,"by":"ann",'
    '"scope":"always","via":"cli","note":"n"}',
    ApprovalSettled(
        run="r", at=AT, approval="a", outcome="approved", by=("ann",), via="cli", note="n"
    ): '{"kind":"approval.settled",HEAD,"approval":"a","outcome":"approved","by":["ann"],'
    '"via":"cli","note":"n"}',
    GrantGiven(
        run="r",
        at=AT,
        grant="g",
        action="h",
        by=("ann",),
        scope="session",
        uses=3,
        valid_for=9.0,
        rule="x",
        shown="ls",
    ): '{"kind":"grant.given",HEAD,"grant":"g","action":"h","by":["ann"],"scope":"session",'
    '"uses":3,"valid_for":9.0,"rule":"x","shown":"ls"}',
    GrantUsed(
        run="r", at=AT, grant="g", call_id="c1"
    ): '{"kind":"grant.used",HEAD,"grant":"g","call_id":"c1"}',
    CheckpointSigned(
        run="r", at=AT, seq=7, digest="d", previous="p", key="k", signature="s"
    ): '{"kind":"audit.signed",HEAD,"seq":7,"digest":"d","previous":"p","key":"k","signature":"s"}',
    GrantRevoked(
        run="r", at=AT, grant="g", by="me"
    ): '{"kind":"grant.revoked",HEAD,"grant":"g","by":"me"}',
    ActionAnnounced(
        run="r",
        at=AT,
        call_id="c1",
        shown="ls",
        effects=("write",),
        rule="x",
        seconds=30.0,
        approval="a",
        undo="no",
        place="local",
        prompted=True,
    ): '{"kind":"action.announced",HEAD,"call_id":"c1","shown":"ls","effects":["write"],'
    '"rule":"x","seconds":30.0,"approval":"a","undo":"no","place":"local","prompted":true}',
    ActionStopped(
        run="r", at=AT, call_id="c1", by="ann", approval="a"
    ): '{"kind":"action.stopped",HEAD,"call_id":"c1","by":"ann","approval":"a"}',
    ProcessStarted(
        run="r", at=AT, process="p1", command="sleep 9", environment="local"
    ): '{"kind":"process.started",HEAD,"process":"p1","command":"sleep 9","environment":"local"}',
    ProcessMatched(
        run="r", at=AT, process="p1", pattern="up", line="is up"
    ): '{"kind":"process.matched",HEAD,"process":"p1","pattern":"up","line":"is up"}',
    ProcessReported(
        run="r", at=AT, process="p1", seconds=60.0, output="x"
    ): '{"kind":"process.reported",HEAD,"process":"p1","seconds":60.0,"output":"x"}',
    ProcessEnded(
        run="r", at=AT, process="p1", exit_code=1, reason="killed", tail="bye"
    ): '{"kind":"process.ended",HEAD,"process":"p1","exit_code":1,"reason":"killed","tail":"bye"}',
    FactNoted(
        run="r",
        at=AT,
        fact="f",
        memory="semantic",
        text="t",
        quote="q",
        sources=(1, 2),
        about=("a",),
        relation="depends-on",
        key="k",
        trust="person",
        actor="ann",
        scope="team",
        supersedes=("g",),
        origin="o",
        valid_from=AT,
    ): '{"kind":"memory.noted",HEAD,"fact":"f","memory":"semantic","text":"t",'
    '"quote":"q","sources":[1,2],"about":["a"],"relation":"depends-on","key'
    '":"k","trust":"person","actor":"ann","scope":"team","supersedes":["g"]'
    ',"origin":"o","valid_from":"2026-01-02T03:04:05.678901Z"}',
    FactConfirmed(
        run="r", at=AT, fact="f", sources=(3,), actor="ann", seen_at=AT
    ): '{"kind":"memory.confirmed",HEAD,"fact":"f","sources":[3],"actor":"ann"'
    ',"seen_at":"2026-01-02T03:04:05.678901Z"}',
    FactEnded(
        run="r", at=AT, fact="f", by="g", reason="why", actor="ann"
    ): '{"kind":"memory.ended",HEAD,"fact":"f","by":"g","reason":"why","actor":"ann"}',
    FactForgotten(
        run="r", at=AT, fact="f", by="ann"
    ): '{"kind":"memory.forgotten",HEAD,"fact":"f","by":"ann"}',
    FactsShown(
        run="r", at=AT, facts=("f",), messages=(4,), query="q", where="tool"
    ): '{"kind":"memory.shown",HEAD,"facts":["f"],"messages":[4],"query":"q","where":"tool"}',
    RunSummarised(
        run="r", at=AT, summary="s", method="model", upto=5
    ): '{"kind":"run.summarised",HEAD,"summary":"s","method":"model","upto":5}',
    NoteChanged(
        run="r", at=AT, file="MEMORY.md", by="agent", digest="d", added=("a",), removed=("b",)
    ): '{"kind":"note.changed",HEAD,"file":"MEMORY.md","by":"agent","digest":"'
    'd","added":["a"],"removed":["b"]}',
    MessageImported(
        run="r", at=AT, id="i", speaker="s", text="t"
    ): '{"kind":"message.imported",HEAD,"id":"i","speaker":"s","text":"t"}',
    MessageForgotten(
        run="r", at=AT, seq=6, by="ann"
    ): '{"kind":"message.forgotten",HEAD,"seq":6,"by":"ann"}',
}

PINNED_WITH_DICTS: list[tuple[Event, str]] = [
    (
        MessageAdded(
            run="r",
            at=AT,
            message=Message(
                role="assistant",
                text="t",
                reasoning="w",
                calls=(CALL, ToolCall("c2", "x", malformed="{")),
                result=ToolResult(call_id="c1", content="x"),
                wire=({"type": "thinking"},),
            ),
        ),
        '{"kind":"message.added",HEAD,"message":{"role":"assistant","text":"t","reasoning":"w",'
        '"calls":[{"id":"c1","name":"terminal","arguments":{"command":"ls"}},'
        '{"id":"c2","name":"x","malformed":"{"}],"result":{"call_id":"c1","content":"x"},'
        '"wire":[{"type":"thinking"}]}}',
    ),
    (
        ToolRequested(run="r", at=AT, call=CALL, risk=Risk.DESTROY),
        '{"kind":"tool.requested",HEAD,"call":{"id":"c1","name":"terminal",'
        '"arguments":{"command":"ls"}},"risk":"destroy"}',
    ),
]
ALL_PINNED = [
    *PINNED.items(),
    *PINNED_WITH_DICTS,
    *PINNED_CHATS,
    *PINNED_INCIDENTS,
    *PINNED_JOBS,
    *PINNED_PEOPLE,
    *PINNED_SKILLS,
    *PINNED_WATCH,
]


def test_every_kind_is_pinned() -> None:
    assert {event.kind for event, _ in ALL_PINNED} == set(EVENT_TYPES)


@pytest.mark.parametrize(
    ("event", "text"), ALL_PINNED, ids=lambda value: getattr(value, "kind", "")
)
def test_the_stored_form_of_an_event_stays_as_it_is(event: Event, text: str) -> None:
    stored = text.replace("HEAD", HEAD).encode()
    assert encode_event(event) == stored
    assert decode_event(event.kind, stored) == event


def test_fields_of_a_later_version_are_passed_over() -> None:
    stored = f'{{"kind":"run.renamed",{HEAD},"title":"t","mood":"fine"}}'
    assert decode_event("run.renamed", stored) == RunRenamed(run="r", at=AT, title="t")


def test_a_kind_of_a_later_version_is_kept_untouched() -> None:
    stored = f'{{"kind":"moon.landed",{HEAD},"crew":3}}'.encode()
    assert decode_event("moon.landed", stored) == UnknownEvent(
        kind="moon.landed", run="r", at=AT, body=stored
    )


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(2**63), 2**63 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def values_of(kind: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Anything a field of this type may hold."""
    of = msgspec.inspect
    simple: dict[type, st.SearchStrategy[Any]] = {
        of.StrType: TEXT,
        of.IntType: WHOLE,
        of.FloatType: FLOATS,
        of.BoolType: st.booleans(),
        of.NoneType: st.none(),
        of.AnyType: JSON,
        of.DateTimeType: st.datetimes(min_value=datetime(1, 1, 2), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis adds the zone
    }
    match kind:
        case of.LiteralType(values=values):
            return st.sampled_from(values)
        case of.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case of.UnionType(types=types):
            return st.one_of(*map(values_of, types))
        case of.VarTupleType(item_type=item):
            return st.lists(values_of(item), max_size=3).map(tuple)
        case of.TupleType(item_types=items):
            return st.tuples(*map(values_of, items))
        case of.DictType(key_type=key, value_type=value):
            return st.dictionaries(values_of(key), values_of(value), max_size=3)
        case of.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: values_of(field.type) for field in fields})
    return simple[type(kind)]


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_an_event_survives_being_written_and_read(kind: str) -> None:
    @settings(max_examples=30)  # of each kind: the kinds share most types of fields
    @given(values_of(msgspec.inspect.type_info(EVENT_TYPES[kind])))
    def survives(event: Event) -> None:
        assert decode_event(kind, encode_event(event)) == event
        row = row_from_event(event)
        assert isinstance(row.body, str)
        stored = (row.at, row.run.encode(), row.kind.encode(), row.body.encode())
        assert read_event(1, *stored) == event

    survives()
