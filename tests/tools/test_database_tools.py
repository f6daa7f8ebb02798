"""The bundled tools of databases on real servers: PostgreSQL, MariaDB and Redis of Debian."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tool_setup import ToolSetup, local

from hermes.app.systems import BUNDLED_TOOLS_FOLDER
from hermes.tools.connected_command import CommandConnection, advise
from hermes.tools.yaml_tools import load_tool_folder

pytestmark = [pytest.mark.anyio, pytest.mark.daemon]
START_TIMEOUT_S = 240.0
WRITING_STATEMENTS = (
    "with gone as (delete from orders returning 1) select count(*) from gone",
    "select * into copied from orders",
    "select set_config('transaction_read_only', 'off', false) from orders",
)
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


def need_root(installed: bool, what: str) -> None:
    if not installed or os.geteuid():
        pytest.skip(f"{what} is not installed, or this user cannot start it as its own account")


@contextmanager
def server_folder(owner: str) -> Iterator[Path]:
    """Short, for the path of a socket, and owned by the account of the server."""
    with TemporaryDirectory(prefix="db-", dir="/tmp") as name:
        folder = Path(name)
        shutil.chown(folder, owner)
        folder.chmod(0o755)
        yield folder


@contextmanager
def running(
    *command: str | Path,
    ready: tuple[str | Path, ...],
    user: str,
    stop: signal.Signals = signal.SIGKILL,
) -> Iterator[None]:
    log = subprocess.DEVNULL
    process = subprocess.Popen([*command], stdout=log, stderr=log, user=user, cwd="/tmp")
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while subprocess.run([*ready], capture_output=True, check=False).returncode:
            assert process.poll() is None and time.monotonic() < deadline, f"{command[0]} is up"
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(stop)  # its data are thrown away
        process.wait(120)


@pytest.fixture(scope="module")
def postgres() -> Iterator[CommandConnection]:
    need_root(bool(POSTGRES), "PostgreSQL")
    program = POSTGRES[-1]
    with server_folder("postgres") as folder:
        subprocess.run(
            [program.with_name("initdb"), "-D", folder / "data", "-A", "trust", "--no-sync"],
            check=True,
            capture_output=True,
            user="postgres",
            cwd="/tmp",
        )
        psql = ("psql", "-X", "-h", folder, "-U", "postgres", "-c")
        options = ("-c", "listen_addresses=", "-k", folder, "-c", "fsync=off")
        started = running(
            program,
            "-D",
            folder / "data",
            *options,
            ready=(*psql, "select 1"),
            user="postgres",
            stop=signal.SIGINT,
        )
        with started:
            make = "create table orders as select n, 'x' as name from generate_series(1, 500) n"
            subprocess.run([*psql, make], check=True, capture_output=True)
            yield CommandConnection(options=f"-h {folder} -U postgres -d postgres", host="local")


@pytest.fixture(scope="module")
def mysql() -> Iterator[CommandConnection]:
    need_root(Path("/usr/sbin/mariadbd").exists(), "MariaDB")
    with server_folder("mysql") as folder:
        data = f"--datadir={folder}/data"
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", data, "--user=mysql", "--skip-test-db"],
            check=True,
            capture_output=True,
        )
        socket = f"--socket={folder}/s"
        client = ("mariadb", "--no-defaults", socket, "-u", "root", "-e")
        options = ("--no-defaults", data, socket, "--skip-networking", f"--pid-file={folder}/p")
        with running("/usr/sbin/mariadbd", *options, ready=(*client, "select 1"), user="mysql"):
            make = "create database shop; create table shop.orders (n int); "
            make += "insert into shop.orders values (1), (2), (3)"
            subprocess.run([*client, make], check=True, capture_output=True)
            yield CommandConnection(options=f"-S {folder}/s -u root -D shop", host="local")


@pytest.fixture(scope="module")
def redis() -> Iterator[CommandConnection]:
    need_root(shutil.which("redis-server") is not None, "Redis")
    with server_folder("redis") as folder:
        options = ("--port", "0", "--unixsocket", folder / "s", "--save", "")
        options = (*options, "--unixsocketperm", "777", "--dir", folder)
        ready = ("redis-cli", "-s", folder / "s", "ping")
        with running("redis-server", *options, ready=ready, user="redis"):
            yield CommandConnection(options=f"-s {folder}/s", host="local")


def tools(kind: str, connection: CommandConnection) -> dict[str, object]:
    known = {kind: {"main": connection}}
    loaded = load_tool_folder(BUNDLED_TOOLS_FOLDER, connections=known, only=("databases",))
    assert not loaded.problems
    return dict(loaded.tools)


@asynccontextmanager
async def open_setup(
    kind: str, connection: CommandConnection, folder: Path
) -> AsyncGenerator[ToolSetup, None]:
    async with local(folder) as environment:
        yield ToolSetup(environment, tools(kind, connection))  # type: ignore[arg-type]


async def test_postgres_answers_each_tool(postgres: CommandConnection, tmp_path: Path) -> None:
    async with open_setup("postgres", postgres, tmp_path) as setup:
        for name in ("activity", "locks", "replication"):
            found = await setup.ok(f"postgres_{name}")
            assert "ERROR" not in found, found
        assert "orders" in await setup.ok("postgres_sizes")
        assert "Seq Scan" in await setup.ok("sql_explain", sql="explain select * from orders")
        long = await setup.ok("sql_query", sql="select n from orders order by n", limit=20)
        assert len(long.splitlines()) <= 20
        assert await setup.ok("postgres_problems") == "[no output]"


async def test_one_large_value_does_not_hide_the_other_rows(
    postgres: CommandConnection, tmp_path: Path
) -> None:
    rows = "select repeat('x', 3000000) as text, null as gone union all select 'small', ''"
    async with open_setup("postgres", postgres, tmp_path) as setup:
        found = await setup.ok("sql_query", sql=f"{rows} order by 1 desc")
        assert "small | \n(2 rows)" in found
        assert len(found) < 5000
        assert "1 | NULL" in await setup.ok("sql_query", sql="select 1, null")


@contextmanager
def session_that_waits(connection: CommandConnection) -> Iterator[None]:
    """One session of PostgreSQL holds the table, a second asks for it."""
    psql = ["psql", "-X", "-q", *connection.options.split()]
    named = {**os.environ, "PGAPPNAME": "worker"}
    pipe = subprocess.PIPE
    with subprocess.Popen(psql, stdin=pipe, stdout=pipe, text=True, env=named) as holder:
        assert holder.stdin and holder.stdout
        holder.stdin.write("begin; lock table orders; select 'locked';\n")
        holder.stdin.flush()
        while "locked" not in holder.stdout.readline():
            assert holder.poll() is None
        ask = [*psql, "-c", "select count(*) from orders"]
        with subprocess.Popen(ask, stdout=subprocess.DEVNULL) as waiting:
            try:
                yield
            finally:
                holder.kill()
                waiting.kill()


async def test_postgres_names_the_session_that_holds_a_lock(
    postgres: CommandConnection, tmp_path: Path
) -> None:
    with session_that_waits(postgres):
        async with open_setup("postgres", postgres, tmp_path) as setup:
            found = ""
            while "waits" not in found:  # until the second session has come that far
                found = await setup.ok("postgres_problems")
    assert re.search(r"waits \d+ s for a lock of session \d+ \(idle in .*of worker\)", found)


async def test_postgres_refuses_to_write_even_where_the_policy_lets_it_pass(
    postgres: CommandConnection, tmp_path: Path
) -> None:
    async with open_setup("postgres", postgres, tmp_path) as setup:
        for sql in WRITING_STATEMENTS:
            assert "ERROR" in await setup.ok("sql_query", sql=sql), sql
        left = "select count(*) as n, count(to_regclass('copied')) as copied from orders"
        assert re.search(r"\b500 \| 0\b", await setup.ok("sql_query", sql=left))


def run_as_query(connection: CommandConnection, statement: str) -> str:
    """What the command of `mysql_query` prints for a statement that its pattern refuses."""
    command = tools("mysql", connection)["mysql_query"].command({"sql": "select 1"})  # type: ignore[attr-defined]
    text = command.replace("'select 1'", f"'{statement}'")
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


async def test_mariadb_answers_and_refuses_to_write(
    mysql: CommandConnection, tmp_path: Path
) -> None:
    counted = "select count(*) as n from orders"
    async with open_setup("mysql", mysql, tmp_path) as setup:
        for name in ("processlist", "locks", "sizes", "replication"):
            found = await setup.ok(f"mysql_{name}")
            assert "ERROR" not in found, found
        for statement in ("delete from orders", "drop table orders", "create table x (n int)"):
            assert "READ ONLY" in run_as_query(mysql, statement), statement
        assert "n\n3" in await setup.ok("mysql_query", sql=counted)
        assert await setup.ok("mysql_problems") == "[no output]"
        hidden = await setup.ok("mysql_query", sql="select n from orders", limit=2)
        assert "more lines were left out" in hidden and len(hidden.splitlines()) == 2
        assert "left out" not in await setup.ok("mysql_query", sql="select n from orders", limit=4)
        assert "0x00FF" in await setup.ok("mysql_query", sql="select x'00ff' as b from orders")


def configure(connection: CommandConnection, *setting: str) -> None:
    command = ["redis-cli", *connection.options.split(), "config", "set", *setting]
    subprocess.run(command, check=True, capture_output=True)


async def test_redis_answers_each_tool(redis: CommandConnection, tmp_path: Path) -> None:
    async with open_setup("redis", redis, tmp_path) as setup:
        assert "used_memory_human" in await setup.ok("redis_info", section="memory")
        assert "ERR" not in await setup.ok("redis_slowlog")
        assert "cmd=client" in await setup.ok("redis_clients")
        assert await setup.ok("redis_problems") == "[no output]"
        configure(redis, "maxmemory", "500000")
        assert "memory are used (noeviction)" in await setup.ok("redis_problems")
        configure(redis, "requirepass", "another")
        for name in ("redis_info", "redis_problems"):
            assert "hermes config set REDISCLI_AUTH" in await setup.ok(name)


async def test_a_server_that_is_away_is_a_problem(tmp_path: Path) -> None:
    away = CommandConnection(options="-h 127.0.0.1 -p 1", host="127.0.0.1")
    for kind, client in (("postgres", "psql"), ("redis", "redis-cli")):
        need_root(shutil.which(client) is not None, client)
        async with open_setup(kind, away, tmp_path) as setup:
            found = await setup.ok(f"{kind}_problems")
            assert "refused" in found
            assert "check that it runs" in found


@pytest.mark.parametrize(
    ("kind", "answer", "advice"),
    [
        ("redis", "NOAUTH Authentication required.", "REDISCLI_AUTH"),
        ("redis", "[exit code 124]", "did not answer in time"),
        ("mysql", "ERROR 1045 (28000): Access denied for user 'a'@'b'", "~/.my.cnf"),
        ("mysql", "ERROR 1049 (42000): Unknown database 'shopp'", "`database` of"),
        ("mysql", "ERROR 2005 (HY000): Unknown server host 'x' (-2)", "`host` and `port`"),
        ("postgres", "psql: error: fe_sendauth: no password supplied", "~/.pgpass"),
        (
            "postgres",
            'psql: error: connection to server at "::1", port 1 failed: timeout expired',
            "`host` and `port`",
        ),
        (
            "postgres",
            'psql: error: connection to server at "::1", port 1 failed: FATAL:  '
            'password authentication failed for user "a"',
            "~/.pgpass",
        ),
        ("postgres", "text\nthe log says: NOAUTH Authentication required.", ""),
        ("mysql", "ERROR 1045 (28000): in a row\n" + "row\n" * 500, ""),
        ("kubernetes", "NOAUTH Authentication required.", ""),
    ],
)
def test_a_failure_says_what_to_do_about_it(kind: str, answer: str, advice: str) -> None:
    found = advise(kind, answer)
    assert advice in found
    assert bool(found) is bool(advice)


ACTING_SQL = """
create function reloads() returns bool language sql as 'select pg_reload_conf()';
create function returns_to_superuser() returns bool language plpgsql as
  'begin perform set_config(''role'', ''none'', false); return pg_reload_conf(); end';
