"""`hermes rl`: a server that says where it is, and ends when it is told to."""

import json
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest
from hermes_command import Hermes

from hermes.environments.sandboxing import support

boxes = pytest.mark.skipif(
    bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())
)
TYPO = "config-typo-after-edit"


@boxes
def test_the_server_says_where_it_is_and_ends_when_told(hermes: Hermes, tmp_path: Path) -> None:
    server = subprocess.Popen(
        [*hermes.command, "rl", "serve", TYPO, "--port=0"],
        env=hermes.env,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        with urllib.request.urlopen(f"{address}/health", timeout=30) as answer:
            assert json.load(answer)["status"] == "healthy"
    finally:
        server.send_signal(signal.SIGINT)
        code = server.wait(timeout=120)
        assert server.stdout is not None
        server.stdout.close()
    assert code == 130


@boxes
def test_what_is_drawn_can_be_seen_and_is_the_same_again(hermes: Hermes) -> None:
    words = ("rl", "sample", TYPO, "--count=3", "--seed=5", "--json")
    first = hermes(*words)
    assert first.returncode == 0, first.stderr
    assert [each["scenario"] for each in json.loads(first.stdout)] == [TYPO] * 3
    assert hermes(*words).stdout == first.stdout


def test_an_empty_token_is_no_token(hermes: Hermes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("\n")
    ended = hermes("rl", "serve", TYPO, f"--token-file={file}")
    assert ended.returncode == 3
    assert "is empty" in ended.stderr
