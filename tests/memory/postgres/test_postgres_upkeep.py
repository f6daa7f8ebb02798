"""Looking after a journal in the database: tampering is found, deleted texts leave, seals hold."""

import msgspec
import psycopg
import pytest

from hermes.core.errors import StoreError
from hermes.core.events import Event
from hermes.core.events.memory import MessageImported
from hermes.core.events.operations import CheckpointSigned
from hermes.core.events.runs import (
    MessageAdded,
    ModelSwitched,
    RunDeleted,
    RunRenamed,
    RunStarted,
)
from hermes.core.messages import Message
from hermes.memory.journal.maintenance import JournalTip, compact, export
from hermes.memory.journal.verification import verify
from hermes.memory.postgres.journal import PostgresJournal
from hermes.memory.store import open_journal

pytestmark = pytest.mark.anyio


def said(text: str, run: str = "r") -> MessageAdded:
    return MessageAdded(run=run, message=Message(role="user", text=text))


async def fill(url: str, *events: Event) -> None:
    async with open_journal(url) as journal:
        await journal.append(*events)


@pytest.mark.parametrize(
    ("harm", "found", "first"),
    [
        ("UPDATE hermes.event SET body = replace(body, 'two', 'TWO')", "not what was written", 2),
        ("UPDATE hermes.event SET at = at + 1 WHERE seq = 3", "not what was written", 3),
        ("UPDATE hermes.event SET run = 'x' WHERE seq = 1", "not what was written", 1),
        ("DELETE FROM hermes.event WHERE seq = 2", "events 2 to 2 are missing", 2),
        ("DELETE FROM hermes.event WHERE seq = 4", "the newest events, 4 to 4, are missing", 4),
        ("UPDATE hermes.event SET seq = -seq WHERE seq = 1", "are missing", None),
        (
            "UPDATE hermes.event SET hash = sha256(convert_to(body, 'UTF8')), body = NULL "
            "WHERE seq = 2",
            "its run was never deleted",
            2,
        ),
    ],
)
async def test_whatever_is_changed_is_found(
    database: str, harm: str, found: str, first: int | None
) -> None:
    await fill(database, *map(said, ("one", "two", "three", "four")))
    assert verify(database).ok
    with psycopg.connect(database, autocommit=True) as other:
        other.execute(harm.encode())
    report = verify(database)
    assert any(found in problem for problem in report.problems), report
    assert first is None or report.first_broken == first


async def test_a_list_of_runs_tells_title_model_first_request_and_imported_messages(
    database: str,
) -> None:
    async with open_journal(database) as journal:
        await journal.append(
            RunStarted(run="a", origin="cli", model="small"),
            said("check the disk", "a"),
            RunRenamed(run="a", title="disk"),
            ModelSwitched(run="a", model="large"),
            RunStarted(run="b", origin="batch", task="imported: hello"),
            MessageImported(run="b", id="1", speaker="Ada", text="hello"),
            RunStarted(run="a/1", origin="subagent", parent="a"),
            RunStarted(run="c", origin="cli"),
            RunDeleted(run="c"),
        )
        listed = await journal.runs()
        assert [(run.id, run.task, run.messages) for run in listed] == [
            ("b", "imported: hello", 1),
            ("a", "check the disk", 1),
        ]
        assert (listed[1].title, listed[1].model) == ("disk", "large")
        assert [run.id for run in await journal.runs(parent="a")] == ["a/1"]
        assert [run.id for run in await journal.runs(deleted=True, limit=1)] == ["c"]


async def test_texts_of_deleted_runs_leave_with_those_of_their_subagents(database: str) -> None:
    await fill(
        database,
        RunStarted(run="a", origin="cli", task="secret \x00 melon"),
        RunStarted(run="child", origin="subagent", parent="a"),
        RunStarted(run="grandchild", origin="subagent", parent="child"),
        said("secret melon", "grandchild"),
        said("kept", "b"),
        RunDeleted(run="a"),
    )
    done = compact(database)
    assert (done.purged, set(done.deleted)) == (4, {"a", "child", "grandchild"})
    report = verify(database)
    assert (report.problems, report.purged, report.events) == ((), 4, 8)
    assert not any(b"melon" in line for line in export(database))
    assert compact(database).purged == 0
    async with open_journal(database) as journal:
        assert [recorded.seq async for recorded in journal.read()] == [5, 6, 7, 8]


async def test_an_export_can_be_narrowed_to_a_run(database: str) -> None:
    await fill(database, said("one", "a"), said("two", "b"), said("three", "a"))
    lines = [msgspec.json.decode(line) for line in export(database, run="a")]
    assert [(line["seq"], line["event"]["run"]) for line in lines] == [(1, "a"), (3, "a")]


async def test_a_checkpoint_names_what_stands_right_before_it(database: str) -> None:
    seen: list[JournalTip] = []

    def sign(tip: JournalTip) -> CheckpointSigned:
        seen.append(tip)
        return CheckpointSigned(
            run="audit", seq=tip.seq, digest=tip.digest, previous="", key="k", signature="s"
        )

    async with PostgresJournal.open(database) as journal:
        assert await journal.append_checkpoint(sign) is None
        await journal.append(said("one"), said("two"))
        first = await journal.append_checkpoint(sign)
        assert first is not None
        assert (seen[0].seq, seen[0].last, first.seq) == (2, None, 3)
        assert await journal.append_checkpoint(sign) is None
        await journal.append(said("three"))
        second = await journal.append_checkpoint(sign)
        assert second is not None
        assert (seen[1].seq, second.seq) == (4, 5)
        assert seen[1].last == first.last
    digests: dict[int, str] = {}
    report = verify(database, visitor=lambda seq, digest, _: digests.update({seq: digest.hex()}))
    assert report.ok
    assert (digests[3], digests[5]) == (first.digest, second.digest)


async def test_a_database_without_a_journal_is_named(database: str) -> None:
    with pytest.raises(StoreError, match="there is no journal in"):
        verify(database)