create function starts_program() returns int language plpgsql as
  $$ begin execute 'copy (select 1) to program ''cat > /dev/null'''; return 1; end $$;
create operator === (function = int4eq, leftarg = int, rightarg = int);
create view reloading as select reloads();
create view returning_to_superuser as select returns_to_superuser();
create view programs as select starts_program();
create view terminating as select pg_terminate_backend(pid) from pg_stat_activity
  where application_name = 'victim';
create extension file_fdw;
create server files foreign data wrapper file_fdw;
create foreign table program (x text) server files options (program 'echo 1');
"""


def test_the_account_of_the_guide_has_no_rights_for_functions_behind_views(
    postgres: CommandConnection,
) -> None:
    guide = (Path(__file__).parents[2] / "docs/how-to/databases.md").read_text()
    folder = postgres.options.split()[1]

    def query(role: str, *statements: str) -> subprocess.CompletedProcess[str]:
        words = [word for each in statements for word in ("-c", each)]
        return subprocess.run(
            ["psql", "-X", "-Atq", "-h", folder, "-U", role, "-d", "postgres", *words],
            env={**os.environ, "PGOPTIONS": "-c default_transaction_read_only=on"},
            capture_output=True,
            text=True,
            check=False,
        )

    def change(statements: str) -> None:
        done = query("postgres", "set default_transaction_read_only = off", statements)
        assert not done.returncode, done.stderr

    change(ACTING_SQL)
    for statement in re.findall(r"`(create role hermes_read [^`]*)`", guide):
        change(statement)
    acting = ("reloading", "returning_to_superuser", "programs")
    for view in acting:
        assert query("postgres", f"select * from {view}").stdout, view  # what the guide warns of
        assert "ERROR" in query("hermes_read", f"table {view}").stderr, view
    session = ["psql", "-X", f"host={folder} user=postgres application_name=victim"]
    with subprocess.Popen(
        [*session, "-c", "select pg_sleep(60)"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as victim:
        seen = "select query from pg_stat_activity where application_name = 'victim'"
        while "pg_sleep" not in query("hermes_read", seen).stdout:
            assert victim.poll() is None
            time.sleep(0.1)
        assert "ERROR" in query("hermes_read", "table terminating").stderr
        assert "pg_sleep" in query("hermes_read", seen).stdout
        assert query("postgres", "table terminating").stdout == "t\n"
        victim.wait(60)
    assert query("hermes_read", "select count(*) from orders").stdout == "500\n"
    assert query("hermes_read", "table program").stdout == "1\n"
    if not query("postgres", "show restrict_nonsystem_relation_kind").returncode:
        for statement in re.findall(r"`(alter role hermes_read [^`]*)`", guide):
            change(statement)
        for relation in (*acting, "program"):
            assert "restricted" in query("hermes_read", f"table {relation}").stderr, relation
        assert query("hermes_read", "select count(*) from orders").stdout == "500\n"
