"""A supervisord with a configuration of any name: its programs, their states and their commands."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from supervisor_host import SUPERVISORD, SupervisorHost, needs_namespaces, needs_supervisord

from hermes.environments.local import LocalEnvironment
from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import UnitListing, list_units, supervisord_log_functions
from hermes.sre.probes.discovery import propose_probes
from hermes.sre.probes.host_scan import HostScan, SupervisedProgram, parse_scan, scan_script
from hermes.sre.probes.inventory import InventoryStore, process_probes
from hermes.sre.probes.probe_list import build_probe_list
from hermes.sre.settings import ProbeSettings

pytestmark = pytest.mark.anyio
# startsecs: an exit is a failed start, however long a busy machine takes to run the command.
PROGRAMS = """
[program:cache]
command=/bin/sleep 1000
[program:web]
command=/bin/sh -c "echo unknown directive; exit 1"
startretries=0
startsecs=1000
"""
STARTED = "2026-11-18 01:58:00,000 INFO supervisord started with pid 7\n"


def states(folder: Path, log: str) -> list[str]:
    file = folder / "supervisord.log"
    file.write_text(log)
    script = f"{supervisord_log_functions()}\nlogged_states {file}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        (("spawned: 'web' with pid 1",), "web STARTING pid 1,"),
        (
            ("spawned: 'web' with pid 1", "success: web entered RUNNING state, x"),
            "web RUNNING pid 1,",
        ),
        (
            ("spawned: 'web' with pid 4194999", "success: web entered RUNNING state, x"),
            "web EXITED",
        ),
        (("spawned: 'web' with pid 1", "exited: web (exit status 1; not expected)"), "web BACKOFF"),
        (("gave up: web entered FATAL state, too many start retries",), "web FATAL"),
        (("waiting for web to stop", "stopped: web (exit status 0)"), "web STOPPED"),
    ],
)
def test_the_state_of_a_program_is_read_from_the_log(
    tmp_path: Path, lines: tuple[str, ...], state: str
) -> None:
    log = "".join(f"2026-11-18 02:00:00,000 INFO {each}\n" for each in lines)
    assert states(tmp_path, STARTED + log) == [state]


def test_an_earlier_supervisord_does_not_count(tmp_path: Path) -> None:
    line = "2026-11-18 01:00:00,000 INFO gave up: web entered FATAL state, too many\n"
    assert states(tmp_path, line + STARTED) == []


async def until_started(host: SupervisorHost) -> UnitListing:
    deadline = time.monotonic() + 120
    while True:
        listing = await list_units(host.execute)
        found = {each.name: each.state for each in listing.units}
        if found == {"cache": "active", "web": "failed"}:
            return listing
        assert time.monotonic() < deadline, listing
        await anyio.sleep(0.2)


@needs_namespaces
@needs_supervisord
async def test_its_programs_are_listed_named_and_expected() -> None:
    with SupervisorHost() as host:
        host.path("/srv/sup.conf").write_text(SUPERVISORD + PROGRAMS)
        # A process that only mentions it comes first.
        host.run("setsid bash -c 'sleep 1000; : supervisord -c nothing' > /dev/null 2>&1 &")
        host.run("supervisord -c /srv/sup.conf")
        listing = await until_started(host)
        scan = parse_scan(host.run(scan_script(2.0)))
    assert listing.notes == ()
    units = {each.name: each for each in listing.units}
    assert units["web"].exit == "exit status 1; not expected"
    command = HostSupervisors(listing.units).render("restart", "web")
    assert command == "supervisorctl -c /srv/sup.conf restart web"
    assert {each.name: each.state for each in scan.supervised} == {
        "cache": "RUNNING",
        "web": "FATAL",
    }
    probe = next(e for e in propose_probes(scan, failing_too=True).probes if e.service == "web")
    assert "supervisord cannot start it" in probe.what
    assert probe.what.startswith("tail "), "supervisorctl may not find its configuration"


@contextmanager
def supervisord_that_gave_up(folder: Path, program: str) -> Iterator[None]:
    file, log = folder / "sup.conf", folder / "supervisord.log"
    file.write_text(
        f"[supervisord]\nnodaemon=true\nlogfile={log}\npidfile={folder}/pid\n"
        f"[program:{program}]\ncommand=/bin/false\nstartretries=0\nstartsecs=1000\n"
    )
    with subprocess.Popen(["supervisord", "-c", str(file)], stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 120
            while not log.exists() or "FATAL" not in log.read_text():
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


@needs_supervisord
async def test_a_program_that_it_gave_up_is_checked_beside_declared_probes(tmp_path: Path) -> None:
    with supervisord_that_gave_up(tmp_path, "given-up-web"):
        async with LocalEnvironment(tmp_path, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}) as here:
            store = InventoryStore(tmp_path, here.target)
            listed = await build_probe_list(here, store, ProbeSettings(), declared=[])
    assert "given-up-web" in {each.service for each in listed.probes}


@pytest.mark.parametrize(
    ("last", "asked", "fine"),
    [
        ("gave up: web entered FATAL state, too many start retries too quickly", "FATAL", False),
        ("success: web entered RUNNING state, process has stayed up", "FATAL", True),
        ("gave up: web entered FATAL state, too many start retries too quickly", "RUNNING", True),
    ],
)
def test_where_the_log_of_supervisord_is_old_its_command_is_asked(
    last: str, asked: str, fine: bool, tmp_path: Path
) -> None:
    """As in a copy of a host, where supervisord does not run."""
    log, command = tmp_path / "supervisord.log", tmp_path / "supervisorctl"
    log.write_text(f"2026-11-18 15:50:19,000 INFO {last}\n")
    command.write_text(f"#!/bin/sh\necho web {asked}\n")
    command.chmod(0o755)
    program = SupervisedProgram(name="web", state="FATAL", log=str(log))
    [probe] = process_probes(HostScan(supervised=(program,)))
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", probe.what], env=variables, check=False)
    assert (done.returncode == 0) is fine
