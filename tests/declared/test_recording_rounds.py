"""Each change since the last look is recorded once, whatever happened in between."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermes.core.events.changes import ChangeSeen
from hermes.declared.change_log import UNKNOWN_AUTHOR, ChangeAuthor
from hermes.declared.recording import publish_changes, record_round
from hermes.declared.state import Item, ItemId, State, StateChange, StateSource
from hermes.declared.store import StateStore
from hermes.memory.journal.sqlite_journal import SqliteJournal

pytestmark = pytest.mark.anyio
BEGIN = datetime(2026, 11, 17, 12, tzinfo=UTC)


async def unknown_authors(
    changes: Sequence[StateChange], after: datetime, until: datetime
) -> Sequence[ChangeAuthor]:
    return [UNKNOWN_AUTHOR for _ in changes]


class Recorder:
    def __init__(self, store: StateStore, journal: SqliteJournal) -> None:
        self.store, self._journal, self._now = store, journal, BEGIN

    def state(self, texts: dict[str, str], source: StateSource = "live") -> State:
        self._now += timedelta(minutes=1)
        items = {
            ItemId("file", path): Item(self.store.keep(text.encode()), {"type": "file"})
            for path, text in texts.items()
        }
        return State(host="web", at=self._now, source=source, items=items)

    async def look(self, texts: dict[str, str], *, known_good: bool = False) -> None:
        state = self.state(texts)

        async def collect(known: State | None) -> State:
            return state

        await record_round(
            collect, self.store, "web", known_good=known_good, find_authors=unknown_authors
        )
        await publish_changes(self.store, self._journal, self._journal.append)

    async def seen(self) -> list[str]:
        records = [each async for each in self._journal.read(kinds=("change.seen",))]
        return [each.event.key for each in records if isinstance(each.event, ChangeSeen)]


@pytest.fixture
async def recorder(tmp_path: Path) -> AsyncIterator[Recorder]:
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        yield Recorder(StateStore(tmp_path / "states"), journal)


async def test_an_edit_that_is_reverted_and_made_again_is_three_changes(recorder: Recorder) -> None:
    for text in ("old", "new", "old", "new"):
        await recorder.look({"/etc/app.conf": text})
    assert await recorder.seen() == ["/etc/app.conf"] * 3


async def test_changes_since_the_known_good_state_are_recorded_without_a_live_state(
    recorder: Recorder,
) -> None:
    await recorder.look({"/etc/app.conf": "old"}, known_good=True)
    for each in recorder.store.stored_states():
        if each.source == "live":
            recorder.store.delete(each.id)
    await recorder.look({"/etc/app.conf": "new"})
    assert await recorder.seen() == ["/etc/app.conf"]


async def test_a_state_that_an_incident_kept_hides_no_change(recorder: Recorder) -> None:
    await recorder.look({"/etc/app.conf": "old"})
    recorder.store.save(recorder.state({"/etc/app.conf": "new"}, "incident"))
    await recorder.look({"/etc/app.conf": "new"})
    assert await recorder.seen() == ["/etc/app.conf"]
