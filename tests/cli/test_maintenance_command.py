"""`hermes maintenance`: a person asks the watch to look away, and to look again."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from hermes_command import Hermes

from hermes.core.events.incidents import AlertRaised, AlertSuppressed, IncidentOpened
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.sre.settings import TriageSettings
from hermes.sre.triage.triage import Triage


def answer(hermes: Hermes, *words: str) -> Any:
    done = hermes("maintenance", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_window_is_added_listed_and_ended(hermes: Hermes) -> None:
    added = answer(hermes, "add", "--for", "1h30m", "web", "--reason", "new disks")
    begins, until = (datetime.fromisoformat(added[name]) for name in ("begins", "until"))
    assert until - begins == timedelta(minutes=90) and added["state"] == "open"
    (listed,) = answer(hermes, "list")
    assert listed["target"] == "web" and listed["reason"] == "new disks" and listed["by"]
    assert answer(hermes) == [listed]
    assert "new disks" in hermes("maintenance", "list").stdout
    assert answer(hermes, "end", "web")["state"] == "over"
    assert answer(hermes, "list") == []


@pytest.mark.parametrize("begin", ["2h", "2999-01-01T10:00", "23:59"])
def test_one_may_begin_later(hermes: Hermes, begin: str) -> None:
    added = answer(hermes, "add", "--for", "1h", "--from", begin, "db-*")
    begins = datetime.fromisoformat(added["begins"])
    assert begins > datetime.now(UTC) - timedelta(minutes=2)
    assert answer(hermes, "list")[0]["window"] == added["window"]


def test_one_is_found_by_its_id_or_the_end_of_it_and_not_by_two(hermes: Hermes) -> None:
    first, second = (answer(hermes, "add", "--for", "1h", "web")["window"] for _ in range(2))
    done = hermes("maintenance", "end", "web")
    assert done.returncode == 1 and "give more of it" in done.stderr
    assert answer(hermes, "end", first[-6:])["window"] == first
    assert answer(hermes, "end", second)["window"] == second
    done = hermes("maintenance", "end", first)
    assert done.returncode == 1 and "hermes maintenance list" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["web"],
        ["web", "--for", "soon"],
        ["web", "--for", "0s"],
        ["web", "--for", "365d"],
        ["web", "--for", "1h", "--from", "yesterday"],
        ["web", "--for", "1h", "--from", "2020-01-01"],
        ["", "--for", "1h"],
        ["=x", "--for", "1h"],
    ],
)
def test_what_makes_no_sense_is_refused_and_not_written(hermes: Hermes, words: list[str]) -> None:
    assert hermes("maintenance", "add", *words).returncode == 2
    assert answer(hermes, "list") == []


def test_a_home_without_a_journal_has_no_windows(hermes: Hermes) -> None:
    assert answer(hermes, "list") == []
    assert "no journal yet" in hermes("maintenance", "end", "web").stderr


def test_the_words_of_a_window_steer_no_terminal(hermes: Hermes) -> None:
    hermes("maintenance", "add", "--for", "1h", "w\x1b[31meb", "--reason", "x\x1b[2Jy")
    assert "\x1b" not in hermes("maintenance", "list").stdout


def test_triage_keeps_to_the_window_and_takes_up_what_still_fires_when_it_ends(
    hermes: Hermes,
) -> None:
    window = answer(hermes, "add", "--for", "1h", "web")["window"]
    alert = AlertRaised(
        run="watch", fingerprint="a", title="web is down", labels=(("service", "web"),)
    )

    async def ask() -> tuple[object, ...]:
        async with SqliteJournal.open(hermes.home / "journal.db") as journal:
            now = datetime.now(UTC) + timedelta(seconds=2)
            triage = Triage(TriageSettings())
            async for recorded in journal.read():
                triage.apply(recorded)
            told = triage.tick(now)
            await journal.append(*told)
            return told

    async def ring() -> None:
        async with SqliteJournal.open(hermes.home / "journal.db") as journal:
            await journal.append(alert)

    anyio.run(ring)
    (told,) = anyio.run(ask)
    assert isinstance(told, AlertSuppressed) and told.stretch == window
    assert anyio.run(ask) == ()
    answer(hermes, "end", window)
    (opened,) = anyio.run(ask)
    assert isinstance(opened, IncidentOpened) and opened.service == "web"
    assert anyio.run(ask) == ()
