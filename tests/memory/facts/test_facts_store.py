"""Facts as a projection of the journal: what each event does, and that nothing is lost."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from hermes.core.errors import StoreTooNew
from hermes.core.events import Event
from hermes.core.events.memory import (
    FactConfirmed,
    FactEnded,
    FactForgotten,
    FactNoted,
    FactsShown,
    FactTrust,
    MemoryKind,
)
from hermes.core.events.runs import MessageAdded, RunDeleted, TurnEnded
from hermes.core.knowledge import RECALL_NOTE_PREFIX
from hermes.core.messages import Message
from hermes.memory.facts.audit import audit_facts
from hermes.memory.facts.fact import Fact, FactCandidate, FactQuery
from hermes.memory.facts.recorder import FactRecorder
from hermes.memory.facts.sqlite_facts import SqliteFacts
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.memory.journal.sqlite_journal import SqliteJournal

pytestmark = pytest.mark.anyio
AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def note(
    fact: str,
    text: str = "orders writes to db-7",
    *,
    trust: FactTrust = "system",
    at: datetime = AT,
) -> FactNoted:
    return FactNoted(run="r", at=at, fact=fact, memory="semantic", text=text, trust=trust)


def candidate(
    text: str,
    *,
    trust: FactTrust = "person",
    key: str = "",
    relation: str = "",
    memory: MemoryKind = "semantic",
    at: datetime | None = None,
    source: int = 0,
) -> FactCandidate:
    return FactCandidate(
        memory=memory,
        text=text,
        trust=trust,
        key=key,
        relation=relation,
        at=at,
        sources=(source,) if source else (),
    )


class Store:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "memory.db"
        self.journal = InMemoryJournal()

    async def after(self, *events: Event) -> list[Fact]:
        await self.journal.append(*events)
        with closing(SqliteFacts(self.path, self.journal)) as facts:
            await facts.catch_up()
            return list(await facts.find(FactQuery(state=None)))

    async def keep(self, *candidates: FactCandidate, now: datetime = AT) -> list[Fact]:
        keeper = FactRecorder(self.path, self.journal, clock=lambda: now)
        try:
            await keeper.record("r", candidates)
            await keeper.facts.catch_up()
            return list(await keeper.facts.find(FactQuery(state=None)))
        finally:
            keeper.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


async def test_noted_twice_is_confirmed_once(store: Store) -> None:
    (fact,) = await store.after(note("f"), note("f", at=AT + timedelta(days=1)))
    assert (fact.confirmations, fact.last_confirmed) == (1, AT + timedelta(days=1))


async def test_the_same_evidence_confirms_only_once(store: Store) -> None:
    again = FactConfirmed(run="r", fact="f", sources=(7,), seen_at=AT + timedelta(days=2))
    (fact,) = await store.after(note("f"), again, again)
    assert (fact.confirmations, fact.sources) == (1, (7,))


async def test_a_fact_never_ends_before_it_began_whatever_the_clock_says(store: Store) -> None:
    (fact,) = await store.after(note("f"), FactEnded(run="r", fact="f", at=AT - timedelta(days=9)))
    assert fact.valid_to == fact.valid_from == AT
    late = FactNoted(
        run="r", at=AT, fact="g", memory="semantic", text="x", valid_from=AT + timedelta(days=99)
    )
    found = {fact.id: fact for fact in await store.after(late)}
    assert found["g"].valid_from == AT


async def test_what_ended_may_begin_again(store: Store) -> None:
    end = FactEnded(run="r", fact="f", at=AT + timedelta(days=1), by="g")
    (fact,) = await store.after(note("f"), end, note("f", at=AT + timedelta(days=2)))
    assert (fact.state, fact.ended_by) == ("current", "")


async def test_a_forgotten_fact_keeps_nothing_but_its_id_and_only_a_person_revives_it(
    store: Store,
) -> None:
    (fact,) = await store.after(note("f"), FactForgotten(run="r", fact="f"), note("f"))
    assert (fact.state, fact.text, fact.sources) == ("forgotten", "", ())
    (fact,) = await store.after(note("f", trust="person"))
    assert (fact.state, fact.text) == ("current", "orders writes to db-7")


async def test_facts_of_a_deleted_session_are_forgotten(store: Store) -> None:
    (fact,) = await store.after(note("f"), RunDeleted(run="r"))
    assert fact.state == "forgotten"


async def test_use_is_judged_by_how_the_turn_ended(store: Store) -> None:
    shown = FactsShown(run="s", facts=("f",))
    ends = [TurnEnded(run="s", turn=1, outcome=o) for o in ("answered", "failed", "interrupted")]
    events = [event for end in ends for event in (shown, end)]
    (fact,) = await store.after(note("f"), *events, TurnEnded(run="s", turn=4, outcome="answered"))
    assert (fact.shown, fact.succeeded, fact.failed) == (3, 1, 1)


async def test_an_event_about_an_unknown_fact_changes_nothing(store: Store) -> None:
    gone = [
        FactConfirmed(run="r", fact="x"),
        FactEnded(run="r", fact="x"),
        FactForgotten(run="r", fact="x"),
    ]
    assert await store.after(*gone) == []


async def test_a_file_made_anew_says_the_same_as_one_kept_up(store: Store) -> None:
    events = [note(f"f{n}", f"host {n} is up") for n in range(1_200)]
    kept = await store.after(*events, FactForgotten(run="r", fact="f7"))
    store.path.unlink()
    for rest in store.path.parent.glob("memory.db-*"):
        rest.unlink()
    assert await store.after() == kept


async def test_a_damaged_file_is_put_aside_and_made_anew(store: Store) -> None:
    await store.after(note("f"))
    store.path.write_bytes(b"\x00garbage" * 999)
    for rest in store.path.parent.glob("memory.db-*"):
        rest.unlink()
    assert len(await store.after()) == 1
    assert (store.path.parent / "memory.db.damaged").exists()


async def test_damage_in_the_middle_of_the_file_is_noticed_and_mended(store: Store) -> None:
    await store.after(*[note(f"f{n}", f"host {n} is up " * 20) for n in range(500)])
    data = bytearray(store.path.read_bytes())
    data[4096:-4096] = os.urandom(len(data) - 8192)
    store.path.write_bytes(bytes(data))
    assert len(await store.after(note("g"))) == 100


async def test_the_database_of_another_program_is_not_emptied(store: Store) -> None:
    with sqlite3.connect(store.path) as other:
        other.execute("CREATE TABLE precious(x)")
    other.close()
    assert len(await store.after(note("f"))) == 1
    aside = store.path.parent / "memory.db.damaged"
    with sqlite3.connect(aside) as kept:
        assert kept.execute("SELECT name FROM sqlite_schema").fetchall() == [("precious",)]
    kept.close()


async def test_a_later_version_is_left_alone(store: Store) -> None:
    await store.after(note("f"))
    with sqlite3.connect(store.path) as file:
        file.execute("PRAGMA user_version=99")
    file.close()
    with pytest.raises(StoreTooNew, match="delete the"):
        await store.after()


async def test_another_journal_is_noticed_by_its_length(store: Store) -> None:
    await store.after(note("f"), note("g", "something else"))
    store.journal = InMemoryJournal()
    assert [fact.id for fact in await store.after(note("h"))] == ["h"]


async def test_other_words_for_the_same_confirm_it(store: Store) -> None:
    await store.keep(candidate("the orders service writes to db-7", source=1))
    again = candidate("The orders service writes to the db-7", source=2)
    facts = await store.keep(again, now=AT + timedelta(days=1))
    assert [fact.confirmations for fact in facts] == [1]


async def test_another_number_is_another_fact(store: Store) -> None:
    await store.keep(candidate("the orders service writes to db-7"))
    assert len(await store.keep(candidate("the orders service writes to db-8"))) == 2


async def test_a_contradiction_ends_the_old_one_and_both_stay(store: Store) -> None:
    await store.keep(candidate("Always restart nginx at night", key="rule: restart nginx"))
    facts = await store.keep(candidate("Never restart nginx at night", key="rule: restart nginx"))
    states = {fact.text: fact.state for fact in facts}
    assert states == {
        "Always restart nginx at night": "ended",
        "Never restart nginx at night": "current",
    }


async def test_a_denial_ends_what_it_denies(store: Store) -> None:
    await store.keep(candidate("orders writes to db-7"))
    facts = await store.keep(candidate("orders not writes to db-7"))
    assert {fact.state for fact in facts} == {"ended", "current"}


@pytest.mark.parametrize("trust", ["system", "model", "imported", "quarantined"])
async def test_nobody_ends_what_somebody_more_trusted_said(store: Store, trust: FactTrust) -> None:
    await store.keep(candidate("the port is 1", key="port | is"))
    facts = await store.keep(candidate("the port is 2", key="port | is", trust=trust))
    assert {fact.state for fact in facts} == {"current"}


async def test_what_a_person_forgot_is_not_noted_again_by_a_rule(store: Store) -> None:
    (fact,) = await store.keep(candidate("orders writes to db-7"))
    await store.journal.append(FactForgotten(run="r", fact=fact.id))
    (fact,) = await store.keep(candidate("orders writes to db-7", trust="system"))
    assert fact.state == "forgotten"


async def test_three_edits_in_two_weeks_are_a_pattern_with_its_evidence(store: Store) -> None:
    keeper = FactRecorder(store.path, store.journal, clock=lambda: AT + timedelta(days=9))
    edit = "/etc/nginx/nginx.conf was edited by hand"
    for day, run in enumerate("abcd"):
        seen = candidate(
            edit,
            trust="system",
            memory="episodic",
            relation="edited",
            at=AT + timedelta(days=2 * day, hours=5 * day),
            source=100 + day,
        )
        await keeper.learn(run, [], [FactCandidate(**{**as_dict(seen), "about": ("nginx.conf",)})])
    await keeper.facts.catch_up()
    (now,) = await keeper.facts.find(FactQuery(relation="recurs"))
    assert now.text == "4th manual edit of nginx.conf in 14 days"
    assert now.sources == (100, 101, 102, 103)
    (before,) = await keeper.facts.find(FactQuery(relation="recurs", state="ended"))
    assert before.text == "3rd manual edit of nginx.conf in 14 days"
    keeper.close()


async def test_errors_at_one_hour_and_after_one_another_are_patterns(store: Store) -> None:
    keeper = FactRecorder(store.path, store.journal, clock=lambda: AT + timedelta(days=60))
    for week in range(3):
        for name, minutes in (("error: high CPU", 0), ("error: out of memory", 20)):
            at = AT + timedelta(days=7 * week, minutes=minutes)
            one = candidate(
                name, trust="system", memory="episodic", relation="error", at=at, source=week + 1
            )
            await keeper.learn(f"run{week}", [], [one])
    await keeper.facts.catch_up()
    hours = [fact.text for fact in await keeper.facts.find(FactQuery(relation="happens-at"))]
    assert "error: high CPU: around 12:00 UTC on Sundays" in hours
    (link,) = await keeper.facts.find(FactQuery(relation="correlates-with"))
    assert link.text == "error: high CPU usually precedes error: out of memory by about 20 min"
    keeper.close()


def as_dict(value: FactCandidate) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


async def test_the_audit_names_each_kind_of_trouble(store: Store) -> None:
    said = MessageAdded(run="r", message=Message(role="user", text="orders writes to db-7, yes"))
    echo = MessageAdded(
        run="r", message=Message(role="user", text=f"{RECALL_NOTE_PREFIX} ...] old words")
    )
    await store.journal.append(said, echo)

    def fact(id: str, text: str, **more: object) -> FactNoted:
        made: dict[str, object] = {"run": "r", "at": AT, "fact": id, "memory": "semantic"}
        return FactNoted(**{**made, "text": text, **more})  # type: ignore[arg-type]

    await store.journal.append(
        fact("good", "orders writes to db-7", quote="orders writes to db-7", sources=(1,)),
        fact("double", "the orders writes to db-7", sources=(1,), valid_from=AT),
        fact("made-up", "billing is down", quote="billing is down", sources=(1,)),
        fact("loop", "old words matter", sources=(2,)),
        fact("key", "token is hunter2"),
        fact("one", "the port is 1", key="port"),
        fact("two", "the port is 2", key="port"),
    )
    with closing(SqliteFacts(store.path, store.journal)) as facts:
        await facts.catch_up()
        redact = lambda text: text.replace("hunter2", "***")  # noqa: E731 - one word
        found = await audit_facts(facts, store.journal, redact=redact, now=AT + timedelta(days=1))
        old = await audit_facts(facts, store.journal, redact=str, now=AT + timedelta(days=400))
    problems = {(one.problem, one.facts) for one in found}
    assert problems == {
        ("duplicate", ("double", "good")),
        ("unsupported", ("made-up",)),
        ("recall loop", ("loop",)),
        ("secret", ("key",)),
        ("contradiction", ("two", "one")),
    }
    assert sum(one.problem == "stale" for one in old) == 7


WRITER = """
import sys, anyio
from pathlib import Path
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.facts.recorder import FactRecorder
from hermes.memory.facts.fact import FactCandidate

