"""What search and recall ask of a store holds for the file and for the database alike."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from hermes.core.events import Event
from hermes.core.events.memory import FactConfirmed, FactForgotten, FactNoted, MessageForgotten
from hermes.core.events.runs import MessageAdded, RunDeleted, RunStarted
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.core.knowledge import SessionQuery
from hermes.core.messages import Message, ToolCall, ToolResult
from hermes.memory.postgres.search import PostgresSearch
from hermes.memory.search.line_search import IndexedSearch
from hermes.memory.search.session_search import SessionSearch
from hermes.memory.store import JournalStore, open_journal

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


class Both:
    """A journal with its search."""

    def __init__(self, journal: JournalStore, search: IndexedSearch) -> None:
        self.journal = journal
        self.search = search

    async def found(self, words: str, **narrow: Any) -> list[int]:
        hits = await self.search.search(SessionQuery(words=words, **narrow))
        return [hit.line.seq for hit in hits.hits]


@pytest.fixture(params=["sqlite", "postgres"])
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Both]:
    if request.param == "sqlite":
        path = tmp_path / "journal.db"
        async with open_journal(path) as journal:
            search = SessionSearch(path, tmp_path / "search.db")
            yield Both(journal, search)
            search.close()
    else:
        url = request.getfixturevalue("database")
        async with open_journal(url) as journal:
            server = PostgresSearch(url)
            yield Both(journal, server)
            server.close()


def said(text: str, run: str = "r", at: datetime = NOON, role: Any = "user") -> Event:
    return MessageAdded(run=run, at=at, message=Message(role=role, text=text))


async def test_words_are_found_in_any_form_as_phrases_and_by_their_beginning(both: Both) -> None:
    await both.journal.append(
        said("the connections were refused by the database"),
        said("it connects again"),
        said("refused it was, the connection"),
        said("kubectl rollout restart"),
    )
    assert sorted((await both.found("connection refused"))[:2]) == [1, 3]
    assert await both.found('"connection refused"') == []
    assert await both.found('"were refused"') == [1]
    assert sorted(await both.found("connect*")) == [1, 2, 3]
    assert await both.found("refused -database") == [3]
    assert sorted(await both.found("kubectl OR again")) == [2, 4]


async def test_identifiers_addresses_and_signs_without_gaps_are_found(both: Both) -> None:
    await both.journal.append(
        said("pod api-7f9c lost 10.0.0.3: ECONNREFUSED in getUserName, max_connections=90"),
        said("データベースが停止しました"),
        said("räksmörgås på café"),
    )
    for words in ("api-7f9c", "10.0.0.3", "ECONNREFUSED", "max_connections", "user name"):
        assert await both.found(words) == [1], words
    assert await both.found("停止") == [2]
    assert await both.found("raksmorgas cafe") == [3]
    assert await both.found("10.0.3.0") == []


async def test_what_is_written_is_found_at_once_and_what_is_said_is_narrowed(both: Both) -> None:
    later = NOON + timedelta(days=2)
    await both.journal.append(
        RunStarted(run="a", origin="cli"),
        said("nginx is down", "a"),
        said("I look at nginx", "a", role="assistant"),
        ToolRequested(run="a", call=ToolCall("1", "terminal", {"command": "systemctl nginx"})),
        ToolFinished(run="a", result=ToolResult(call_id="1", content="nginx: failed")),
        said("nginx below", "a/1"),
        said("nginx elsewhere", "ab", at=later),
    )
    assert sorted(await both.found("nginx")) == [2, 3, 4, 5, 6, 7]
    assert sorted(await both.found("nginx", session="a")) == [2, 3, 4, 5, 6]
    assert await both.found("nginx", kind="call") == [4]
    assert await both.found("nginx", role="tool") == [5]
    assert await both.found("nginx", since=later - timedelta(hours=1), session="ab") == [7]
    assert await both.found("nginx", until=NOON - timedelta(days=1)) == []
    await both.journal.append(said("nginx again", "a"))
    assert 8 in await both.found("nginx")


async def test_hits_come_with_their_neighbours_and_marks(both: Both) -> None:
    await both.journal.append(said("before it"), said("the leak is in the pool"), said("after it"))
    hits = await both.search.search(SessionQuery(words="leak"))
    (hit,) = hits.hits
    assert hit.before is not None
    assert hit.after is not None
    assert (hit.before.text, hit.after.text) == ("before it", "after it")
    ((start, end),) = hit.marks
    assert hit.snippet[start:end] == "leak"


async def test_too_few_hits_are_filled_with_parts_and_the_same_error(both: Both) -> None:
    await both.journal.append(
        said("error: connection to 10.1.1.1 port 5432 refused after 30 s"),
        said("unrelated pool words"),
    )
    found = await both.search.search(SessionQuery(words="pool exhausted"))
    assert ([hit.line.seq for hit in found.hits], found.relaxed) == ([2], True)
    other = "error: connection to 10.9.9.9 port 99 refused after 7 s"
    assert (await both.found(other))[0] == 1


async def test_deleted_and_forgotten_lines_are_not_found(both: Both) -> None:
    await both.journal.append(
        said("the secret melon", "a"),
        said("the other melon", "b"),
        said("melon kept", "c"),
        FactNoted(run="c", fact="f1", memory="semantic", text="melons are stored cold", actor="t"),
    )
    assert sorted(await both.found("melon")) == [1, 2, 3, 4]
    await both.journal.append(
        RunDeleted(run="a"), MessageForgotten(run="b", seq=2), FactForgotten(run="c", fact="f1")
    )
    assert await both.found("melon") == [3]
    await both.journal.append(said("melon after the end", "a"))
    assert await both.found("melon") == [3]
    around = await both.search.around([1, 2, 3, 4], 2)
    assert [passage.seq for passage in around] == [3]


async def test_recall_gets_sizes_frequencies_candidates_and_neighbours(both: Both) -> None:
    await both.journal.append(*(said(f"line {number} of the log", "a") for number in range(9)))
    await both.journal.append(said("the rare zebra line", "b"))
    passages = both.search
    assert await passages.size(None) == 10
    assert await passages.size("b") == 1
    assert list(await passages.frequencies(["line", "zebra", "none", "lines"], None)) == [
        *(10, 1, 0, 10)
    ]
    assert list(await passages.frequencies(["line"], "b")) == [1]
    found = await passages.matching(["zebra", "line"], session=None, limit=5)
    assert found[0].seq == 10
    assert len(found) == 5
    assert [one.seq for one in await passages.matching(["zebra"], session="a", limit=5)] == []
    around = sorted(await passages.around([5], 2), key=lambda passage: passage.seq)
    assert [(one.seq, one.position) for one in around] == [
        *((3, 2), (4, 3), (5, 4), (6, 5), (7, 6))
    ]
    assert (around[0].session, around[0].text) == ("a", "line 2 of the log")


async def test_confirmation_reaches_the_passage(both: Both) -> None:
    await both.journal.append(
        FactNoted(
            run="c",
            fact="f1",
            memory="semantic",
            text="nginx depends on postgres",
            actor="t",
            at=NOON,
        ),
        FactConfirmed(run="c", fact="f1", at=NOON + timedelta(days=3)),
    )
    (passage,) = await both.search.around([1], 0)
    assert passage.confirmed == NOON + timedelta(days=3)


async def test_nothing_a_person_types_is_an_error(both: Both) -> None:
    await both.journal.append(
        said("plain words"), said("x" * 3000 + " 'quoted' \\ & | ! ( ) :* <->")
    )
    for words in (
        "'",
        "\\",
        "a & b | c",
        "!",
        "(((",
        ":*",
        "' OR 1=1 --",
        "*",
        "%",
        "\x00",
        "\ue000",
    ):
        await both.found(words)
    assert await both.found("plain") == [1]
    assert await both.found("quoted") == [2]


async def test_ten_megabytes_are_indexed_from_both_ends(both: Both) -> None:
    text = "alpha " + "filler words of a log 12345\n" * 380_000 + " omega"
    await both.journal.append(said(text))
    assert await both.found("alpha omega") == [1]


async def test_an_index_that_is_thrown_away_comes_back_the_same(both: Both) -> None:
    await both.journal.append(*(said(f"note {number}") for number in range(30)))
    before = await both.found("note", limit=30)
    await anyio.to_thread.run_sync(both.search.rebuild)
    assert await both.found("note", limit=30) == before
    assert len(before) == 30


async def test_several_processes_index_side_by_side_and_each_line_once(database: str) -> None:
    async with open_journal(database) as journal:
        await journal.append(*(said(f"note {number}", f"r{number % 7}") for number in range(5000)))
        searches = [PostgresSearch(database) for _ in range(4)]
        async with anyio.create_task_group() as group:
            for one in searches:
                group.start_soon(one.catch_up)
        for one in searches:
            one.close()
    with psycopg.connect(database) as connection:
        sql = "SELECT count(*), count(DISTINCT (run, position)), max(position) FROM hermes.line"
        assert connection.execute(sql).fetchone() == (5000, 5000, 714)


async def test_a_connection_lost_between_two_questions_is_replaced(database: str) -> None:
    async with open_journal(database) as journal:
        await journal.append(said("melon"))
        search = PostgresSearch(database)
        assert len((await search.search(SessionQuery(words="melon"))).hits) == 1
        with psycopg.connect(database, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name LIKE 'hermes %'"
            )
        assert len((await search.search(SessionQuery(words="melon"))).hits) == 1
        search.close()
