"""The live view of an incident: pure pictures of a fold, and the command that follows a journal."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import anyio
import pytest
from hermes_command import Hermes
from rich.console import Console

from hermes.cli.admin.status import gravest_first
from hermes.cli.incidents.live_state import (
    MAX_COMMANDS,
    LiveIncident,
    event_line,
    fold_live_incident,
)
from hermes.cli.incidents.live_view import render_live_view
from hermes.cli.render.terminal_text import display_width
from hermes.core.events import Event
from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested, ApprovalSettled
from hermes.core.events.incidents import (
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    LayerInvestigated,
    Severity,
)
from hermes.core.events.operations import (
    NotificationAttempted,
    NotificationQueued,
    NotificationSent,
)
from hermes.core.events.tools import ToolApproved
from hermes.core.incident import opened_incident
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.sqlite_journal import SqliteJournal

sys.path.insert(0, str(Path(__file__).parent.parent / "sre"))
from recorded_incident import RUN, IncidentRecorder, resolved


def recorded(*events: Event) -> list[JournalRecord]:
    return [JournalRecord(seq, event) for seq, event in enumerate(events, start=1)]


def drawn(
    recorder: IncidentRecorder, *more: Event, width: int = 100, rows: int = 0, color: bool = False
) -> str:
    out = StringIO()
    console = Console(
        file=out, width=width, force_terminal=color, no_color=not color, highlight=False
    )
    scene = fold_live_incident(recorded(*recorder.events, *more))
    console.print(render_live_view(scene, recorder.now, rows=rows))
    return out.getvalue()


def test_the_picture_shows_severity_phases_cause_commands_undo_and_checks() -> None:
    text = drawn(resolved())
    for part in (
        " P1  disk of web-1 is full",
        "✓ remediate ─ ● verify 2 ─ ○ document",
        "a debug log fills the disk · level=DEBUG (fix, 90%)",
        "✓ data",
        "the disk is full",
        "✓ ✎ systemctl restart web  undone",
        "⊘ rm -rf /var/lib/postgresql/old data  deny: no-data-loss",
        "↩ cp /var/tmp/copy /var/log/web/debug.log",
        "✗→✓→✓ web answers",
        "model calls: 1",
    ):
        assert part in text


def test_time_passes_until_it_is_over() -> None:
    recorder = IncidentRecorder()
    recorder.opened()
    scene = fold_live_incident(recorded(*recorder.events))
    out = StringIO()
    Console(file=out, width=100).print(
        render_live_view(scene, recorder.now + timedelta(seconds=185))
    )
    assert "3 min 47 s" in out.getvalue()
    whole = resolved()
    whole.closed()
    assert "✅ resolved by playbook" in drawn(whole)
    assert "●" not in drawn(whole)


def test_a_recovery_during_the_work_is_shown_as_its_end() -> None:
    recorder = IncidentRecorder()
    recorder.opened()
    over = IncidentRecovered(run=RUN, incident=RUN, recovered_at=recorder.now, how="port-80 passes")
    assert "✓ recovered: port-80 passes" in drawn(recorder, over)


def test_investigators_stand_side_by_side_where_there_is_room() -> None:
    recorder = resolved()
    for layer in ("network", "process"):
        recorder.add(
            LayerInvestigated(
                run=RUN, incident=RUN, at=recorder.at(), layer=layer, status="working"
            )
        )  # fmt: skip
    wide = [row for row in drawn(recorder).splitlines() if "data" in row and "network" in row]
    assert any("process" in row for row in wide)
    narrow = drawn(recorder, width=40).splitlines()
    assert not any("data ─" in row and "network ─" in row for row in narrow)


def test_what_waits_for_a_person_says_how_to_answer_and_goes_when_it_is_answered() -> None:
    recorder = resolved()
    asked = ApprovalRequested(
        run=RUN, at=recorder.at(), approval="ask-1", call_id="c9", tool="terminal", shown="reboot"
    )
    announced = ActionAnnounced(
        run=RUN, at=recorder.at(), approval="ask-2", call_id="c8", shown="reload", seconds=9
    )
    text = drawn(recorder, asked, announced)
    assert "waits for a person: reboot" in text
    assert "hermes approvals approve ask-1" in text
    assert "hermes approvals stop ask-2" in text
    settled = ApprovalSettled(run=RUN, at=recorder.at(), approval="ask-1", outcome="denied")
    assert "ask-1" not in drawn(recorder, asked, announced, settled)


def test_a_person_who_approved_is_named() -> None:
    recorder = resolved()
    recorder.ran("c7", "reboot", undo="", finish=False)
    yes = ToolApproved(run=RUN, at=recorder.at(), call_id="c7", approved=True, by="ann")
    assert "approved by ann" in drawn(recorder, yes)


def test_notices_are_shown_with_those_who_have_them() -> None:
    recorder = resolved()
    queued = NotificationQueued(
        run=RUN, at=recorder.at(), notice="n1", about="declared", title="🚨 P1", incident=RUN
    )
    sent = NotificationSent(run=RUN, at=recorder.at(), notice="n1", sink="log")
    failed = NotificationAttempted(
        run=RUN, at=recorder.at(), notice="n1", sink="phone", error="refused"
    )
    other = NotificationSent(run="watch", at=recorder.at(), notice="of somebody else", sink="log")
    assert "🚨 P1 → log not yet: phone" in " ".join(
        drawn(recorder, queued, sent, failed, other).split()
    )


@pytest.mark.parametrize("width", [20, 40, 79, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    recorder = resolved()
    recorder.ran("c9", "echo " + "x" * 5_000 + "\n" * 40, undo="y" * 900)
    for row in drawn(recorder, width=width).splitlines():
        assert display_width(row.rstrip()) <= width


def test_it_fits_a_low_terminal() -> None:
    recorder = resolved()
    for number in range(30):
        recorder.ran(f"d{number}", f"step {number}", undo=f"back {number}")
    assert len(drawn(recorder).splitlines()) > 24
    assert len(drawn(recorder, rows=24).splitlines()) <= 24


def test_hostile_words_stay_words() -> None:
    recorder = IncidentRecorder()
    recorder.opened("\x1b]0;owned\x07\x1b[2J[bold red]boo[/] \u202e", service="[link=x]y")
    recorder.ran("c1", "echo \x1b[31m[blink]\nrm", undo="\x9b2J")
    recorder.checked("\x1b[1m[/]check", ok=False, when="before")
    text = drawn(recorder)
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "[bold red]boo[/]" in text
    assert "[/]check" in text


def test_colour_comes_only_where_it_is_wanted() -> None:
    assert "\x1b[" in drawn(resolved(), color=True)
    assert "\x1b[" not in drawn(resolved())


def test_a_thousand_looks_do_not_push_a_change_out_of_sight() -> None:
    recorder = resolved()
    for number in range(1_000):
        recorder.ran(f"look{number}", f"cat /proc/{number}")
    scene = fold_live_incident(recorded(*recorder.events))
    assert len(scene.commands) == MAX_COMMANDS
    assert "truncate -s 0" in drawn(recorder)
    assert "cat /proc/999" in drawn(recorder)


def test_events_of_others_leave_the_scene_as_it_is() -> None:
    recorder, other = resolved(), resolved("incident-other")
    scene, same = (fold_live_incident(recorded(*recorder.events)) for _ in range(2))
    for each in recorded(*other.events):
        same.apply(each)
    assert same == scene


def test_one_that_is_opened_again_begins_anew() -> None:
    recorder = resolved()
    recorder.closed()
    again = IncidentReopened(run=RUN, incident=RUN, at=recorder.at(), by="ann")
    text = drawn(recorder, again)
    assert "○ assess" in text
    assert "resolved by" not in text


def test_lines_tell_the_same_story_without_a_screen() -> None:
    scene, told = LiveIncident(), []
    recorder = resolved()
    recorder.closed()
    for each in recorded(*recorder.events):
        scene.apply(each)
        told.append(event_line(scene, each) if scene.incident else "")
    story = "\n".join(filter(None, told))
    for part in (
        "P1 disk of web-1 is full",
        "✗ before: web answers no answer",
        "▶ disk-full: truncate -s 0 /var/log/web/debug.log",
        "⊘ rm -rf /var/lib/postgresql/old data (deny: no-data-loss)",
        "✓ after: web answers",
        "closed as resolved",
    ):
        assert part in story


def fill(hermes: Hermes, *events: Event) -> None:
    async def write() -> None:
        async with SqliteJournal.open(hermes.home / "journal.db") as journal:
            await journal.append(*events)

    hermes.home.mkdir(exist_ok=True)
    anyio.run(write)


def test_once_shows_how_it_is_now(hermes: Hermes) -> None:
    fill(hermes, *resolved().events)
    done = hermes("incident", "watch", "last", "--once")
    assert done.returncode == 0
    assert "● verify 2" in done.stdout
    lines = hermes("incident", "watch", "--once", "--json").stdout.splitlines()
    kinds = [json.loads(each)["kind"] for each in lines]
    assert kinds[0] == "alert.raised"
    assert kinds[-1] == "incident.verified"


def test_without_an_incident_it_says_so(hermes: Hermes) -> None:
    fill(hermes, NotificationSent(run="watch", notice="n", sink="log"))
    done = hermes("incident", "watch", "--once")
    assert done.returncode == 1
    assert "there is no incident yet" in done.stderr


def test_it_follows_what_another_process_writes_and_ends_with_the_incident(hermes: Hermes) -> None:
    recorder = resolved(began=datetime.now(UTC))
    fill(hermes, *recorder.events[:4])
    command = [*hermes.command, "incident", "watch", RUN]
    with subprocess.Popen(command, env=hermes.env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert "P1 disk of web-1 is full" in child.stdout.readline()
        recorder.closed()
        fill(hermes, *recorder.events[4:])
        rest = child.stdout.read()
        assert child.wait(120) == 0
    assert "✓ after: web answers" in rest
    assert "closed as resolved" in rest


def test_on_a_terminal_it_is_drawn_in_place_and_its_last_picture_stays(hermes: Hermes) -> None:
    recorder = resolved(began=datetime.now(UTC))
    fill(hermes, *recorder.events[:6])
    ours, theirs = pty.openpty()
    env = {**hermes.env, "TERM": "xterm", "COLUMNS": "90", "LINES": "30", "NO_COLOR": "1"}
    command = [*hermes.command, "incident", "watch"]
    with subprocess.Popen(command, env=env, stdout=theirs, stderr=theirs, stdin=theirs) as child:
        os.close(theirs)
        shown = read_until(ours, "● investigate")
        recorder.closed()
        fill(hermes, *recorder.events[6:])
        shown += read_until(ours, "✅ resolved by playbook")
        child.terminate()  # without an id it waits for the next one
        assert child.wait(120) == 0
    os.close(ours)
    assert "✗→✓→✓ web answers" in re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", shown)


def read_until(descriptor: int, words: str) -> str:
    shown, deadline = "", time.monotonic() + 120
    while words not in shown:
        assert time.monotonic() < deadline, shown
        shown += os.read(descriptor, 65_536).decode(errors="replace")
    return shown


def test_status_names_the_gravest_open_incident_first_and_the_newest_of_those() -> None:
    at = datetime(2026, 3, 2, tzinfo=UTC)
    graded: dict[str, Severity] = {"a": "P2", "b": "P2", "c": "P3"}
    opened = [
        opened_incident(IncidentOpened(run=id, at=at, incident=id, title=id, severity=severity))
        for id, severity in graded.items()
    ]
    assert [each.details.title for each in gravest_first(opened)] == ["b", "a", "c"]
