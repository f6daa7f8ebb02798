"""A host is looked over once: what it runs is found, what is broken shows as a failing check."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from probe_house import Pages, eventually, this_host, web_server

from hermes.cli.monitoring.watch import watch
from hermes.core.incident import IncidentDetails
from hermes.core.protocols import Environment
from hermes.environments.boxes.box import Box
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing import support as confinement
from hermes.gym.box.environment import host_environment
from hermes.gym.episodes.episode import build_host_plan, open_episode
from hermes.gym.scenario import PROGRAM_PATH, find_scenario
from hermes.gym.scenario_spec import HostDisk, HostFile, HostSpec
from hermes.gym.services.python_service import service_unit, shop_service
from hermes.skills.playbook.schema import PlaybookCheck
from hermes.sre.checks import MAX_CHECKS, relevant_probes
from hermes.sre.probes.discovery import DiscoveryResult, discover_probes, propose_probes
from hermes.sre.probes.host_process import parse_process
from hermes.sre.probes.host_scan import HostScan, ServiceCriteria, parse_scan
from hermes.sre.probes.kinds import native_logs
from hermes.sre.probes.probe import SUSTAINED_KINDS, Probe, shell_command_of

pytestmark = pytest.mark.anyio
boxed = pytest.mark.skipif(
    bool(confinement.no_sandbox_reason()), reason=str(confinement.no_sandbox_reason())
)


def a_host(*units: HostFile, files: tuple[HostFile, ...] = (), **more: object) -> HostSpec:
    return HostSpec(name="web-1", units=units, files=files, **more)  # type: ignore[arg-type]


def checks_for(details: IncidentDetails, probes: Sequence[Probe]) -> tuple[PlaybookCheck, ...]:
    """The commands of the probes that concern an incident; exit code 0 is ok."""
    return tuple(
        PlaybookCheck(
            name=probe.name,
            command=f"(\n{shell_command_of(probe).strip()}\n)",
            timeout=max(probe.timeout, 5.0),
        )
        for probe in relevant_probes(details, probes)[:MAX_CHECKS]
    )


async def failing(here: Environment, checks: tuple[PlaybookCheck, ...]) -> set[str]:
    bad = set()
    for check in checks:
        if (await here.run(check.command, timeout=check.timeout)).exit_code:
            bad.add(check.name)
    return bad


async def found_with(here: Environment, name: str) -> DiscoveryResult:
    """Looked over until it has come up."""
    found = DiscoveryResult()

    async def there() -> bool:
        nonlocal found
        found = await discover_probes(here)
        return name in {probe.name for probe in found.probes}

    await eventually(there)
    return found


def about(service: str, title: str = "trouble", **labels: str) -> IncidentDetails:
    return IncidentDetails(incident="i", run="r", title=title, service=service, labels=labels)


@boxed
async def test_a_host_is_found_to_have_what_it_has() -> None:
    files, orders = shop_service("orders", 4321, '["a"]')
    job = HostFile(
        path="/etc/cron.d/tidy", text="* * * * * root /opt/tidy --all >> /var/log/t.log\n"
    )
    once = service_unit("migrate", "/bin/true", more="Type=oneshot\nRemainAfterExit=yes")
    host = a_host(orders, once, files=(*files, job), disks=(HostDisk("/data", 8),))
    async with Box([build_host_plan(host)]) as box, host_environment(box) as here:
        found = await found_with(here, "http-4321-health")
        kinds = {probe.name: probe for probe in found.probes}
        assert kinds["unit-orders"].service == "orders"
        assert kinds["port-4321"].service == "orders"
        assert kinds["unit-migrate"].status == "ended-well"
        assert {"disk-root", "disk-data", "inodes-data", "cron-opt-tidy"} <= set(kinds)
        well = checks_for(about("orders"), found.probes)
        assert {"unit-orders", "port-4321", "http-4321-health", "disk-data"} <= {
            each.name for each in well
        }
        assert await failing(here, well) == set()
        said = await here.run("echo $u$a$l$p; cat /etc/cron.d/tidy")
        assert said.output == f"\n{job.text}"  # no trace in the session, none on the host


@boxed
async def test_a_unit_that_failed_shows_and_so_does_the_port_it_had() -> None:
    files, orders = shop_service("orders", 4321, '["a"]')
    async with (
        Box([build_host_plan(a_host(orders, files=tuple(files)))]) as box,
        host_environment(box) as here,
    ):
        await found_with(here, "port-4321")
        await box.run("systemctl stop orders; systemctl disable orders; systemctl enable orders")
        found = await discover_probes(here)
        checks = checks_for(about("orders"), found.probes)
        assert {"unit-orders", "port-4321"} <= await failing(here, checks)
        await box.run("systemctl start orders")

        async def fixed() -> bool:
            return not await failing(here, checks)

        await eventually(fixed)


@boxed
async def test_a_unit_that_flaps_fails_although_it_is_active_now() -> None:
    flaps = service_unit("flaps", "/bin/sh -c 'sleep 0.3; exit 1'", more="StartLimitBurst=1000")
    async with Box([build_host_plan(a_host(flaps))]) as box, host_environment(box) as here:

        async def restarted() -> bool:
            return int((await box.call_supervisor("show", "flaps"))["said"]["restarts"]) >= 2

        await eventually(restarted)
        found = await discover_probes(here)
        bad = set()
        for _ in range(5):
            bad |= await failing(here, checks_for(about("flaps"), found.probes))
        assert "unit-flaps" in bad


@boxed
async def test_a_full_disk_shows_even_when_the_alert_does_not_say_so() -> None:
    host = a_host(disks=(HostDisk("/data", 4),))
    async with Box([build_host_plan(host)]) as box, host_environment(box) as here:
        await box.run("head -c 10000000 /dev/zero > /data/fill")
        found = await discover_probes(here)
        case = about("orders", "customers complain")
        assert await failing(here, checks_for(case, found.probes)) == {"disk-data"}


@boxed
@pytest.mark.skipif(
    shutil.which("nginx", path=PROGRAM_PATH) is None, reason="nginx is not installed"
)
async def test_an_expired_certificate_shows_and_passes_when_it_was_renewed() -> None:
    scenario = find_scenario("certificate-expired")
    story = scenario.draw_spec(3)
    async with open_episode(scenario, story) as episode, host_environment(episode.box) as here:
        found = await discover_probes(here)
        case = IncidentDetails(
            incident="i", run="r", title=story.alert.title, labels=story.alert.labels
        )
        checks = checks_for(case, found.probes)
        bad = await failing(here, checks)
        assert any(name.startswith("tls-") for name in bad)
        await episode.run_commands(story.reference)

        async def fixed() -> bool:
            return not await failing(here, checks)

        await eventually(fixed)


@boxed
@pytest.mark.skipif(shutil.which("pg_isready") is None, reason="pg_isready is not installed")
async def test_a_database_and_the_page_that_needs_it_are_found() -> None:
    scenario = find_scenario("db-password-rotated")
    if scenario.missing_programs():
        pytest.skip(f"not installed: {', '.join(scenario.missing_programs())}")
    story = scenario.draw_spec(3)
    async with open_episode(scenario, story) as episode, host_environment(episode.box) as here:
        found = await discover_probes(here)
        assert [probe.service for probe in found.probes if probe.kind == "postgres"] == [
            "postgresql"
        ]
        case = about(story.alert.labels["service"], story.alert.title)
        bad = await failing(here, checks_for(case, found.probes))
        assert any(name.startswith("http-") for name in bad)
        assert not any(name.startswith("postgres") for name in bad)


async def test_without_ss_and_curl_ports_are_still_found(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    names = (
        "bash awk cat cut date df find grep head ls readlink sed sort stat tail timeout tr xargs"
    )
    for name in names.split():
        (tools / name).symlink_to(f"/usr/bin/{name}")
    pages = Pages()
    with web_server(pages) as port:
        async with LocalEnvironment(tmp_path, {"PATH": str(tools)}) as here:
            found = await discover_probes(here)
    names_found = {probe.name for probe in found.probes}
    assert f"port-{port}" in names_found
    assert f"http-{port}" not in names_found
    assert any("neither curl" in each for each in found.notes)
    assert found.lacks.startswith("no systemctl; ")
    assert found.lacks.endswith("no ss: ports are read from /proc")
    assert found.lacks in found.notes


async def test_a_web_server_is_asked_harmlessly_and_remembered(tmp_path: Path) -> None:
    pages = Pages()
    with web_server(pages) as port:
        async with this_host(tmp_path) as here:
            found = await discover_probes(here, http_timeout_s=3.0)
    page = next(probe for probe in found.probes if probe.name == f"http-{port}")
    assert (page.what, page.status) == (f"http://127.0.0.1:{port}/", "<400")
    assert sorted(set(pages.asked)) == ["/", "/health"]


def link_programs(folder: Path, *, but: str) -> Path:
    folder.mkdir()
    for file in Path("/usr/bin").iterdir():
        if file.name != but:
            (folder / file.name).symlink_to(file)
    return folder


@pytest.mark.parametrize("tool", ["ss", "nothing"])
async def test_ports_of_the_process_that_scans_are_neither_asked_nor_probed(
    tmp_path: Path, tool: str
) -> None:
    """Each request would load the HTTP server of a watch, which is large."""
    tools = link_programs(tmp_path / "tools", but="" if tool == "ss" else "ss")
    own, other = Pages(), Pages()
    with web_server(own) as own_port, web_server(other) as port:
        async with LocalEnvironment(tmp_path, {"PATH": str(tools)}) as here:
            found = await discover_probes(
                here, http_timeout_s=3.0, criteria=ServiceCriteria(own_ports=(own_port,))
            )
    about = [probe.name for probe in found.probes if probe.what.count(str(own_port))]
    assert not about
    assert not own.asked
    assert f"http-{port}" in {probe.name for probe in found.probes}


def test_a_process_in_a_container_is_managed_by_its_engine() -> None:
    """The name of the parent tells nobody what to use."""
    for ancestors, supervisor in {
        "containerd-shim:0<init:0": "a container engine",
        "runsv:0<init:0": "runsv",
        "init:0": "",
    }.items():
        row = ["70", "60", "70", "0", "30", "", "/usr/sbin/nginx", ancestors, "nginx"]
        process = parse_process(row)
        assert process is not None and process.supervisor == supervisor


def test_a_port_that_takes_no_plain_http_is_not_asked_for_its_health() -> None:
    survey = parse_scan(
        "have=curl\nat=100\nlisten=127.0.0.1\t443\tnginx\t 7\n"
        "http=443\t/\t400\nhttp=443\t/health\t400\n"
    )
    asked = [probe.what for probe in propose_probes(survey).probes if probe.kind == "http"]
    assert "http://127.0.0.1:443/health" not in asked


def test_pages_that_may_change_something_are_never_asked_for() -> None:
    survey = parse_scan(
        "have=curl\nhave=systemctl\nat=100\n"
        "unit=web.service\tactive\trunning\tsuccess\t7\t0\tenabled\tsimple\t/etc/x\n"
        "listen=127.0.0.1\t8080\tpython3\t 7\nhttp=8080\t/\t200\n"
        "asked=web.service\tGET /items\t9\t9\t200\n"
        "asked=web.service\tGET /orders/delete\t9\t9\t200\n"
        "asked=web.service\tGET /put\t9\t0\t503\n"
        "asked=web.service\tPOST /pages\t9\t9\t200\n"
        "asked=web.service\tGET /a;reboot\t9\t9\t200\n"
        "asked=web.service\tGET /$(reboot)\t9\t9\t200\n"
    )
    asked = [probe.what for probe in propose_probes(survey).probes if probe.kind == "http"]
    assert asked == ["http://127.0.0.1:8080/", "http://127.0.0.1:8080/items"]


def test_pages_that_users_request_by_a_log_file_are_asked_for_without_systemd() -> None:
    survey = parse_scan(
        "have=curl\nat=100\nlisten=0.0.0.0\t80\tnginx\t 7\nhttp=80\t/\t200\n"
        "log=/var/log/nginx/access.log\t900\t99\nrequestlog=/var/log/nginx/access.log\n"
        "paged=/var/log/nginx/access.log\tGET /report\t9\t9\t200\n"
        "paged=/var/log/nginx/access.log\tGET /logout\t9\t9\t200\n"
        "paged=/var/log/other.log\tGET /strange\t9\t9\t200\n"
    )
    found = [probe for probe in propose_probes(survey).probes if probe.kind == "http"]
    assert [each.what for each in found] == ["http://127.0.0.1:80/", "http://127.0.0.1:80/report"]
    assert all(each.baseline for each in found), "one that becomes slow is noticed"


def test_a_taken_port_does_not_make_the_thief_part_of_the_case() -> None:
    now = {"now": "fine"}
    probes = (
        Probe(name="unit-a", kind="unit", what="a.service", service="a", labels={"now": "failing"}),
        Probe(name="unit-thief", kind="unit", what="thief.service", service="thief", labels=now),
        Probe(name="unit-b", kind="unit", what="b.service", service="b", labels=now),
        Probe(name="port-80", kind="port", what="80", service="thief", labels=now),
    )
    case = about("a", "a is down", instance="web-1:80")
    assert [each.name for each in checks_for(case, probes)] == ["unit-a", "port-80", "unit-b"]


def test_what_failed_next_door_counts_only_when_the_alert_names_nobody_we_know() -> None:
    def unit_of(name: str, now: str) -> Probe:
        what, labels = f"{name}.service", {"now": now}
        return Probe(name=f"unit-{name}", kind="unit", what=what, service=name, labels=labels)

    probes = (unit_of("a", "fine"), unit_of("b", "failing"))
    assert {each.name for each in checks_for(about("a"), probes)} == {"unit-a"}
    assert {each.name for each in checks_for(about("host"), probes)} == {"unit-a", "unit-b"}


@pytest.mark.parametrize("text", ["", "garbage\n=\nunit=\nlisten=a\tb\n", "unit=a\tb\thttp=1\n"])
def test_half_an_answer_is_no_crash(text: str) -> None:
    assert {"cpu", "memory"} <= {probe.name for probe in propose_probes(parse_scan(text)).probes}


def test_the_command_shows_and_writes_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    shown = runner.invoke(watch, ["--discover", "--json"], catch_exceptions=False)
    assert '"probes"' in shown.stdout
    assert not (tmp_path / "home/probes.yaml").exists()
    runner.invoke(watch, ["--discover", "--write"], catch_exceptions=False)
    assert "probes:" in (tmp_path / "home/probes.yaml").read_text()


def test_what_only_a_log_or_a_certificate_shows_is_found_within_30_seconds() -> None:
    survey = HostScan(https={443: (200, "")}, logs=(("/var/log/nginx/error.log", 10, 0.0),))
    found = {each.kind: each for each in propose_probes(survey).probes}
    for probe in (found["log"], found["tls"]):
        looks = probe.fails if probe.kind in SUSTAINED_KINDS else 1
        assert looks * probe.interval + 2 <= 30, probe.name


@pytest.mark.parametrize(("lines", "code"), [(2, 0), (3, 1)])
def test_two_lines_of_a_log_between_two_looks_are_no_trouble(
    tmp_path: Path, lines: int, code: int
) -> None:
    log = tmp_path / "error.log"
    log.touch()
    survey = HostScan(logs=((str(log), 0, 0.0),))
    (probe,) = (each for each in propose_probes(survey).probes if each.kind == "log")
    *_, keep = native_logs.probe_log(probe, "")
    inode, offset, at = keep.split(":")
    log.write_text("[error] no such file\n" * lines)
    before = f"{inode}:{offset}:{int(at) - round(probe.interval)}"
    assert native_logs.probe_log(probe, before)[0] == code


@pytest.mark.parametrize(
    ("log", "service"),
    [
        ("/var/log/supervisor/shop-stderr---supervisor-x1.log", "shop"),
        ("/var/log/shop/app.log", "shop"),
        ("/var/log/shop-api.log", "shop-api"),
        ("/var/log/nginx/error.log", "nginx"),
        ("/var/log/workshop.log", ""),
    ],
)
def test_a_log_belongs_to_the_service_that_its_path_names(log: str, service: str) -> None:
    scan = parse_scan(
        "listen=127.0.0.1\t80\tnginx\t 7\nlisten=127.0.0.1\t81\tshop-api\t 8\n"
        f"supervised=shop\tRUNNING\t9\nlog={log}\t10\t1000\nat=1000\n"
    )
    assert [each.service for each in propose_probes(scan).probes if each.kind == "log"] == [service]


def test_a_log_keeps_its_service_while_that_does_not_run() -> None:
    scan = parse_scan(
        "listen=127.0.0.1\t81\tshop\t 8\nlog=/var/log/shop/inventory.log\t10\t1000\nat=1000\n"
    )
    remembered = ServiceCriteria(known_names=("inventory",))
    found = propose_probes(scan, remembered).probes
    assert [each.service for each in found if each.kind == "log"] == ["inventory"]


@pytest.mark.parametrize(("owner", "service"), [("nginx", "nginx"), ("apache2", ""), ("", "")])
def test_a_certificate_belongs_to_the_server_that_names_it(owner: str, service: str) -> None:
    scan = parse_scan(f"listen=127.0.0.1\t443\tnginx\t 7\ncertificate=/etc/shop.crt\t7\t{owner}\n")
    [probe] = [each for each in propose_probes(scan).probes if each.kind == "certificate"]
    assert probe.service == service


@pytest.mark.parametrize(
    ("log", "at", "service"),
    [
        ("/var/log/nginx/access.log", 1, "nginx"),  # quiet for long, and of a server that runs
        ("/var/log/site-access.log", 99_000, ""),
        ("/var/log/site-access.log", 1, None),
        ("/var/log/nginx/error.log", 99_000, None),
    ],
)
def test_answers_to_users_are_read_from_access_logs(log: str, at: int, service: str | None) -> None:
    scan = parse_scan(f"listen=127.0.0.1\t80\tnginx\t 7\nlog={log}\t10\t{at}\nat=99000\n")
    found = [each for each in propose_probes(scan).probes if each.kind == "answers"]
    assert [(each.what, each.service) for each in found] == (
        [] if service is None else [(log, service)]
    )


@boxed
async def test_answers_are_read_from_any_log_that_shows_requests() -> None:
    """Without a journal of units the log of a program is where its answers are."""
    ask = '127.0.0.1 - - [18/Nov/2026 20:00:00] "GET {} HTTP/1.1" {}\n'
    logs = {
        "/var/log/shop/shop.log": "listening\n" + ask.format("/items", "500 -") * 3,
        "/var/log/one.log": ask.format("/items", "200 12"),
        "/var/log/words.log": "GET /a failed after 500 ms\n==> /etc/shadow <==\n" * 5,
        "/var/log/forged.log": "==> /etc/shadow <==\n" + ask.format("/", "500") * 3,
    }
    files = tuple(HostFile(path=path, text=text) for path, text in logs.items())
    async with (
        Box([build_host_plan(a_host(files=files))]) as box,
        host_environment(box) as here,
    ):
        found = await found_with(here, "answers-shop-shop-log")
    probes = [each for each in found.probes if each.kind == "answers"]
    assert [each.what for each in probes] == ["/var/log/shop/shop.log"]


def test_a_file_system_below_a_temporary_folder_is_not_probed() -> None:
    scan = parse_scan(
        "disk=/tmp\t10\t900000\ndisk=/tmp/build/data\t10\t900000\ninodes=/tmp/build/data\t2\n"
    )
    assert {each.what for each in propose_probes(scan).probes if each.kind == "disk"} == {"/tmp"}
    assert not [each for each in propose_probes(scan).probes if each.kind == "inodes"]
