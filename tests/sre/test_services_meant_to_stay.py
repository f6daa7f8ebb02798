"""Which processes are services that are meant to stay, and what they are called."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from hermes.sre.probes.discovery import propose_probes
from hermes.sre.probes.host_process import HostProcess, service_name
from hermes.sre.probes.host_scan import (
    ServiceCriteria,
    parse_scan,
    reason_to_stay,
)
from hermes.sre.probes.inventory import ServiceInventory, update_inventory

NOON = datetime(2026, 3, 6, 12, 0, tzinfo=UTC)
BASH = ("bash", 34816)
TEST_RUN = (("pytest", 0), ("bash", 0), ("init", 0))


@pytest.mark.parametrize(
    ("process", "port", "why"),
    [
        (HostProcess(pid=9, supervised_as="api"), 8000, "supervised by supervisord"),
        (HostProcess(pid=9, ancestors=(("runsv", 0),)), 8000, "supervised by runsv"),
        (HostProcess(pid=1), 80, "the first process of this host"),
        (HostProcess(pid=9, parent=7), 80, "named in /run/web.pid"),
        (HostProcess(pid=9, session=9), 6379, "a daemon"),
        (HostProcess(pid=9, session=9), 45_123, ""),
        (HostProcess(pid=9, session=9, age_s=600), 45_123, "running for 10 minutes"),
        (HostProcess(pid=9, session=3, age_s=299), 8000, ""),
        (HostProcess(pid=9, session=3, age_s=300), 8000, "running for 5 minutes"),
        (HostProcess(pid=9, session=3, terminal=34816, age_s=7200), 8000, ""),
        (HostProcess(pid=9, session=9, ancestors=(BASH,), age_s=7200), 8000, ""),
        (HostProcess(pid=9, terminal=34816, age_s=90_000), 8000, "running for more than a day"),
        (HostProcess(pid=9, session=3, ancestors=TEST_RUN, age_s=7200), 45_123, ""),
        (HostProcess(pid=9, session=3, ancestors=TEST_RUN, age_s=300), 80, "running for 5 minutes"),
    ],
)
def test_whether_a_process_is_meant_to_stay(process: HostProcess, port: int, why: str) -> None:
    pid_files = {7: "/run/web.pid"}
    assert reason_to_stay(process, port, pid_files, ServiceCriteria(), "/srv/tmp") == why


@pytest.mark.parametrize("folder", ["/tmp", "/tmp/pytest-1/redis", "/dev/shm/x"])
def test_a_process_below_a_temporary_folder_is_not_meant_to_stay(folder: str) -> None:
    young = HostProcess(pid=9, session=9, age_s=7200)
    assert reason_to_stay(young, 6379, {}, ServiceCriteria(), folder) == ""
    assert reason_to_stay(replace(young, age_s=90_000), 6379, {}, ServiceCriteria(), folder)
    assert reason_to_stay(young, 6379, {}, ServiceCriteria(temporary_folders=()), folder)


def test_a_program_from_a_temporary_folder_is_not_meant_to_stay() -> None:
    script = HostProcess(pid=9, session=9, age_s=7200, command="python3 -u /tmp/blocker.py 8000")
    assert reason_to_stay(script, 8000, {}, ServiceCriteria(), "/") == ""
    program = HostProcess(pid=9, session=9, age_s=7200, executable="/var/tmp/x/server")
    assert reason_to_stay(program, 8000, {}, ServiceCriteria(), "/") == ""


def test_a_second_redis_of_a_test_is_not_expected_because_the_first_one_is() -> None:
    scan = parse_scan(
        "listen=127.0.0.1\t6379\tredis-server\t 7\nlisten=127.0.0.1\t23413\tredis-server\t 9\n"
        "process=7\t1\t7\t0\t9000\t\t/usr/bin/redis-server\tinit:0<\tredis-server *:6379\n"
        "process=9\t5\t3\t0\t2\t\t/usr/bin/redis-server\tpytest:0<bash:0<init:0<\tredis-server\n"
    )
    found = propose_probes(scan)
    [redis] = found.services
    assert (redis.why, redis.ports) == ("a daemon", (6379, 23413))
    assert redis.provisional_ports == (23413,)
    known = update_inventory(ServiceInventory(), found.services, found.probes, NOON, 300.0)
    assert [each.name for each in known.services["redis-server"].probes] == ["port-6379"]


MAILER = "process=9\t1\t9\t0\t{age}\t\t/usr/bin/python3\tinit:0<\tpython3 /srv/mailer/run.py\n"
STARTED = (
    "started=9\tmail\t/srv/mailer\t/var/log/mailer.log\tPATH\tpython3\x1f/srv/mailer/run.py\x1f\n"
)
MAILER_FILE = "at=100000\npidfile=/run/mailer.pid\t9\t{written}\n"


def test_a_daemon_without_a_port_is_expected_by_its_pid_file() -> None:
    text = MAILER_FILE.format(written=99_901) + MAILER.format(age=100) + STARTED
    found = propose_probes(parse_scan(text))
    [mailer] = found.services
    assert (mailer.name, mailer.why) == ("mailer", "named in /run/mailer.pid")
    assert mailer.daemon is not None
    assert mailer.daemon.pid_file == "/run/mailer.pid"
    [probe] = [each for each in found.probes if each.service == "mailer"]
    assert "pgrep -F /run/mailer.pid" in probe.what
    known = update_inventory(ServiceInventory(), found.services, found.probes, NOON, 300.0)
    assert known.expected[0].probes[0].name == probe.name


@pytest.mark.parametrize(
    "text",
    [
        MAILER_FILE.format(written=50_000) + MAILER.format(age=100),
        MAILER_FILE.format(written=99_901)
        + "parent=9\t1\tmailer.service\n"
        + MAILER.format(age=100),
        MAILER_FILE.format(written=99_901) + MAILER.format(age=100).replace("init", "supervisord"),
        MAILER_FILE.format(written=99_901) + MAILER.format(age=100).replace("init:0", "bash:34816"),
        MAILER_FILE.format(written=99_901)
        + MAILER.format(age=100)
        .replace("python3", "supervisord")
        .replace(" /srv/mailer/run.py", ""),
    ],
    ids=["reused-number", "unit", "supervised", "of-a-person", "supervisor"],
)
def test_what_else_a_pid_file_names_is_no_daemon_of_its_own(text: str) -> None:
    assert propose_probes(parse_scan(text)).services == ()


@pytest.mark.parametrize(
    ("command", "program", "name"),
    [
        ("nginx: master process nginx", "nginx", "nginx"),
        ("python3 /srv/shop/app.py --port 80", "python3", "shop"),
        ("/usr/bin/python3 -u /srv/shop/shop_api.py", "python3", "shop_api"),
        ("python -m http.server 8000", "python", "http.server"),
        ("python -m uvicorn shop.api:app --port 80", "python", "shop.api"),
        ("/venv/bin/python /venv/bin/gunicorn shop:app", "gunicorn", "shop"),
        ("node /opt/front/server.js", "node", "front"),
        ("java -jar /opt/billing.jar", "java", "billing"),
        ("python3", "python3", "python3"),
        ("python3 -c 'import os'", "python3", "python3"),
        ("python3 -X dev -W ignore /srv/shop/api.py", "python3", "api"),
        ("/usr/bin/python3 -u /srv/shop/main.py --port 80", "python3", "shop"),
        ("java -cp /opt/lib -jar /opt/billing/billing.jar", "java", "billing"),
    ],
)
def test_a_service_is_called_by_what_people_know(command: str, program: str, name: str) -> None:
    assert service_name(HostProcess(pid=9, command=command), program) == name


def test_the_name_in_the_supervisor_goes_first() -> None:
    process = HostProcess(pid=9, supervised_as="worker_03", command="python3 /srv/x/app.py")
    assert service_name(process, "python3") == "worker"
