"""`hermes batch` and `hermes trajectories` as people run them: killed, gone on with, exported."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from hermes_command import Hermes

from hermes import AIAgent
from trajectory_reader import from_openai, from_sharegpt

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def script(folder: Path, command: str = "sleep 0.3; echo done") -> str:
    calls = [{"id": "c1", "name": "terminal", "arguments": {"command": command}}]
    file = folder / "script.jsonl"
    lines = [{"reasoning": "look first", "calls": calls}, {"text": "It is done."}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"scripted:{file}"


def dataset(folder: Path, count: int) -> str:
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"task {n}"}) + "\n" for n in range(count)))
    return str(file)


def written(folder: Path) -> list[dict[str, object]]:
    files = sorted(folder.glob("batch_*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_batch_that_was_killed_goes_on_without_asking_twice(
    hermes: Hermes, tmp_path: Path
) -> None:
    out = tmp_path / "data"
    words = [
        "batch",
        f"--dataset_file={dataset(tmp_path, 5)}",
        "--run_name=killed",
        "--batch_size=2",
        "--num_workers=1",
        f"--model={script(tmp_path)}",
        f"--out={out}",
        "--distribution=terminal",
    ]
    killed = subprocess.Popen(
        [*hermes.command, *words],
        env=hermes.env,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while len(list(out.rglob("batch_*.jsonl"))) < 2 and killed.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    before = written(out / "killed")
    assert 3 <= len(before) < 5

    ended = hermes.process(*words, "--resume", "--json")
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert (summary["done_before"], summary["done_now"]) == (len(before), 5 - len(before))
    lines = (out / "killed" / "trajectories.jsonl").read_text().splitlines()
    assert [json.loads(line)["prompt_index"] for line in lines] == [0, 1, 2, 3, 4]
    read = from_sharegpt(lines[0])
    assert [message.role for message in read.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert read.completed
    assert read.about.origin == "batch"
    assert json.loads(lines[0])["tool_stats"]["terminal"]["success"] == 1
    assert not list((out / "killed" / "work").iterdir()), "nothing is left of where they worked"


def test_nobody_is_there_to_approve_and_a_failed_prompt_shows_in_the_exit_code(
    hermes: Hermes, tmp_path: Path
) -> None:
    risky = script(tmp_path, "rm -rf /etc/ssh")
    words = ["batch", f"--dataset_file={dataset(tmp_path, 1)}", f"--out={tmp_path / 'data'}"]
    ended = hermes.process(*words, "--run_name=no", f"--model={risky}", "--json")
    assert ended.returncode == 0, ended.stderr
    (line,) = written(tmp_path / "data" / "no")
    assert line["tool_stats"]["terminal"]["denied"] == 1  # type: ignore[index]
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    ended = hermes(*words, "--run_name=bad", f"--model=scripted:{empty}")
    assert ended.returncode == 1
    assert "--resume" in ended.stderr


def test_wrong_words_are_told_before_anything_is_asked(hermes: Hermes, tmp_path: Path) -> None:
    words = ["batch", f"--dataset_file={dataset(tmp_path, 1)}", f"--out={tmp_path / 'data'}"]
    assert hermes(*words, "--run_name=a/b").returncode == 3
    ended = hermes(*words, "--run_name=a", "--distribution=mixd")
    assert (ended.returncode, "did you mean mixed" in ended.stderr) == (3, True)
    assert not (tmp_path / "data").exists()


def test_runs_are_exported_without_secrets_in_both_formats(hermes: Hermes, tmp_path: Path) -> None:
    asked = hermes("chat", "-q", f"my token is {SECRET}", "-m", script(tmp_path, "true"))
    assert asked.returncode == 0, asked.stderr
    shown = hermes("trajectories", "export", "latest")
    assert shown.returncode == 0, shown.stderr
    assert SECRET not in shown.stdout
    read = from_sharegpt(shown.stdout)
    assert read.messages[2].reasoning == "look first"
    assert read.about.undescribed == ()
    assert {"terminal", "read_file"} <= {spec.name for spec in read.tools}
    file = tmp_path / "all.jsonl"
    told = hermes(
        "trajectories", "export", "--since=1d", "--format=openai", f"--out={file}", "--json"
    )
    assert json.loads(told.stdout)["examples"] == 1, told.stderr
    assert from_openai(file.read_text()).messages == read.messages
    assert hermes("trajectories", "export").returncode == 2


def test_an_agent_keeps_its_trajectories_when_asked(tmp_path: Path) -> None:
    with AIAgent(
        script(tmp_path, "true"),
        home=tmp_path / "home",
        directory=tmp_path,
        save_trajectories=True,
    ) as agent:
        agent.chat("do something")
        (file,) = (tmp_path / "trajectories").glob("*.jsonl")
        assert from_sharegpt(file.read_text()).messages[-1].text == "It is done."
