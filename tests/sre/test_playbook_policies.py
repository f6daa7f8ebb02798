"""What the default policy says to bundled playbooks on hosts without systemd."""

from collections.abc import Iterator
from functools import cache
from shlex import quote

import pytest
from msgspec.structs import replace

from hermes.core.actions import Action, Decision, Policy
from hermes.core.messages import Risk, ToolCall
from hermes.policy.actions.reader import ActionContext, ActionReader, resolve_symlinks
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy
from hermes.policy.loading import compile_rule_set, load_set
from hermes.policy.rules.evaluation import RuleSet
from hermes.policy.rules.rule import PolicyVerdict
from hermes.policy.settings import PolicySettings
from hermes.skills.discovery import BUNDLED_SKILLS
from hermes.skills.playbook.parameters import fill_template
from hermes.skills.playbook.reader import parse_playbook
from hermes.skills.playbook.schema import Playbook
from hermes.skills.supervisors.commands import HostSupervisors, UnsupportedActionError
from hermes.skills.supervisors.units import (
    HostUnit,
    PlainDaemon,
    describe_daemons,
    listing_scripts,
)
from hermes.sre.assessment.assess import read_script
from hermes.sre.escalation.host_scripts import EscalationSubject, named_scripts, script_command
from hermes.sre.policies import (
    BundledTextPolicy,
    KnownDaemonPolicy,
    RecordedUndoPolicy,
    UnattendedPolicy,
    own_script_policy,
)

PROGRAMS = {
    "nginx": ("/usr/sbin/nginx", "-g", "daemon off;"),
    "postgres": ("/usr/lib/postgresql/15/bin/postgres", "-D", "/var/lib/postgresql/15/main"),
    "redis": ("/usr/bin/redis-server", "/etc/redis/redis.conf"),
    "shop-api": ("/usr/bin/python3", "/srv/shop/shop_api.py"),
}
DAEMONS = tuple(
    PlainDaemon(name=name, command=command, user="redis", folder="/", log=f"/var/log/{name}.log")
    for name, command in PROGRAMS.items()
)
COPIES = " ".join(f"/var/backups/shop/{day}/catalogue.json" for day in range(1, 9))
SAMPLES = {
    "path": "/srv/shop/catalogue.json",
    "number": "123",
    "port": "6379",
    "service": "redis",
    "host": "db.internal",
}
PARTS = [
    (file.parent.name, part)
    for file in sorted(BUNDLED_SKILLS.glob("*/*/playbook.yaml"))
    for part in ("probes", "checks")
]


def host_units(kind: str) -> HostSupervisors:
    units = [
        HostUnit(
            name=name,
            kind=kind,
            state="failed" if name == "redis" else "active",
            pid=100,
            since="2026-11-17 06:00:00",
            definition=(f"ExecStart={' '.join(command)}", "EnvironmentFile=/etc/shop/shop.env"),
            logs=(f"/var/log/{name}.log", f"/var/log/{name}/error.log"),
        )
        for name, command in PROGRAMS.items()
    ]
    return HostSupervisors(units, DAEMONS)


@cache
def rule_set(name: str) -> RuleSet:
    return compile_rule_set(load_set(name).documents, PolicySettings(), "/root")


def policy(name: str = "careful") -> DocumentPolicy:
    return DocumentPolicy(
        rule_set(name),
        ActionReader(analyse_command, lookup=resolve_symlinks, own_paths=(str(BUNDLED_SKILLS),)),
        context_of=lambda _: ActionContext(cwd="/", home="/root"),
    )


def action(command: str) -> Action:
    return Action(
        call=ToolCall("c", "terminal", {"command": command}),
        risk=Risk.CHANGE,
        run="incident-1#playbook",
        origin="incident",
        environment="local",
        target="",
        isolated=False,
    )


@cache
def bundled_playbook(name: str) -> Playbook:
    playbook, problems = parse_playbook(
        next(BUNDLED_SKILLS.glob(f"*/{name}/playbook.yaml")).read_text()
    )
    assert playbook is not None, problems
    return playbook


def filled_commands(name: str, part: str, kind: str) -> Iterator[str]:
    """The commands of the probes, the checks or the undo of a bundled playbook."""
    playbook = bundled_playbook(name)
    values = {"alert": "redis: nothing answers at 127.0.0.1:6379", "kept": "/var/tmp/undo/run-1"}
    values |= {"found": COPIES, "copies": COPIES, "files": COPIES}
    for key, parameter in playbook.parameters.items():
        values.setdefault(key, SAMPLES.get(parameter.kind, "redis"))
    texts = {
        "probes": [each.command for each in playbook.signature.probes],
        "checks": [each.command for each in playbook.verify],
        "undo": [each.undo for each in playbook.steps if each.undo.strip()],
    }
    for each in texts[part]:
        try:
            yield fill_template(each, values, host_units(kind))
        except UnsupportedActionError:
            continue


@pytest.mark.parametrize("kind", ["supervisord", "daemon"])
@pytest.mark.parametrize(("name", "part"), PARTS)
def test_no_probe_or_check_of_a_bundled_playbook_asks(name: str, part: str, kind: str) -> None:
    judge = UnattendedPolicy(BundledTextPolicy(policy()))
    for command in filled_commands(name, part, kind):
        decision = judge.decide(action(command))
        assert decision.verdict == "allow", (decision.reason, command)


