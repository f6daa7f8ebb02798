"""The commands and the units of each kind of supervisor; real supervisors in namespaces."""

import shutil
import subprocess
import time

import anyio
import pytest
from supervisor_host import SupervisorHost, needs_namespaces, needs_supervisord

from hermes.policy.command_analysis import analyse_command
from hermes.skills.discovery import BUNDLED_SKILLS
from hermes.skills.playbook.parameters import fill_template
from hermes.skills.playbook.reader import parse_playbook
from hermes.skills.supervisors.commands import (
    ACTIONS,
    QUERIES,
    HostSupervisors,
    UnsupportedActionError,
    runs_outside_copies,
)
from hermes.skills.supervisors.units import (
    HostUnit,
    PlainDaemon,
    UnitListing,
    drop_unused_functions,
    list_units,
    listing_scripts,
    parse_units,
)

pytestmark = pytest.mark.anyio
READING = {"read", "network-local", "network-read", "secret-read"}
KINDS = ("systemd", "supervisord", "runit", "s6", "openrc", "sysvinit", "docker", "podman", "pm2")
DAEMON = PlainDaemon(
    name="api", command=("/usr/bin/python3", "/srv/my api.py"), user="www-data", folder="/srv"
)


def host(kind: str, place: str = "") -> HostSupervisors:
    return HostSupervisors([HostUnit(name="api", kind=kind, place=place)], [DAEMON])


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("systemd", "systemctl reset-failed api 2>/dev/null; systemctl restart api"),
        ("supervisord", "supervisorctl restart api"),
        ("runit", "sv restart /etc/service/api"),
        ("openrc", "rc-service api zap 2>/dev/null; rc-service api restart"),
        (
            "sysvinit",
            "{ setsid service api restart > /dev/null 2>&1 < /dev/null & }; sleep 1; for i in "
            "$(seq 50); do { service api status || pgrep -x -P 1 api; } > /dev/null 2>&1 && break; "
            "sleep 0.2; done",
        ),
        ("docker", "docker restart api"),
        ("podman", "podman restart api"),
        ("pm2", "pm2 restart api"),
    ],
)
def test_a_step_has_the_command_of_the_supervisor(kind: str, command: str) -> None:
    place = "/etc/service/api" if kind == "runit" else ""
    filled = fill_template("{{restart}} || true", {"unit": "api"}, host(kind, place=place))
    assert filled == f"{command} || true"


def test_a_supervisord_with_its_own_configuration_and_a_group() -> None:
    unit = HostUnit(name="a", full_name="web:a", kind="supervisord", place="/srv/s.conf")
    assert HostSupervisors([unit]).render("restart", "a") == (
        "supervisorctl -c /srv/s.conf restart web:a"
    )


def test_a_unit_that_no_probe_found_is_one_of_systemd() -> None:
    assert HostSupervisors().render("stop", "api.service") == "systemctl stop api.service"


def test_listed_commands_run_with_sudo_and_others_do_not() -> None:
    listed = ("systemctl restart api", "supervisorctl restart api", "supervisorctl status api")
    units = [HostUnit(name="api", kind="supervisord"), HostUnit(name="db", kind="supervisord")]
    known = HostSupervisors(units, root_commands=listed)
    assert known.render("restart", "api") == "sudo supervisorctl restart api"
    assert known.render("is_active", "api") == "sudo supervisorctl status api | grep -qw RUNNING"
    assert known.render("stop", "api") == "supervisorctl stop api"
    assert known.render("restart", "db") == "supervisorctl restart db"
    assert HostSupervisors(root_commands=listed).render("restart", "api") == (
        "systemctl reset-failed api 2>/dev/null; sudo systemctl restart api"
    )


async def test_the_units_of_supervisord_are_listed_with_sudo_where_that_is_allowed() -> None:
    async def scripts(*root_commands: str) -> list[str]:
        ran = []

        async def run(script: str) -> str:
            ran.append(script)
            return "kind=supervisord"

        await list_units(run, root_commands=root_commands)
        return ran

    _, script = await scripts("supervisorctl status")
    assert "timeout 10 sudo supervisorctl status;" in script
    assert analyse_command(script).effects <= READING | {"read-as-root"}
    assert "sudo" not in (await scripts("supervisorctl pid api"))[1]


