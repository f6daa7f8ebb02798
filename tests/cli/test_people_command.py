"""`hermes people`: named by commands or in the file, and then nobody else answers."""

import json
import os
import pwd
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
from hermes_command import Hermes

from hermes.core.events.approvals import ApprovalRequested
from hermes.gateway.pairing import PairingCodes
from hermes.memory.journal.sqlite_journal import SqliteJournal

USER = pwd.getpwuid(os.getuid()).pw_name


def listed(hermes: Hermes) -> dict[str, dict[str, Any]]:
    rows = json.loads(hermes("people", "list", "--json").stdout)
    return {row["name"]: row for row in rows}


def test_people_are_added_listed_and_removed(hermes: Hermes) -> None:
    assert "every user of this machine may answer" in hermes("people").stderr
    done = hermes("people", "add", "alice", f"unix:{USER}", "telegram:123", "--group", "oncall")
    assert done.returncode == 0, done.stderr
    assert hermes("people", "add", "bob", "slack:U2").returncode == 0
    assert listed(hermes)["alice"] == {
        "name": "alice",
        "ids": {"unix": USER, "telegram": "123"},
        "groups": ["oncall"],
        "declared_in": "a command",
    }
    assert "slack:U2" in hermes("people").stdout
    assert json.loads(hermes("people", "remove", "bob", "--json").stdout)["by"] == "alice"
    assert list(listed(hermes)) == ["alice"]


def test_the_first_person_is_whoever_sits_there(hermes: Hermes) -> None:
    done = hermes("people", "add", "alice", "telegram:123")
    assert done.returncode == 1
    assert f"hermes people add NAME unix:{USER}" in done.stderr


def test_an_id_of_somebody_else_is_refused(hermes: Hermes) -> None:
    hermes("people", "add", "alice", f"unix:{USER}", "telegram:123")
    done = hermes("people", "add", "bob", "telegram:123")
    assert done.returncode == 1
    assert "telegram:123 is already an id of alice" in done.stderr


def test_the_file_wins_and_its_mistakes_have_a_line(hermes: Hermes) -> None:
    hermes.home.mkdir(exist_ok=True)
    file = hermes.home / "config.yaml"
    file.write_text("people:\n  alice: {unix: nobody-here}\n")
    assert listed(hermes)["alice"]["declared_in"] == "config.yaml"
    denied = hermes("people", "add", "bob", "slack:U2")
    assert denied.returncode == 7
    assert f"unix:{USER} is not one of the people" in denied.stderr
    file.write_text(f"people:\n  alice: {{unix: {USER}}}\n")
    refused = hermes("people", "remove", "alice")
    assert refused.returncode == 1
    assert "remove people.alice there" in refused.stderr
    file.write_text("people:\n  alice: {telegram: 7}\n  bob: {telegram: '7'}\n")
    wrong = hermes("people")
    assert wrong.returncode == 3
    assert "config.yaml:3" in wrong.stderr
    assert "telegram:7 is already an id of alice" in wrong.stderr


def test_a_user_without_a_name_cannot_approve_and_is_told_what_to_do(hermes: Hermes) -> None:
    request = ApprovalRequested(
        run="run-1",
        approval="ask-20260304-050607-4f2a1c",
        call_id="c",
        tool="terminal",
        shown="systemctl restart web",
        until=datetime.now(UTC) + timedelta(minutes=10),
    )
    hermes.home.mkdir(exist_ok=True)

    async def fill() -> None:
        async with SqliteJournal.open(hermes.home / "journal.db") as journal:
            await journal.append(request)

    anyio.run(fill)
    file = hermes.home / "config.yaml"
    file.write_text("people:\n  alice: {unix: nobody-here}\n")
    denied = hermes("approvals", "approve", "4f2a1c")
    assert denied.returncode == 7
    assert f"hermes people add NAME unix:{USER}" in denied.stderr
    file.write_text(f"people:\n  alice: {{unix: {USER}}}\n")
    done = json.loads(hermes("approvals", "approve", "4f2a1c", "--json").stdout)
    assert (done["by"], done["outcome"]) == ("alice", "recorded")


def test_a_code_is_approved_listed_and_revoked(hermes: Hermes) -> None:
    codes = PairingCodes(hermes.home / "pairing")
    hermes.home.mkdir(exist_ok=True)
    first = codes.offer("telegram", "7", shown="Dora \x1b[31m").code
    assert "waiting" in hermes("pairing").stdout
    refused = hermes("pairing", "approve", "telegram", first, "--as", "dora")
    assert refused.returncode == 1
    assert "begin with yourself" in refused.stderr
    done = hermes("pairing", "approve", "telegram", first)
    assert done.returncode == 0, done.stderr
    assert "approvals need a name" in done.stdout
    hermes("people", "add", "alice", f"unix:{USER}")
    second = codes.offer("slack", "U7").code
    assert hermes("pairing", "approve", "slack", second, "--as", "dora").returncode == 0
    assert listed(hermes)["dora"]["ids"] == {"slack": "U7"}
    rows = json.loads(hermes("pairing", "list", "--json").stdout)
    assert [(row["state"], row["channel"], row["name"], row["by"]) for row in rows] == [
        ("paired", "telegram", "", USER),
        ("paired", "slack", "dora", "alice"),
    ]
    assert hermes("pairing", "revoke", "slack", "U7").returncode == 0
    assert listed(hermes)["dora"]["ids"] == {}
    wrong = hermes("pairing", "approve", "slack", "AAAAAAAA")
    assert wrong.returncode == 1
    assert "no such code on slack (4 more tries)" in wrong.stderr
