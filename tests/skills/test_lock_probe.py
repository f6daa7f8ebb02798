"""A lock that a session holds for long fails a probe, in a real PostgreSQL and a real MariaDB."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from supervisor_host import SupervisorHost, needs_namespaces

from hermes.core.errors import SettingsError
from hermes.sre.probes.host_scan import parse_scan, scan_script
from hermes.sre.probes.kinds.locks import lock_probes
from hermes.sre.probes.probe import Probe, shell_command_of

BINARIES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/nonexistent"))
AS_POSTGRES = "setpriv --reuid postgres --regid postgres --clear-groups"
START_POSTGRES = f"""
ip link set lo up
mkdir -p /run/postgresql /srv/pg && chown postgres /run/postgresql /srv/pg && cd /srv
{AS_POSTGRES} {BINARIES}/initdb -D /srv/pg/data -A trust >/dev/null
echo "listen_addresses = '127.0.0.1'
fsync = off" >> /srv/pg/data/postgresql.conf
{AS_POSTGRES} {BINARIES}/pg_ctl -D /srv/pg/data -l /srv/pg/log -w -s start
psql -h /run/postgresql -U postgres -qc 'create table t (id int)'
"""
START_MARIADB = """
ip link set lo up
mkdir -p /run/mysqld /srv/maria && chown mysql /run/mysqld /srv/maria && cd /srv
mariadb-install-db --no-defaults --user=mysql --datadir=/srv/maria \
  --auth-root-authentication-method=socket >/dev/null 2>&1
setsid mariadbd --no-defaults --user=mysql --datadir=/srv/maria --socket=/run/mysqld/shop.sock \
  --bind-address=127.0.0.1 --port=3307 --pid-file=/run/mysqld/shop.pid >/srv/log 2>&1 </dev/null &
for i in $(seq 600); do mariadb -S /run/mysqld/shop.sock -e 'select 1' >/dev/null 2>&1 && break
  sleep 0.2; done
mariadb -S /run/mysqld/shop.sock -e \
  'create database shop; create table shop.t (id int primary key) engine=innodb;
   insert into shop.t values (1)'
"""


@contextmanager
def host_with(script: str) -> Iterator[SupervisorHost]:
    with SupervisorHost() as host:
        host.run(script)
        yield host


def discovered(host: SupervisorHost) -> Probe:
    return next(lock_probes(parse_scan(host.run(scan_script(0.4)))))


def ask(host: SupervisorHost, probe: Probe) -> tuple[str, int]:
    return host.run_with_code(shell_command_of(probe))


def wait_for_failure(host: SupervisorHost, probe: Probe) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        text, code = ask(host, probe)
        if code == 1:
            return text
        # InnoDB answers from memory what was asked less than 0.1 s after the question before.
        time.sleep(0.3)
    raise TimeoutError(text)


@needs_namespaces
@pytest.mark.skipif(not shutil.which("psql") or not BINARIES.exists(), reason="no PostgreSQL")
def test_sessions_that_wait_in_postgresql_fail_the_probe_until_they_need_not() -> None:
    session = "( {{ echo '{}'; sleep 600; }} | psql -h /run/postgresql -U postgres -qX ) {} &"
    quiet = ">/dev/null 2>&1 </dev/null"
    with host_with(START_POSTGRES) as host:
        probe = discovered(host)
        assert (probe.name, probe.service) == ("locks-postgres", "postgres")
        assert ask(host, probe)[1] == 0
        host.run(session.format("begin; lock table t;", quiet))
        assert ask(host, probe)[1] == 0, "nobody needs what it holds"
        # As an application does that gives up after a while, and asks again.
        host.run(
            "(while sleep 0.1; do PGOPTIONS='-c statement_timeout=4000' "
            f"psql -h /run/postgresql -U postgres -qXc 'select * from t'; done) {quiet} &"
        )
        text = wait_for_failure(host, probe)
        assert "sessions of PostgreSQL that wait for a lock: 1; postgres: postgres postgres" in text
        assert "idle in a transaction: postgres: postgres postgres" in text
        host.run("pkill -f 'idle in transaction'")
        deadline = time.monotonic() + 60
        while ask(host, probe)[1] and time.monotonic() < deadline:
            time.sleep(0.2)
        assert ask(host, probe)[1] == 0


@needs_namespaces
@pytest.mark.skipif(not shutil.which("mariadb-install-db"), reason="no MariaDB")
@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("lock tables shop.t write", "select * from shop.t"),
        ("begin; select * from shop.t for update", "update shop.t set id = 2"),
    ],
)
def test_sessions_that_wait_in_mariadb_fail_the_probe(lock: str, wanted: str) -> None:
    client, quiet = "mariadb -S /run/mysqld/shop.sock", ">/dev/null 2>&1 </dev/null"
    with host_with(START_MARIADB) as host:
        probe = discovered(host)
        assert (probe.name, probe.what) == ("locks-mysql-3307", "mysql:/run/mysqld/shop.sock")
        host.run(
            f"( {{ echo '{lock}; select 1;'; sleep 600; }} | {client} -n ) "
            ">/srv/held 2>&1 </dev/null & until [ -s /srv/held ]; do sleep 0.1; done"
        )
        assert ask(host, probe)[1] == 0, "nothing waits for what it holds"
        host.run(f"(while sleep 0.1; do {client} -e '{wanted}'; done) {quiet} &")
        assert "sessions of MariaDB that wait for a lock: 1" in wait_for_failure(host, probe)


def test_what_is_no_database_is_refused() -> None:
    with pytest.raises(SettingsError, match="write postgres, or mysql:"):
        shell_command_of(Probe(name="it", kind="locks", what="/run/mysqld/mysqld.sock"))
