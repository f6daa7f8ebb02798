"""The whole gate, from a call to a verdict: state, speed, and everything on one road."""

import statistics
import time
from typing import Any

import pytest
from msgspec.structs import replace
from policy_setup import call, gate, placed, policy_text

from hermes.core.actions import Policy
from hermes.core.messages import Risk
from hermes.policy.rules.evaluation import RateCounter


def test_it_is_a_policy() -> None:
    policy: Policy = gate()
    assert policy.decide(call("terminal", command="ls")).verdict == "allow"


def test_deciding_changes_nothing() -> None:
    limited = policy_text(
        "limited", "allow", "{program: touch}", decide="rate_limit: {max: 1, per: 1h}"
    )
    policy = gate(limited, set="")
    action = call("terminal", command="touch x")
    assert {policy.decide(action).verdict for _ in range(5)} == {"allow"}
    policy.record_start(action)
    assert policy.decide(action).verdict == "ask"


def test_a_rate_is_counted_when_it_starts_and_runs_out() -> None:
    now = [0.0]
    text = policy_text(
        "limited", "allow", "{program: touch}", decide="rate_limit: {max: 2, per: 1m}"
    )
    policy = gate(text, set="", rates=RateCounter(lambda: now[0]))
    action = call("terminal", command="touch x")
    for _ in range(2):
        policy.record_start(action)
    assert policy.decide(action).verdict == "ask"
    now[0] = 61
    assert policy.decide(action).verdict == "allow"


def test_an_allowed_program_is_asked_about_once_its_script_was_written() -> None:
    policy = gate(policy_text("mine", "allow", "{program: [/srv/app/deploy.sh, bash]}"))
    write = call("write_file", path="deploy.sh", content="rm -rf /srv")
    run = call("terminal", command="/srv/app/deploy.sh")
    before = policy.decide(run)
    assert before.rule == "mine"
    policy.record_start(write)
    after = policy.decide(run)
    assert after.rule == "written-then-run"
    assert after.hash != before.hash
    policy.forget("run-1")
    assert policy.decide(run).hash == before.hash


@pytest.mark.parametrize(
    "origin",
    [
        *("cli", "python", "chat", "cron", "subagent", "batch", "incident", "gym", "web", "hook"),
        *("mcp", "acp"),
    ],
)
@pytest.mark.parametrize(
    ("tool", "arguments", "rule"),
    [
        ("terminal", {"command": "rm -rf data"}, "destructive"),
        ("terminal", {"command": "rm -rf data", "background": True}, "destructive"),
        ("terminal", {"command": "mkfs.ext4 /dev/sda"}, "floor:wipe"),
        ("process", {"action": "submit", "session_id": "p", "data": "rm -rf data"}, "destructive"),
        ("write_file", {"path": "~/.hermes/policies/a.yaml", "content": ""}, "floor:self-change"),
        ("purge", {"days": 3}, "destructive"),
    ],
)
def test_every_road_and_every_origin_meets_the_same_gate(
    origin: Any, tool: str, arguments: dict[str, Any], rule: str
) -> None:
    policy = gate(command="rm -rf data" if tool == "purge" else "")
    action = placed(tool, Risk.CHANGE, arguments)
    found = policy.decide(replace(action, origin=origin))
    assert rule in (found.rule, *found.also)
    assert found.verdict != "allow"


COMMANDS = (
    "ls -la /var/log",
    "kubectl get pods -n prod -o json | jq '.items[].metadata.name' | sort | uniq -c",
    'for f in *.log; do grep -c ERROR "$f"; done',
    "cd /srv/app && git pull --ff-only && systemctl restart app",
    "sudo -u postgres psql -c 'select count(*) from users where active'",
    "find /var/log -name '*.gz' -mtime +7 -exec rm {} \\;",
    "echo c3VkbyBybSAtcmYgLwo= | base64 -d | sh",
    "tar czf /tmp/backup.tgz --exclude node_modules . && scp /tmp/backup.tgz host:/backups/",
)


def test_a_decision_never_holds_up_a_run() -> None:
    conditional = policy_text("night", "ask", '{effects: write, when: "now.hour < 8"}')
    policy = gate(conditional)
    actions = [call("terminal", command=command) for command in COMMANDS]
    for action in actions:
        policy.decide(action)
    times = []
    for _ in range(20):
        for action in actions:
            started = time.thread_time()
            policy.decide(action)
            times.append(time.thread_time() - started)
    assert statistics.median(times) < 0.05, "a wall against blow-ups; bench/ has the figure"


def test_a_command_of_a_megabyte_is_asked_about_at_once() -> None:
    started = time.thread_time()
    found = gate().decide(call("terminal", command="ls; " * 250_000))
    assert found.verdict == "ask"
    assert time.thread_time() - started < 1


@pytest.mark.parametrize("text", ["\ud800", "ls \udcff", "", " ", "\x00", "ls\r\nrm x", "(" * 5000])
def test_bad_text_never_breaks_the_gate(text: str) -> None:
    found = gate().decide(call("terminal", command=text))
    assert found.verdict in ("allow", "ask", "deny")
    assert found.verdict != "allow" or not text.strip()
