"""`hermes service install --sudo`, with a real user, sudo and supervisord on a copy of this host.

In a mount and a process namespace: nothing of this machine is changed.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hermes_command import Hermes

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root installs a service"),
    pytest.mark.skipif(
        not all(map(shutil.which, ("sudo", "visudo", "supervisord"))),
        reason="needs sudo and supervisord",
    ),
]
START = r"""
set -e
top={top}
layer() {{ number=$((number + 1)); mkdir -p $top/$number/upper $top/$number/work
  mount -t overlay o -o "lowerdir=$1,upperdir=$top/$number/upper,workdir=$top/$number/work" "$1"; }}
mount --make-rprivate /
mount -t tmpfs -o mode=755 t $top
for folder in /etc /var /usr/local/lib; do layer $folder; done
for folder in {closed}; do layer $folder; chmod 755 $folder; done
rm -rf /etc/supervisor; mkdir -p /etc/supervisor/conf.d
cat > /etc/supervisor/supervisord.conf <<'END'
[unix_http_server]
file=/var/lib/supervisor.sock
chmod=0700
[supervisord]
logfile=/var/log/supervisord.log
pidfile=/var/lib/supervisord.pid
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix:///var/lib/supervisor.sock
[include]
files=/etc/supervisor/conf.d/*.conf
[program:api]
command=sleep 1000
startsecs=0
[program:billing]
command=sleep 1000
startsecs=0
END
supervisord -c /etc/supervisor/supervisord.conf
until supervisorctl status api | grep -q RUNNING; do sleep 0.2; done
hermes() {{ {command} "$@"; }}
as_hermes() {{ runuser -u hermes -- env HOME=/var/lib/hermes HERMES_HOME=/var/lib/hermes "$@"; }}
launcher=/usr/local/lib/hermes/root-command
shim=/usr/local/lib/hermes/bin/sudo
set +e
"""


def on_a_host(hermes: Hermes, script: str) -> list[str]:
    """What the script printed on a host with supervisord and the programs api and billing."""
    top = hermes.home.parent / "layers"
    top.mkdir()
    places = {Path(sys.executable), Path(sys.base_prefix), Path(hermes.env["PYTHONPATH"])}
    parents = {each for place in places for p in (place, place.resolve()) for each in p.parents}
    closed = sorted(str(each) for each in parents if not each.stat().st_mode & stat.S_IXOTH)
    start = START.format(top=top, closed=" ".join(closed), command=" ".join(hermes.command))
    done = subprocess.run(
        [
            "unshare",
            "-m",
            "-p",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "bash",
            "-c",
            start + script,
        ],
        env=hermes.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return (done.stdout + done.stderr).splitlines()


INSTALL = "hermes service install --kind supervisord --sudo --no-start; echo installed $?\n"


def answers(said: list[str], label: str) -> list[str]:
    """The lines that begin with this label."""
    return [line.partition(" ")[2] for line in said if line.startswith(f"{label} ")]


def test_the_user_of_the_service_restarts_what_is_listed_and_nothing_else(hermes: Hermes) -> None:
    said = on_a_host(
        hermes,
        INSTALL
        + r"""
visudo -c -f /etc/sudoers.d/hermes
stat -c 'rule %a %U' /etc/sudoers.d/hermes
before=$(supervisorctl pid api)
as_hermes $shim supervisorctl restart api
[ "$(supervisorctl pid api)" = "$before" ] || echo restarted api
echo secret > /var/log/closed.log; chmod 600 /var/log/closed.log
as_hermes $shim tail -n 1 /var/log/closed.log | sed 's/^/log /'

echo '*** refused'
before=$(supervisorctl pid billing)
cd /tmp || exit
ln -s /etc/shadow /var/log/linked.log; echo key > /var/log/api.key; echo other > /var/lib/other
mkdir -p /var/tmp/bin; printf '#!/bin/sh\nid\n' > /var/tmp/bin/supervisorctl
chmod -R 755 /var/tmp/bin
cp /bin/true /var/tmp/bin/cat
try() { as_hermes "$@" 2>&1; echo "code $?"; }
try $shim supervisorctl stop billing
try $shim supervisorctl restart billing api
try $shim supervisorctl -c /tmp/mine restart billing
try $shim /var/tmp/bin/supervisorctl restart api
try $shim -u root supervisorctl restart billing
try $shim sh -c id
try $shim
try $shim -- id
try $shim /bin/cat /var/log/closed.log
try $shim cat /etc/shadow
try $shim cat /var/log/linked.log
try $shim cat /var/log/../../etc/shadow
try $shim cat /var/log/api.key
try $shim cat /var/lib/other
try $shim grep -r . /root /etc/hermes
try /usr/bin/sudo -n id
try /usr/bin/sudo -n -u nobody $launcher cat /var/log/closed.log
try /usr/bin/sudo -n PYTHONPATH=/var/tmp/bin $launcher supervisorctl status
try /usr/bin/sudo -n -D /etc $launcher cat /var/log/closed.log
try sh -c ": > $launcher"
try sh -c ": > /etc/hermes/sudo-commands"
try $launcher supervisorctl restart billing
echo '*** allowed, whatever the caller sets'
PATH=/var/tmp/bin:$PATH PYTHONHOME=/nowhere PYTHONPATH=/var/tmp/bin \
  try $shim cat /var/log/closed.log
try sh -c "ulimit -n 20; ulimit -f 0; exec $shim cat /var/log/closed.log"
echo '*** list'
[ "$(supervisorctl pid billing)" = "$before" ] && echo untouched billing
chmod 666 /etc/hermes/sudo-commands
as_hermes $shim supervisorctl restart api 2>&1 | sed 's/^/open /'
chmod 644 /etc/hermes/sudo-commands
printf 'unconfined /usr/bin/id -u\nnonsense\n' > /etc/hermes/sudo-commands
as_hermes $shim id -u 2>&1 | sed 's/^/wrong /'
sed -i /nonsense/d /etc/hermes/sudo-commands
as_hermes $shim id -u 2>&1 | sed 's/^/free /'
hermes service install --no-start | sed 's/^/again /'
as_hermes $shim id -u 2>&1 | sed 's/^/kept /'
hermes service uninstall --remove-home | sed 's/^/removed /'
ls -d /etc/sudoers.d/hermes /usr/local/lib/hermes /etc/hermes/*
""",
    )
    text = "\n".join(said)
    assert answers(said, "installed") == ["0"], text
    assert "/etc/sudoers.d/hermes: parsed OK" in said
    assert answers(said, "rule") == ["440 root"]
    assert answers(said, "restarted") == ["api"], text
    assert answers(said, "log") == ["secret"], text
    first, second, third = (said.index(line) for line in said if line.startswith("***"))
    refused, allowed = said[first:second], said[second:third]
    codes = answers(refused, "code")
    assert len(codes) == 22 and "0" not in codes, "\n".join(refused)
    assert not [line for line in refused if re.search("uid=|root:[^ ]", line)], refused
    assert "secret" not in refused and "key" not in refused and "other" not in refused
    assert allowed[1:] == ["secret", "code 0"] * 2, "\n".join(allowed)
    assert answers(said, "untouched") == ["billing"]
    assert "can be changed by others than root" in answers(said, "open")[0]
    assert "line 2: not understood" in answers(said, "wrong")[0]
    assert answers(said, "free") == ["0"]
    assert answers(said, "again") == ["Nothing to do: it is installed."]
    assert answers(said, "kept") == ["0"]
    assert "file /etc/sudoers.d/hermes" in answers(said, "removed")
    assert "/etc/hermes/sudo-commands.edited" in said
    assert "/etc/sudoers.d/hermes" not in said and "/usr/local/lib/hermes" not in said


PLAYED = r"""
import sys
import anyio
from hermes.core.actions import ConfinementProfile
from hermes.environments.local import open_local
from hermes.environments.open import EnvironmentOpening
from hermes.environments.settings import TerminalSettings
from hermes.skills.playbook.commands import find_root_commands
from pathlib import Path

async def main():
    opening = EnvironmentOpening(
        directory=Path("/"), home=Path("/var/lib/hermes"), variables={"PATH": "/usr/bin:/bin"},
        settings=TerminalSettings(),
    )
    async with open_local(opening) as environment:
        print("known", *await find_root_commands(environment), sep=" / ")
        async with environment.confined(ConfinementProfile(root_launcher=True)) as within:
            for _ in range(5):  # supervisord closes a connection without an answer now and then
                result = await within.run("sudo supervisorctl restart api")
                if "RemoteDisconnected" not in result.output:
                    break
            print("played", result.exit_code, result.output.replace("\n", " "))

anyio.run(main)
"""


SEEN = r"""
import anyio
from pathlib import Path
from hermes.app.application import open_application
from hermes.app.incidents.response import build_incident_context
from hermes.app.skills.playbook_cache import PlaybookCache
from hermes.core.incident import AlertFacts
from hermes.settings.load import load
from hermes.skills.playbook.commands import find_root_commands
from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import HostUnit
from hermes.sre.assessment.assess import assess_host, observe_host
from hermes.sre.policies import own_script_policy

async def main():
    loaded = load(home=Path("/var/lib/hermes"), variables={"PATH": "/usr/bin:/bin"})
    async with open_application(
        loaded, origin="incident", toolsets=loaded.settings.tools.toolsets, directory=Path("/")
    ) as application:
        context = build_incident_context(
            application, loaded.settings.sre, responder=None, probes=(),
            playbook_cache=PlaybookCache(loaded, application.journal), inventory=None,
        )
        executor = context.executor
        reading = executor.with_policy(own_script_policy(executor.policy))
        execute = context.execute_for_run("incident-1", reading)
        listed = await find_root_commands(context.environment)
        for _ in range(5):  # supervisord closes a connection without an answer now and then
            seen = await observe_host(execute, (), listed)
            if seen.state.units:
                break
        for unit in seen.state.units:
            print("unit", unit.name, unit.active)
        facts = AlertFacts(title="billing does not run", labels={"service": "billing"})
        print("assessed", (await assess_host(facts, execute, root_commands=listed)).verdict)
        known = HostSupervisors([HostUnit(name="api", kind="supervisord")], (), listed)
        print("restart", known.render("restart", "api"))

anyio.run(main)
"""


def test_a_watch_of_another_user_sees_the_services_of_supervisord(
    hermes: Hermes, tmp_path: Path
) -> None:
    seen = tmp_path / "seen.py"
    seen.write_text(SEEN)
    said = on_a_host(
        hermes,
        f"python={sys.executable}\n{INSTALL}"
        "supervisorctl stop billing\n"
        f"as_hermes $python - < {seen}\n",
    )
    assert sorted(answers(said, "unit")) == ["api active", "billing inactive"], "\n".join(said)
    assert answers(said, "assessed") == ["wrong"], said
    assert answers(said, "restart") == ["sudo supervisorctl restart api"], said


def test_the_policy_knows_what_root_enforces(hermes: Hermes, tmp_path: Path) -> None:
    played = tmp_path / "played.py"
    played.write_text(PLAYED)
    commands = (
        "sudo supervisorctl restart api",
        "sudo -n supervisorctl restart api",
        "sudo tail -n 5 /var/log/closed.log",
        "sudo supervisorctl stop api",
        "sudo -u bob supervisorctl restart api",
        "sudo supervisorctl restart api > /etc/motd",
        "sudo supervisorctl restart api; touch /etc/motd",
        "sudo supervisorctl restart $(cat /tmp/name)",
    )
    explain = "\n".join(
        f"as_hermes $python -m hermes.cli policy explain --json -- '{each}' | tr -d '\\n'; echo"
        for each in commands
    )
    said = on_a_host(
        hermes,
        f"python={sys.executable}\n{INSTALL}{explain}\nas_hermes $python - < {played}\n",
    )
    found = [json.loads(line) for line in said if line.startswith("{")]
    assert [each["command"] for each in found] == list(commands), said
    shown = [(each["rule"], each["enforced"]) for each in found]
    assert shown[:4] == [
        ("moderate", "partly"),
        ("moderate", "partly"),
        ("default-reads", True),
        ("destructive", False),
    ]
    assert [enforced for _, enforced in shown[4:]] == [False] * 4
    assert "privilege" not in found[0]["effects"] and "privilege" in found[3]["effects"]
    assert found[0]["enforced_reason"] == "a daemon of this machine can change things on its behalf"
    assert "supervisorctl restart api" in answers(said, "known")[0].split(" / "), said
    assert answers(said, "played") == ["0 api: stopped api: started "], said
