"""`hermes policy check`, `explain`, `list`, `show` and `always`, through the command itself."""

import json
import subprocess
from pathlib import Path

import pytest
from hermes_command import Hermes

from hermes.cli import exit_codes
from hermes.policy.approvals.always_allowed import allow_always

RULE = """\
apiVersion: hermes/v1
kind: ActionPolicy
metadata: {{name: {name}, description: {about}}}
spec:
  match: {{any: [{clause}]}}
  decide: {{effect: {effect}}}
"""


def rule(name: str, effect: str, clause: str, about: str = "mine") -> str:
    return RULE.format(name=name, effect=effect, clause=clause, about=about)


def own(hermes: Hermes, *texts: str) -> Path:
    folder = hermes.home / "policies"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.yaml").write_text("---\n".join(texts))
    return folder / "mine.yaml"


def verdict(hermes: Hermes, *words: str) -> tuple[str, str]:
    done = hermes("policy", "check", "--json", *words)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return answer["verdict"], answer["rule"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--", "ls", "-la"], ("allow", "default-reads")),
        (["--", "rm -rf /srv/data"], ("ask", "destructive")),
        (["--", "rm", "-rf", "/srv/data"], ("ask", "destructive")),
        (["--", "grep", "rm -rf", "log"], ("allow", "default-reads")),
        (["--", "psql", "-c", "delete from t"], ("ask", "destructive")),
        (["--", "find", "log", "-name", "*.gz", "-exec", "rm", "{}", ";"], ("ask", "destructive")),
        (["--", "dd if=/dev/zero of=/dev/sda"], ("deny", "floor:wipe")),
        (["--cwd", "/tmp", "--", "rm", "x"], ("allow", "safe-clean-up")),
        (["--tainted", "--cwd", "/tmp", "touch", "x"], ("ask", "tainted-asks")),
        (["--set", "observe", "touch", "x"], ("deny", "observe-only")),
        (["--isolated", "--", "rm", "-rf", "x"], ("allow", "isolated-place")),
        (["--isolated", "--set", "careful", "--", "rm", "/srv/x"], ("ask", "destructive")),
        (["--tool", "read_file", "--arguments", '{"path": "a"}'], ("allow", "default-reads")),
        (["--tool", "memory", "--arguments", '{"action": "read"}'], ("allow", "default-reads")),
        (["--tool", "web_search", "--arguments", '{"query": "x"}'], ("allow", "default-reads")),
        (
            ["--tool", "browser_navigate", '{"url": "https://a.example"}'],
            ("allow", "default-reads"),
        ),
        (
            ["--tool", "browser_click", '{"ref": "e1", "url": "https://a.example"}'],
            ("ask", "browser-acts"),
        ),
    ],
)
def test_a_verdict_comes_with_its_rule(
    hermes: Hermes, words: list[str], expected: tuple[str, str]
) -> None:
    assert verdict(hermes, *words) == expected


def test_people_see_verdict_rule_effects_and_reason(hermes: Hermes) -> None:
    shown = hermes("policy", "check", "--", "ls; rm -rf /srv/data").stdout
    assert "verdict     ask" in shown
    assert "rule        destructive" in shown
    assert "effects     delete, irreversible, read" in shown
    assert "because of  rm -rf /srv/data" in shown
    assert "removes /srv/data" in shown


@pytest.mark.parametrize(
    ("command", "code"),
    [("ls", exit_codes.OK), ("rm /srv/x", exit_codes.DENIED), (":(){ :|:& };:", exit_codes.DENIED)],
)
def test_held_is_seven_only_when_it_was_asked_for(hermes: Hermes, command: str, code: int) -> None:
    assert hermes("policy", "check", "--exit-code", "--", command).returncode == code
    assert hermes("policy", "check", "--", command).returncode == exit_codes.OK


def test_origin_target_and_environment_reach_the_rules(hermes: Hermes) -> None:
    own(
        hermes,
        rule("no-cron", "deny", "{program: touch, actor: {origin: cron}}"),
        rule("prod", "deny", "{program: touch, target: {environment: prod}}"),
        rule("db", "deny", "{program: touch, target: {host: db*}}"),
        rule("pg", "deny", "{program: touch, target: {service: postgres, place: ssh}}"),
    )
    touch = ("--cwd", "/tmp", "touch", "x")
    assert verdict(hermes, *touch) == ("allow", "safe-clean-up")
    assert verdict(hermes, "--origin", "cron", *touch) == ("deny", "no-cron")
    assert verdict(hermes, "--environment", "prod", *touch) == ("deny", "prod")
    assert verdict(hermes, "--target", "db1", *touch) == ("deny", "db")
    there = ("--target", "service=postgres", "--target", "place=ssh")
    assert verdict(hermes, *there, *touch) == ("deny", "pg")


