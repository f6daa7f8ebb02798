"""Whoever investigates can only look, whatever the rules around it allow."""

import pytest

from hermes.core.actions import Action, Decision
from hermes.core.incident import IncidentDetails
from hermes.core.messages import Risk, ToolCall
from hermes.sre.policies import (
    READ_ONLY_RULE,
    UNATTENDED_RULE,
    ReadOnlyPolicy,
    UnattendedPolicy,
    is_read_only,
)
from hermes.sre.responders.host_facts import fact_collectors
from hermes.sre.settings import CrewSettings
from risk_policy import RiskPolicy


class Allows:
    """A gate that lets everything pass and looks at nothing."""

    def __init__(self, *effects: str) -> None:
        self.effects = effects

    def decide(self, action: Action) -> Decision:
        return Decision(verdict="allow", rule="anything-goes", effects=self.effects)


def action(name: str = "terminal", risk: Risk = Risk.CHANGE, **given: object) -> Action:
    shown = str(given.get("command", "")) if name == "host_terminal" else ""
    return Action(
        call=ToolCall("c", name, dict(given)),
        risk=risk,
        run="r/data",
        origin="incident",
        environment="local",
        target="here",
        isolated=True,
        command=shown,
    )


@pytest.mark.parametrize(
    "given",
    [
        action(command="journalctl -u web -n 20"),
        action(command="cat /etc/hosts | head -n 3; df -h"),
        action(command="curl -s http://127.0.0.1:80/health"),
        action("host_terminal", host="db", command="ss -ltn"),
        action("read_file", Risk.READ, path="/etc/hosts"),
        action("search_files", Risk.READ, path="/srv/web", pattern="port"),
    ],
)
def test_a_look_is_let_through(given: Action) -> None:
    assert ReadOnlyPolicy(Allows()).decide(given).verdict == "allow"
    if given.call.name == "host_terminal":  # any shell says of itself that it may write
        assert ReadOnlyPolicy(Allows("read", "write")).decide(given).verdict == "allow"


@pytest.mark.parametrize(
    "given",
    [
        action(command="systemctl restart web"),
        action(command="echo x > /etc/web.conf"),
        action(command="cat /etc/hosts; rm -rf /srv/web"),
        action(command="sh -c 'systemctl stop web'"),
        action(command="cat $(touch /tmp/x)"),
        action(command='eval "$(cat /tmp/script)"'),
        action(command="kill 1"),
        action(command="export PATH=/tmp/evil:$PATH"),
        action(command="ls() { rm -rf /srv; }"),
        action(command="cat /etc/shadow"),
        action(command="if ["),
        action(command="tail -f /var/log/x", background=True),
        action(command="top", pty=True),
        action("host_terminal", host="db", command="systemctl stop db"),
        action("write_file", path="/etc/hosts", text=""),
        action("patch", path="/etc/hosts"),
        action("process", action="kill", id="1"),
        action("execute_code", code="1"),
        action("of_a_stranger"),
        action("of_a_stranger", Risk.DESTROY),
    ],
    ids=lambda given: f"{given.call.name} {given.call.arguments.get('command', '')}"[:40],
)
def test_all_else_is_refused_with_a_reason_under_any_rules(given: Action) -> None:
    for policy in (Allows(), Allows("read"), RiskPolicy()):
        said = ReadOnlyPolicy(policy).decide(given)
        assert (said.verdict, said.rule) == ("deny", READ_ONLY_RULE)
        assert said.reason


def test_a_check_of_a_signature_does_not_wait_for_approval() -> None:
    look = action(command="cat /etc/hosts")
    assert UnattendedPolicy(Allows("read")).decide(look).verdict == "allow"
    refused = UnattendedPolicy(Asks()).decide(look)
    assert (refused.verdict, refused.rule) == ("deny", UNATTENDED_RULE)
    assert "ask-first" in refused.reason


def test_what_the_gate_sees_beyond_the_words_counts_as_well() -> None:
    look = action(command="cat /etc/hosts")
    assert ReadOnlyPolicy(Allows("read", "self-change")).decide(look).verdict == "deny"


class Asks:
    def decide(self, action: Action) -> Decision:
        return Decision(verdict="ask", rule="ask-first", effects=("read",))


def test_nobody_is_asked_for_leave_to_look() -> None:
    said = ReadOnlyPolicy(Asks()).decide(action(command="cat /etc/hosts"))
    assert said.verdict == "deny"
    assert "ask-first" in said.reason


def test_tools_that_only_take_notes_are_no_deeds() -> None:
    gate = ReadOnlyPolicy(Allows(), frozenset({"finding"}))
    assert gate.decide(action("finding", Risk.READ, claim="x")).verdict == "allow"


@pytest.mark.parametrize("service", ["web", "web@1.service", "", "-rf", "web; reboot", "$(reboot)"])
def test_every_fixed_look_only_looks_whatever_an_alert_calls_its_service(service: str) -> None:
    case = IncidentDetails(incident="i", run="i", title="t", service=service)
    found = fact_collectors(case, 180.0)
    assert {each.layer for each in found} == set(CrewSettings().layers)
    for each in found:
        assert is_read_only(each.command), each
        assert "reboot" not in each.command
        assert ReadOnlyPolicy(Allows()).decide(action(command=each.command)).verdict == "allow", (
            each
        )
