"""`hermes skills` on a real home, as a person uses it."""

import json
from pathlib import Path
from typing import Any

from hermes_command import Hermes

from hermes.cli import exit_codes

PLAYBOOK = """\
summary: writes a word into a file
signature:
  words: [the word is missing]
  probes:
    - {name: confirm, command: 'cat {{file}}', expect: {contains: wrong}}
parameters:
  file: {from: alert, labels: [file], kind: path}
steps:
  - name: write
    command: cp {{file}} {{file}}.saved && echo right > {{file}}
    undo: mv {{file}}.saved {{file}}
verify:
  - {name: written, command: 'grep -q %s {{file}}', within: 0.2}
"""


def told(hermes: Hermes, *words: str) -> Any:
    done = hermes("skills", *words, "--json")
    assert done.returncode == exit_codes.OK, done.stderr
    return json.loads(done.stdout)


def begin(hermes: Hermes, name: str = "mend-it", check: str = "right") -> Path:
    folder = Path(
        told(hermes, "new", name, "--description", "Mends it when it is broken")["folder"]
    )
    (folder / "playbook.yaml").write_text(PLAYBOOK % check)
    return folder


def test_an_empty_home_has_the_bundled_skills_and_stays_empty(hermes: Hermes) -> None:
    found = told(hermes, "list")
    assert {"port-taken", "incident-commander"} <= {each["name"] for each in found}
    assert all(each["origin"] == "bundled" for each in found)
    assert not hermes.home.exists()


def test_a_task_finds_the_skill_for_it(hermes: Hermes) -> None:
    found = told(hermes, "list", "--task", "redis refuses writes, maxmemory reached")
    assert found[0]["name"] == "redis-out-of-memory"
    assert found[0]["score"] > 0
    assert told(hermes, "list", "--task", "water the plants") == []


def test_one_is_shown_whole_or_by_file(hermes: Hermes) -> None:
    assert "## When to use" in told(hermes, "show", "port-taken")["body"]
    assert "signature:" in told(hermes, "show", "port-taken", "playbook.yaml")["text"]
    missing = hermes("skills", "show", "port-taxen")
    assert missing.returncode == exit_codes.SETTINGS
    assert "similar: port-taken" in missing.stderr


def test_a_skill_is_begun_linted_edited_compared_and_rolled_back(hermes: Hermes) -> None:
    folder = begin(hermes)
    assert told(hermes, "lint", "mend-it") == []
    file = folder / "SKILL.md"
    file.write_text(file.read_text().replace("# Mend it", "# Mend it well"))
    assert told(hermes, "edit", "mend-it", "--reason", "better")["changed"] is False
    past = told(hermes, "history", "mend-it")
    assert [each["number"] for each in past["versions"]] == [1, 2]
    assert "+# Mend it well" in told(hermes, "diff", "mend-it", "1")["diff"]
    assert told(hermes, "rollback", "mend-it", "1")["restored"] == 1
    assert "# Mend it well" not in file.read_text()
    assert len(told(hermes, "history", "mend-it")["versions"]) == 3


def test_a_bundled_skill_becomes_ones_own_when_it_is_edited(hermes: Hermes) -> None:
    refused = hermes("skills", "rollback", "port-taken")
    assert refused.returncode == exit_codes.SETTINGS
    assert "hermes skills edit port-taken" in refused.stderr
    told(hermes, "edit", "port-taken")
    found = {each["name"]: each for each in told(hermes, "list")}
    assert found["port-taken"]["origin"] == "user"


def test_a_retired_skill_is_gone_from_lists_until_it_is_brought_back(hermes: Hermes) -> None:
    begin(hermes)
    assert told(hermes, "retire", "mend-it", "--reason", "old")["state"] == "retired"
    assert "mend-it" not in {each["name"] for each in told(hermes, "list")}
    assert "mend-it" in {each["name"] for each in told(hermes, "list", "--all")}
    assert hermes("skills", "retire", "mend-it").returncode == exit_codes.SETTINGS
    assert told(hermes, "retire", "mend-it", "--back")["state"] == "draft"
    life = told(hermes, "history", "mend-it")["life"]
    assert [each["state"] for each in life] == ["draft", "retired", "draft"]


def test_the_linter_tells_line_and_cause_and_fails(hermes: Hermes) -> None:
    folder = begin(hermes)
    text = (folder / "playbook.yaml").read_text()
    (folder / "playbook.yaml").write_text(
        text.replace("command: 'cat {{file}}'", "command: 'rm {{file}}'")
    )
    done = hermes("skills", "lint", "mend-it", "--json")
    assert done.returncode == exit_codes.FAILED
    (problem,) = json.loads(done.stdout)
    assert problem["line"] == 5
    assert "should only read" in problem["cause"]


def test_a_playbook_is_told_dry_run_applied_and_undone(hermes: Hermes, tmp_path: Path) -> None:
    begin(hermes)
    begin(hermes, "fails-it", check="perfect")
    file = tmp_path / "word"
    file.write_text("wrong\n")
    label = ("--label", f"file={file}", "--json")
    dry = json.loads(hermes("skills", "run", "mend-it", "--dry-run", *label).stdout)
    assert (dry["outcome"], dry["dry"]) == ("applied", True)
    assert file.read_text() == "wrong\n"
    failed = hermes("skills", "run", "fails-it", "--undo", *label)
    assert failed.returncode == exit_codes.FAILED
    assert json.loads(failed.stdout)["outcome"] == "undone"
    assert file.read_text() == "wrong\n"
    applied = hermes("skills", "run", "mend-it", *label)
    assert applied.returncode == exit_codes.OK, applied.stdout
    assert file.read_text() == "right\n"
    declined = json.loads(hermes("skills", "run", "mend-it", *label).stdout)
    assert declined["outcome"] == "declined"
    use = {each["skill"]: each for each in told(hermes, "stats")}
    assert (use["mend-it"]["applied"], use["mend-it"]["declined"]) == (1, 1)
    assert use["fails-it"]["undone"] == 1


def test_whoever_is_asked_about_a_step_is_shown_its_way_back(
    hermes: Hermes, tmp_path: Path
) -> None:
    playbook = begin(hermes) / "playbook.yaml"
    playbook.write_text(playbook.read_text().replace("&& echo", "&& $UNKNOWN echo"))
    file = tmp_path / "word"
    file.write_text("wrong\n")
    asks = ("-s", "policy.wait=true", "-s", "policy.approval_timeout=0.2")
    refused = hermes(*asks, "skills", "run", "mend-it", "--label", f"file={file}", "--json")
    assert json.loads(refused.stdout)["outcome"] == "refused"
    (asked,) = json.loads(hermes("approvals", "list", "--all", "--json").stdout)
    assert asked["undo"] == f"mv {file}.saved {file}"


def test_wrong_parameters_are_told_before_anything_runs(hermes: Hermes) -> None:
    begin(hermes)
    done = hermes("skills", "run", "mend-it", "--set", "fle=/x")
    assert done.returncode == exit_codes.SETTINGS
    assert "there are: file" in done.stderr
    missing = hermes("skills", "run", "mend-it", "--json")
    assert "file is missing" in json.loads(missing.stdout)["detail"]
    none = hermes("skills", "run", "incident-commander")
    assert "no playbook" in none.stderr
