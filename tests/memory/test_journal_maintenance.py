"""A journal can be checked, taken elsewhere, and made smaller."""

import json
from pathlib import Path

import anyio
import apsw
import pytest

from hermes.core.errors import StoreCorrupt, StoreError
from hermes.core.events.runs import MessageAdded, ModelAnswered, RunDeleted, RunStarted
from hermes.core.events.tools import ToolApproved
from hermes.core.messages import Message, Usage
from hermes.memory.journal.maintenance import compact, export
from hermes.memory.journal.rows import hash_text
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import verify


def said(text: str, run: str = "r") -> MessageAdded:
    return MessageAdded(run=run, message=Message(role="user", text=text))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "journal.db"
    anyio.run(fill, file)
    return file


async def fill(path: Path) -> None:
    async with SqliteJournal.open(path) as journal:
        for number in range(6):
            await journal.append(said(f"text {number}"))


def bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def execute(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


def test_a_whole_journal_verifies(path: Path) -> None:
    report = verify(path)
    assert (report.ok, report.events, report.last, report.first_broken) == (True, 6, 6, None)


@pytest.mark.parametrize(
    ("tampering", "broken"),
    [
        ("UPDATE event SET body = replace(body, 'text 2', 'test 2')", 3),
        ("UPDATE event SET at = at + 1 WHERE seq = 4", 4),
        ("UPDATE event SET run = 'other' WHERE seq = 2", 2),
        ("UPDATE event SET digest = randomblob(32) WHERE seq = 5", 5),
        ("UPDATE event SET kind = 'turn.started' WHERE seq = 1", 1),
        ("DELETE FROM event WHERE seq = 3", 3),
        ("DELETE FROM event WHERE seq = 1", 1),
        ("DELETE FROM event WHERE seq = 6", 6),
        ("UPDATE event SET seq = 30 WHERE seq = 6", 6),
        (
            "UPDATE event SET seq = -1 WHERE seq = 3; UPDATE event SET seq = 3 WHERE seq = 4; "
            "UPDATE event SET seq = 4 WHERE seq = -1",
            3,
        ),
        (
            "INSERT INTO event(at, run, kind, digest, body) SELECT at, run, kind, digest, body "
            "FROM event WHERE seq = 6",
            7,
        ),
        ("UPDATE event SET body = randomblob(32) WHERE seq = 4", 4),
    ],
)
def test_any_tampering_is_found_at_the_first_broken_number(
    path: Path, tampering: str, broken: int
) -> None:
    execute(path, tampering)
    report = verify(path)
    assert not report.ok
    assert report.first_broken == broken


def test_a_text_replaced_by_its_hash_is_found_when_nobody_deleted_the_run(path: Path) -> None:
    connection = apsw.Connection(str(path))
    text = connection.execute("SELECT body FROM event WHERE seq = 4").get
    digest = hash_text(text.encode())
    connection.execute("UPDATE event SET body = ? WHERE seq = 4", (digest,))
    connection.close()
    report = verify(path)
    assert (report.first_broken, len(report.problems)) == (4, 1)
    assert "never deleted" in report.problems[0]


@pytest.mark.anyio
async def test_a_journal_verifies_while_others_write_to_it(path: Path) -> None:
    async with SqliteJournal.open(path) as journal, anyio.create_task_group() as group:

        async def write() -> None:
            while True:
                await journal.append(said("more"), said("and more"))

        group.start_soon(write)
        reports = [await anyio.to_thread.run_sync(verify, path) for _ in range(10)]
        with anyio.fail_after(120):
            while reports[-1].events == reports[0].events:
                reports.append(await anyio.to_thread.run_sync(verify, path))
        group.cancel_scope.cancel()
    assert all(report.problems == () for report in reports)
    assert reports[-1].events > reports[0].events


def test_damage_is_reported_with_what_can_be_saved(path: Path) -> None:
    path.write_bytes(b"x" * 200 + path.read_bytes()[200:])
    report = verify(path)
    assert (report.ok, report.salvageable) == (False, 6)
    assert "hermes journal salvage" in report.problems[0]


def test_a_journal_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no journal at"):
        verify(tmp_path / "journal.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.anyio
async def test_an_export_holds_every_event_or_those_of_one_run(path: Path) -> None:
    async with SqliteJournal.open(path) as journal:
        await journal.append(said("else", "other"))
        lines = [json.loads(line) for line in export(path)]
    assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    assert lines[0]["kind"] == lines[0]["event"]["kind"] == "message.added"
    assert lines[0]["event"]["message"] == {"role": "user", "text": "text 0"}
    (only,) = export(path, run="other")
    assert json.loads(only) == lines[6]


def test_an_export_stops_with_the_number_of_what_cannot_be_read(path: Path) -> None:
    execute(path, "UPDATE event SET body = '{' WHERE seq = 4")
    seen = []
    with pytest.raises(StoreCorrupt, match="event 4"):
        for line in export(path):
            seen.append(json.loads(line)["seq"])
    assert seen == [1, 2, 3]


@pytest.mark.anyio
async def test_compacting_takes_the_texts_of_deleted_runs_and_of_their_subagents(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    async with SqliteJournal.open(path) as journal:
        await journal.append(
            RunStarted(run="keep", origin="cli", task="stays"),
            said("stays too", "keep"),
            RunStarted(run="gone", origin="cli", task="secret task"),
            *(said(f"secret {number} " * 100, "gone") for number in range(500)),
            ModelAnswered(run="gone", model="m", usage=Usage(7, 7)),
            ToolApproved(run="gone", call_id="c", approved=True, by="me"),
            RunStarted(run="gone/1", origin="subagent", parent="gone"),
            RunStarted(run="gone/1/1", origin="subagent", parent="gone/1"),
            said("secret answer", "gone/1/1"),
            RunDeleted(run="gone"),
        )
        done = compact(path)
        again = compact(path)
        kept = [(recorded.event.run, recorded.event.kind) async for recorded in journal.read()]
        runs = await journal.runs(deleted=True, parent=None)
        await journal.append(said("goes on", "keep"))
    assert done.purged == 504
    assert again.purged == 0
    assert done.bytes_after < done.bytes_before / 3
    assert b"secret" not in bytes_in(tmp_path)
    assert kept == [
        ("keep", "run.started"),
        ("keep", "message.added"),
        ("gone", "model.answered"),
        ("gone", "tool.approved"),
        ("gone", "run.deleted"),
        ("gone/1", "run.deleted"),
        ("gone/1/1", "run.deleted"),
    ]
    assert [run.id for run in runs] == ["keep"]
    report = verify(path)
    assert (report.problems, report.purged, report.events) == ((), 504, 512)
    purged = [line for line in map(json.loads, export(path)) if "purged" in line]
    assert len(purged) == 504


@pytest.mark.anyio
async def test_compacting_waits_for_a_writer_and_then_says_who_is_in_the_way(path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        compact(path, timeout_s=0.1)
    other.execute("ROLLBACK")
    other.close()
    assert compact(path).purged == 0


@pytest.mark.anyio
async def test_a_reader_in_the_middle_delays_only_the_shrinking(path: Path) -> None:
    async with SqliteJournal.open(path) as journal:
        await journal.append(said("secret", "gone"), RunDeleted(run="gone"))
        reader = apsw.Connection(str(path))
        reader.execute("BEGIN; SELECT count(*) FROM event").fetchall()
        with pytest.raises(StoreError, match="too busy"):
            compact(path, timeout_s=0.1)
        reader.close()
        await journal.append(said("goes on"))
        compact(path)
    assert verify(path).problems == ()


@pytest.mark.anyio
async def test_followers_go_on_while_the_journal_is_compacted(path: Path) -> None:
    async with SqliteJournal.open(path) as journal:
        appended = 0

        async def write() -> None:
            nonlocal appended
            while True:
                await journal.append(said("more"))
                appended += 1

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(write)
                rounds = 0
                while rounds < 5 or not appended:  # on a busy machine the writer comes late
                    await anyio.to_thread.run_sync(compact, path)
                    rounds += 1
                group.cancel_scope.cancel()
    report = verify(path)
    assert report.problems == ()
    assert report.events >= 6 + appended
