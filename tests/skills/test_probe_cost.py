"""Every bundled probe starts few programs on a host with 400 configuration files."""

from collections.abc import Iterator

import pytest
from supervisor_host import SupervisorHost, needs_namespaces

from hermes.skills.discovery import BUNDLED_SKILLS
from hermes.skills.playbook.parameters import fill_template
from hermes.skills.playbook.reader import parse_playbook
from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import HostUnit

pytestmark = needs_namespaces
MAX_PROCESSES = 400
"""Fewer than there are files: a probe must not start a program for each of them."""
FILES = r"""
mkdir -p /etc/service; cd /etc
for i in $(seq 200); do
  printf '%s\n' "name=$i" workers=0 log_level=debug db_user=shop db_password=x pool=50 \
    pause_ms=900 "port=$((9000 + i))" > service/$i.conf
  printf '%s\n' "upstream_port=$((8000 + i))" host=db.internal cache_ttl=0 > supervisor/$i.conf
done
for i in $(seq 120); do
  echo "ERROR KEY_$i not set; db.internal:$((7100 + i)): connection refused;" \
    "cannot open /srv/gone/$i.json"
done > /var/log/shop.log
"""
NAMES = ("service", "supervisor")
"""Folders of /etc that are the host's own."""
UNITS = [
    HostUnit(
        name=name,
        kind="supervisord",
        state="failed",
        restarts=3,
        pid=0,
        since="2020-01-01 00:00:00",
        definition=(f"ExecStart=/usr/bin/python3 /srv/{name}/run.py",),
        logs=("/var/log/shop.log",),
    )
    for name in NAMES
]
VALUES = {"alert": "service: nothing answers", "kept": "/var/tmp/undo/run-1"}
SAMPLES = {"path": "/etc/service/1.conf", "number": "1", "port": "6379", "service": "service"}


def probe_commands(name: str) -> list[str]:
    file = next(BUNDLED_SKILLS.glob(f"*/{name}/playbook.yaml"))
    playbook, problems = parse_playbook(file.read_text())
    assert playbook is not None, problems
    kinds = {key: SAMPLES.get(each.kind, "service") for key, each in playbook.parameters.items()}
    supervisors = HostSupervisors(UNITS)
    return [
        fill_template(probe.command, kinds | VALUES, supervisors)
        for probe in playbook.signature.probes
    ]


def test_the_host_has_as_many_files(host: SupervisorHost) -> None:
    functions = HostSupervisors(UNITS).functions("rows")
    assert host.run(f"{functions}\nrows").split()[::3] == list(NAMES)
    assert host.run("ls /etc/service /etc/supervisor | grep -c conf").strip() == "400"


def started_processes(host: SupervisorHost) -> int:
    return int(host.run("read -r last < /proc/sys/kernel/ns_last_pid; echo $last"))


@pytest.fixture(scope="module")
def host() -> Iterator[SupervisorHost]:
    with SupervisorHost() as host:
        host.run(FILES)
        yield host


@pytest.mark.parametrize(
    "name", sorted(file.parent.name for file in BUNDLED_SKILLS.glob("*/*/playbook.yaml"))
)
def test_a_probe_does_not_start_a_program_for_each_file(host: SupervisorHost, name: str) -> None:
    for command in probe_commands(name):
        before = started_processes(host)
        host.run(command)
        assert started_processes(host) - before <= MAX_PROCESSES, command
