"""`hermes cron` and `hermes task`: what is added is echoed, run, recorded and kept."""

import json
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hermes_command import Hermes

SCRIPT = '{"text": "all backups are there"}\n'


@pytest.fixture
def hermes(tmp_path: Path) -> Hermes:
    made = Hermes(tmp_path)
    made.home.mkdir()
    script = tmp_path / "replies.jsonl"
    script.write_text(SCRIPT)
    made.env["TZ"] = "Europe/Berlin"
    made.env["HERMES_MODEL"] = f"scripted:{script}"
    return made


def test_adding_a_job_echoes_meaning_zone_assumptions_and_five_times(hermes: Hermes) -> None:
    done = hermes("cron", "add", "every weekday at 9", "check the backups", "--to", "log")
    assert done.returncode == 0, done.stderr
    assert "at 09:00 on Monday through Friday" in done.stdout
    assert "Europe/Berlin" in done.stdout
    assert "9 is 09:00" in done.stdout
    assert done.stdout.count(" 09:00") >= 5
    assert "check-the-backups" in done.stdout
    assert "hermes up" in done.stderr


def test_the_seed_writes_it_like_this(hermes: Hermes) -> None:
    hermes.env |= {"TELEGRAM_BOT_TOKEN": "1:x", "TELEGRAM_HOME_CHANNEL": "-1001"}
    done = hermes(
        "task",
        "add",
        "--cron",
        "0 */6 * * *",
        "Check disk usage on all servers. Send results to Telegram.",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["job"]["task"] == "Check disk usage on all servers."
    assert found["job"]["deliver"] == "telegram"
    assert found["preview"]["meaning"] == "at minute 0 past every sixth hour"
    assert len(found["preview"]["times"]) == 5


def test_an_address_that_does_not_resolve_is_refused_when_the_job_is_added(hermes: Hermes) -> None:
    done = hermes("task", "add", "--cron", "0 9 * * *", "Look. Send results to Telegram.")
    assert done.returncode == 2
    assert "telegram" in done.stderr
    assert hermes("cron", "add", "every day at 9", "look", "--to", "pager").returncode == 2
    names = [each["job"] for each in json.loads(hermes("cron", "list", "--json").stdout)]
    assert names == ["health", "audit", "briefing", "review"]


def test_another_form_of_the_last_sentence_stays_part_of_the_task(hermes: Hermes) -> None:
    done = hermes("cron", "add", "every day at 9", "Look. Please send results to the log", "--json")
    found = json.loads(done.stdout)["job"]
    assert found["task"].endswith("to the log")
    assert "deliver" not in found


@pytest.mark.parametrize(
    "schedule", ["0 9 * * * *", "every now and then", "every day at 25:00", "2020-01-01 09:00"]
)
def test_what_is_not_understood_is_refused(hermes: Hermes, schedule: str) -> None:
    done = hermes("cron", "add", schedule, "look")
    assert done.returncode == 2
    assert done.stdout == ""


def test_a_job_that_is_run_by_hand_has_a_row_and_a_result(hermes: Hermes) -> None:
    hermes("cron", "add", "every day at 9", "look", "--name", "look", "--to", "log")
    done = hermes("cron", "run", "look")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "all backups are there")
    (row,) = json.loads(hermes("cron", "history", "look", "--json").stdout)
    assert (row["outcome"], row["delivery"], row["text"]) == (
        "ran",
        "queued",
        "all backups are there",
    )
    shown = json.loads(hermes("sessions", "show", row["session"], "--json").stdout)
    assert "look" in json.dumps(shown)