OWN_SUBJECT = EscalationSubject(
    service="web",
    kind="cpu",
    ports=(16379,),
    log="/srv/web/log/err.log",
    disk="/srv",
    logs=("/srv/web/log/err.log",),
)
OWN_ERRORS = ("open() /srv/a/b failed, port 5432, locked by PID 77, Read-only file system",)
OWN_SCRIPTS = {
    **{
        name: script_command(name, head)
        for name, head in (
            *OWN_SUBJECT.process_scripts,
            *OWN_SUBJECT.scripts,
            *named_scripts(OWN_SUBJECT, OWN_ERRORS),
        )
    },
    "list known daemons": listing_scripts()["daemon"].replace(
        "{{remembered}}",
        quote(describe_daemons([replace(each, pid_file="/run/x.pid") for each in DAEMONS])),
    ),
    # pm2 prints the environment of its programs, which may have secrets.
    **{f"list {name}": text for name, text in listing_scripts().items() if name != "pm2"},
    **{
        f"assess {name}": fill_template(read_script(name), {}, host_units("supervisord"))
        for name in ("logs", "words", "state", "checks")
    },
}


@pytest.mark.parametrize("name", sorted(OWN_SCRIPTS))
def test_no_script_of_an_escalation_is_refused_to_investigators(name: str) -> None:
    decision = own_script_policy(policy()).decide(action(OWN_SCRIPTS[name]))
    assert decision.verdict == "allow", decision.reason


def test_the_same_text_of_anybody_else_still_asks() -> None:
    command = 'psql -U postgres -c "SELECT 1"; for f in $(ls /srv); do grep x "$f"; done'
    assert policy().decide(action(command)).verdict == "ask"
    assert BundledTextPolicy(policy()).decide(action(command)).verdict == "allow"


@pytest.mark.parametrize("command", ["rm -rf /srv/data", 'eval "$(cat /tmp/x)"', "kill 1", "nope"])
def test_what_a_bundled_text_does_is_judged_as_always(command: str) -> None:
    assert BundledTextPolicy(policy()).decide(action(command)).verdict != "allow"


EDIT = "cp -a /etc/shop/shop.conf /var/tmp/hermes-undo/1; cat shop.conf.bak > /etc/shop/shop.conf"


def announced(judge: Policy, command: str) -> bool:
    decision = judge.decide(action(command))
    assert isinstance(decision, PolicyVerdict)
    assert decision.verdict == "ask"
    return decision.ask is not None and decision.ask.announce > 0


def test_an_edit_of_a_bundled_playbook_is_announced_only_when_it_can_be_undone() -> None:
    assert announced(BundledTextPolicy(policy(), {"c": "cp -a kept /etc/shop/shop.conf"}), EDIT)
    assert not announced(BundledTextPolicy(policy(), {"c": " "}), EDIT)
    assert not announced(BundledTextPolicy(policy(), {}), EDIT)
    assert not announced(policy(), EDIT), "somebody else's text"


@pytest.mark.parametrize(
    "command",
    [
        "echo '* * * * * root id' > /etc/cron.d/x",
        "rm -rf /srv/data",
        "sudo cp a /etc/shop/shop.conf",
        "dropdb shop",
    ],
)
def test_what_runs_later_or_is_lost_asks_also_in_a_bundled_playbook(command: str) -> None:
    assert not announced(BundledTextPolicy(policy(), {"c": "true"}), command)


@pytest.mark.parametrize("kind", ["supervisord", "daemon"])
@pytest.mark.parametrize("name", sorted({name for name, _ in PARTS}))
def test_the_undo_of_every_bundled_playbook_runs_in_any_folder(name: str, kind: str) -> None:
    judge = RecordedUndoPolicy(BundledTextPolicy(policy()))
    for command in filled_commands(name, "undo", kind):
        decision = judge.decide(action(command))
        assert decision.verdict == "allow", (decision.reason, command)


def test_where_every_change_asks_an_edit_of_a_playbook_asks_too() -> None:
    assert not announced(BundledTextPolicy(policy("suggest"), {"c": "true"}), EDIT)


def test_the_undo_that_people_saw_runs_without_another_question() -> None:
    undo = "cp -a /var/tmp/hermes-undo/1 /etc/shop/shop.conf"
    assert RecordedUndoPolicy(BundledTextPolicy(policy())).decide(action(undo)).verdict == "allow"
    forbidden = RecordedUndoPolicy(policy("observe")).decide(action(undo))
    assert forbidden.verdict == "deny"


def judged_start(command: str) -> Decision:
    return KnownDaemonPolicy(policy(), DAEMONS).decide(action(command))


@pytest.mark.parametrize("verb", ["start", "restart"])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_daemon_that_was_seen_running_is_started_after_an_announcement(
    name: str, verb: str
) -> None:
    command = host_units("daemon").render(verb, name)
    decision = judged_start(f"{command} || true")
    assert isinstance(decision, PolicyVerdict)
    assert decision.ask is not None and decision.ask.announce > 0, decision.reason
    assert decision.hash == policy().decide(action(f"{command} || true")).hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("-u redis", "-u postgres"),
        ("redis.conf", "evil.conf"),
        ("cd /", "cd /tmp"),
        ("/var/log/redis.log", "/etc/cron.d/redis"),
        ("setsid /usr/bin/redis-server", "setsid /tmp/redis-server"),
    ],
)
def test_any_other_command_asks_as_before(old: str, new: str) -> None:
    start = host_units("daemon").render("start", "redis")
    assert old in start
    decision = judged_start(start.replace(old, new))
    assert isinstance(decision, PolicyVerdict)
    assert decision.ask is not None and decision.ask.announce == 0


def test_what_stands_beside_the_start_of_a_daemon_is_judged_too() -> None:
    start = host_units("daemon").render("start", "redis")
    decision = judged_start(f"{start}; rm -rf /srv/data")
    assert isinstance(decision, PolicyVerdict)
    assert decision.rule == "destructive" and decision.ask is not None