def test_rules_of_the_project_count_where_it_is(hermes: Hermes, tmp_path: Path) -> None:
    folder = tmp_path / "project/.hermes/policies"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text(rule("frozen", "deny", "{program: touch}"))
    project = str(tmp_path / "project")
    assert verdict(hermes, "--cwd", project, "touch", "x") == ("deny", "frozen")
    assert verdict(hermes, "--cwd", str(tmp_path), "touch", "x") == ("allow", "safe-writes")


def test_a_broken_policy_file_is_never_passed_over(hermes: Hermes) -> None:
    file = own(hermes, rule("mine", "deni", "{program: touch}"))
    for words in (
        ["check", "--", "ls"],
        ["explain", "--", "ls"],
        ["list"],
        ["check", "--jsonl", "-"],
    ):
        done = hermes("policy", *words, stdin='{"command": "ls"}\n')
        assert done.returncode == exit_codes.SETTINGS
        assert f"{file}:6" in done.stderr
        assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["check"], "a command is missing"),
        (["explain"], "a command is missing"),
        (["check", "ls", "-la"], "put -- before the command"),
        (["check", "--target", "hots=x", "--", "ls"], "host, service"),
        (["check", "--tool", "patch", "--arguments", "{"], "JSON object"),
        (["check", "--origin", "crom", "--", "ls"], "'crom'"),
    ],
)
def test_wrong_usage_is_told(hermes: Hermes, words: list[str], told: str) -> None:
    done = hermes("policy", *words)
    assert done.returncode == exit_codes.USAGE
    assert told in done.stderr


LINES = [
    '{"command": "ls", "id": 7}',
    "nope",
    "",
    "[1]",
    "{}",
    '{"comand": "ls"}',
    '{"command": ["ls"]}',
    '{"command": "ls", "origin": "crom", "id": "x"}',
    '{"command": "ls", "risk": "\\ud800"}',
    "[" * 100_000,
    '{"command": "rm \\ud800"}',
    '{"command": "rm x", "cwd": "/tmp", "origin": "cron", "tool": "terminal", "target": "db1"}',
    '{"command": "rm x", "isolated": true}',
    '{"tool": "write_file", "arguments": {"path": "/etc/passwd"}}',
]
ANSWERS = ["allow", *["error"] * 9, "ask", "allow", "allow", "ask"]


def test_each_line_of_a_stream_is_answered_on_its_line(hermes: Hermes, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("\n".join(LINES) + "\n")
    done = hermes("policy", "check", "--jsonl", str(tmp_path / "lines"), "--cwd", "/srv/app")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer.get("verdict", "error") for answer in answers] == ANSWERS
    assert answers[0] == answers[0] | {"id": 7, "rule": "default-reads", "effects": ["read"]}
    assert "did you mean command" in answers[5]["error"]
    assert answers[7]["id"] == "x"
    assert done.returncode == exit_codes.OK
    again = hermes("policy", "check", "--exit-code", "--jsonl", "-", stdin="\n".join(LINES))
    assert again.returncode == exit_codes.FAILED
    held = hermes(
        "policy", "check", "--exit-code", "--jsonl", "-", stdin='{"command": "rm /srv/x"}'
    )
    assert held.returncode == exit_codes.DENIED


def test_options_are_what_a_line_does_not_say(hermes: Hermes) -> None:
    lines = '{"command": "touch x"}\n{"command": "touch x", "cwd": "/srv/app", "origin": "cli"}\n'
    own(hermes, rule("no-cron", "deny", "{program: touch, actor: {origin: cron}}"))
    done = hermes("policy", "check", "--jsonl", "-", "--origin", "cron", stdin=lines)
    rules = [json.loads(line)["rule"] for line in done.stdout.splitlines()]
    assert rules == ["no-cron", "safe-writes"]


def test_bytes_that_are_no_text_are_held(hermes: Hermes) -> None:
    done = subprocess.run(
        [*hermes.command, "policy", "check", "--jsonl", "-"],
        input=b'{"command": "ls \xff"}\n{"command": "ls"}\n',
        env=hermes.env,
        capture_output=True,
        timeout=60,
    )
    verdicts = [json.loads(line)["verdict"] for line in done.stdout.splitlines()]
    assert verdicts == ["ask", "allow"]