def test_a_command_goes_through_the_gate(hermes: Hermes) -> None:
    hermes("cron", "add", "every day at 9", "echo hello", "--command", "--name", "hello")
    done = hermes("cron", "run", "hello", "--json")
    assert json.loads(done.stdout)["text"].strip() == "hello"
    hermes("cron", "add", "every day at 9", "rm -rf /srv/data", "--command", "--name", "bad")
    done = hermes("cron", "run", "bad", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["outcome"] == "failed"


def test_a_failing_run_fails_and_says_why(hermes: Hermes) -> None:
    hermes("cron", "add", "every day at 9", "exit 3", "--command", "--name", "bad")
    done = hermes("cron", "run", "bad")
    assert done.returncode == 1
    assert "exit code 3" in done.stdout


def test_silent_when_nothing_delivers_nothing(hermes: Hermes, tmp_path: Path) -> None:
    (tmp_path / "replies.jsonl").write_text('{"text": "NOTHING TO REPORT."}\n')
    hermes("cron", "add", "every day at 9", "look", "--name", "look", "--to", "log", "--silent")
    row = json.loads(hermes("cron", "run", "look", "--json").stdout)
    assert row["outcome"] == "nothing"
    assert "notice" not in row


def test_jobs_are_paused_resumed_and_removed(hermes: Hermes) -> None:
    hermes("cron", "add", "every day at 9", "look", "--name", "look")
    assert "paused" in hermes("cron", "pause", "look", "--reason", "later").stdout
    assert "paused" in hermes("cron", "list").stdout
    assert hermes("cron", "resume", "look").returncode == 0
    assert hermes("cron", "remove", "look").returncode == 0
    done = hermes("cron", "show", "lok")
    assert done.returncode == 2


def test_a_built_in_job_can_be_paused_and_not_removed(hermes: Hermes) -> None:
    assert hermes("cron", "remove", "briefing").returncode == 2
    assert hermes("cron", "pause", "briefing").returncode == 0
    (job,) = [
        each
        for each in json.loads(hermes("cron", "list", "--json").stdout)
        if each["job"] == "briefing"
    ]
    assert job["paused"]


def test_export_and_apply_are_a_circle(hermes: Hermes, tmp_path: Path) -> None:
    hermes("cron", "add", "every 45 minutes", "df -h", "--command", "--name", "disk")
    hermes("cron", "add", "every monday at 9 Europe/London", "look", "--limit", "5m")
    file = tmp_path / "jobs.yaml"
    assert hermes("cron", "export", "-o", str(file)).returncode == 0
    assert ": 0.0" not in file.read_text()
    assert hermes("cron", "apply", str(file)).stdout == "nothing to change\n"
    text = file.read_text().replace("every 45 minutes", "every 50 minutes")
    file.write_text(text + "  new:\n    schedule: every day at 7\n    task: look again\n")
    planned = hermes("cron", "apply", str(file), "--dry-run").stdout
    assert planned.split() == ["changed", "disk", "added", "new"]
    assert hermes("cron", "apply", str(file)).stdout == planned
    file.write_text("jobs:\n  disk: {schedule: sometimes, command: df}\n")
    done = hermes("cron", "apply", str(file))
    assert done.returncode == 2
    assert "job disk" in done.stderr
    file.write_text("jobs:\n  look: {schedule: every day at 7, task: look, deliver: discord}\n")
    done = hermes("cron", "apply", str(file))
    assert (done.returncode, "job look: discord is not configured" in done.stderr) == (2, True)


def test_a_schedule_is_tried_out_in_a_zone_and_its_days_are_spelled_right(hermes: Hermes) -> None:
    done = hermes("cron", "next", "0 9 22,31 * *", "--zone", "Asia/Tokyo")
    assert "the 22nd and the 31st day" in done.stdout and " JST" in done.stdout, done.stdout
    assert "31st day" in hermes("cron", "next", "0 9 31 * *").stdout


def test_next_tries_a_schedule_out(hermes: Hermes) -> None:
    done = hermes("cron", "next", "every other friday at 16:00", "-n", "3")
    assert done.stdout.count("Fri ") == 3
    assert "only every 14 days" in done.stdout
    assert hermes("cron", "next", "--json").returncode == 0


@pytest.fixture
def watch(hermes: Hermes) -> Iterator[subprocess.Popen[bytes]]:
    command = [*hermes.command, "watch", "--no-listen", "--model", "none"]
    process = subprocess.Popen(command, env=hermes.env, stdout=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


def add_soon(hermes: Hermes, *words: str) -> None:
    for lead_s in (4, 20, 60):  # on a busy machine the command comes too late
        soon = datetime.now(UTC) + timedelta(seconds=lead_s)
        done = hermes("cron", "add", f"{soon:%Y-%m-%dT%H:%M:%SZ}", *words)
        if "is in the past" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr


def wait_for(hermes: Hermes, job: str, *outcomes: str) -> dict[str, str]:
    """The first row of the job with one of these outcomes, once there is one."""
    for _ in range(300):
        rows = json.loads(hermes("cron", "history", job, "--json").stdout or "[]")
        if found := [row for row in rows if row.get("outcome") in outcomes]:
            return dict(found[0])
        time.sleep(0.2)
    raise AssertionError(f"{job} has no row {outcomes}: {rows}")


def test_the_watch_runs_what_is_due(hermes: Hermes, watch: subprocess.Popen[bytes]) -> None:
    add_soon(hermes, "look", "--name", "once")
    row = wait_for(hermes, "once", "ran")
    assert row["text"] == "all backups are there"
    first = wait_for(hermes, "health", "nothing", "ran")  # a busy processor is worth telling
    assert first["occurrence"].endswith("-at-start")
    hermes("cron", "add", "every day at 9", "echo hi", "--command", "--name", "hi")
    done = hermes("cron", "run", "hi", "--json")
    assert json.loads(done.stdout)["text"].strip() == "hi"


def test_a_command_that_a_crash_cut_off_is_not_repeated(
    hermes: Hermes, watch: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    add_soon(hermes, f"echo x >> {mark}; sleep 120", "--command", "--name", "slow")
    row = wait_for(hermes, "slow", "running")
    watch.kill()
    watch.wait()
    with subprocess.Popen([*hermes.command, "watch", "--no-listen"], env=hermes.env) as again:
        row = wait_for(hermes, "slow", "unknown")
        again.kill()
    assert "not repeated" in row["reason"]
    assert not mark.exists() or mark.read_text() == "x\n"


def test_the_status_names_rhythms_that_are_paused(hermes: Hermes) -> None:
    hermes("cron", "pause", "audit", "--reason", "noisy today")
    shown = json.loads(hermes("status", "--json").stdout)["paused"]
    assert "noisy today" in shown["audit"]
    assert "audit: since" in hermes("status").stdout
    hermes("cron", "resume", "audit")
    assert "paused" not in json.loads(hermes("status", "--json").stdout)
