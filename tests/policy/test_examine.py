"""check, explain, test, replay, report and lint: what people ask of the gate."""

from pathlib import Path
from typing import Any

import pytest
from policy_setup import HOME, WORK, exception_text, gate, load, placed, policy_text

from hermes.core.errors import SettingsError
from hermes.core.events.tools import ToolApproved, ToolDecided
from hermes.core.messages import Risk
from hermes.policy.examination import (
    DecidedAction,
    RuleStatistics,
    check_action,
    replay_decisions,
    rule_statistics,
    run_tests,
)
from hermes.policy.loading import BUILT_IN_SETS_FOLDER, lint_files, load_set


def ask_about(data: dict[str, Any], **options: Any) -> dict[str, Any]:
    return check_action(gate(**options), data, cwd=WORK, home=HOME)


def test_check_says_verdict_rule_and_effects() -> None:
    found = ask_about({"command": "rm -rf data"})
    assert (found["verdict"], found["rule"]) == ("ask", "destructive")
    assert "delete" in found["effects"]
    assert found["node"] == "rm -rf data"


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        ({"command": "ls"}, "allow"),
        ({"command": "rm x", "cwd": "/tmp"}, "allow"),
        ({"command": "rm x", "origin": "cron"}, "ask"),
        ({"command": "rm x", "target": {"environment": "prod"}}, "deny"),
        ({"command": "rm x", "target": {"host": "db1"}}, "ask"),
        ({"command": "rm x", "incident": {"severity": "P0"}}, "dry-run"),
        ({"tool": "write_file", "arguments": {"path": "a"}}, "allow"),
        ({"tool": "pods", "command": "kubectl get pods", "risk": "read"}, "allow"),
        ({"command": "touch x", "now": "2026-03-02T03:00"}, "ask"),
        ({"command": "touch x", "now": "2026-03-02T13:00"}, "allow"),
    ],
)
def test_check_takes_what_one_line_of_json_can_say(data: dict[str, Any], verdict: str) -> None:
    text = policy_text("prod", "deny", "{effects: delete, target: {environment: prod}}")
    text += policy_text("p0", "dry-run", "{program: rm, incident: {severity: P0}}")
    text += policy_text("night", "ask", '{effects: write, when: "now.hour < 8"}')
    text += exception_text("x", "[destructive, default-asks]", "{incident: {severity: P0}}")
    assert ask_about(data, text=text)["verdict"] == verdict


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        ({"comand": "ls"}, "did you mean command"),
        ({"command": ["ls"]}, "not an action"),
        ({"command": "ls", "origin": "crom"}, "did you mean cron"),
        ({"command": "ls", "now": "noon"}, "not a time"),
        ({"command": "ls", "target": {"hots": "x"}}, "did you mean host"),
    ],
)
def test_check_says_what_it_did_not_understand(data: dict[str, Any], cause: str) -> None:
    with pytest.raises(SettingsError, match=cause):
        ask_about(data)


def test_a_policy_test_tells_what_went_otherwise() -> None:
    documents = load(
        """\
        apiVersion: hermes/v1
        kind: PolicyTest
        metadata: {name: mine}
        spec:
          defaults: {origin: cron}
          cases:
            - {command: ls, expect: allow}
            - {command: rm x, expect: allow}
            - {command: rm x, expect: ask, rule: other}
            - {command: rm x, expect: ask, effects: [network-out]}
        """
    ).documents
    results = run_tests(documents, lambda name: gate())
    assert [result.ok for result in results] == [True, False, False, False]
    assert "expected allow, got ask by destructive" in results[1].problem
    assert "expected the rule other" in results[2].problem
    assert "network-out" in results[3].problem


def test_a_case_without_anything_to_do_is_a_mistake_with_a_line() -> None:
    loaded = load(
        "apiVersion: hermes/v1\nkind: PolicyTest\nmetadata: {name: t}\nspec:\n  cases:\n"
        "    - {expect: ask}\n    - {command: ls, expect: maybe}\n    - {command: ls}\n"
    )
    assert [problem.line for problem in loaded.problems] == [7, 8]


def past(command: str, verdict: str, rule: str = "old") -> DecidedAction:
    action = placed("terminal", Risk.CHANGE, {"command": command})
    return DecidedAction(action=action, verdict=verdict, rule=rule)


def test_replay_shows_only_what_would_change() -> None:
    stricter = policy_text("no-touch", "deny", "{program: touch}")
    differences = replay_decisions(
        gate(stricter), [past("ls", "allow"), past("touch x", "allow"), past("rm x", "deny")]
    )
    assert [(one.node, one.before, one.after, one.stricter) for one in differences] == [
        ("touch x", "allow", "deny", True),
        ("rm x", "deny", "ask", False),
    ]


def test_replay_remembers_what_was_run_then() -> None:
    script = past("echo 'rm -rf /srv' > x.sh", "allow")
    (difference,) = replay_decisions(gate(), [script, past("bash x.sh", "allow")])
    assert difference.after_rule == "written-then-run"


def test_report_counts_per_rule() -> None:
    def decided(call: str, verdict: Any, rule: str) -> ToolDecided:
        return ToolDecided(run="r", call_id=call, verdict=verdict, rule=rule)

    events = [
        decided("1", "allow", "a"),
        decided("2", "ask", "b"),
        ToolApproved(run="r", call_id="2", approved=True, by="ann"),
        decided("3", "ask", "b"),
        ToolApproved(run="r", call_id="3", approved=False, by="nobody"),
        decided("4", "ask", "b"),
        decided("5", "deny", "c"),
        decided("6", "dry-run", "d"),
    ]
    assert rule_statistics(events) == [
        RuleStatistics(rule="b", passed=1, failed=2),
        RuleStatistics(rule="a", passed=1),
        RuleStatistics(rule="c", failed=1),
        RuleStatistics(rule="d", warned=1),
    ]


def test_an_approval_counts_only_for_the_call_of_its_own_run() -> None:
    events = [
        ToolDecided(run="one", call_id="1", verdict="ask", rule="b"),
        ToolApproved(run="one", call_id="1", approved=False, by="ann"),
        ToolDecided(run="two", call_id="1", verdict="ask", rule="b"),
        ToolApproved(run="two", call_id="1", approved=True, by="ann"),
    ]
    assert rule_statistics(events) == [RuleStatistics(rule="b", passed=1, failed=1)]


def test_lint_finds_mistakes_and_doubts(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        policy_text("open", "allow", "{}")
        + policy_text("wiper", "allow", "{effects: [wipe]}")
        + policy_text("closed", "deny", "{}")
        + exception_text("x", "[destructiv]", "{program: rm}")
        + exception_text("old", '["*"]', "{program: rm}", "2020-01-01")
    )
    (tmp_path / "b.yaml").write_text("kind: ActionPolicy\n")
    found = [str(problem) for problem in lint_files([tmp_path], load_set("careful").documents)]
    for cause in (
        "allows everything",
        "which the floor denies",
        "denies everything",
        "did you mean destructive",
        "does not lift default-asks",
        "has expired",
        "b.yaml:1: apiVersion",
    ):
        assert any(cause in line for line in found), (cause, found)


def test_lint_has_nothing_to_say_about_the_built_in_sets() -> None:
    for file in BUILT_IN_SETS_FOLDER.glob("*.yaml"):
        assert lint_files([file]) == []
