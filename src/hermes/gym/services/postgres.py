"""PostgreSQL for scenarios: finds the installation, builds a cluster, and describes the server.

Also the source of a small client for services that use it.
"""

import base64
import io
import os
import pwd
import re
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hermes.core.errors import EnvironmentFailed
from hermes.core.messages import Value
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import PROGRAM_PATH, SEVERAL_USERS
from hermes.gym.scenario_spec import HostFile, HostFolder, HostSpec, ScriptCheck, UnitRunningCheck
from hermes.gym.services.python_service import ServiceLayout, service_unit
from hermes.plumbing.files import write_atomically

DEBIAN_POSTGRESQL_FOLDER = Path("/usr/lib/postgresql")
_REQUIRED_TOOLS = ("postgres", "initdb")


class PostgresInstallation(Value, kw_only=True, frozen=True):
    bin: str
    version: int

    @property
    def data(self) -> str:
        return f"/var/lib/postgresql/{self.version}/main"

    @property
    def conf(self) -> str:
        return f"/etc/postgresql/{self.version}/main"


ASSUMED_INSTALLATION = PostgresInstallation(bin=f"{DEBIAN_POSTGRESQL_FOLDER}/15/bin", version=15)
"""For drawing a scenario on a machine without PostgreSQL: it can be shown, not played."""


def find_installation(
    path: str = PROGRAM_PATH, debian: Path = DEBIAN_POSTGRESQL_FOLDER
) -> PostgresInstallation | None:
    """The one on the PATH, else the newest of those that Debian keeps side by side."""
    found = shutil.which(_REQUIRED_TOOLS[0], path=path)
    folders = [Path(os.path.realpath(found)).parent] if found else []
    numbered = [each for each in debian.glob("*/bin") if each.parent.name.isdigit()]
    newest = sorted(numbered, key=lambda each: int(each.parent.name), reverse=True)
    for folder in (*folders, *newest):
        if all((folder / tool).exists() for tool in _REQUIRED_TOOLS):
            version = _read_version(folder)
            if version:
                return PostgresInstallation(bin=str(folder), version=version)
    return None


def _read_version(folder: Path) -> int:
    if folder.parent.name.isdigit():
        return int(folder.parent.name)
    words = [str(folder / _REQUIRED_TOOLS[0]), "--version"]
    with tempfile.TemporaryFile() as output:
        actions = [(os.POSIX_SPAWN_DUP2, output.fileno(), 1)]
        os.waitpid(os.posix_spawn(words[0], words, {}, file_actions=actions), 0)
        output.seek(0)
        number = re.search(rb"\) (\d+)", output.read())
    return int(number[1]) if number else 0


CLUSTER_CACHE_FOLDER = Path(".cache/hermes/gym")
CLUSTER_FILE_NAME = "postgresql-{version}-cluster-2.tar.gz"
TEMPLATE_DATABASE = "app"
INITDB_OPTIONS = (
    "-N",
    "-U",
    "postgres",
    "--locale=C.UTF-8",
    "-E",
    "UTF8",
    "--wal-segsize=1",
    "-A",
    "trust",
)
_SINGLE_USER_OPTIONS = ("-F", "-c", "min_wal_size=2MB", "-c", "max_wal_size=2MB")
_TRIM_STATEMENTS = (
    (
        "template1",
        f"CREATE DATABASE {TEMPLATE_DATABASE}\n"
        "UPDATE pg_database SET datistemplate = false WHERE datname = 'template0'\n"
        "DROP DATABASE template0\n",
    ),
    (
        "postgres",
        "UPDATE pg_database SET datistemplate = false WHERE datname = 'template1'\n"
        "DROP DATABASE template1\n",
    ),
)


def packed_cluster(found: PostgresInstallation, home: Path | None = None) -> str:
    """An initialized cluster as a tar file in base64; empty where PostgreSQL is not installed.

    Built once and kept in a cache folder.
    """
    initdb, server = f"{found.bin}/initdb", f"{found.bin}/postgres"
    if not Path(initdb).exists():
        return ""
    cache = (home or Path.home()) / CLUSTER_CACHE_FOLDER
    cached = cache / CLUSTER_FILE_NAME.format(version=found.version)
    try:
        packed = cached.read_bytes()
    except OSError:
        packed = _build_cluster(initdb, server)
        _write_cache(cached, packed)
    return base64.b64encode(packed).decode()


