"""Rules can ask whether a fix was tested on a copy, and can require it."""

import pytest
from msgspec.structs import replace
from policy_setup import call, gate, load, policy_text

from hermes.core.actions import Action
from hermes.core.events.experiments import FixTested
from hermes.policy.rules.rule import PolicyVerdict
from hermes.sre.policies import FixTestPolicy

RESTART = call("terminal", command="systemctl restart web")


def marked(action: Action) -> Action:
    return replace(action, tested=True)


@pytest.mark.parametrize(
    "clause",
    [
        "{effects: [service-change], when: {tested: true}}",
        "{effects: [service-change], tested: true}",
        '{effects: [service-change], when: "action.tested"}',
    ],
)
def test_a_tested_fix_may_be_allowed_where_others_are_not(clause: str) -> None:
    policy = gate(policy_text("tested-restarts", "allow", clause), set="")
    assert policy.decide(marked(RESTART)).verdict == "allow"
    assert policy.decide(RESTART).verdict == "ask"


def test_a_rule_may_require_a_test() -> None:
    rule = policy_text("restarts", "allow", "{effects: [service-change]}", decide="require: tested")
    policy = gate(rule, set="")
    assert policy.decide(marked(RESTART)).verdict == "allow"
    asked = policy.decide(RESTART)
    assert (asked.verdict, asked.rule) == ("ask", "restarts")
    assert "tested on a copy" in asked.reason


def test_reading_needs_no_test() -> None:
    rule = policy_text("all", "allow", "{tool: terminal}", decide="require: tested")
    assert gate(rule, set="").decide(call("terminal", command="ls")).verdict == "allow"


def test_near_misses_name_the_missing_test() -> None:
    rule = policy_text("tested-restarts", "allow", "{program: systemctl, when: {tested: true}}")
    near = gate(rule, set="").examine(RESTART).near
    assert [each.missed for each in near] == [("when.tested",)]


@pytest.mark.parametrize("clause", ["{when: {testd: true}}", "{when: {tested: maybe}}"])
def test_wrong_facts_are_problems_of_the_file(clause: str) -> None:
    assert load(policy_text("broken", "ask", clause)).problems


def test_a_test_is_found_by_the_rules_and_shown_to_people() -> None:
    test = FixTested(
        run="r", incident="i", fix="x", outcome="recovered", checks=("web",), recovery_s=2.0
    )
    rule = policy_text("restarts", "ask", "{program: systemctl, when: {tested: true}}")
    decided = FixTestPolicy(gate(rule, set=""), lambda action: test).decide(RESTART)
    assert isinstance(decided, PolicyVerdict)
    assert (decided.rule, decided.tested) == (
        "restarts",
        "tested on a copy: web recovered in 2.0 s",
    )
    failed = FixTestPolicy(gate(rule, set=""), lambda action: replace(test, outcome="failed"))
    assert failed.decide(RESTART).rule != "restarts"