@pytest.mark.parametrize("known", ["api", "api.service"])
def test_a_unit_is_found_with_and_without_its_suffix(known: str) -> None:
    supervisors = HostSupervisors([HostUnit(name=known, kind="supervisord")])
    for name in ("api", "api.service"):
        assert supervisors.render("restart", name) == f"supervisorctl restart {known}"


def test_the_name_of_a_unit_is_quoted() -> None:
    unit = HostUnit(name="a; reboot", kind="supervisord")
    assert HostSupervisors([unit]).render("stop", unit.name) == "supervisorctl stop 'a; reboot'"


def test_a_daemon_is_started_with_its_own_words_user_and_folder() -> None:
    command = host("daemon").render("start", "api")
    assert command == (
        "cd /srv && { runuser -u www-data -- setsid /usr/bin/python3 '/srv/my api.py' "
        ">> /dev/null 2>&1 < /dev/null & }"
    )


@pytest.mark.parametrize(
    ("daemon", "why"),
    [
        (PlainDaemon(name="api"), "is not known"),
        (PlainDaemon(name="api", command=("/x",), variables=("PATH", "KEY")), "with KEY in its"),
    ],
)
def test_a_daemon_that_cannot_be_started_again_says_why(daemon: PlainDaemon, why: str) -> None:
    supervisors = HostSupervisors([HostUnit(name="api", kind="daemon")], [daemon])
    with pytest.raises(UnsupportedActionError, match=why):
        supervisors.render("restart", "api")


def test_functions_that_a_command_does_not_call_are_left_out() -> None:
    text = "first() { second; }\nsecond() {\n  true\n}\nthird() { true; }\nx=$(first)\n"
    assert drop_unused_functions(text, "") == text.replace("third() { true; }\n", "")


def test_a_table_of_units_cannot_end_the_document_that_holds_it() -> None:
    unit = HostUnit(
        name="UNITS", kind="supervisord", state="active", definition=("ExecStart=$(x)",)
    )
    text = HostSupervisors([unit]).functions("definition UNITS")
    done = subprocess.run(
        ["bash", "-c", f"{text}\ndefinition UNITS"], capture_output=True, text=True
    )
    assert done.stdout == "ExecStart=$(x)\n"


def test_what_a_kind_cannot_do_is_said_in_words() -> None:
    with pytest.raises(UnsupportedActionError, match="supervisord has no command to enable api"):
        host("supervisord").render("enable", "api")


@pytest.mark.parametrize("kind", [*KINDS, "daemon"])
def test_queries_only_read_and_actions_change(kind: str) -> None:
    supervisors = host(kind, place="/etc/service/api")
    for query in QUERIES:
        try:
            command = supervisors.render(query, "api")
        except UnsupportedActionError:
            continue
        assert analyse_command(command).effects <= READING, command
    for action in ACTIONS:
        try:
            command = supervisors.render(action, "api")
        except UnsupportedActionError:
            continue
        assert command == "true" or analyse_command(command).effects - READING, command


@pytest.mark.parametrize("name", sorted(listing_scripts()))
def test_the_scripts_only_read(name: str) -> None:
    analysis = analyse_command(listing_scripts()[name])
    assert analysis.effects <= READING, analysis.dynamic


def test_all_probes_only_read_under_supervisord_too() -> None:
    unit = HostUnit(name="api", kind="supervisord", definition=("ExecStart=/srv/api.py",))
    supervisors = HostSupervisors([unit, HostUnit(name="db", kind="sysvinit")])
    for file in BUNDLED_SKILLS.glob("*/*/playbook.yaml"):
        playbook, _ = parse_playbook(file.read_text())
        assert playbook is not None
        for part in (*playbook.signature.probes, *playbook.verify):
            values = {"unit": "api", "asker": "api"}
            command = fill_template(part.command, values, supervisors, partial=True)
            analysis = analyse_command(command)
            assert analysis.effects <= READING, (file.parent.name, part.name, analysis.dynamic)


