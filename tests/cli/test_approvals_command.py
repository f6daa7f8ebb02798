"""Two processes on one home: one asks, another answers."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hermes_command import Hermes

RUNS = "touch begun; seq 0 | sh"
"""A command whose effect cannot be known before it runs, so it is asked about."""


class Asking:
    """A home, and runs in it that nobody watches."""

    def __init__(self, hermes: Hermes, folder: Path) -> None:
        self.hermes = hermes
        self.folder = folder
        self.runs: list[subprocess.Popen[str]] = []
        hermes.home.mkdir()

    def begin(
        self, *commands: str, settings: tuple[str, ...] = ("policy.wait=true",), more: str = ""
    ) -> subprocess.Popen[str]:
        replies: list[dict[str, Any]] = [
            {"calls": [{"id": f"c{n}", "name": "terminal", "arguments": {"command": command}}]}
            for n, command in enumerate(commands)
        ]
        script = self.hermes.home / "script.jsonl"
        lines = [json.dumps(reply) for reply in [*replies, {"text": "that is all"}]]
        script.write_text("\n".join(lines) + "\n")
        return self.start("chat", "-q", "go", "--json", *more.split(), settings=settings)

    def start(self, *words: str, settings: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        model = f"model.default=scripted:{self.hermes.home / 'script.jsonl'}"
        options = [word for each in (model, *settings) for word in ("-s", each)]
        run = subprocess.Popen(
            [*self.hermes.command, *options, *words],
            cwd=self.folder,
            env=self.hermes.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.runs.append(run)
        return run

    def resume(self, name: str) -> subprocess.Popen[str]:
        (self.hermes.home / "script.jsonl").write_text('{"text": "that is all"}\n')
        return self.start("chat", "--resume", name, "--json", settings=("policy.wait=true",))

    def waiting(self, count: int = 1) -> list[dict[str, Any]]:
        """What is listed, once there are so many."""
        return until(self._listed_while_running, lambda found: len(found) == count)

    def _listed_while_running(self) -> list[dict[str, Any]]:
        run = self.runs[-1]
        if run.poll() is not None:
            pytest.fail(f"it ended without asking: {run.communicate()}")
        return self.listed()

    def listed(self, *words: str) -> list[dict[str, Any]]:
        done = self.hermes("approvals", "list", "--json", *words)
        return json.loads(done.stdout) if done.returncode == 0 else []

    def ended(self, run: subprocess.Popen[str]) -> dict[str, Any]:
        out, err = run.communicate(timeout=120)
        assert out, err
        return json.loads(out)

    def events(self, kind: str) -> list[dict[str, Any]]:
        done = self.hermes("journal", "export")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        bodies = [each.get("event", each) for each in found]
        return [each for each in bodies if each.get("kind") == kind]


def until(look: Callable[[], Any], good: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + 120
    while not good(found := look()):
        assert time.monotonic() < deadline, f"it never came: {found}"
        time.sleep(0.02)
    return found


@pytest.fixture
def asking(hermes: Hermes, tmp_path: Path) -> Iterator[Asking]:
    folder = tmp_path / "work"
    folder.mkdir()
    asking = Asking(hermes, folder)
    yield asking
    for run in asking.runs:
        if run.poll() is None:
            run.kill()
        run.communicate()


def test_a_run_that_nobody_watches_waits_and_another_process_lets_it_go_on(asking: Asking) -> None:
    run = asking.begin(RUNS)
    (question,) = asking.waiting()
    assert question["action"] == RUNS
    assert question["undo"] == "no undo known"
    assert question["running"]
    assert not (asking.folder / "begun").exists()
    shown = asking.hermes("approvals", "show", question["id"][-6:])
    assert f"┃ {RUNS}" in shown.stdout
    done = asking.hermes.process("approvals", "approve", "--json")
    assert json.loads(done.stdout)["outcome"] == "approved"
    assert asking.ended(run)["answer"] == "that is all"
    assert (asking.folder / "begun").exists()
    assert asking.listed() == []
    assert [each["state"] for each in asking.listed("--all")] == ["approved"]
    late = asking.hermes("approvals", "deny", question["id"])
    assert late.returncode == 1
    assert "was already settled: approved" in late.stderr


def test_a_yes_to_a_script_that_was_edited_meanwhile_does_not_count(asking: Asking) -> None:
    script = asking.folder / "job.sh"
    script.write_text("touch begun\n")
    run = asking.begin(f"sh job.sh; {RUNS}")
    asking.waiting()
    script.write_text("touch begun other\n")
    done = asking.hermes("approvals", "approve")
    assert done.returncode == 7
    assert "the action has changed since the request, so it is not run" in done.stderr
    asking.ended(run)
    assert not (asking.folder / "begun").exists()
    (answer,) = asking.events("tool.approved")
    assert answer["reason"] == "what it would do has changed since people were asked"


def test_a_no_with_its_reason_reaches_the_model(asking: Asking) -> None:
    run = asking.begin(RUNS)
    asking.waiting()
    done = asking.hermes("approvals", "deny", "--note", "use the replica")
    assert done.returncode == 0
    asking.ended(run)
    assert not (asking.folder / "begun").exists()
    (result,) = asking.events("tool.finished")
    assert "said no: use the replica" in result["result"]["content"]


def test_without_anybody_following_it_is_a_no_at_once(asking: Asking) -> None:
    run = asking.begin(RUNS, settings=())
    asking.ended(run)
    assert not (asking.folder / "begun").exists()
    assert asking.listed("--all") == []


def test_a_rule_that_says_until_when_is_waited_for_and_silence_is_a_no(asking: Asking) -> None:
    rules = asking.hermes.home / "policies"
    rules.mkdir()
    (rules / "wait.yaml").write_text(
        "apiVersion: hermes/v1\nkind: ActionPolicy\nmetadata: {name: wait-a-bit}\n"
        "spec:\n  match: {any: [{effects: exec-dynamic}]}\n"
        "  decide: {effect: ask, timeout: 1s}\n"
    )
    run = asking.begin(RUNS, settings=())
    asking.ended(run)
    assert [each["state"] for each in asking.listed("--all")] == ["expired"]
    assert not (asking.folder / "begun").exists()


def test_somebody_who_may_not_answer_is_told_why(asking: Asking) -> None:
    rules = asking.hermes.home / "policies"
    rules.mkdir()
    (rules / "two.yaml").write_text(
        "apiVersion: hermes/v1\nkind: ActionPolicy\nmetadata: {name: two-people}\n"
        "spec:\n  match: {any: [{effects: exec-dynamic}]}\n"
        "  decide: {effect: ask, approvers: {from: [oncall], count: 2}}\n"
    )
    (asking.hermes.home / "config.yaml").write_text("policy:\n  groups:\n    oncall: [ann, ben]\n")
    run = asking.begin(RUNS, settings=())
    (question,) = asking.waiting()
    assert question["approvers"] == ["ann", "ben"]
    done = asking.hermes("approvals", "approve")
    assert done.returncode == 7
    assert "somebody else must approve it" in done.stderr
    assert asking.hermes("approvals", "deny").returncode == 0  # it may be taken back
    asking.ended(run)


def test_session_is_for_the_same_again_and_can_be_revoked(asking: Asking) -> None:
    run = asking.begin(RUNS, RUNS, RUNS)
    asking.waiting()
    asking.hermes("approvals", "approve", "--session")
    asking.ended(run)
    assert len(asking.listed("--all")) == 1
    (grant,) = json.loads(asking.hermes("approvals", "grants", "--json").stdout)
    assert grant["used"] == 3
    assert asking.hermes("approvals", "revoke", grant["id"]).returncode == 0
    assert json.loads(asking.hermes("approvals", "grants", "--json").stdout) == []
    assert asking.hermes("approvals", "revoke", grant["id"]).returncode == 1


def test_always_becomes_a_rule_at_once_and_is_taken_back(asking: Asking) -> None:
    run = asking.begin(RUNS, RUNS)
    asking.waiting()
    assert asking.hermes("approvals", "approve", "--always").returncode == 0
    asking.ended(run)
    assert len(asking.listed("--all")) == 1  # the second time nobody was asked
    (rule,) = json.loads(asking.hermes("policy", "always", "--json").stdout)
    assert rule["shown"] == RUNS
    assert asking.ended(asking.begin(RUNS))["answer"] == "that is all"
    assert len(asking.listed("--all")) == 1
    asking.hermes("approvals", "revoke", rule["name"])
    asking.begin(RUNS)
    asking.waiting()


def test_always_is_refused_for_what_cannot_be_undone(asking: Asking) -> None:
    asking.begin("rm -rf /srv/no-such-data")
    asking.waiting()
    done = asking.hermes("approvals", "approve", "--always")
    assert done.returncode == 7
    assert "irreversible" in done.stderr


def test_an_announced_action_is_stopped_from_another_process(asking: Asking) -> None:
    run = asking.begin("systemctl restart nginx", settings=("policy.wait=true",))
    (announced,) = asking.waiting()
    assert announced["state"] == "announced"
    assert "stopped" in asking.hermes("approvals", "stop").stdout
    asking.ended(run)
    (result,) = asking.events("tool.finished")
    assert result["result"]["status"] == "denied"


def test_an_announced_action_goes_on_by_itself(asking: Asking) -> None:
    run = asking.begin(
        "systemctl restart nginx", settings=("policy.wait=true", "policy.announce=0.2")
    )
    asking.ended(run)
    assert [each["state"] for each in asking.listed("--all")] == ["approved"]
    assert len(asking.events("tool.started")) == 1


def kill(asking: Asking, run: subprocess.Popen[str]) -> str:
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    (question,) = asking.listed()
    assert not question["running"]
    return str(question["run"])


def test_an_answer_to_a_killed_run_is_found_when_it_goes_on(asking: Asking) -> None:
    run = asking.begin(f"{RUNS}; echo once >> log", more="--unattended")
    asking.waiting()
    name = kill(asking, run)
    done = asking.hermes("approvals", "approve")
    assert f"hermes --resume {name}" in done.stdout
    again = asking.resume(name)
    asking.ended(again)
    assert (asking.folder / "log").read_text() == "once\n"
    assert len(asking.listed("--all")) == 1


def test_a_killed_run_goes_on_waiting_for_the_same_answer(asking: Asking) -> None:
    run = asking.begin(f"{RUNS}; echo once >> log", more="--unattended")
    (before,) = asking.waiting()
    name = kill(asking, run)
    again = asking.resume(name)
    (after,) = until(asking.listed, lambda found: bool(found and found[0]["running"]))
    assert (after["id"], after["until"]) == (before["id"], before["until"])
    asking.hermes("approvals", "approve")
    asking.ended(again)
    assert (asking.folder / "log").read_text() == "once\n"


def test_whoever_watches_sees_questions_come_and_go(asking: Asking) -> None:
    run = asking.begin(RUNS)
    asking.waiting()
    watch = asking.start("approvals", "watch")
    assert watch.stdout is not None
    assert "waiting" in watch.stdout.readline()
    asking.hermes("approvals", "deny")
    line = until(watch.stdout.readline, lambda line: "denied" in line)
    assert RUNS in line
    asking.ended(run)


def test_nothing_waits_and_nothing_is_found(hermes: Hermes) -> None:
    assert json.loads(hermes("approvals", "--json").stdout) == []
    assert "no request waits" in hermes("approvals", "list").stderr
    assert hermes("approvals", "approve", "x").returncode == 1
