"""Services and scheduled jobs are connected with the files that they read, and with no others."""

import anyio
import pytest

from hermes.declared.experiments.host_programs import HostPrograms, read_host_programs
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.state import Item, ItemId, StateChange
from hermes.skills.supervisors.units import PlainDaemon

UNITS = b"""@@hermes@@ unit web.service active
# /etc/systemd/system/web.service
[Service]
ExecStart=/usr/bin/python3 /opt/web/main.py /etc/web/web.conf
ExecReload=/bin/kill -HUP $MAINPID
# comment=1
@@hermes@@ unit db.service failed
[Service]
ExecStart=/usr/bin/db -D /srv/db
@@hermes@@ unit nginx.service active
[Service]
ExecStart=/usr/sbin/nginx
# its own file: /etc/nginx/sites/web.conf
@@hermes@@ table /etc/cron.d/names
# a comment
*/30 * * * * root /opt/tools/build-hosts
@daily ann /home/ann/report.sh
@@hermes@@ table /var/spool/cron/crontabs/bob
5 4 * * * /srv/jobs/clean
"""
FILES = {
    "/etc/web/web.conf": "port = 9017\ndata = /srv/web/data.json\n",
    "/etc/nginx/sites/web.conf": "listen 80; proxy_pass http://127.0.0.1:9017;\n",
    "/opt/tools/build-hosts": "cat /etc/names/* > /etc/hosts\n",
}


async def run(script: str, stdin: bytes) -> tuple[int, bytes]:
    if not stdin:
        return 0, UNITS
    wanted = stdin.decode().split()
    found = [f"@@hermes@@ file {path}\n{FILES[path]}" for path in wanted if path in FILES]
    return 0, "".join(found).encode()


@pytest.fixture
def programs() -> HostPrograms:
    return anyio.run(read_host_programs, run)


def suspect(path: str) -> Suspect:
    return Suspect(change=StateChange(ItemId("file", path), Item("a"), Item("b")))


def test_a_service_reads_what_its_unit_and_its_settings_name(programs: HostPrograms) -> None:
    web = programs.named("web")
    assert web is not None
    assert web.reads("/etc/web/web.conf")
    assert web.reads("/srv/web/data.json")
    assert web.reads("/etc/systemd/system/web.service.d/limits.conf")
    assert not web.reads("/etc/systemd/system/db.service")
    assert not web.reads("/srv/db/PG_VERSION")


def test_a_proxy_is_related_to_the_service_that_its_own_folder_names(
    programs: HostPrograms,
) -> None:
    assert programs.related_to(["nginx"]) == ("web",)
    assert [each.name for each in programs.readers_of(["/etc/nginx/sites/web.conf"])] == ["nginx"]


def test_a_folder_in_a_command_stands_for_its_files(programs: HostPrograms) -> None:
    assert [each.name for each in programs.readers_of(["/srv/db/base/1"])] == ["db"]


def test_jobs_are_found_through_the_script_that_they_run(programs: HostPrograms) -> None:
    jobs = programs.jobs_of([suspect("/etc/names/45-reviews")])
    assert [each.command for each in jobs] == ["/opt/tools/build-hosts"]
    assert not programs.jobs_of([suspect("/etc/other")])


def test_jobs_run_as_their_user(programs: HostPrograms) -> None:
    root, ann, bob = programs.jobs
    assert root.shell_command == "cd / && sh -c /opt/tools/build-hosts"
    assert ann.shell_command == "cd / && su -s /bin/sh ann -c /home/ann/report.sh"
    assert (bob.user, bob.command) == ("bob", "/srv/jobs/clean")


def test_what_a_unit_defines_comes_without_comments(programs: HostPrograms) -> None:
    web = programs.named("web")
    assert web is not None
    assert web.definition[0].startswith("ExecStart=")
    assert "# comment=1" not in web.definition
    assert web.reloadable
    assert web.running


LISTED = """unit=shop:web\tkind\tsupervisord
unit=shop:web\tstate\tactive
unit=shop:web\tfile\t/etc/supervisor/conf.d/web.conf
unit=shop:web\tdefine\tExecStart=/opt/web 'a b'
unit=shop:web\tdefine\tEnvironment=A=1,B=x,y
unit=shop:web\tdefine\tEnvironmentFile=/etc/web.env
unit=watch\tkind\tsupervisord
unit=watch\tstate\tactive
unit=watch\tdefine\tExecStart=/opt/bin/hermes watch
"""


async def run_without_systemd(script: str, stdin: bytes) -> tuple[int, bytes]:
    if "kind=supervisord" in script:
        return 0, b"kind=supervisord\n"
    return 0, LISTED.encode() if "supervisorctl" in script else b""


def test_a_unit_of_another_supervisor_has_its_commands_and_a_definition() -> None:
    programs = anyio.run(read_host_programs, run_without_systemd)
    assert [each.name for each in programs.services] == ["web"]
    web = programs.services[0]
    assert web.command("restart") == "supervisorctl restart shop:web"
    assert web.definition == (
        "ExecStart=/opt/web 'a b'",
        "Environment=A=1",
        "Environment=B=x,y",
        "EnvironmentFile=-/etc/web.env",
        "SourcePath=/etc/supervisor/conf.d/web.conf",
    )
    assert web.reads("/etc/supervisor/conf.d/web.conf")
    assert web.definition_file == "/etc/supervisor/conf.d/web.conf"
    assert not web.reads("/etc/systemd/system/web.service")


def test_a_plain_daemon_whose_start_is_not_known_is_not_left_to_systemctl() -> None:
    async def run_daemon(script: str, stdin: bytes) -> tuple[int, bytes]:
        listed = "unit=web\tkind\tdaemon\nunit=web\tstate\tactive\n"
        return 0, listed.encode() if "told=" in script else b""

    daemon = PlainDaemon(name="web")
    programs = anyio.run(read_host_programs, run_daemon, (daemon,))
    assert "is not known" in programs.services[0].command("restart")