def test_of_two_supervisors_the_one_with_the_process_wins_and_it_is_said() -> None:
    listing = parse_units(
        [
            "unit=api\tkind\tsupervisord\nunit=api\tstate\tfailed\nunit=api\tpid\t0",
            "unit=api\tkind\tsysvinit\nunit=api\tstate\tactive\nunit=api\tpid\t7",
        ]
    )
    assert [each.kind for each in listing.units] == ["sysvinit"]
    assert listing.notes == ("api runs under sysvinit, and supervisord knows it too",)


PROGRAMS = """
[program:api]
command=/bin/sleep 1000
user=nobody
directory=/srv
stdout_logfile=/var/log/api.log
[program:broken]
command=/bin/sh -c "echo cannot open /etc/broken.conf; exit 3"
startretries=1
startsecs=1000
redirect_stderr=true
stdout_logfile=/var/log/broken.log
[program:paused]
command=/bin/sleep 1000
autostart=false
"""


async def wait_for(host: SupervisorHost, name: str, state: str) -> UnitListing:
    deadline = time.monotonic() + 120
    while True:
        listing = await list_units(host.execute)
        found = {each.name: each for each in listing.units}
        if name in found and found[name].state == state:
            return listing
        assert time.monotonic() < deadline, listing
        await anyio.sleep(0.5)


@needs_namespaces
@needs_supervisord
async def test_a_real_supervisord_is_listed_and_restarted() -> None:
    with SupervisorHost() as host:
        host.start_supervisord(PROGRAMS)
        await wait_for(host, "broken", "failed")
        listing = await wait_for(host, "api", "active")
        units = {each.name: each for each in listing.units}
        assert units["paused"].state == "inactive"
        assert units["broken"].exit == "exit status 3; not expected"
        assert units["broken"].restarts >= 1
        assert units["api"].definition == (
            "ExecStart=/bin/sleep 1000",
            "User=nobody",
            "WorkingDirectory=/srv",
        )
        assert units["api"].file == "/etc/supervisor/supervisord.conf"
        supervisors = HostSupervisors(listing.units)
        text = "rows; unit_log broken 1; main_pid api; first_start api"
        answers = host.run(f"{supervisors.functions(text)}\n{text}").splitlines()
        assert "broken loaded failed" in answers
        assert "cannot open /etc/broken.conf" in answers
        assert answers[-2] == str(units["api"].pid)
        assert abs(int(answers[-1]) - time.time()) < 120
        host.run(supervisors.render("restart", "api"))
        again = await wait_for(host, "api", "active")
        pid = next(each.pid for each in again.units if each.name == "api")
        assert pid not in (0, units["api"].pid)
        assert host.run(supervisors.render("instance", "api")).strip() == str(pid)


@needs_namespaces
@needs_supervisord
async def test_a_supervisord_that_hangs_is_said_and_delays_little() -> None:
    with SupervisorHost() as host:
        host.start_supervisord(PROGRAMS)
        await wait_for(host, "api", "active")
        host.run("pkill -STOP -x supervisord")
        with anyio.fail_after(120):
            listing = await list_units(host.execute)
        assert listing.notes == ("supervisord runs and does not answer",)


async def until_listed(host: SupervisorHost, daemon: PlainDaemon) -> HostUnit:
    """A daemon starts in the background: it has its command line some time after the command."""
    with anyio.fail_after(120):
        while True:
            (unit,) = (await list_units(host.execute, [daemon])).units
            if unit.state == "active" and unit.pid:
                return unit
            await anyio.sleep(0.05)


