"""`hermes policy replay` and `report` on a real journal."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from hermes_command import Hermes

from hermes.cli import exit_codes
from hermes.core.events import Event
from hermes.core.events.runs import RunStarted
from hermes.core.events.tools import ToolApproved, ToolDecided, ToolRequested
from hermes.core.messages import Risk, ToolCall
from hermes.memory.journal.sqlite_journal import SqliteJournal

OLD, NEW = "run-20260101-120000-aaaaaa", "run-20260301-120000-bbbbbb"
LONG_AGO = datetime.now(UTC) - timedelta(days=40)


def decided(
    run: str, id: str, command: str, verdict: str, rule: str, at: datetime
) -> Iterator[Event]:
    call = ToolCall(id, "terminal", {"command": command})
    yield ToolRequested(run=run, call=call, risk=Risk.CHANGE, at=at)
    yield ToolDecided(run=run, call_id=id, verdict=verdict, rule=rule, at=at)  # type: ignore[arg-type]


@pytest.fixture
def worked(hermes: Hermes) -> Hermes:
    now = datetime.now(UTC)
    events = [
        RunStarted(run=OLD, origin="cli", task="tidy up", directory="/srv/app", at=LONG_AGO),
        *decided(OLD, "1", "ls", "allow", "default-reads", LONG_AGO),
        *decided(OLD, "2", "touch notes", "allow", "safe-writes", LONG_AGO),
        *decided(OLD, "3", "rm notes", "ask", "destructive", LONG_AGO),
        ToolApproved(run=OLD, call_id="3", approved=True, by="ann", at=LONG_AGO),
        RunStarted(run=NEW, origin="cron", task="nightly", directory="/tmp", at=LONG_AGO),
        *decided(NEW, "1", "rm old.log", "allow", "safe-clean-up", now),
        *decided(NEW, "2", "rm /srv/x", "ask", "destructive", now),
        ToolApproved(run=NEW, call_id="2", approved=False, by="nobody", at=now),
        *decided(f"{NEW}/sub", "1", "systemctl restart nginx", "deny", "old-rule", now),
        *decided(NEW, "3", "touch y", "ask", "tainted-asks", now),
    ]
    hermes.home.mkdir()

    async def append() -> None:
        async with SqliteJournal.open(hermes.home / "journal.db") as journal:
            await journal.append(*events)

    anyio.run(append)
    return hermes


def changes(hermes: Hermes, *words: str) -> list[tuple[str, str, str, bool]]:
    done = hermes("policy", "replay", "--json", *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["changes"]
    return [(one["node"], one["before"], one["after"], one["stricter"]) for one in found]


def test_the_rules_in_force_are_replayed_over_what_was_done(worked: Hermes) -> None:
    assert changes(worked) == [("systemctl restart nginx", "deny", "ask", False)]


def test_another_set_shows_what_it_would_change(worked: Hermes) -> None:
    assert changes(worked, "--set", "observe", "--run", OLD) == [
        ("touch notes", "allow", "deny", True),
        ("rm notes", "ask", "deny", True),
    ]
    shown = worked("policy", "replay", "--set", "observe").stdout
    assert "7 actions; 5 stricter, 0 laxer" in shown
    assert "observe-only" in shown


def test_a_rule_is_tried_on_the_past_before_it_counts(worked: Hermes, tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(
        "apiVersion: hermes/v1\nkind: ActionPolicy\nmetadata: {name: cron-removes-nothing}\nspec:\n"
        "  match: {any: [{effects: delete, actor: {origin: cron}}]}\n  decide: {effect: deny}\n"
    )
    file = ("--file", str(tmp_path / "new.yaml"))
    assert changes(worked, *file, "--run", NEW)[:2] == [
        ("rm old.log", "allow", "deny", True),
        ("rm /srv/x", "ask", "deny", True),
    ]
    assert changes(worked, *file, "--run", OLD) == []
    assert (
        worked("policy", "replay", "--file", str(tmp_path / "none")).returncode == exit_codes.USAGE
    )


def test_conditions_on_the_time_mean_the_time_it_happened(worked: Hermes, tmp_path: Path) -> None:
    day = LONG_AGO.date().isoformat()
    (tmp_path / "new.yaml").write_text(
        "apiVersion: hermes/v1\nkind: ActionPolicy\nmetadata: {name: that-day}\nspec:\n"
        f"  match: {{any: [{{program: ls, when: 'now.date == \"{day}\"'}}]}}\n"
        "  decide: {effect: deny}\n"
    )
    worked("config", "set", "policy.timezone", "UTC")
    file = ("--file", str(tmp_path / "new.yaml"))
    assert ("ls", "allow", "deny", True) in changes(worked, *file)


def test_only_what_happened_since_is_replayed(worked: Hermes) -> None:
    everything = json.loads(worked("policy", "replay", "--json").stdout)["actions"]
    lately = json.loads(worked("policy", "replay", "--json", "--since", "7d").stdout)["actions"]
    day = (LONG_AGO + timedelta(days=2)).date().isoformat()
    dated = json.loads(worked("policy", "replay", "--json", "--since", day).stdout)["actions"]
    assert (everything, lately, dated) == (7, 4, 4)
    assert changes(worked, "--set", "observe", "--since", "7d")[0][0] == "rm old.log"
    wrong = worked("policy", "replay", "--since", "yesterday")
    assert wrong.returncode == exit_codes.USAGE
    assert "7d" in wrong.stderr


def test_a_run_is_replayed_with_its_subagents(worked: Hermes) -> None:
    assert json.loads(worked("policy", "replay", "--json", "--run", NEW).stdout)["actions"] == 4
    assert worked("policy", "replay", "--run", "zzz").returncode == exit_codes.FAILED


def test_report_counts_per_rule(worked: Hermes) -> None:
    rows = json.loads(worked("policy", "report", "--json").stdout)
    assert rows[0] == {
        "rule": "destructive",
        "times": 2,
        "allowed": 0,
        "asked": 2,
        "denied": 0,
        "dry_run": 0,
        "passed": 1,
        "failed": 1,
        "warned": 0,
    }
    assert {row["rule"]: row["denied"] for row in rows}["old-rule"] == 1
    shown = worked("policy", "report", "--since", "7d").stdout.splitlines()
    assert shown[0].split()[:5] == ["RULE", "TIMES", "ALLOWED", "ASKED", "DENIED"]
    assert len(shown) == 5


def test_without_a_journal_there_is_nothing_to_say(hermes: Hermes) -> None:
    assert json.loads(hermes("policy", "report", "--json").stdout) == []
    assert json.loads(hermes("policy", "replay", "--json").stdout) == {"actions": 0, "changes": []}
    assert "there are no decisions yet" in hermes("policy", "report").stderr
    assert not hermes.home.exists()


def recorded(
    run: str, id: str, call: ToolCall, verdict: str, rule: str, **more: object
) -> list[Event]:
    """An action with all that is written down of it today."""
    place = {"environment": "local", "target": "web-1", "origin": "cli", "cwd": "/srv/app"}
    said = {name: more.pop(name) for name in ("tainted", "audited") if name in more}
    return [
        ToolRequested(run=run, call=call, risk=Risk.CHANGE, **{**place, **more}),  # type: ignore[arg-type]
        ToolDecided(run=run, call_id=id, verdict=verdict, rule=rule, **said),  # type: ignore[arg-type]
    ]


@pytest.fixture
def elsewhere(hermes: Hermes) -> Hermes:
    """Actions whose own place differs from that of their run, and of today's settings."""

    def terminal(id: str, command: str) -> ToolCall:
        return ToolCall(id, "terminal", {"command": command})

    yaml = ToolCall("4", "disk_use", {"folder": "x"})
    events = [
        RunStarted(run=NEW, origin="cli", directory="/"),
        *recorded(
            NEW,
            "1",
            terminal("1", "rm -rf build"),
            "allow",
            "isolated-place",
            environment="sandbox",
            isolated=True,
        ),
        *recorded(NEW, "2", terminal("2", "rm old.log"), "allow", "safe-clean-up", cwd="/tmp"),
        *recorded(
            NEW, "3", terminal("3", "touch y"), "ask", "destructive", tainted="touch y", cwd="/tmp"
        ),
        *recorded(
            NEW, "4", yaml, "ask", "destructive", command="rm -rf /srv/x", audited=("later",)
        ),
        *recorded(NEW, "5", terminal("5", "kubectl get pods"), "allow", "reads", origin="cron"),
    ]
    hermes.home.mkdir()

    async def append() -> None:
        async with SqliteJournal.open(hermes.home / "journal.db") as journal:
            await journal.append(*events)

    anyio.run(append)
    return hermes


def test_each_action_is_judged_in_the_place_it_was_asked_for(elsewhere: Hermes) -> None:
    assert changes(elsewhere) == []
    careful = changes(elsewhere, "--set", "careful")
    assert careful == [("rm -rf build", "allow", "ask", True)]


def test_the_recorded_origin_counts_not_that_of_the_run(elsewhere: Hermes, tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(
        "apiVersion: hermes/v1\nkind: ActionPolicy\nmetadata: {name: no-cron}\nspec:\n"
        "  match: {any: [{actor: {origin: cron}}]}\n  decide: {effect: deny}\n"
    )
    found = changes(elsewhere, "--file", str(tmp_path / "new.yaml"))
    assert found == [("kubectl get pods", "allow", "deny", True)]


def test_rules_in_audit_mode_are_reported_as_warnings(elsewhere: Hermes) -> None:
    rows = json.loads(elsewhere("policy", "report", "--json").stdout)
    assert {row["rule"]: row["warned"] for row in rows}["later"] == 1
