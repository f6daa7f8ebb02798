"""Each kind of probe against the real thing, when it is well and when it is not."""

import shutil
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from probe_house import Pages, eventually, free_port, look, policy_at, this_host, web_server

from hermes.core.actions import Action
from hermes.core.errors import SettingsError
from hermes.core.messages import Risk, ToolCall
from hermes.sre.probes.admission import READ_EFFECTS
from hermes.sre.probes.discovery import propose_probes
from hermes.sre.probes.evaluation import headline
from hermes.sre.probes.host_scan import parse_scan
from hermes.sre.probes.probe import Probe, ProbeKind, shell_command_of

pytestmark = pytest.mark.anyio


def a(kind: ProbeKind, what: str = "", **more: object) -> Probe:
    return Probe(name="it", kind=kind, what=what, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["cpu", "load", "memory", "processes", "zombies"])
async def test_the_host_is_measured_against_a_limit(tmp_path: Path, kind: ProbeKind) -> None:
    well = await look(tmp_path, a(kind, limit=1_000_000))
    assert well.state == "fine"
    assert well.value is not None
    assert (await look(tmp_path, a(kind, limit=0))).state == "failing"


@pytest.mark.parametrize("kind", ["disk", "inodes"])
async def test_a_disk_fails_at_its_limit_and_when_it_is_gone(
    tmp_path: Path, kind: ProbeKind
) -> None:
    assert (await look(tmp_path, a(kind, str(tmp_path), limit=101))).state == "fine"
    assert (await look(tmp_path, a(kind, str(tmp_path), limit=0))).state == "failing"
    gone = await look(tmp_path, a(kind, str(tmp_path / "unmounted")))
    assert gone.state == "failing"
    assert "cannot be read" in gone.detail


async def test_the_processors_are_measured_since_the_look_before(tmp_path: Path) -> None:
    idle = "cpu  0 0 0 0 0 0 0 0 0 0"  # since the start of the host
    seen = await look(tmp_path, a("cpu", limit=101), idle)
    assert seen.state == "fine"
    assert 0 <= (seen.value or 0) <= 100


async def test_a_port_that_nobody_listens_on_fails(tmp_path: Path) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        port = one.getsockname()[1]
        assert (await look(tmp_path, a("port", str(port)))).state == "fine"
        assert (await look(tmp_path, a("port", f"localhost:{port}"))).state == "fine"
    closed = await look(tmp_path, a("port", str(port)))
    assert closed.state == "failing"
    assert f"127.0.0.1:{port}" in closed.detail


async def test_a_web_page_is_judged_by_status_body_and_time(tmp_path: Path) -> None:
    pages = Pages()
    with web_server(pages) as port:
        url = f"http://127.0.0.1:{port}/health"
        assert (await look(tmp_path, a("http", url, contains="is well"))).state == "fine"
        wrong = await look(tmp_path, a("http", url, contains="42 items"))
        assert "lacks: 42 items" in wrong.detail
        assert (await look(tmp_path, a("http", url, limit=0.000001))).state == "failing"
        pages.status = 503
        bad = await look(tmp_path, a("http", url))
        assert (bad.state, "503" in bad.detail) == ("failing", True)
        pages.status = 404
        assert (await look(tmp_path, a("http", url))).state == "fine"
        assert (await look(tmp_path, a("http", url, status="<400"))).state == "failing"
        assert (await look(tmp_path, a("http", url, status="2xx,404"))).state == "fine"
        pages.gate.clear()
        hung = await look(tmp_path, a("http", url, timeout=0.5))
        assert hung.state == "failing"
    assert (await look(tmp_path, a("http", url))).state == "failing"


EXPIRED = """
openssl req -newkey rsa:2048 -nodes -keyout k.pem -subj /CN=shop.example -out r.pem
mkdir new; touch index; echo 01 > serial
printf '%s\\n' '[ca]' default_ca=d '[d]' database=index serial=serial new_certs_dir=new \\
  default_md=sha256 policy=p '[p]' commonName=supplied > conf
openssl ca -batch -config conf -selfsign -keyfile k.pem -in r.pem -out old.pem \\
  -startdate "$1" -enddate "$2"
"""


async def test_how_long_ago_a_certificate_ended_is_said_in_words(tmp_path: Path) -> None:
    ends = datetime.now(UTC) - timedelta(days=8, hours=2)
    times = [f"{at:%Y%m%d%H%M%SZ}" for at in (ends - timedelta(days=90), ends)]
    await anyio.run_process(["bash", "-ec", EXPIRED, "make", *times], cwd=tmp_path)
    seen = await look(tmp_path, a("certificate", str(tmp_path / "old.pem")))
    assert seen.state == "failing"
    assert f"the certificate of {tmp_path}/old.pem expired 8 days ago: " in seen.detail
    assert headline(seen.detail).startswith("the certificate of ")
    assert not seen.detail.startswith("-")


