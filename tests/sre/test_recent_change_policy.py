"""A recent change by a person is reverted only after approval, unless a rule allows it."""

import pytest

from hermes.core.actions import Action, Decision
from hermes.core.messages import Risk, ToolCall
from hermes.gym.episodes.responder_context import sandbox_policy, sandbox_rules
from hermes.policy.rules.rule import AskOptions, PolicyVerdict
from hermes.sre.policies import RECENT_CHANGE_RULE, RecentChangePolicy


def action(id: str, *, isolated: bool = True) -> Action:
    command = "cp -- /var/tmp/hermes-undo/i/before /etc/web.conf"
    return Action(
        call=ToolCall(id, "terminal", {"command": command}),
        risk=Risk.CHANGE,
        run="run",
        origin="incident",
        environment="box",
        target="web-1",
        isolated=isolated,
        command=command,
    )


class FixedPolicy:
    def __init__(self, verdict: str, rule: str) -> None:
        self._verdict, self._rule = verdict, rule

    def decide(self, action: Action) -> Decision:
        return Decision(verdict=self._verdict, rule=self._rule, effects=("write",), hash="x")  # type: ignore[arg-type]


class FixedDecision:
    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    def decide(self, action: Action) -> Decision:
        return self._decision


@pytest.mark.parametrize(
    ("verdict", "rule", "id", "expected"),
    [
        ("allow", "safe-writes", "recent", "ask"),
        ("allow", "safe-writes", "old", "allow"),
        ("allow", "recent-changes-of-web", "recent", "allow"),
        ("deny", "floor", "recent", "deny"),
        ("ask", "destructive", "recent", "ask"),
    ],
)
def test_recent_changes(verdict: str, rule: str, id: str, expected: str) -> None:
    policy = RecentChangePolicy(FixedPolicy(verdict, rule), {"recent": "ann"})
    decision = policy.decide(action(id))
    assert decision.verdict == expected
    if (verdict, expected) == ("allow", "ask"):
        assert (decision.rule, decision.reason) == (
            RECENT_CHANGE_RULE,
            "it reverts a recent change by ann",
        )


@pytest.mark.parametrize(
    ("rule", "announce_s"), [("moderate-playbooks", 0.0), ("recent-changes-here", 30.0)]
)
def test_an_announcement_is_no_approval(rule: str, announce_s: float) -> None:
    announced = PolicyVerdict(
        verdict="ask", rule=rule, effects=("write",), hash="x", ask=AskOptions(announce=30.0)
    )
    decision = RecentChangePolicy(FixedDecision(announced), {"recent": "ann"}).decide(
        action("recent", isolated=False)
    )
    assert decision.verdict == "ask"
    assert isinstance(decision, PolicyVerdict)
    assert decision.ask is not None
    assert decision.ask.announce == announce_s


def test_drills_have_a_visible_rule_that_allows_it() -> None:
    rules = sandbox_policy(sandbox_rules())
    assert RecentChangePolicy(rules, {"recent": "ann"}).decide(action("recent")).verdict == "allow"
