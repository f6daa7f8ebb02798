"""A home that the previous version wrote is opened, read and continued.

`make_home.py` made the archive with that version; its private audit key is not in it.
"""

import json
import os
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from hermes.cli.main import main

ARCHIVE = Path(__file__).parent / "home.tar.gz"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path / "home", filter="data")
    (tmp_path / "home").chmod(0o700)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def hermes(home: Path, *words: str) -> str:
    variables = {"HERMES_HOME": str(home), "HOME": str(home.parent), "NO_COLOR": "1"}
    nothing_else: dict[str, str | None] = dict.fromkeys(os.environ)
    around = {**nothing_else, **variables, "PATH": os.environ["PATH"]}
    with CliRunner().isolation(env=around) as (output, errors, _):
        code = main(words)
        sys.stdout.flush()
        printed, reported = output.getvalue().decode(), errors.getvalue().decode()
    assert code == 0, f"{words}: {printed}{reported}"
    return printed


def test_what_is_in_it_is_read(home: Path) -> None:
    sessions = json.loads(hermes(home, "sessions", "list", "--json"))
    titles = {each.get("title") or each.get("task") for each in sessions}
    assert len(sessions) == 2
    assert "cache of the shop" in titles
    assert "rm -rf /srv/hermes-example/cache" in hermes(home, "sessions", "show", "latest")
    assert "the shop shows old prices" in hermes(home, "incident", "list")
    assert "the cache was old" in hermes(home, "incident", "timeline", "last")
    assert "closed" in hermes(home, "incident", "show", "last")
    assert "restart-shop" in hermes(home, "skills", "list")
    assert "the deploy window is Friday 14:00" in hermes(home, "memory", "list")
    key = home.parent / "audit.pub"  # kept elsewhere, as the archive has no private key
    key.write_bytes((home / "audit.pub").read_bytes())
    assert "verified" in hermes(home, "audit", "verify", "--key", str(key))
    settings = json.loads(hermes(home, "config", "view", "--json"))["settings"]
    assert {each["key"]: each["value"] for each in settings}["agent.max_iterations"] == 20
    assert "rm -rf /srv/hermes-example/cache" in hermes(home, "policy", "always")


def test_a_session_in_it_is_continued_and_its_approval_still_counts(home: Path) -> None:
    removes = {"id": "c9", "name": "terminal"}
    replies = [
        {"calls": [removes | {"arguments": {"command": "rm -rf /srv/hermes-example/cache"}}]},
        {"text": "It is removed again."},
    ]
    script = home.parent / "replies.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    answer = hermes(home, "chat", "-q", "once more", "--continue", "-m", f"scripted:{script}")
    assert "It is removed again." in answer
    shown = hermes(home, "sessions", "show", "latest")
    assert "remove the cache" in shown
    assert "once more" in shown
    assert "denied" not in shown
    assert len(json.loads(hermes(home, "sessions", "list", "--json"))) == 2
    assert "nginx listens on port 8080" in (home / "MEMORY.md").read_text()
