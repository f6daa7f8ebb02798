"""Trouble ahead, by the real programs: broken configurations, failed reloads, disks that fill."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from probe_house import PATH, free_port, look, this_host

from hermes.core.bus import Bus
from hermes.core.events.incidents import AlertRaised
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.probes.discovery import propose_probes
from hermes.sre.probes.evaluation import (
    DiskSamples,
    ProbeHistory,
    add_sample,
    forecast_disk,
    save_history,
)
from hermes.sre.probes.host_scan import parse_scan
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.probe_runner import run_probes
from hermes.sre.probes.scheduler import ProbeScheduler
from hermes.sre.triage.severity import alert_impact

pytestmark = pytest.mark.anyio
POSTGRES = max(Path("/usr/lib/postgresql").glob("*/bin/postgres"), default=Path("/nowhere"))


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(program, path=PATH) is None, reason=f"{program} is not installed"
    )


def a_config(what: str, **labels: str) -> Probe:
    return Probe(name="c", kind="config", what=what, timeout=20.0, labels=labels)


NGINX = """\
daemon off;
pid {at}/nginx.pid;
error_log {at}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f;
  uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
  server {{ listen 127.0.0.1:{port}; {more} }}
}}
"""


def nginx_file(folder: Path, port: int, more: str = "") -> Path:
    file = folder / "conf" / "nginx.conf"
    file.parent.mkdir(exist_ok=True)
    file.write_text(NGINX.format(at=folder, port=port, more=more))
    return file


@contextmanager
def running_nginx(
    folder: Path, port: int, log: str = "error.log"
) -> Iterator[subprocess.Popen[bytes]]:
    file = nginx_file(folder, port)
    file.write_text(file.read_text().replace("error.log", log))
    argv = ["nginx", "-c", str(file), "-e", str(folder / log)]
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not answers(port):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield child
    finally:
        child.terminate()
        child.wait(120)


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@needs("nginx")
async def test_a_broken_nginx_configuration_is_reported_with_its_line(tmp_path: Path) -> None:
    file = nginx_file(tmp_path, free_port())
    assert (await look(tmp_path, a_config(f"nginx:{file}"), "")).state == "fine"
    nginx_file(tmp_path, free_port(), "lissten 80;")
    found = await look(tmp_path, a_config(f"nginx:{file}"), "")
    assert found.state == "failing"
    assert "would prevent its next start" in found.detail
    assert f"{file}:9" in found.detail


@needs("nginx")
async def test_the_check_itself_writes_no_log(tmp_path: Path) -> None:
    file = nginx_file(tmp_path, free_port(), "lissten 80;")
    log = tmp_path / "error.log"
    log.write_text("")
    await look(tmp_path, a_config(f"nginx:{file}"), "")
    assert log.read_text() == ""


@needs("nginx")
async def test_a_reload_that_failed_is_reported_until_one_succeeds(tmp_path: Path) -> None:
    """A port that another holds: `nginx -t` cannot see that, the master wrote it down."""
    port = free_port()
    with running_nginx(tmp_path, port) as nginx, socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        file = nginx_file(tmp_path, port, f"listen 127.0.0.1:{taken};")
        await anyio.sleep(2.1)  # times in the log are in whole seconds
        nginx.send_signal(signal.SIGHUP)
        wait_until(lambda: "[emerg]" in (tmp_path / "error.log").read_text())
        found = await look(tmp_path, a_config(f"nginx:{file}"), "")
        assert found.state == "failing"
        assert "the last reload of nginx failed" in found.detail
        assert str(taken) in found.detail
        nginx_file(tmp_path, port)
        workers = children(nginx.pid)
        await anyio.sleep(1.1)
        nginx.send_signal(signal.SIGHUP)
        wait_until(lambda: not workers & children(nginx.pid) and bool(children(nginx.pid)))
        assert (await look(tmp_path, a_config(f"nginx:{file}"), "")).state == "fine"


def children(pid: int) -> set[str]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return set(found.stdout.split())


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@needs("visudo")
async def test_broken_sudoers_are_reported_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "sudoers"
    file.parent.mkdir()
    file.write_text("root ALL=(ALL:ALL) ALL\n")
    file.chmod(0o440)
    assert (await look(tmp_path, a_config(f"sudo:{file}"), "")).state == "fine"
    file.chmod(0o600)
    file.write_text("root ALL=(ALL:ALL) ALL\nanna ALLL=\n")
    file.chmod(0o440)
    found = await look(tmp_path, a_config(f"sudo:{file}"), "")
    assert found.state == "failing"
    assert f"{file}:2" in found.detail


@pytest.fixture
def folder_of_sshd() -> None:
    """Made by the start script of sshd; without it `sshd -t` refuses."""
    Path("/run/sshd").mkdir(exist_ok=True)


@needs("sshd")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the keys of sshd")
@pytest.mark.usefixtures("folder_of_sshd")
async def test_a_broken_sshd_configuration_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "sshd_config"
    file.parent.mkdir()
    file.write_text("Port 22\nPermitRootLogn no\n")
    found = await look(tmp_path, a_config(f"sshd:{file}"), "")
    assert found.state == "failing"
    assert "line 2" in found.detail


@pytest.mark.skipif(not POSTGRES.exists(), reason="PostgreSQL is not installed")
async def test_a_broken_postgresql_configuration_is_reported_with_its_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    file = data / "postgresql.conf"
    probe = a_config(f"postgres:{data}", program=str(POSTGRES))
    file.write_text("port = 5433\n")
    assert (await look(tmp_path, probe, "")).state == "fine"
    file.write_text("port = 5433\nmax_conections = 100\n")
    found = await look(tmp_path, probe, "")
    assert found.state == "failing"
    assert "max_conections" in found.detail
    assert "line 2" in found.detail


async def test_a_program_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "haproxy.cfg"
    file.parent.mkdir()
    file.write_text("global\n")
    async with this_host(tmp_path) as here:
        probe = a_config(f"haproxy:{file}")
        if (await here.run("command -v haproxy")).exit_code == 0:
            pytest.skip("haproxy is installed")
    assert (await look(tmp_path, probe, "")).state == "unknown"


@needs("nginx")
async def test_a_configuration_is_checked_again_only_when_it_changed(tmp_path: Path) -> None:
    """The second look comes from what the first kept: the program is not run again."""
    file = nginx_file(tmp_path, free_port())
    old = time.time() - 3600
    probe = a_config(f"nginx:{file}")
    set_time(file, old)
    async with this_host(tmp_path) as here:
        first = (await run_probes(here, [probe], {"c": ""}))["c"]
        assert first.code == 0
        kept = first.keep.replace("is good", "was good when it was last checked")
        again = (await run_probes(here, [probe], {"c": kept}))["c"]
        assert "when it was last checked" in again.text
        nginx_file(tmp_path, free_port(), "lissten 80;")
        fresh = (await run_probes(here, [probe], {"c": kept}))["c"]
        assert fresh.code == 0  # somebody may still be writing it
        set_time(file, old + 60)
        assert (await run_probes(here, [probe], {"c": kept}))["c"].code == 1


def set_time(file: Path, at: float) -> None:
    os.utime(file, (at, at))


def line(per_minute_kb: float, minutes: int, start_kb: float = 1_000_000.0) -> DiskSamples:
    """What a disk that fills steadily gives, with a little noise."""
    samples: DiskSamples = ()
    for minute in range(minutes):
        noise = 40.0 * (minute % 3 - 1)
        samples = add_sample(samples, minute * 60.0, start_kb - per_minute_kb * minute + noise)
    return samples


def test_a_disk_that_fills_steadily_has_an_end_and_an_uncertainty() -> None:
    ahead = forecast_disk(line(5_000.0, 40))
    assert ahead is not None
    assert ahead.hours == pytest.approx((1_000_000 - 39 * 5_000) / 5_000 / 60, rel=0.02)
    assert ahead.soonest < ahead.hours < ahead.latest
    words = ahead.words("/data", 805_000.0)
    assert "/data will be full in about 2.7 hours (between 2." in words
    assert "in the last 39 minutes" in words


@pytest.mark.parametrize(
    "samples",
    [
        line(5_000.0, 8),
        line(0.0, 60),
        line(-5_000.0, 60),
        tuple((m * 60.0, 1e6 - (9e5 if m > 30 else 0)) for m in range(60)),
        tuple((m * 60.0, 1e6 - 5_000.0 * min(m, 20)) for m in range(60)),
    ],
    ids=["too short", "quiet", "freed", "one big file", "growth that ended"],
)
def test_what_is_no_steady_growth_has_no_forecast(samples: DiskSamples) -> None:
    assert forecast_disk(samples) is None


def test_after_space_was_freed_the_growth_is_measured_anew() -> None:
    samples = add_sample(line(5_000.0, 40), 2_400.0, 2_000_000.0)
    assert samples == ((2_400.0, 2_000_000.0),)


async def test_a_disk_that_will_be_full_within_hours_is_a_p3(tmp_path: Path) -> None:
    probe = Probe(name="ahead", kind="forecast", what="/dev/shm", severity="P3")
    free = float(shutil.disk_usage("/dev/shm").free // 1024)
    now = time.time()
    filling = tuple((now - 60.0 * m, free * (1 + 0.004 * m)) for m in range(60, 0, -1))
    home = tmp_path / "home"
    home.mkdir()
    save_history(home, {"ahead": ProbeHistory(samples=filling)})
    async with this_host(tmp_path) as here:
        [verdict] = await ProbeScheduler(
            [probe], here, Bus(InMemoryJournal()), home=home
        ).run_once()
    assert verdict.state == "failing"
    assert "/dev/shm will be full in about 4." in verdict.detail
    labels = (("kind", "forecast"), ("service", ""))
    alert = AlertRaised(
        run="watch", fingerprint="f", title=f"host: {verdict.detail}", labels=labels, severity="P3"
    )
    assert alert_impact(alert).effect == "warning"


def test_a_server_that_runs_gets_its_configuration_checked() -> None:
    def row(pid: int, command: str) -> str:
        return f"process={pid}\t1\t{pid}\t0\t900\t\t/usr/sbin/x\tinit:0<\t{command}\n"

    survey = parse_scan(
        "have=visudo\nat=100\n"
        "listen=127.0.0.1\t80\tnginx\t 7 8\nlisten=127.0.0.1\t5432\tpostgres\t 9\n"
        "listen=0.0.0.0\t22\tsshd\t 10\nlisten=127.0.0.1\t8000\tpython3\t 11\n"
        + row(7, "nginx: master process nginx -c /srv/nginx.conf")
        + row(9, "postgres -D /data -c config_file=/etc/pg/postgresql.conf")
        + row(10, "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups")
        + row(11, "python3 /srv/shop/app.py")
    )
    found = {each.name: each for each in propose_probes(survey).probes if each.kind == "config"}
    assert {name: each.what for name, each in found.items()} == {
        "config-nginx": "nginx:/srv/nginx.conf",
        "config-postgres": "postgres:/data",
        "config-sshd": "sshd",
        "config-sudo": "sudo",
    }
    assert found["config-postgres"].labels["config_file"] == "/etc/pg/postgresql.conf"
    assert {each.severity for each in found.values()} == {"P3"}


async def test_a_certificate_of_two_weeks_is_reported_and_a_short_one_in_its_last_third(
    tmp_path: Path,
) -> None:
    def made(days: int, began_days_ago: int) -> str:
        file = tmp_path / f"{days}-{began_days_ago}.pem"
        start = datetime.now(UTC) - timedelta(days=began_days_ago)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
        key = Ed25519PrivateKey.generate()
        made = x509.CertificateBuilder(name, name, key.public_key(), 1).not_valid_before(start)
        signed = made.not_valid_after(start + timedelta(days=days, hours=1)).sign(key, None)
        file.write_bytes(signed.public_bytes(Encoding.PEM))
        return str(file)

    async def state(days: int, ago: int) -> str:
        probe = Probe(name="c", kind="certificate", what=made(days, ago))
        return (await look(tmp_path, probe)).state

    assert await state(90, 70) == "fine"
    assert await state(90, 80) == "failing"
    assert await state(6, 1) == "fine"
    assert await state(6, 5) == "failing"
