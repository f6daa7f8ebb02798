"""`hermes sessions` and `hermes journal` on a real journal."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from hermes_command import Hermes

from hermes.cli import exit_codes
from hermes.core.errors import ToolError
from hermes.core.events import Event
from hermes.core.events.runs import MessageAdded, ModelAnswered, RunStarted, TurnStarted, TurnUndone
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.core.messages import Message, Risk, ToolCall, ToolResult, Usage
from hermes.memory.artifacts import FileArtifacts
from hermes.memory.journal.sqlite_journal import SqliteJournal

FIRST = "run-20260101-120000-aaaaaa"
SECOND = "run-20260102-120000-bbbbbb"
CALL = ToolCall("1", "terminal", {"command": "df -h"})


def said(run: str, role: str, text: str) -> MessageAdded:
    return MessageAdded(run=run, message=Message(role=role, text=text))  # type: ignore[arg-type]


def write(home: Path, events: Sequence[Event]) -> None:
    home.mkdir(exist_ok=True)

    async def append() -> None:
        async with SqliteJournal.open(home / "journal.db") as journal:
            await journal.append(*events)

    anyio.run(append)


@pytest.fixture
def talked(hermes: Hermes) -> Hermes:
    write(
        hermes.home,
        [
            RunStarted(run=FIRST, origin="cli", task="why is the disk full?", model="test:m"),
            said(FIRST, "system", "You are Hermes."),
            TurnStarted(run=FIRST, turn=1),
            said(FIRST, "user", "why is the disk full?"),
            ToolRequested(run=FIRST, call=CALL, risk=Risk.READ),
            ToolFinished(run=FIRST, result=ToolResult(call_id="1", content="97% \x1b[31m/var")),
            said(FIRST, "assistant", "The logs fill /var."),
            ModelAnswered(run=FIRST, model="test:m", usage=Usage(100, 20, 0, 0.25)),
            TurnStarted(run=FIRST, turn=2),
            said(FIRST, "user", "taken back"),
            TurnUndone(run=FIRST, turn=2),
            RunStarted(run=SECOND, origin="cli", task="hello"),
            said(SECOND, "user", "hello"),
        ],
    )
    return hermes


def test_nothing_is_made_by_looking(hermes: Hermes) -> None:
    done = hermes("sessions", "list")
    assert done.returncode == 0
    assert done.stdout == ""
    assert "no conversations yet" in done.stderr
    assert json.loads(hermes("sessions", "list", "--json").stdout) == []
    assert hermes("sessions", "show", "latest").returncode == exit_codes.FAILED
    assert "there is no journal yet" in hermes("journal", "verify").stderr
    assert not hermes.home.exists()


def test_conversations_are_listed_newest_first(talked: Hermes) -> None:
    runs = json.loads(talked("sessions", "list", "--json").stdout)
    assert [run["id"] for run in runs] == [SECOND, FIRST]
    lines = talked("sessions", "list").stdout.splitlines()
    assert lines[0].split() == ["RUN", "LAST", "MESSAGES", "MODEL", "ABOUT"]
    assert lines[2].endswith("why is the disk full?")
    assert len(talked("sessions", "list", "--limit", "1").stdout.splitlines()) == 2


def test_a_conversation_is_shown_without_what_was_taken_back(talked: Hermes) -> None:
    shown = talked("sessions", "show", "aaaaaa").stdout
    assert "why is the disk full?" in shown
    assert "terminal(command='df -h')" in shown
    assert "97% /var" in shown
    assert "The logs fill /var." in shown
    assert "taken back" not in shown
    assert "You are Hermes." not in shown
    assert "\x1b" not in shown
    entries = json.loads(talked("sessions", "show", FIRST, "--json").stdout)["entries"]
    assert [entry["undone"] for entry in entries if entry["text"] == "taken back"] == [True]


def test_a_title_names_a_conversation(talked: Hermes) -> None:
    assert talked("sessions", "rename", "aaaaaa", "the full disk").returncode == 0
    assert "the full disk" in talked("sessions", "list").stdout
    assert "The logs fill" in talked("sessions", "show", "full disk").stdout


def test_a_name_that_fits_none_or_several_is_said_so(talked: Hermes) -> None:
    none = talked("sessions", "show", "zzz")
    assert none.returncode == exit_codes.FAILED
    assert "hermes sessions list" in none.stderr
    several = talked("sessions", "show", "run-2026")
    assert several.returncode == exit_codes.FAILED
    assert FIRST in several.stderr
    assert SECOND in several.stderr


def test_a_conversation_is_exported_to_read_or_to_compute_with(
    talked: Hermes, tmp_path: Path
) -> None:
    text = talked("sessions", "export", FIRST).stdout
    assert text.startswith("# why is the disk full?\n")
    assert "## You" in text
    assert "taken back" not in text
    file = tmp_path / "events.jsonl"
    talked("sessions", "export", FIRST, "--format", "jsonl", "-o", str(file))
    kinds = [json.loads(line)["kind"] for line in file.read_text().splitlines()]
    assert kinds[0] == "run.started"
    assert len(kinds) == 11


def test_a_deleted_conversation_is_gone_and_its_texts_leave_the_disk(talked: Hermes) -> None:
    asked = talked("sessions", "delete", FIRST)
    assert "--yes" in asked.stderr
    assert asked.returncode == exit_codes.USAGE
    assert len(json.loads(talked("sessions", "list", "--json").stdout)) == 2
    shelf = FileArtifacts(talked.home / "artifacts")
    gone = anyio.run(shelf.save, f"{FIRST}/sub-1", "1", "The logs fill it")
    kept = anyio.run(shelf.save, SECOND, "1", "stays")
    write(talked.home, [RunStarted(run=f"{FIRST}/sub-1", origin="subagent", parent=FIRST)])
    assert talked("sessions", "delete", FIRST, "--yes").returncode == 0
    assert [run["id"] for run in json.loads(talked("sessions", "list", "--json").stdout)] == [
        SECOND
    ]
    assert FIRST not in talked("sessions", "list", "--all").stdout
    done = json.loads(talked("journal", "compact", "--json").stdout)
    assert done["purged"] > 0
    assert b"The logs fill" not in (talked.home / "journal.db").read_bytes()
    assert json.loads(talked("journal", "verify", "--json").stdout)["ok"]
    assert anyio.run(shelf.load, kept) == "stays"
    with pytest.raises(ToolError, match="there is no artifact"):
        anyio.run(shelf.load, gone)


def test_a_chat_is_known_by_its_first_words_and_an_empty_one_is_not_the_latest(
    talked: Hermes,
) -> None:
    third, empty = "run-20260103-120000-cccccc", "run-20260104-120000-dddddd"
    write(
        talked.home,
        [
            RunStarted(run=third, origin="cli"),
            said(third, "system", "You are Hermes."),
            said(third, "user", "who am I?"),
            RunStarted(run=empty, origin="cli"),
            said(empty, "system", "You are Hermes."),
        ],
    )
    assert talked("sessions", "list").stdout.splitlines()[1].endswith("who am I?")
    assert talked("sessions", "show", "latest").stdout.startswith("who am I?\n")


def test_the_journal_is_verified_and_exported(talked: Hermes, tmp_path: Path) -> None:
    report = json.loads(talked("journal", "verify", "--json").stdout)
    assert report["ok"]
    assert report["events"] == 13
    lines = talked("journal", "export").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 14))
    file = tmp_path / "all.jsonl"
    assert "13 events" in talked("journal", "export", "-o", str(file)).stdout
    assert file.read_text().splitlines() == lines


def test_damage_is_found_and_what_is_readable_saved(talked: Hermes, tmp_path: Path) -> None:
    file = talked.home / "journal.db"
    data = bytearray(file.read_bytes())
    at = data.index(b"hello")
    data[at : at + 3] = b"XXX"
    file.write_bytes(data)
    found = talked("journal", "verify")
    assert found.returncode == exit_codes.STORE
    assert "hermes journal salvage" in found.stdout
    assert talked("doctor", "--offline").returncode == exit_codes.FAILED
    saved = talked("journal", "salvage", "--yes", "--json")
    assert saved.returncode == 0, saved.stderr
    assert json.loads(saved.stdout)["saved"] >= 12
    assert talked("journal", "verify").returncode == 0


def test_status_adds_up_what_today_has_cost(talked: Hermes) -> None:
    facts = json.loads(talked("status", "--json").stdout)
    assert facts["conversations"] == 2
    assert facts["latest"] == SECOND
    assert (facts["today_tokens"], facts["today_usd"]) == (120, 0.25)
    yesterday = datetime(2026, 1, 1, tzinfo=UTC)
    old = ModelAnswered(run=FIRST, model="test:m", usage=Usage(1000, 0), at=yesterday)
    write(talked.home, [old])
    assert json.loads(talked("status", "--json").stdout)["today_tokens"] == 120
