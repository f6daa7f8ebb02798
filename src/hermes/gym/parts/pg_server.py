"""A PostgreSQL of a host's own: its files, its unit, and how one asks it from a script."""

import shlex

from hermes.core.messages import Value
from hermes.gym.dice import Dice
from hermes.gym.parts.pg_template import DATABASE, INITDB, cluster
from hermes.gym.story import File, Folder, Script

NEEDS = ("postgres", "initdb", "setpriv")
USERS = ("www", "postgres")
OWNER = 1002
"""The number of `postgres` among those users."""
BIN = "/usr/lib/postgresql/15/bin"
DATA = "/var/lib/postgresql/15/main"
CONF = "/etc/postgresql/15/main"
_PARCEL = "/var/cache/postgresql"
_HBA = """\
# TYPE  DATABASE  USER  ADDRESS       METHOD
local   all       all                 trust
host    all       all   127.0.0.1/32  password
"""
_FIRST_START = f"""\
#!/bin/bash
# Runs before each start; does something only when there is no cluster yet.
set -e
[ -s {DATA}/PG_VERSION ] && exit 0
as() {{ setpriv --reuid postgres --regid postgres --clear-groups "$@"; }}
if [ -s {_PARCEL}/cluster ]; then
  base64 -d {_PARCEL}/cluster | as tar xz -C {DATA}
else
  as {BIN}/initdb {" ".join(INITDB)} -D {DATA}
  echo "CREATE DATABASE {DATABASE}" | as {BIN}/postgres --single -F -D {DATA} postgres
fi
as {BIN}/postgres --single -j -F -D {DATA} {DATABASE} < {_PARCEL}/first.sql > /dev/null
rm -rf {_PARCEL}
"""


class Postgres(Value, kw_only=True, frozen=True):
    port: int
    database: str
    files: tuple[File, ...]
    folders: tuple[Folder, ...]
    unit: File

    def ask(self, sql: str) -> str:
        """A command that prints the answer bare."""
        words = f"{BIN}/psql -XAtq -v ON_ERROR_STOP=1 -h /run/postgresql -p {self.port} -U postgres"
        return f"{words} -d {self.database} -c {shlex.quote(sql)}"

    def says(self, name: str, sql: str, answer: str) -> Script:
        """A check: this question has this answer."""
        return Script(name=name, script=f'[ "$({self.ask(sql)})" = {shlex.quote(answer)} ]')


def postgres(dice: Dice, statements: list[str], **settings: object) -> Postgres:
    """`statements` furnish the database; the settings go to postgresql.conf."""
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
        "hba_file": f"'{CONF}/pg_hba.conf'",
        **settings,
    }
    conf = "".join(f"{key} = {value}\n" for key, value in values.items())
    rename = f"UPDATE pg_database SET datname = '{database}' WHERE datname = '{DATABASE}'"
    first = "".join(f"{each};\n\n" for each in (*statements, rename))
    start = f"{BIN}/postgres -D {DATA} -c config_file={CONF}/postgresql.conf"
    return Postgres(
        port=port,
        database=database,
        files=(
            File(path=f"{CONF}/postgresql.conf", text=conf),
            File(path=f"{CONF}/pg_hba.conf", text=_HBA),
            File(path="/etc/postgresql/first-start.sh", text=_FIRST_START, mode=0o755),
            File(path=f"{_PARCEL}/cluster", text=cluster()),
            File(path=f"{_PARCEL}/first.sql", text=first, owner=OWNER),
        ),
        folders=(
            Folder(path=DATA, mode=0o700, owner=OWNER),
            Folder(path="/run/postgresql", owner=OWNER),
        ),
        unit=File(path="postgresql.service", text=_UNIT.format(start=start)),
    )


_UNIT = """\
[Unit]
Description=PostgreSQL 15

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
