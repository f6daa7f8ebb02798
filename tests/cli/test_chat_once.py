"""`hermes chat -q` as a person or a script runs it: a real process, a real server."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from terminal.loopback_model import options, serving


class Command:
    def __init__(self, address: str, seen: list[dict[str, Any]], home: Path) -> None:
        self.seen = seen
        self.words = [sys.executable, "-m", "hermes.cli", *options(address)]
        self.variables = {"HERMES_HOME": str(home), "PATH": os.defpath, "TERM": "xterm"}
        self.variables["HOME"] = str(home)

    def __call__(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.words, *words],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            env=self.variables,
            timeout=60,
            check=False,
        )

    def start(self, *words: str, **more: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self.words, *words], env=self.variables, **more)


@pytest.fixture
def hermes(tmp_path: Path) -> Iterator[Command]:
    with serving() as (address, seen):
        yield Command(address, seen, tmp_path / "home")


def wait_for(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_answer_is_all_there_is_on_stdout(hermes: Command) -> None:
    done = hermes("chat", "-q", "hello there")
    assert (done.returncode, done.stdout.strip()) == (0, "2 words: hello there")
    assert done.stderr == ""


def test_text_piped_in_is_the_question_or_is_added_to_it(hermes: Command) -> None:
    assert hermes(stdin="only piped\n").stdout.strip() == "2 words: only piped"
    hermes("-q", "review this:", stdin="+ a line\n")
    assert hermes.seen[-1]["messages"][-1]["content"] == "review this:\n\n+ a line"


def test_json_is_one_object_and_the_next_question_can_continue_it(hermes: Command) -> None:
    first = json.loads(hermes("chat", "-q", "one", "--json").stdout)
    assert first["answer"].strip() == "1 words: one"
    assert first["outcome"] == "answered"
    usage = {"input_tokens": 10, "output_tokens": 5, "cached_tokens": 0, "cost_usd": None}
    assert first["usage"] == usage
    second = json.loads(hermes("chat", "-c", "-q", "two", "--json").stdout)
    third = json.loads(hermes("--resume", first["run"], "-q", "three", "--json").stdout)
    assert first["run"] == second["run"] == third["run"]
    asked = [each["content"] for each in hermes.seen[-1]["messages"] if each["role"] == "user"]
    assert asked == ["one", "two", "three"]


def test_model_and_toolsets_can_be_chosen_for_one_question(hermes: Command) -> None:
    hermes("chat", "-q", "x")
    hermes("chat", "-q", "x", "-m", "own:other", "-t", "terminal")
    plain, chosen = hermes.seen
    assert (plain["model"], chosen["model"]) == ("test", "other")
    assert "terminal" in {each["function"]["name"] for each in chosen["tools"]}
    assert len(chosen["tools"]) < len(plain["tools"])


def test_a_model_that_was_chosen_stays_until_another_is(hermes: Command) -> None:
    hermes("chat", "-q", "x", "-m", "own:other")
    hermes("chat", "-c", "-q", "y")
    hermes("chat", "-c", "-q", "z", "-m", "own:third")
    hermes("--resume", "latest", "-q", "z")
    assert [each["model"] for each in hermes.seen] == ["other", "other", "third", "third"]


def test_where_nobody_can_approve_it_is_refused_with_a_hint(
    hermes: Command, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    done = hermes("chat", "-q", f"run: touch {mark}; $UNKNOWN true")
    assert done.returncode == 0
    assert not mark.exists()
    assert "✗ denied" in done.stderr
    assert "no one is here to approve it" in done.stderr
    assert "terminal.backend=sandbox" in done.stderr
    quiet = hermes("chat", "--quiet", "-q", f"run: touch {mark}; $UNKNOWN true")
    assert "💻" not in quiet.stderr.partition("no one is here")[0]


def test_failures_have_exit_codes_of_their_own(hermes: Command) -> None:
    refused = hermes("chat", "-q", "status: 401")
    assert refused.returncode == 4
    assert refused.stderr.count("401") == 1
    assert "Traceback" not in refused.stderr
    as_json = hermes("chat", "-q", "status: 401", "--json")
    assert as_json.returncode == 4
    assert json.loads(as_json.stdout)["outcome"] == "failed"
    assert "401" in json.loads(as_json.stdout)["reason"]


def test_nothing_asked_is_wrong_usage_unless_something_can_be_carried_on(hermes: Command) -> None:
    assert hermes("chat").returncode == 2
    assert hermes("--resume").returncode == 3
    hermes("-q", "one")
    assert "nothing to continue" in hermes("--resume").stderr


def test_a_question_loads_neither_prompt_toolkit_nor_rich(hermes: Command) -> None:
    hermes.words[1:1] = ["-X", "importtime"]
    done = hermes("chat", "-q", "hello")
    assert done.returncode == 0
    loaded = {
        line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()
    }
    assert "click" in loaded
    assert not loaded & {"prompt_toolkit", "rich", "pygments", "markdown_it"}


def test_on_a_terminal_text_streams_and_tools_go_to_stderr(hermes: Command) -> None:
    master, slave = pty.openpty()
    words = ("chat", "-q", "run: true")
    process = hermes.start(*words, stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    printed = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # the other side is closed
            break
        printed += piece
    os.close(master)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0
    assert printed.decode().split("\r\n")[0].strip() == "2 words: run: true"
    assert printed.count(b"words") == 1
    assert stderr.decode().startswith("💻 true\n")


def test_ctrl_c_ends_with_130_and_leaves_a_conversation_to_go_on_with(hermes: Command) -> None:
    process = hermes.start(
        "chat", "-q", "please hang", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    wait_for(lambda: hermes.seen)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"interrupted" in stderr
    assert "1 words: back" in hermes("-c", "-q", "back").stdout


def test_a_reader_that_goes_away_ends_it_without_a_word(hermes: Command) -> None:
    process = hermes.start(
        "chat", "-q", "x", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert b"Traceback" not in process.stderr.read()
    process.wait(timeout=120)
