"""The past of a home is kept up while the house works, and never in the way of the work."""

from pathlib import Path

import anyio
import pytest

from hermes.app.recall import Past, forget_words, index_of, kept_up
from hermes.core.errors import StoreError
from hermes.core.events.runs import MessageAdded, RunStarted
from hermes.core.messages import Message
from hermes.core.recall import Search
from hermes.memory.journal import SqliteJournal
from hermes.memory.search.index import open_index
from hermes.settings.load import Loaded, load

pytestmark = pytest.mark.anyio


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    return load(home=tmp_path, variables={})


def said(text: str) -> MessageAdded:
    return MessageAdded(run="r", message=Message(role="user", text=text))


def indexed(path: Path) -> int:
    if not path.exists():
        return 0
    opened = open_index(path)
    try:
        return int(opened.connection.execute("SELECT lines FROM state").get)
    finally:
        opened.connection.close()


async def test_what_is_written_is_indexed_soon_without_anybody_asking(loaded: Loaded) -> None:
    past = Past(loaded)
    async with SqliteJournal.open(loaded.journal) as journal:
        async with kept_up(past, journal, pause=0.01):
            for count in (1, 2):
                await journal.append(said(f"apple {count}"))
                with anyio.fail_after(20):
                    while indexed(index_of(loaded.journal)) < count:  # noqa: ASYNC110 - a file
                        await anyio.sleep(0.01)
        past.close()


async def test_an_error_of_the_work_leaves_as_it_is(loaded: Loaded) -> None:
    past = Past(loaded)
    async with SqliteJournal.open(loaded.journal) as journal:
        with pytest.raises(StoreError, match="mine"):
            async with kept_up(past, journal, pause=0.01):
                await journal.append(said("apple"))
                raise StoreError("mine")
    past.close()


async def test_a_fresh_home_has_nothing_to_recall_and_opens_nothing(loaded: Loaded) -> None:
    past = Past(loaded)
    assert not past.known
    assert past.notices == ()
    past.close()
    assert not index_of(loaded.journal).exists()


async def test_recall_names_the_number_of_a_message_that_has_no_other_id(loaded: Loaded) -> None:
    past = Past(loaded)
    async with SqliteJournal.open(loaded.journal) as journal:
        await journal.append(
            RunStarted(run="r", origin="cli"), said("the tortoise eats dandelions"), said("and so")
        )
    found = await past.recall("what does the tortoise eat?")
    assert [one.id for one in found][:1] == ["2"]
    hits = await past.search(Search(words="dandelion"))
    assert hits.hits[0].line.seq == 2
    past.close()
    forget_words(loaded)
    assert not index_of(loaded.journal).exists()
