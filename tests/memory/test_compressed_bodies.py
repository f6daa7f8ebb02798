"""Bodies are small on the disk, and nobody but the disk notices."""

from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.events.runs import MessageAdded, RunRenamed
from hermes.core.messages import Message
from hermes.memory.journal.maintenance import export
from hermes.memory.journal.rows import (
    HASH_BYTES,
    MIN_PACKED_BYTES,
    PACKED_MARK,
    compress_body,
    decompress_body,
    row_from_event,
)
from hermes.memory.journal.sqlite_file import MIGRATIONS, connect, open_for_writing
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import verify

pytestmark = pytest.mark.anyio


def stored(text: str) -> bytes:
    body = compress_body(text)
    return body.encode() if isinstance(body, str) else body


@given(st.text(max_size=3000))
def test_what_was_packed_comes_out_as_it_was(text: str) -> None:
    assert decompress_body(stored(text)) == text.encode()


@given(st.text(alphabet="ab", min_size=MIN_PACKED_BYTES, max_size=400))
def test_a_packed_body_is_never_taken_for_the_hash_of_a_purged_one(text: str) -> None:
    assert len(stored(text)) != HASH_BYTES


def test_a_long_text_of_words_takes_less_than_half_its_room() -> None:
    assert len(stored("the connection was refused by upstream 10.0.0.3 " * 200)) < 1000


@pytest.mark.parametrize(
    "damaged", [PACKED_MARK + b"nonsense", PACKED_MARK, stored("x" * 500)[:-3]]
)
def test_what_cannot_be_unpacked_is_handed_on_for_its_reader_to_name(damaged: bytes) -> None:
    assert decompress_body(damaged) == damaged


async def test_a_damaged_packed_body_is_named_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with SqliteJournal.open(path) as journal:
        await journal.append(*(RunRenamed(run="r", title=f"{n} " * 100) for n in range(9)))
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE event SET body = substr(body, 1, length(body) - 9) WHERE seq = 4")
    connection.close()
    report = verify(path)
    assert report.first_broken == 4
    assert report.salvageable == 8


def count_backups(folder: Path) -> int:
    return len(list(folder.glob("journal.db.v1-*")))


async def test_a_journal_from_before_packing_is_read_and_written_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    open_for_writing(path, migrations=MIGRATIONS[:1]).close()
    old = MessageAdded(run="r", message=Message(role="user", text="plain " * 50))
    row = row_from_event(old)
    connection = connect(path)
    connection.execute(
        "INSERT INTO event(at, run, kind, digest, body) VALUES(?, ?, ?, ?, ?)",
        (row.at, row.run, row.kind, row.digest_after(bytes(32)), row.body),
    )
    connection.close()
    new = MessageAdded(run="r", message=Message(role="user", text="packed " * 50))
    async with SqliteJournal.open(path) as journal:
        assert count_backups(tmp_path) == 1
        await journal.append(new)
        assert [recorded.event async for recorded in journal.read()] == [old, new]
    kinds = [kind for (kind,) in connect(path).execute("SELECT typeof(body) FROM event")]
    assert kinds == ["text", "blob"]
    assert verify(path).problems == ()
    assert all(b"purged" not in line for line in export(path))