async def main(home, name):
    async with SqliteJournal.open(home / "journal.db") as journal:
        recorder = FactRecorder(home / "memory.db", journal)
        for n in range(10_000):
            fact = FactCandidate(memory="semantic", text=f"host {name}{n} is up")
            await recorder.record("r", [fact])
            print(n, flush=True)

anyio.run(main, Path(sys.argv[1]), sys.argv[2])
"""


def kill_writers(folder: Path) -> set[str]:
    """What writers that were killed had acknowledged."""
    acknowledged: set[str] = set()
    for round in range(2):
        names = [f"{round}a", f"{round}b"]
        running = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(folder), name],
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in names
        ]
        for name, process in zip(names, running, strict=True):
            assert process.stdout is not None
            for line in process.stdout:
                acknowledged.add(f"host {name}{int(line)} is up")
                if int(line) == 5 + round:
                    process.send_signal(signal.SIGKILL)
                    break
            process.stdout.close()
            process.wait()
    return acknowledged


@pytest.mark.torture
async def test_killed_writers_side_by_side_lose_nothing_they_acknowledged(tmp_path: Path) -> None:
    acknowledged = await anyio.to_thread.run_sync(kill_writers, tmp_path)
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        facts = SqliteFacts(tmp_path / "memory.db", journal)
        await facts.catch_up()
        known = {fact.text for fact in await facts.find(FactQuery(limit=-1))}
    assert acknowledged <= known


async def test_a_thousand_facts_are_searched_in_milliseconds(store: Store) -> None:
    await store.after(*[note(f"f{n}", f"host web-{n} is in rack {n % 40}") for n in range(1_000)])
    with closing(SqliteFacts(store.path, store.journal)) as facts:
        await facts.catch_up()
        began = time.process_time()
        for n in range(50):
            assert (await facts.like(f"rack of web-{n}"))[0].id == f"f{n}"
        assert time.process_time() - began < 2
