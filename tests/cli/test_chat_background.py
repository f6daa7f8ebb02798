"""Background processes of `hermes chat -q` end with the answer, and the person is told."""

import json
from pathlib import Path

import pytest
from hermes_command import Hermes


@pytest.mark.parametrize("command", ["tail -f {log}", "tail -f {log} | sort -u"])
def test_background_processes_end_with_the_answer(
    hermes: Hermes, tmp_path: Path, command: str
) -> None:
    log = tmp_path / "followed.log"
    log.write_text("")
    arguments = {"command": command.format(log=log), "background": True}
    calls = [{"id": "c1", "name": "terminal", "arguments": arguments}]
    file = tmp_path / "script.jsonl"
    file.write_text(json.dumps({"calls": calls}) + "\n" + json.dumps({"text": "It runs."}) + "\n")
    done = hermes("chat", "-q", "follow the log", "-m", f"scripted:{file}")
    assert (done.returncode, done.stdout.strip()) == (0, "It runs.")
    assert "background processes end with the answer: tail -f" in done.stderr
    assert not _processes_naming(str(log))


def _processes_naming(text: str) -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found
