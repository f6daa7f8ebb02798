"""`hermes policy test` and `lint` on real files."""

import json
from pathlib import Path

from hermes_command import Hermes

from hermes.cli import exit_codes

RULE = """\
apiVersion: hermes/v1
kind: ActionPolicy
metadata: {name: no-friday}
spec:
  match:
    any:
      - {program: systemctl, effects: service-change, when: "now.weekday == 4"}
  decide: {effect: deny}
"""
TEST = """\
---
apiVersion: hermes/v1
kind: PolicyTest
metadata: {name: fridays}
spec:
  cases:
    - {command: systemctl restart nginx, now: "2026-03-06T12:00", expect: deny, rule: no-friday}
    - {command: systemctl restart nginx, now: "2026-03-05T12:00", expect: ask}
    - {command: systemctl status nginx, now: "2026-03-06T12:00", expect: allow}
    - {command: echo x > ~/.hermes/config.yaml, expect: deny, rule: "floor:self-change"}
"""


def test_a_rule_is_tested_before_it_counts(hermes: Hermes, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(RULE + TEST)
    done = hermes("policy", "test", str(file))
    assert done.returncode == 0, done.stdout
    assert done.stdout == "4 cases of 1 test: all as expected\n"
    rules = json.loads(hermes("policy", "list", "--json").stdout)["rules"]
    assert "no-friday" not in [row["rule"] for row in rules]


def test_a_case_that_went_otherwise_is_told_and_is_exit_code_one(
    hermes: Hermes, tmp_path: Path
) -> None:
    (tmp_path / "test.yaml").write_text(TEST)
    done = hermes("policy", "test", str(tmp_path / "test.yaml"))
    assert done.returncode == exit_codes.FAILED
    assert "fridays case 1: systemctl restart nginx" in done.stdout
    assert "expected deny, got ask by moderate" in done.stdout
    assert "4 cases of 1 test: 1 failed" in done.stdout
    found = json.loads(hermes("policy", "test", "--json", str(tmp_path / "test.yaml")).stdout)
    assert (found["cases"], found["failed"]) == (4, 1)
    assert [one["ok"] for one in found["results"]] == [False, True, True, True]


def test_without_files_own_and_built_in_tests_are_run(hermes: Hermes) -> None:
    found = json.loads(hermes("policy", "test", "--json").stdout)
    assert found["failed"] == 0
    built_in = found["cases"]
    assert {one["test"] for one in found["results"]} >= {"the-floor-holds", "looking-is-free"}
    (hermes.home / "policies/sub").mkdir(parents=True)
    (hermes.home / "policies/sub/a.yaml").write_text(RULE + TEST)
    assert json.loads(hermes("policy", "test", "--json").stdout)["cases"] == built_in + 4


def test_a_new_version_of_a_rule_takes_the_place_of_the_old_one(
    hermes: Hermes, tmp_path: Path
) -> None:
    (hermes.home / "policies").mkdir(parents=True)
    (hermes.home / "policies/a.yaml").write_text(RULE)
    changed = RULE.replace("weekday == 4", "weekday == 0") + TEST
    (tmp_path / "new.yaml").write_text(changed)
    done = hermes("policy", "test", str(tmp_path / "new.yaml"))
    assert "4 cases of 1 test: 1 failed" in done.stdout
    (tmp_path / "taken.yaml").write_text(RULE.replace("no-friday", "destructive") + TEST)
    taken = hermes("policy", "test", str(tmp_path / "taken.yaml"))
    assert taken.returncode == exit_codes.SETTINGS
    assert "'destructive' is there already" in taken.stderr


def test_tests_that_are_none_are_no_success(hermes: Hermes, tmp_path: Path) -> None:
    (tmp_path / "rule.yaml").write_text(RULE)
    none = hermes("policy", "test", str(tmp_path / "rule.yaml"))
    assert none.returncode == exit_codes.FAILED
    assert "no PolicyTest" in none.stderr
    missing = hermes("policy", "test", str(tmp_path / "missing.yaml"))
    assert missing.returncode == exit_codes.SETTINGS
    unknown = TEST.replace("cases:", "set: carefull\n  cases:")
    (tmp_path / "unknown.yaml").write_text(unknown)
    done = hermes("policy", "test", str(tmp_path / "unknown.yaml"))
    assert done.returncode == exit_codes.SETTINGS
    assert "careful, observe, sandboxed, suggest" in done.stderr


def test_lint_says_file_line_and_cause(hermes: Hermes, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(RULE.replace("effect: deny", "effect: deni").replace("program", "programm"))
    done = hermes("policy", "lint", str(tmp_path))
    assert done.returncode == exit_codes.FAILED
    assert f"{file}:7: " in done.stdout
    assert "did you mean program" in done.stdout
    assert f"{file}:8: " in done.stdout
    found = json.loads(hermes("policy", "lint", "--json", str(file)).stdout)
    assert {one["line"] for one in found} == {7, 8}
    assert all(one["fatal"] for one in found)


def test_lint_tells_doubts_from_mistakes(hermes: Hermes, tmp_path: Path) -> None:
    file = tmp_path / "open.yaml"
    file.write_text(
        "apiVersion: hermes/v1\nkind: ActionPolicy\nmetadata: {name: open}\n"
        "spec:\n  match: {any: [{}]}\n  decide: {effect: allow}\n"
    )
    done = hermes("policy", "lint", str(file))
    assert done.returncode == exit_codes.FAILED
    assert f"{file}:1: note: it allows everything" in done.stdout


def test_lint_without_files_looks_at_what_counts_here(hermes: Hermes) -> None:
    clean = hermes("policy", "lint")
    assert (clean.returncode, clean.stdout) == (0, "")
    folder = hermes.home / "policies"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text(RULE)
    assert hermes("policy", "lint").returncode == 0
    assert hermes("policy", "lint", str(folder / "a.yaml")).returncode == 0
    (folder / "b.yaml").write_text(RULE)
    done = hermes("policy", "lint")
    assert done.returncode == exit_codes.FAILED
    assert done.stdout.splitlines() == [
        f"{folder}/b.yaml:1: ActionPolicy 'no-friday' is there already: {folder}/a.yaml:1"
    ]
