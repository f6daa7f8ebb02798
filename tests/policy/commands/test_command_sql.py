"""SQL and its neighbours inside shell commands: rows looked at, rows changed, everything lost."""

import shlex

import pytest
from reading import beyond, effects

STATEMENTS = {
    "select * from t": set(),
    "SELECT count(*), max(a) FROM t WHERE b > 5 GROUP BY c": set(),
    "show max_connections": set(),
    "explain delete from t": set(),
    "explain analyze select 1": set(),
    "select 'drop table x'": set(),
    'select "delete" from t': set(),
    "/* drop table x */ select 1": set(),
    "-- drop table x\nselect 1": set(),
    "with a as (select 1) select * from a": set(),
    "begin; select 1; commit": set(),
    "set statement_timeout = 5": set(),
    "\\dt+": set(),
    "copy (select 1) to stdout": set(),
    "insert into t values (1)": {"write"},
    "update t set a = 1 where id = 5": {"write"},
    "delete from t where id = 5": {"delete"},
    "delete from t where id in (select id from u)": {"delete"},
    "update t set a = 1": {"write", "irreversible"},
    "delete from t": {"delete", "irreversible"},
    "delete from t where 1=1": {"delete", "irreversible"},
    "delete from t where true": {"delete", "irreversible"},
    "delete from t where 'a' = 'a'": {"delete", "irreversible"},
    "delete from t where id = id": {"delete", "irreversible"},
    "delete from t where id = 5 or 1=1": {"delete", "irreversible"},
    "delete from t where id is not null": {"delete", "irreversible"},
    "delete from t where name like '%'": {"delete", "irreversible"},
    "delete from t where (((2 > 1)))": {"delete", "irreversible"},
    "with d as (delete from t returning *) select * from d": {"delete", "irreversible"},
    "explain analyze delete from t": {"delete", "irreversible"},
    "select 1; drop table t": {"delete", "irreversible"},
    "\\x\ndrop table t": {"delete", "irreversible"},
    "truncate t": {"delete", "irreversible"},
    "alter table t drop column a": {"delete", "irreversible"},
    "grant all on t to eve": {"privilege", "write"},
    "vacuum full t": {"service-change"},
    "select pg_terminate_backend(1)": {"service-change"},
    "select pg_read_file('/etc/passwd')": {"secret-read"},
    "select lo_export(1, '/tmp/x')": {"write"},
    "select my_own_function()": {"unknown"},
    "copy t to program 'sh'": {"exec-dynamic"},
    "copy t to '/tmp/x'": {"write"},
    "select * into u from t": {"write"},
    "do $$ begin end $$": {"exec-dynamic"},
    "call p()": {"exec-dynamic"},
    "\\! id": {"exec-dynamic"},
    "\\i f.sql": {"exec-dynamic"},
    "select 1 \\gexec": {"exec-dynamic"},
    "frobnicate t": {"unknown"},
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_does_what_it_does_in_psql(statement: str) -> None:
    assert beyond(f"psql -c {shlex.quote(statement)}") == STATEMENTS[statement]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_way_in_does_not_matter(statement: str) -> None:
    quoted = shlex.quote(statement)
    for command in (f"psql app <<< {quoted}", f"echo {quoted} | psql", f"psql -XAtc {quoted}"):
        assert beyond(command) == STATEMENTS[statement], command


SERVERS_DISAGREE = [
    'psql -c "select 1 #1; drop table x"',
    "psql -c \"select '\\'; drop table x; --'\"",
    "mysql -e 'select 1--1; drop table x'",
    "mysql -e '/*!50000 drop table x */'",
    "psql -c '/* /* */ */ drop table x'",
]


@pytest.mark.parametrize("command", SERVERS_DISAGREE)
def test_text_that_servers_read_differently_is_read_both_ways(command: str) -> None:
    assert {"irreversible", "exec-dynamic"} & effects(command)


CLIENTS = {
    "mysql -e 'show processlist'": set(),
    "mysql app -e 'drop table x'": {"delete", "irreversible"},
    "mysql -e '\\! id'": {"exec-dynamic"},
    "mysql -e \"select 1 into outfile '/tmp/x'\"": {"write"},
    "mysql < f.sql": {"exec-dynamic", "unknown"},
    "mysql": {"exec-dynamic"},
    "mysqladmin status shutdown": {"service-change", "irreversible"},
    "sqlite3 a.db 'select 1'": set(),
    "sqlite3 a.db .tables": set(),
    "sqlite3 a.db 'drop table x'": {"write", "delete", "irreversible"},
    "sqlite3 a.db '.output f'": {"exec-dynamic"},
    "clickhouse-client -q 'select count() from t'": set(),
    "clickhouse-client --query='drop table t'": {"delete", "irreversible"},
    "redis-cli get x": set(),
    "redis-cli -n 1 keys '*'": set(),
    "redis-cli del x": {"delete"},
    "redis-cli flushdb": {"delete", "irreversible"},
    "echo FLUSHALL | redis-cli": {"delete", "irreversible"},
    "redis-cli eval x 0": {"exec-dynamic"},
    "redis-cli frobnicate": {"unknown"},
    "mongosh --eval 'db.t.find({a: 1})'": set(),
    "mongosh --eval 'db.t.drop()'": {"delete", "irreversible"},
    "mongosh --eval 'db.t.insertOne({})'": {"write"},
    'psql -c "delete from $T"': {"delete", "irreversible", "exec-dynamic"},
}  # fmt: skip


@pytest.mark.parametrize("command", CLIENTS)
def test_other_clients_are_read_too(command: str) -> None:
    assert beyond(command) == CLIENTS[command]
