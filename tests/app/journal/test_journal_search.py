"""The past of a home is kept up while the house works, and never in the way of the work."""

from pathlib import Path

import anyio
import pytest

from hermes.app.journal.search import JournalSearch, discard_index, index_in_background, index_path
from hermes.core.errors import StoreError
from hermes.core.events.runs import MessageAdded, RunStarted
from hermes.core.knowledge import SessionQuery
from hermes.core.messages import Message
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.search.session_search import open_index
from hermes.settings.load import LoadedSettings, load

pytestmark = pytest.mark.anyio


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedSettings:
    return load(home=tmp_path, variables={})


def said(text: str) -> MessageAdded:
    return MessageAdded(run="r", message=Message(role="user", text=text))


def indexed(path: Path) -> int:
    if not path.exists():
        return 0
    opened = open_index(path)
    try:
        return int(opened.execute("SELECT lines FROM state").get)
    finally:
        opened.close()


async def test_what_is_written_is_indexed_soon_without_anybody_asking(
    loaded: LoadedSettings,
) -> None:
    past = JournalSearch(loaded)
    async with SqliteJournal.open(loaded.journal) as journal:
        async with index_in_background(past, journal, pause=0.01):
            for count in (1, 2):
                await journal.append(said(f"apple {count}"))
                with anyio.fail_after(120):
                    while indexed(index_path(loaded.journal)) < count:  # noqa: ASYNC110 - a file
                        await anyio.sleep(0.01)
        past.close()


async def test_an_error_of_the_work_leaves_as_it_is(loaded: LoadedSettings) -> None:
    past = JournalSearch(loaded)
    async with SqliteJournal.open(loaded.journal) as journal:
        with pytest.raises(StoreError, match="mine"):
            async with index_in_background(past, journal, pause=0.01):
                await journal.append(said("apple"))
                raise StoreError("mine")
    past.close()


async def test_a_fresh_home_has_nothing_to_recall_and_opens_nothing(loaded: LoadedSettings) -> None:
    past = JournalSearch(loaded)
    assert not past.has_index
    assert past.notices == ()
    past.close()
    assert not index_path(loaded.journal).exists()


async def test_recall_names_the_number_of_a_message_that_has_no_other_id(
    loaded: LoadedSettings,
) -> None:
    past = JournalSearch(loaded)
    async with SqliteJournal.open(loaded.journal) as journal:
        await journal.append(
            RunStarted(run="r", origin="cli"), said("the tortoise eats dandelions"), said("and so")
        )
    found = await past.recall("what does the tortoise eat?")
    assert [one.id for one in found][:1] == ["2"]
    hits = await past.search(SessionQuery(words="dandelion"))
    assert hits.hits[0].line.seq == 2
    past.close()
    discard_index(loaded)
    assert not index_path(loaded.journal).exists()