def _build_cluster(initdb: str, server: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="hermes-pg-") as folder:
        data, script = Path(folder) / "data", Path(folder) / "sql"
        as_other = _unprivileged_prefix(folder)
        script.touch()
        _run_with_input([*as_other, initdb, *INITDB_OPTIONS, "-D", str(data)], script)
        for database, sql in _TRIM_STATEMENTS:
            script.write_text(sql)
            _run_with_input(
                [*as_other, server, "--single", *_SINGLE_USER_OPTIONS, "-D", str(data), database],
                script,
            )
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
            for each in sorted(data.iterdir()):
                tar.add(each, arcname=each.name)
        return packed.getvalue()


def _unprivileged_prefix(folder: str) -> list[str]:
    """PostgreSQL refuses to run as root: a command prefix that switches to `nobody`."""
    if os.getuid():
        return []
    uid = pwd.getpwnam("nobody").pw_uid
    os.chown(folder, uid, uid)
    return ["/usr/bin/setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def _run_with_input(words: list[str], input_file: Path) -> None:
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, str(input_file), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = os.posix_spawn(words[0], words, {"PATH": PROGRAM_PATH}, file_actions=actions)
    if os.waitpid(pid, 0)[1]:
        raise EnvironmentFailed(f"no PostgreSQL cluster could be made; `{' '.join(words)}` failed")


def _write_cache(path: Path, packed: bytes) -> None:
    """Atomic: another process may do the same. Without a writable cache it is built each time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, packed, sync=False)
    except OSError:
        return


PG_CLIENT = """\
import struct

class DbError(Exception):
    pass

class Session:
    def __init__(self, conf, wait=5.0):
        self.conf = conf
        self.line = socket.socket()
        self.line.settimeout(wait)
        try:
            self.line.connect((conf.get("db_host", "127.0.0.1"), int(conf["db_port"])))
        except OSError as error:
            raise DbError(f"could not connect to server: {error}")
        self.file = self.line.makefile("rb")
        pairs = {"user": conf["db_user"], "database": conf["db_name"]}
        pairs["application_name"] = conf.get("name", conf["db_user"])
        words = b"".join(f"{key}\\0{each}\\0".encode() for key, each in pairs.items())
        body = struct.pack("!i", 196608) + words + b"\\0"
        self.tell(b"", body)
        self.answer()

    def tell(self, kind, body):
        self.line.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def ask(self, sql):
        try:
            self.tell(b"Q", sql.encode() + b"\\0")
            return self.answer()
        except OSError as error:
            self.close()
            raise DbError(f"connection to server was lost: {error}")

    def close(self):
        self.file.close()
        self.line.close()

    def answer(self):
        rows, trouble = [], ""
        while True:
            head = self.file.read(5)
            if len(head) < 5:
                self.close()
                raise DbError(trouble or "server closed the connection unexpectedly")
            kind, body = head[:1], self.file.read(struct.unpack("!i", head[1:])[0] - 4)
            if kind == b"R" and body[3] == 3:
                self.tell(b"p", self.conf["db_password"].encode() + b"\\0")
            elif kind == b"D":
                rows.append(columns(body))
            elif kind == b"E":
                said = {part[:1]: part[1:].decode() for part in body.split(b"\\0")}
                trouble = f"{said[b'S']}: {said[b'M']}"
            elif kind == b"Z":
                if trouble:
                    raise DbError(trouble)
                return rows

def columns(body):
    at, found = 2, []
    for _ in range(struct.unpack("!h", body[:2])[0]):
        (size,) = struct.unpack("!i", body[at : at + 4])
        at += 4
        found.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return found

"""


POSTGRES_NEEDS = ("postgres", "initdb", "setpriv", SEVERAL_USERS)
POSTGRES_HOST_USERS = ("www", "postgres")
POSTGRES_UID = 1002
"""The id of `postgres` on such a host."""
_SETUP_FOLDER = "/var/cache/postgresql"
_PG_HBA_CONF = """\
# TYPE  DATABASE  USER  ADDRESS       METHOD
local   all       all                 trust
host    all       all   127.0.0.1/32  password
"""
_FIRST_START_SCRIPT = """\
#!/bin/bash
# Runs before each start; does something only when there is no cluster yet.
set -e
[ -s {data}/PG_VERSION ] && exit 0
as() {{ setpriv --reuid postgres --regid postgres --clear-groups "$@"; }}
if [ -s {parcel}/cluster ]; then
  base64 -d {parcel}/cluster | as tar xz -C {data}
else
  as {bin}/initdb {initdb} -D {data}
  echo "CREATE DATABASE {database}" | as {bin}/postgres --single -F -D {data} postgres
fi
as {bin}/postgres --single -j -F -D {data} {database} < {parcel}/first.sql > /dev/null
rm -rf {parcel}
"""


class PostgresServer(Value, kw_only=True, frozen=True):
    port: int
    database: str
    server: PostgresInstallation
    files: tuple[HostFile, ...]
    folders: tuple[HostFolder, ...]
    unit: HostFile

    def ask(self, sql: str) -> str:
        """A command that prints the result without decoration."""
        words = f"{self.psql} -XAtq -v ON_ERROR_STOP=1 -h /run/postgresql -p {self.port}"
        return f"{words} -U postgres -d {self.database} -c {shlex.quote(sql)}"

    @property
    def psql(self) -> str:
        return f"{self.server.bin}/psql"

    @property
    def conf(self) -> str:
        """The folder with its configuration files."""
        return self.server.conf

    @property
    def access(self) -> dict[str, object]:
        """Settings of its clients, besides the role and the password."""
        return {"db_port": self.port, "db_name": self.database}

    @property
    def ran_on(self) -> UnitRunningCheck:
        return UnitRunningCheck(name="the database ran on", unit=self.unit.path, undisturbed=True)

    def host(
        self,
        name: str,
        files: Sequence[HostFile],
        clients: Sequence[ServiceLayout],
        *others: HostFile,
    ) -> HostSpec:
        """A host with this database, and services that start after it."""
        after = self.unit.path
        services = [service_unit(each.name, each.command, after=after) for each in clients]
        return HostSpec(
            name=name,
            users=POSTGRES_HOST_USERS,
            files=tuple(files),
            folders=self.folders,
            units=(self.unit, *services, *others),
        )

    def says(self, name: str, sql: str, answer: str) -> ScriptCheck:
        """A check that the query has this result."""
        return ScriptCheck(name=name, script=f'[ "$({self.ask(sql)})" = {shlex.quote(answer)} ]')


def postgres_server(rng: RandomSource, statements: list[str], **settings: object) -> PostgresServer:
    """`statements` create the content; `settings` are written to postgresql.conf."""
    found = find_installation() or ASSUMED_INSTALLATION
    port, database = rng.pick((5432, 5433, 5440, rng.port())), f"{rng.word()}_{rng.word()}"
    values: dict[str, object] = {
        "listen_addresses": "'127.0.0.1'",
        "port": port,
        "max_connections": 40,
        "shared_buffers": "16MB",
        "dynamic_shared_memory_type": "mmap",
        "min_wal_size": "4MB",
        "max_wal_size": "32MB",
        "autovacuum": "off",
        "log_line_prefix": "'%m [%p] %q%u@%d '",
        "hba_file": f"'{found.conf}/pg_hba.conf'",
        **settings,
    }
    conf = "".join(f"{key} = {value}\n" for key, value in values.items())
    rename = f"UPDATE pg_database SET datname = '{database}' WHERE datname = '{TEMPLATE_DATABASE}'"
    first = "".join(f"{each};\n\n" for each in (*statements, rename))
    start = f"{found.bin}/postgres -D {found.data} -c config_file={found.conf}/postgresql.conf"
    return PostgresServer(
        port=port,
        database=database,
        server=found,
        files=(
            HostFile(path=f"{found.conf}/postgresql.conf", text=conf),
            HostFile(path=f"{found.conf}/pg_hba.conf", text=_PG_HBA_CONF),
            HostFile(
                path="/etc/postgresql/first-start.sh", text=_render_first_start(found), mode=0o755
            ),
            HostFile(path=f"{_SETUP_FOLDER}/cluster", text=packed_cluster(found)),
            HostFile(path=f"{_SETUP_FOLDER}/first.sql", text=first, owner=POSTGRES_UID),
        ),
        folders=(
            HostFolder(path=found.data, mode=0o700, owner=POSTGRES_UID),
            HostFolder(path="/run/postgresql", owner=POSTGRES_UID),
        ),
        unit=HostFile(
            path="postgresql.service",
            text=_POSTGRES_UNIT.format(start=start, version=found.version),
        ),
    )


def _render_first_start(found: PostgresInstallation) -> str:
    return _FIRST_START_SCRIPT.format(
        data=found.data,
        bin=found.bin,
        parcel=_SETUP_FOLDER,
        initdb=" ".join(INITDB_OPTIONS),
        database=TEMPLATE_DATABASE,
    )


_POSTGRES_UNIT = """\
[Unit]
Description=PostgreSQL {version}

[Service]
ExecStartPre=/bin/bash /etc/postgresql/first-start.sh
ExecStart={start}
ExecReload=/bin/kill -HUP $MAINPID
User=postgres
KillSignal=SIGINT
Restart=on-failure
RestartSec=200ms

[Install]
WantedBy=multi-user.target
"""
