"""A PostgreSQL of a host's own: its files, its unit, and how one asks it from a script."""

import shlex
from collections.abc import Sequence

from hermes.core.messages import Value
from hermes.gym.dice import Dice
from hermes.gym.parts.pg_found import USUAL, Server, server
from hermes.gym.parts.pg_template import DATABASE, INITDB, cluster
from hermes.gym.parts.premises import Premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import SEVERAL_USERS
from hermes.gym.story import File, Folder, Host, Script

NEEDS = ("postgres", "initdb", "setpriv", SEVERAL_USERS)
USERS = ("www", "postgres")
OWNER = 1002
"""The number of `postgres` among those users."""
_PARCEL = "/var/cache/postgresql"
_HBA = """\
# TYPE  DATABASE  USER  ADDRESS       METHOD
local   all       all                 trust
host    all       all   127.0.0.1/32  password
"""
_FIRST_START = """\
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


class Postgres(Value, kw_only=True, frozen=True):
    port: int
    database: str
    server: Server
    files: tuple[File, ...]
    folders: tuple[Folder, ...]
    unit: File

    def ask(self, sql: str) -> str:
        """A command that prints the answer bare."""
        words = f"{self.psql} -XAtq -v ON_ERROR_STOP=1 -h /run/postgresql -p {self.port}"
        return f"{words} -U postgres -d {self.database} -c {shlex.quote(sql)}"

    @property
    def psql(self) -> str:
        return f"{self.server.bin}/psql"

    @property
    def conf(self) -> str:
        """The folder of its settings."""
        return self.server.conf

    def host(
        self, name: str, files: Sequence[File], clients: Sequence[Premises], *others: File
    ) -> Host:
        """A machine with this database, and services that start after it."""
        after = self.unit.path
        own = [unit(each.name, each.command, after=after) for each in clients]
        return Host(
            name=name,
            users=USERS,
            files=tuple(files),
            folders=self.folders,
            units=(self.unit, *own, *others),
        )

    def says(self, name: str, sql: str, answer: str) -> Script:
        """A check: this question has this answer."""
        return Script(name=name, script=f'[ "$({self.ask(sql)})" = {shlex.quote(answer)} ]')


def postgres(dice: Dice, statements: list[str], **settings: object) -> Postgres:
    """`statements` furnish the database; the settings go to postgresql.conf."""
    found = server() or USUAL
    port, database = dice.pick((5432, 5433, 5440, dice.port())), f"{dice.word()}_{dice.word()}"
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
    rename = f"UPDATE pg_database SET datname = '{database}' WHERE datname = '{DATABASE}'"
    first = "".join(f"{each};\n\n" for each in (*statements, rename))
    start = f"{found.bin}/postgres -D {found.data} -c config_file={found.conf}/postgresql.conf"
    return Postgres(
        port=port,
        database=database,
        server=found,
        files=(
            File(path=f"{found.conf}/postgresql.conf", text=conf),
            File(path=f"{found.conf}/pg_hba.conf", text=_HBA),
            File(path="/etc/postgresql/first-start.sh", text=_first_start(found), mode=0o755),
            File(path=f"{_PARCEL}/cluster", text=cluster(found)),
            File(path=f"{_PARCEL}/first.sql", text=first, owner=OWNER),
        ),
        folders=(
            Folder(path=found.data, mode=0o700, owner=OWNER),
            Folder(path="/run/postgresql", owner=OWNER),
        ),
        unit=File(path="postgresql.service", text=_UNIT.format(start=start, version=found.version)),
    )


def _first_start(found: Server) -> str:
    return _FIRST_START.format(
        data=found.data,
        bin=found.bin,
        parcel=_PARCEL,
        initdb=" ".join(INITDB),
        database=DATABASE,
    )


_UNIT = """\
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