@contextmanager
def tls_server(folder: Path, days: int, name: str) -> Iterator[int]:
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    files = ["-keyout", "key.pem", "-out", "cert.pem", "-days", str(days)]
    names = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run(
        ["openssl", "req", "-x509", *kind, *files, *names],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    line, _ = listener.accept()
                except OSError:
                    return
                with line:
                    try:
                        context.wrap_socket(line, server_side=True).close()
                    except OSError:
                        continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


async def test_a_certificate_that_ends_soon_or_is_for_another_fails(tmp_path: Path) -> None:
    with tls_server(tmp_path, 3, "shop.example") as port:
        at = f"127.0.0.1:{port}"
        well = await look(tmp_path, a("tls", f"{at}/shop.example", limit=1))
        assert well.state == "fine"
        assert well.value in (2.0, 3.0)
        soon = await look(tmp_path, a("tls", f"{at}/shop.example", limit=7))
        assert soon.state == "failing"
        assert "ends" in soon.detail
        other = await look(tmp_path, a("tls", f"{at}/bank.example", limit=1))
        assert "is not for bank.example" in other.detail
    file = str(tmp_path / "cert.pem")
    assert (await look(tmp_path, a("certificate", file, limit=1))).state == "fine"
    assert (await look(tmp_path, a("certificate", file, limit=7))).state == "failing"
    assert (await look(tmp_path, a("certificate", "/no/such.pem"))).state == "unknown"


@contextmanager
def cache(folder: Path) -> Iterator[int]:
    port = free_port()
    words = ["redis-server", "--port", str(port), "--save", "", "--maxmemory", "3mb"]
    server = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        server.kill()
        server.wait()


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
async def test_a_cache_fails_when_it_is_gone_and_when_it_is_full(tmp_path: Path) -> None:
    with cache(tmp_path) as port:
        probe = a("redis", str(port))

        async def well() -> bool:
            return (await look(tmp_path, probe)).state == "fine"

        await eventually(well)
        fill = f"for i in {{1..40}}; do redis-cli -p {port} SET k$i $(printf %060000d 0); done"
        async with this_host(tmp_path) as here:
            await here.run(fill)
        full = await look(tmp_path, probe)
        assert full.state == "failing"
        assert "percent of the allowed memory" in full.detail
    assert (await look(tmp_path, probe)).state == "failing"


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="sqlite3 is not installed")
async def test_a_database_in_a_file_is_read_and_never_written(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    async with this_host(tmp_path) as here:
        await here.run(f"sqlite3 {path} 'create table t(x)'")
    before = path.read_bytes()
    assert (await look(tmp_path, a("sqlite", str(path)))).value == 1.0
    assert path.read_bytes() == before
    path.write_bytes(b"no database at all" * 100)
    assert (await look(tmp_path, a("sqlite", str(path)))).state == "failing"
    assert (await look(tmp_path, a("sqlite", str(tmp_path / "no.db")))).state == "unknown"


@pytest.mark.skipif(shutil.which("pg_isready") is None, reason="pg_isready is not installed")
async def test_a_database_server_that_is_not_there_fails(tmp_path: Path) -> None:
    gone = await look(tmp_path, a("postgres", str(free_port())))
    assert gone.state == "failing"
    assert "no response" in gone.detail


async def test_a_job_whose_program_went_missing_fails(tmp_path: Path) -> None:
    job, log = tmp_path / "backup", tmp_path / "backup.log"
    probe = a("cron", str(job), labels={"log": str(log)})
    assert "is not there" in (await look(tmp_path, probe)).detail
    job.write_text("#!/bin/sh\n")
    assert "may not be run" in (await look(tmp_path, probe)).detail
    job.chmod(0o755)
    assert (await look(tmp_path, probe)).state == "fine"
    log.write_text("tar: cannot open: Permission denied\n")
    assert (await look(tmp_path, probe)).state == "failing"


async def test_a_command_of_ones_own_is_fine_at_exit_code_0(tmp_path: Path) -> None:
    (tmp_path / "queue").mkdir()
    probe = a("command", f"test $(ls {tmp_path}/queue | wc -l) -lt 2")
    assert (await look(tmp_path, probe)).state == "fine"
    for name in "ab":
        (tmp_path / "queue" / name).touch()
    assert (await look(tmp_path, probe)).state == "failing"
    assert (await look(tmp_path, a("command", "zpool status"))).state == "unknown"


EVERY = [
    *(a(kind) for kind in ("cpu", "load", "memory", "processes", "zombies", "disk", "inodes")),
    a("cpu", "nginx.service"),
    a("port", "8080"),
    a("http", "http://127.0.0.1:8080/a?b=c", contains="it's fine", limit=2),
    a("tls", "127.0.0.1:443/shop.example"),
    *(a("config", name) for name in ("nginx", "sshd", "apache2", "haproxy", "named")),
    a("forecast", "/data"),
    a("certificate", "/etc/nginx/it's.crt"),
    a("unit", "nginx.service"),
    a("unit", "once.service", status="ended-well"),
    a("cron", "/opt/job", labels={"log": "/var/log/job.log"}),
    a("log", "/var/log/nginx/error.log"),
    a("log", "journal:nginx.service", pattern="it's (bad|worse)"),
    a("answers", "journal:nginx.service"),
    a("answers", "/var/log/nginx/access.log"),
    a("postgres", "/run/postgresql:5432", labels={"user": "watch"}),
    a("mysql", "3306"),
    a("redis", "6379"),
    a("redis", "/run/redis/redis.sock"),
    a("sqlite", "/srv/it's.db"),
]


@pytest.mark.parametrize("chosen", ["careful", "observe", "sandboxed", "suggest"])
def test_the_policy_knows_that_every_kind_only_reads(tmp_path: Path, chosen: str) -> None:
    """Asked as a script of this program, as the admission of probes asks."""
    policy = policy_at(tmp_path, chosen)
    for probe in EVERY:
        for command in (shell_command_of(probe), shell_command_of(probe, "")):
            call = ToolCall("c", "terminal", {"command": command})
            decision = policy.decide(
                Action(
                    call=call,
                    risk=Risk.CHANGE,
                    run="r",
                    origin="incident",
                    environment="local",
                    target="here",
                    isolated=False,
                    reviewed=True,
                )
            )
            assert decision.verdict == "allow", (probe, decision.reason)
            assert set(decision.effects) <= READ_EFFECTS, (probe, decision.effects)


@pytest.mark.parametrize(
    ("kind", "what", "word"),
    [
        ("port", "", "needs `what`"),
        ("port", "8080; rm -rf /", "no address"),
        ("port", "$(reboot):80", "no address"),
        ("http", "127.0.0.1:80", "no URL"),
        ("redis", "/run/x; reboot", "no path"),
        ("postgres", "a b:5432", "no address"),
        ("log", "", "which log"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(kind: ProbeKind, what: str, word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        shell_command_of(a(kind, what))


async def test_hostile_names_are_data_and_never_shell(tmp_path: Path) -> None:
    bad = f"'; touch {tmp_path}/owned; $(touch {tmp_path}/owned) `touch {tmp_path}/owned`"
    kinds: list[ProbeKind] = ["disk", "certificate", "unit", "cron", "log", "answers", "sqlite"]
    for kind in kinds:
        await look(tmp_path, a(kind, bad), "")
    await look(tmp_path, a("http", f"http://127.0.0.1:9/{bad.replace(' ', '')}", timeout=1))
    await look(tmp_path, a("log", "/etc/hostname", pattern=bad), bad)
    assert not (tmp_path / "owned").exists()


@contextmanager
def worker_process(script: Path) -> Iterator[subprocess.Popen[bytes]]:
    script.write_text("while :; do sleep 0.1; done\n")
    process = subprocess.Popen(["bash", str(script)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def test_a_worker_without_a_port_that_a_signal_has_stopped_fails(tmp_path: Path) -> None:
    with worker_process(tmp_path / "worker.sh") as worker:
        scan = parse_scan(
            f"at=100000\npidfile=/run/mailer.pid\t{worker.pid}\t99901\n"
            f"process={worker.pid}\t1\t9\t0\t100\t\t/usr/bin/bash\tinit:0<\t"
            f"bash {tmp_path}/worker.sh\n"
        )
        [probe] = [each for each in propose_probes(scan).probes if each.kind == "command"]
        assert (await look(tmp_path, probe)).state == "fine"
        worker.send_signal(signal.SIGSTOP)
        verdict = await look(tmp_path, probe)
        assert (verdict.state, "is suspended" in verdict.detail) == ("failing", True)
        worker.send_signal(signal.SIGCONT)
        assert (await look(tmp_path, probe)).state == "fine"
