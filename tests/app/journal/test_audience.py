"""What a private chat said is recalled only there and for its owner, on every road of recall."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from hermes.app.journal.search import AudienceSearch, JournalSearch
from hermes.core.bus import Bus
from hermes.core.events.runs import MessageAdded, RunStarted
from hermes.core.knowledge import SessionQuery
from hermes.core.messages import Message
from hermes.core.run_ids import working_for_run
from hermes.learning.session_memory import SessionMemory
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.settings.load import load

pytestmark = pytest.mark.anyio

RUNS = {
    "group": ("ann", ""),
    "ann-direct": ("ann", "telegram:1"),
    "ann-direct-later": ("ann", "telegram:1"),
    "ann-slack": ("ann", "slack:D1"),
    "ben-direct": ("ben", "telegram:2"),
    "paired-direct": ("telegram:8", "telegram:8"),
    "terminal": ("ann", ""),
}
EXPECTED = {
    "ann-direct-later": {"group", "ann-direct"},
    "ann-slack": {"group", "ann-direct"},
    "ben-direct": {"group"},
    "paired-direct": {"group"},
    "terminal": {"group"},
    "group": {"group"},
    "": {"group"},
}


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[tuple[Path, SqliteJournal]]:
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        for run, (by, audience) in RUNS.items():
            await journal.append(RunStarted(run=run, origin="chat", by=by, audience=audience))
        for run in ("group", "ann-direct"):
            said = Message(role="user", text=f"remember: the vault of {run} is called zebra7")
            await journal.append(MessageAdded(run=run, message=said))
        yield tmp_path, journal


@pytest.mark.parametrize("asking", EXPECTED)
async def test_search_and_recall_leave_out_what_others_said_in_private(
    home: tuple[Path, SqliteJournal], asking: str
) -> None:
    folder, journal = home
    search = JournalSearch(load(home=folder, variables={}))
    try:
        audience = AudienceSearch(search, journal)
        with working_for_run(f"{asking}/sub-1" if asking == "ann-slack" else asking):
            found = await audience.search(SessionQuery(words="zebra7"))
            recalled = await audience.recall("what is the vault zebra7 called?")
    finally:
        search.close()
    assert {hit.line.run for hit in found.hits} == EXPECTED[asking]
    assert {each.line.run for each in recalled} == EXPECTED[asking]


async def test_no_facts_are_learned_from_a_private_chat(
    home: tuple[Path, SqliteJournal],
) -> None:
    folder, journal = home
    settings = load(home=folder, variables={}).settings.memory
    with anyio.fail_after(120):
        async with SessionMemory(folder, settings, journal, Bus(journal)) as memory:
            memory.learn_from_run("group")
            memory.learn_from_run("ann-direct")
    noted = [each.event.run async for each in journal.read(kinds=("memory.noted",))]
    assert set(noted) == {"group"}


async def test_notes_of_a_private_chat_are_shown_only_to_its_person_in_private(
    home: tuple[Path, SqliteJournal],
) -> None:
    folder, journal = home
    settings = load(home=folder, variables={}).settings.memory
    async with SessionMemory(folder, settings, journal, Bus(journal)) as memory:
        await memory.change("group", "add", "memory", "the shop needs the cache", "")
        await memory.change("ann-direct/sub-1", "add", "user", "ann is on leave in May", "")
        await memory.change("paired-direct", "add", "memory", "likes short answers", "")
        shown = {person: "\n".join(memory.sections(person)) for person in ("", "ann", "ben")}
        paired = "\n".join(memory.sections("telegram:8"))
    assert all("the shop needs the cache" in text for text in (*shown.values(), paired))
    assert {person for person, text in shown.items() if "on leave in May" in text} == {"ann"}
    assert "likes short answers" in paired and "likes short answers" not in shown[""]
    assert "leave" not in "".join(each.read_text() for each in folder.glob("*.md"))
