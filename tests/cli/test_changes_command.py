"""`hermes state` and `hermes changes`: recorded, compared, shown without secrets, reverted."""

import json
import socket
from pathlib import Path
from typing import Any

import anyio
import pytest
from hermes_command import Hermes

from hermes.app.changes.change_revert import revert_change
from hermes.core.actions import Action, Approval, Decision
from hermes.settings.load import load

SECRET = "tiger-77-blue-cloud"


@pytest.fixture
def host(hermes: Hermes, tmp_path: Path) -> Path:
    root = tmp_path / "host"
    root.mkdir()
    (root / "app.conf").write_text(f"port = 8080\ndb_password = {SECRET}\n")
    hermes.home.mkdir(parents=True)
    settings = {"declared": {"roots": [str(root)], "server_settings": False}}
    (hermes.home / "config.yaml").write_text(json.dumps(settings))
    return root


def answer(hermes: Hermes, *words: str) -> Any:
    done = hermes(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def change_of(hermes: Hermes, path: Path) -> dict[str, Any]:
    return next(each for each in answer(hermes, "changes") if each["key"] == str(path))


async def approve(action: Action, decision: Decision) -> Approval:
    return Approval(approved=True, by="test")


def test_a_change_is_seen_shown_without_secrets_and_reverted(hermes: Hermes, host: Path) -> None:
    path = host / "app.conf"
    before = path.read_text()
    good = answer(hermes, "state", "record", "--known-good")
    assert good["known_good"] and good["changes"] == []
    path.write_text(before.replace("8080", "80").replace(SECRET, "horse-99-green-sky"))
    assert len(answer(hermes, "state", "record")["changes"]) >= 1
    seen = change_of(hermes, path)
    assert (seen["kind"], seen["verb"], seen["author"]) == ("file", "changed", None)
    assert seen["differing"] == ["content", "size"]
    assert "auditctl" in seen["unknown_because"]
    shown = hermes("changes", "show", seen["change"])
    assert "-port = 8080" in shown.stdout and "+port = 80" in shown.stdout
    for text in (shown.stdout, hermes("state", "diff", "--content").stdout):
        assert "db_password" in text
        assert SECRET not in text and "horse-99" not in text
    for file in hermes.home.glob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file

    denied = hermes("changes", "revert", seen["change"])
    assert denied.returncode == 7, "nobody can approve it here"
    assert path.read_text() != before
    loaded = load(home=hermes.home, variables={"HOME": str(host), "PATH": "/usr/bin:/bin"})
    result = anyio.run(revert_change, loaded, seen["change"], approve)
    assert result.outcome == "reverted", result
    assert path.read_text() == before
    again = hermes("changes", "revert", seen["change"])
    assert again.returncode == 1 and "as it was before" in again.stderr


def test_a_change_that_changed_again_is_not_reverted(hermes: Hermes, host: Path) -> None:
    path = host / "app.conf"
    hermes("state", "record")
    path.write_text("port = 80\n")
    hermes("state", "record")
    change = change_of(hermes, path)["change"]
    path.write_text("port = 443\n")
    done = hermes("changes", "revert", change)
    assert done.returncode == 1 and "has changed again" in done.stderr
    assert path.read_text() == "port = 443\n"


def test_no_change_of_a_large_round_is_missing(hermes: Hermes, host: Path) -> None:
    edited = host / "zz.conf"
    edited.write_text("port = 80\n")
    hermes("state", "record")
    for number in range(320):
        (host / f"new-{number}").touch()
    edited.write_text("port = 443\n")
    hermes("state", "record")
    seen = answer(hermes, "changes", "list", "--limit", "2000")
    assert {str(edited), f"{host}/new-0", f"{host}/new-99"} <= {each["key"] for each in seen}
    assert len({each["change"] for each in seen}) == len(seen)
    shown = hermes("changes")
    assert f"{len(seen) - 200} earlier changes are not shown" in shown.stdout


def test_states_are_listed_shown_and_deleted(hermes: Hermes, host: Path) -> None:
    assert "hermes state record" in hermes("state").stderr
    assert "hermes state record --known-good" in hermes("state", "diff").stderr
    hermes("state", "record", "--known-good")
    states = answer(hermes, "state")["states"]
    assert {each["source"] for each in states} == {"known-good", "live"}
    id = next(each["id"] for each in states if each["source"] == "known-good")
    shown = answer(hermes, "state", "show", id, "--kind", "file", "--key", "app.conf")
    assert [each["key"] for each in shown["items"]] == [str(host / "app.conf")]
    assert hermes("state", "delete", id).returncode == 0
    missing = hermes("state", "show", id)
    assert missing.returncode == 1 and "hermes state list" in missing.stderr
    assert hermes("changes", "show", "abcdef").returncode == 1


def test_a_port_is_opened_and_closed_not_added_and_removed(hermes: Hermes, host: Path) -> None:
    answer(hermes, "state", "record", "--known-good")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        compared = hermes("state", "diff")
    assert compared.returncode == 0, compared.stderr
    [line] = [each for each in compared.stdout.splitlines() if f":{port} " in each]
    assert "opened" in line, line


def test_the_list_says_up_to_when_it_is_complete(hermes: Hermes, host: Path) -> None:
    assert "latest recorded state" not in hermes("changes").stderr
    hermes("state", "record")
    (host / "app.conf").write_text("port = 80\n")
    listed = hermes("changes")
    assert "app.conf" not in listed.stdout
    assert "the latest recorded state is of" in listed.stderr
    assert "hermes state diff" in listed.stderr
