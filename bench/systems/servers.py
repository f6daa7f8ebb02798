"""Real servers for the scenarios: Prometheus, PostgreSQL, MariaDB and Redis of Debian.

The exporters are ours: each serves the text that a scenario gives it, or reads it from the real
server that it stands beside. Everything ends with the block.
"""

import json
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

START_TIMEOUT_S = 120.0
POSTGRES = max(Path("/usr/lib/postgresql").glob("*/bin/postgres"), default=Path())
MAX_CONNECTIONS = 20


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in time: {what}")
        time.sleep(0.2)


@contextmanager
def running(*command: object, ready: tuple[object, ...], user: str | None) -> Iterator[None]:
    words, null = [str(each) for each in command], subprocess.DEVNULL
    process = subprocess.Popen(words, stdout=null, stderr=null, user=user, cwd="/tmp")
    asked = [str(each) for each in ready]
    try:
        wait_until(
            lambda: subprocess.run(asked, capture_output=True, check=False).returncode == 0,
            words[0],
        )
        yield
    finally:
        process.send_signal(signal.SIGINT if "postgres" in words[0] else signal.SIGKILL)
        process.wait(30)


@contextmanager
def server_folder(owner: str) -> Iterator[Path]:
    with TemporaryDirectory(prefix="db-", dir="/tmp") as name:
        shutil.chown(name, owner)
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def run_postgres() -> Iterator[Path]:
    with server_folder("postgres") as folder:
        subprocess.run(
            [POSTGRES.with_name("initdb"), "-D", folder / "data", "-A", "trust", "--no-sync"],
            check=True, capture_output=True, user="postgres", cwd="/tmp",
        )  # fmt: skip
        options = ("-c", "listen_addresses=", "-k", folder, "-c", "fsync=off")
        more = (
            "-c",
            f"max_connections={MAX_CONNECTIONS}",
            "-c",
            "superuser_reserved_connections=2",
        )
        ready = ("psql", "-X", "-h", folder, "-U", "postgres", "-c", "select 1")
        started = running(
            POSTGRES, "-D", folder / "data", *options, *more, ready=ready, user="postgres"
        )
        with started:
            run_sql(folder, "create table orders as select n from generate_series(1, 500) n")
            yield folder


def run_sql(folder: Path, sql: str) -> str:
    words = ["psql", "-X", "-At", "-h", str(folder), "-U", "postgres", "-c", sql]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@contextmanager
def run_mariadb() -> Iterator[Path]:
    with server_folder("mysql") as folder:
        data, socket_option = f"--datadir={folder}/data", f"--socket={folder}/s"
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", data, "--user=mysql", "--skip-test-db"],
            check=True, capture_output=True,
        )  # fmt: skip
        client = ("mariadb", "--no-defaults", socket_option, "-u", "root", "-e")
        options = ("--no-defaults", data, socket_option, "--skip-networking")
        server = ("/usr/sbin/mariadbd", *options, f"--pid-file={folder}/p")
        with running(*server, ready=(*client, "select 1"), user="mysql"):
            made = (
                "create database shop; create table shop.orders (n int primary key) engine=innodb;"
            )
            made += "insert into shop.orders values (1), (2), (3)"
            subprocess.run([*client, made], check=True, capture_output=True)
            yield folder


@contextmanager
def run_redis() -> Iterator[Path]:
    with server_folder("redis") as folder:
        options = ("--port", "0", "--unixsocket", folder / "s", "--save", "", "--dir", folder)
        ready = ("redis-cli", "-s", folder / "s", "ping")
        more = ("--unixsocketperm", "777", "--maxmemory", "2mb")
        with running("redis-server", *options, *more, ready=ready, user="redis"):
            yield folder


@dataclass
class Exporter:
    """Serves metrics as text; it can be stopped and started on the same port."""

    read: Callable[[], str]
    port: int = field(default_factory=free_port)
    _server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exporter.read().encode()
                self.send_response(200)
                self.send_header("content-type", "text/plain; version=0.0.4")
                self.end_headers()
                with suppress(BrokenPipeError):  # Prometheus did not wait for it
                    self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


@dataclass
class Surroundings:
    """What the scenarios break, and what Hermes is told the addresses of."""

    postgres: Path
    mariadb: Path
    redis: Path
    prometheus: str
    exporters: dict[str, Exporter]
    texts: dict[str, str]
    """What each exporter without a server says."""

    def query(self, query: str) -> list[Any]:
        asked = f"{self.prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return list(json.load(answer)["data"]["result"])

    def wait_for(self, query: str) -> None:
        wait_until(lambda: bool(self.query(query)), query)


@contextmanager
def open_surroundings() -> Iterator[Surroundings]:
    texts = {"checkout": 'http_requests_total{code="200"} 1\n', "payments": "", "blackbox": ""}
    with ExitStack() as stack:
        databases = [stack.enter_context(run()) for run in (run_postgres, run_mariadb, run_redis)]

        def connections() -> str:
            used = run_sql(
                databases[0], "select count(*) from pg_stat_activity where datname <> ''"
            )
            limits = f"pg_settings_max_connections {MAX_CONNECTIONS}\n"
            return f"pg_up 1\npg_stat_activity_count {used.strip()}\n{limits}"

        exporters = {name: Exporter(lambda name=name: texts[name]) for name in texts}  # type: ignore[misc]
        exporters["orders-db"] = Exporter(connections)
        for each in exporters.values():
            each.start()
            stack.callback(each.stop)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="prometheus-")))
        jobs = [
            {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{each.port}"]}]}
            for name, each in exporters.items()
        ]
        config = {
            "global": {"scrape_interval": "2s", "scrape_timeout": "2s"},
            "scrape_configs": jobs,
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        address = f"127.0.0.1:{free_port()}"
        command = ("prometheus", f"--config.file={folder}/prometheus.yml")
        more = (f"--storage.tsdb.path={folder}/data", f"--web.listen-address={address}")
        ready = ("curl", "-sf", f"http://{address}/-/ready")
        stack.enter_context(running(*command, *more, ready=ready, user=None))
        found = Surroundings(*databases, f"http://{address}", exporters, texts)
        found.wait_for("count(up == 1) == 4")
        yield found