def test_a_stream_is_answered_while_it_runs(hermes: Hermes) -> None:
    with subprocess.Popen(
        [*hermes.command, "policy", "check", "--jsonl", "-"],
        env=hermes.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for command, expected in [("ls", "allow"), ("rm -rf /srv/x", "ask"), ("uptime", "allow")]:
            process.stdin.write(json.dumps({"command": command}).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["verdict"] == expected
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_explain_points_at_the_piece_that_decided(hermes: Hermes) -> None:
    shown = hermes("policy", "explain", "--cwd", "/srv/app", "echo rm x; sudo rm x").stdout
    lines = shown.splitlines()
    at = lines.index("  echo rm x; sudo rm x")
    assert lines[at + 1] == "             ^^^^^^^^^"
    assert "rule      destructive (built-in careful.yaml:" in shown
    assert "  sudo rm x  (inside sudo)" in lines
    assert "    delete     removes /srv/app/x" in lines
    assert any(line.startswith("action  ") for line in lines)


def test_explain_is_not_fooled_by_the_same_words_as_an_argument(hermes: Hermes) -> None:
    command = "echo 'é' rm x\nrm x"
    found = json.loads(hermes("policy", "explain", "--json", command).stdout)
    assert found["piece"] == {"text": "rm x", "start": 14, "end": 18}
    assert found["command"] == command
    shown = hermes("policy", "explain", command).stdout.splitlines()
    assert shown[shown.index("  rm x") + 1] == "  ^^^^"


def test_explain_shows_what_cannot_be_seen(hermes: Hermes) -> None:
    shown = hermes("policy", "explain", "ls \u202e\x1b[2K; rm x").stdout
    assert "\\u202e\\x1b[2K" in shown
    assert "\x1b" not in shown


def test_explain_says_what_nearly_matched(hermes: Hermes) -> None:
    own(hermes, rule("prod", "deny", "{program: rm, target: {environment: prod}}"))
    shown = hermes("policy", "explain", "--", "rm", "/srv/x").stdout
    assert "prod (deny): its condition target.environment does not hold" in shown
    assert "safe-clean-up (allow): its condition changes does not hold" in shown
    assert "written-then-run" not in shown
    near = json.loads(hermes("policy", "explain", "--json", "--", "rm", "/srv/x").stdout)["nearly"]
    assert {"rule": "prod", "effect": "deny", "missed": ["target.environment"]} in near
    hit = hermes("policy", "explain", "--environment", "prod", "--", "rm", "/srv/x").stdout
    assert "verdict   deny" in hit
    assert f"prod ({hermes.home}/policies/mine.yaml:1)" in hit


def test_explain_of_a_tool_that_is_no_command(hermes: Hermes) -> None:
    words = ("--tool", "write_file", "--arguments", '{"path": "/etc/hosts", "content": "x"}')
    assert "write /etc/hosts" in hermes("policy", "explain", *words).stdout


def test_rules_in_force_are_listed_with_file_and_line(hermes: Hermes) -> None:
    file = own(hermes, rule("a", "deny", "{program: a}"), rule("b", "ask", "{program: b}", "for b"))
    found = json.loads(hermes("policy", "list", "--json").stdout)
    rows = {row["rule"]: row for row in found["rules"]}
    assert found["set"] == "careful"
    assert rows["floor"]["effect"] == "deny"
    assert rows["b"] == rows["b"] | {"effect": "ask", "source": f"{file}:8", "about": "for b"}
    assert "built-in careful.yaml:" in hermes("policy").stdout
    other = json.loads(hermes("policy", "list", "--set", "observe", "--json").stdout)
    assert "observe-only" in [row["rule"] for row in other["rules"]]


def test_one_rule_is_shown_as_it_was_written(hermes: Hermes) -> None:
    file = own(hermes, rule("a", "deny", "{program: a}"), rule("b", "ask", "{program: b}"))
    shown = hermes("policy", "show", "b").stdout
    assert shown.splitlines()[0] == f"# {file}:8"
    assert rule("b", "ask", "{program: b}") in shown
    assert "name: a" not in shown
    assert "Wiping disks" in hermes("policy", "show", "floor").stdout
    assert json.loads(hermes("policy", "show", "a", "--json").stdout)[0]["source"] == f"{file}:1"
    missing = hermes("policy", "show", "destructiv")
    assert missing.returncode == exit_codes.FAILED
    assert "did you mean destructive" in missing.stderr


def test_what_was_allowed_for_good_is_listed_and_taken_back(hermes: Hermes) -> None:
    found = json.loads(hermes("policy", "explain", "--json", "--", "rm", "/srv/x").stdout)
    file = hermes.home / "policies/always.yaml"
    entry = allow_always(file, action=found["hash"], shown="rm /srv/x", owner="ann", days=9)
    hermes("config", "set", "policy.command_allowlist", "rm /srv/y")
    assert verdict(hermes, "--", "rm", "/srv/x") == ("allow", entry.name)
    assert verdict(hermes, "--", "rm", "/srv/y")[0] == "allow"
    listed = json.loads(hermes("policy", "always", "--json").stdout)
    assert [one["shown"] for one in listed] == ["rm /srv/x", "rm /srv/y"]
    assert "lifts *" in hermes("policy", "list").stdout
    assert hermes("policy", "always", "--revoke", entry.name).returncode == 0
    assert verdict(hermes, "--", "rm", "/srv/x") == ("ask", "destructive")
    assert hermes("policy", "always", "--revoke", entry.name).returncode == exit_codes.FAILED