@needs_namespaces
async def test_a_plain_daemon_is_found_ended_and_started_again() -> None:
    daemon = PlainDaemon(name="nap", command=("/bin/sleep", "98765"), folder="/srv", first_seen_s=5)
    with SupervisorHost() as host:
        (gone,) = (await list_units(host.execute, [daemon])).units
        assert (gone.kind, gone.state, gone.pid) == ("daemon", "failed", 0)
        supervisors = HostSupervisors([gone], [daemon])
        host.run(supervisors.render("start", "nap"))
        runs = await until_listed(host, daemon)
        host.run(supervisors.render("restart", "nap"))
        again = await until_listed(host, daemon)
        assert again.pid != runs.pid
        assert host.run(supervisors.render("main_pid", "nap")).strip() == str(again.pid)
        host.run(supervisors.render("stop", "nap"))
        assert host.run(supervisors.render("is_active", "nap") + " && echo yes") == ""


RUN_SCRIPT = """#!/bin/sh
. /srv/nap.env
cd /srv
exec chpst -u nobody /bin/sleep 1000
"""


@needs_namespaces
@pytest.mark.parametrize(
    ("kind", "program", "scan"), [("runit", "sv", "runsvdir"), ("s6", "s6-svc", "s6-svscan")]
)
async def test_a_folder_of_services_is_listed_and_restarted(
    kind: str, program: str, scan: str
) -> None:
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    with SupervisorHost() as host:
        host.run("mkdir -p /srv/services/nap; touch /srv/nap.env")
        run = host.path("/srv/services/nap/run")
        run.write_text(
            RUN_SCRIPT if kind == "runit" else RUN_SCRIPT.replace("chpst -u nobody ", "")
        )
        run.chmod(0o755)
        host.run(f"setsid {scan} /srv/services >/dev/null 2>&1 </dev/null &")
        listing = await wait_for(host, "nap", "active")
        (unit,) = listing.units
        assert (unit.kind, unit.place) == (kind, "/srv/services/nap")
        assert "EnvironmentFile=/srv/nap.env" in unit.definition
        assert "WorkingDirectory=/srv" in unit.definition
        host.run("mv /srv/services/nap/supervise/ok /srv/ok")  # as where its pipe cannot be opened
        (unasked,) = (await list_units(host.execute)).units
        assert (unasked.state, unasked.pid) == ("active", unit.pid)
        host.run("mv /srv/ok /srv/services/nap/supervise/ok")
        supervisors = HostSupervisors(listing.units)
        host.run(supervisors.render("restart", "nap"))
        (again,) = (await wait_for(host, "nap", "active")).units
        assert again.pid not in (0, unit.pid)
        host.run(supervisors.render("stop", "nap"))
        (stopped,) = (await wait_for(host, "nap", "inactive")).units
        assert stopped.pid == 0


def test_a_supervisor_that_knows_a_service_is_asked_rather_than_none() -> None:
    remembered = "unit=web\tkind\tdaemon\nunit=web\tstate\tfailed\nunit=web\tpid\t0\n"
    listed = "unit=web.service\tkind\tsystemd\nunit=web.service\tstate\tfailed\n"
    (unit,) = parse_units([remembered, listed]).units
    assert unit.kind == "systemd"
    (unit,) = parse_units([remembered.replace("pid\t0", "pid\t7"), listed]).units
    assert unit.kind == "daemon"


@needs_namespaces
def test_a_process_of_a_copy_does_not_count_as_one_of_the_host() -> None:
    """A probe would report a recovery while an experiment runs the service in a copy."""
    search = "-f -x -- 'sleep 86321'"
    test = runs_outside_copies(search)
    assert analyse_command(test, cwd="/").effects <= READING
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]

    def holds(wanted: bool) -> bool:
        ended = subprocess.run(["bash", "-c", test], check=False)
        return (ended.returncode == 0) is wanted

    with subprocess.Popen([*inside, "sleep", "86321"]) as copied:
        while subprocess.run(["pgrep", "-f", "-x", "--", "sleep 86321"], check=False).returncode:
            time.sleep(0.01)
        assert holds(False)
        with subprocess.Popen(["sleep", "86321"]) as started:
            assert holds(True)
            started.kill()
        copied.kill()
