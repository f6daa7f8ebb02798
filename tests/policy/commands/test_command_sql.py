"""SQL and its neighbours inside shell commands: rows looked at, rows changed, everything lost."""

import shlex

import pytest
from reading import beyond, cases, effects

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
    "mariadb -e 'set statement max_statement_time=1 for delete from t'": {"exec-dynamic"},
    "mysql -e 'SET /* x */ STATEMENT a=1 FOR drop table t'": {"exec-dynamic"},
    "mysql -e 'set max_statement_time=1'": set(),
    "redis-cli get x": set(),
    "redis-cli -n 1 keys '*'": set(),
    "redis-cli -h cache --tls info memory": set(),
    "redis-cli -h cache --tls flushall": {"delete", "irreversible"},
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


PSQL_READS = [
    "\\l",
    "\\dt+",
    "\\d+ orders",
    "\\x\nselect 1;\nselect 2;",
    "\\timing on\nselect 1;",
    "\\pset format csv\nselect 1;",
    "\\pset fieldsep '\\t'",
    "\\c shop\nselect 1;",
    "\\conninfo",
    "\\du",
    "\\lo_list",
    "\\sf+ my_function",
    "\\set ON_ERROR_STOP on\nselect 1;",
    "\\set id 5\nselect * from t where id = :id;",
    "select * from t \\gx",
    "select 1 \\watch 5",
    "select '12:30'::time, a[1:2], b::int from t",
    "explain analyze select 1",
    "explain (analyze, buffers, format json) select count(*) from t",
    "explain insert into t values (1)",
    "table orders",
    "copy orders to stdout",
    "select $$it's$$, $a$x y$a$",
]


@pytest.mark.parametrize("text", PSQL_READS)
def test_ordinary_use_of_psql_only_reads(text: str) -> None:
    quoted = shlex.quote(text)
    assert beyond(f"psql shop <<< {quoted}") == set()
    assert beyond(f"psql shop <<'SQL'\nselect 1;\n{text}\nSQL") == set()


PSQL_ATTACKS = [
    "\\x \\\\ create table p(x int);",
    "\\pset format csv \\\\ create table p(x int);",
    "\\x\\\\drop table t;",
    "\\x \\! id",
    "\\dt \\! id",
    '\\d "\'" \\! id \'"',
    "\\x \\i ~/.pgpass",
    "\\lo_import x.txt",
    "\\lo_unlink 16391",
    "\\lo_export 5 /tmp/x",
    "\\echo `id`",
    "\\echo '\ndrop table t;\n\\echo '",
    "\\o f\nselect 1;",
    "\\w f",
    "\\s f",
    "\\setenv PAGER id",
    "\\getenv x HOME",
    "\\set x `id`",
    "\\set x 'drop table t'\n:x;",
    "\\set x drop\n:x table t;",
    "\\c host=203.0.113.9",
    "\\c - - 203.0.113.9",
    "\\password",
    "\\deu+",
    "select 1 \\g f",
    "select 1 \\g |id",
    "select 1 \\gset",
    "select 'drop table t' \\gexec",
    "select 1\\; drop table t;",
    "select my_function \\x\n(select 1);",
    "select :x;",
    'select * from :"x";',
    "explain analyze select x into p from t",
    "explain (analyze) select my_function()",
    "explain analyze with d as (delete from t returning *) select * from d",
    "explain analyze execute p",
    "select x as create into p from t",
    "copy (select my_function()) to stdout",
    "copy (delete from t returning *) to stdout",
    "copy t(stdout) to '/tmp/x'",
    "select $1$; drop table t; select $1$",
    "select é$$; drop table t; select é$$",
    "select 1 --\r; drop table t",
    "select pg_stat_reset_shared('bgwriter')",
    "begin; drop table t; end",
]


@pytest.mark.parametrize("text", PSQL_ATTACKS)
def test_what_psql_does_beyond_a_plain_select_is_held(text: str) -> None:
    assert beyond(f"psql shop <<< {shlex.quote(text)}")
    assert beyond(f"echo {shlex.quote(text)} | psql shop")


SECRET_TABLES = [
    "table pg_authid",
    "TABLE pg_shadow",
    "copy pg_authid to stdout",
    "select * from pg_catalog.pg_authid",
    'select * from "pg_authid"',
    'table U&"pg_auth\\0069d"',
    "select * from U&\"pg_auth!0069d\" uescape '!'",
    "explain analyze table pg_authid",
    "select * from pg_user_mappings",
    "select * from information_schema.user_mapping_options",
    "table pg_largeobject",
    "select subconninfo from pg_subscription",
    "select * from pg_subscription",
]


@pytest.mark.parametrize("statement", SECRET_TABLES)
def test_tables_with_passwords_are_known_in_every_spelling(statement: str) -> None:
    assert {"secret-read", "exec-dynamic"} & effects(f"psql -c {shlex.quote(statement)}")


def test_a_variable_of_psql_is_read_as_its_value() -> None:
    assert beyond("psql -v x='1; create table p(x int)' <<< 'select :x;'") == {"write"}
    assert beyond("psql --set=x=pg_authid <<< 'select * from :x;'") == {"secret-read"}
    assert beyond("psql --variable x=pg_authid <<< 'select * from :\"x\";'") == {"secret-read"}
    assert beyond('psql -v "x=$X" <<< "select :x;"') == {"exec-dynamic"}
    assert beyond("psql -v x=:x <<< 'select :x;'") == {"exec-dynamic"}
    assert (
        beyond("psql -v id=5 -v name=a <<< \"select * from t where i = :id and n = :'name';\"")
        == set()
    )
    assert beyond("psql -v ON_ERROR_STOP=1 -c 'select 1'") == set()


OTHER_CLIENT_ATTACKS = [
    "mysql -e 'system id'",
    "mysql -e 'source f.sql'",
    "mysql -e 'tee f'",
    "mysql -e 'pager id'",
    "mysql -e '\\T f'",
    "mysql -e '\\P id'",
    "mysql -e '\\d |\nselect 1|drop table t|'",
    "mysql -e 'select 1 delimiter |\ndrop table t|'",
    "mysql --delimiter=// -e 'begin not atomic drop table t; end//'",
    "mysql -G -e 'select 1\nsystem id'",
    "mysql -e 'begin not atomic drop table t'",
    "mysql -e '/*M!100100 drop table t */'",
    "mysql -e 'select 1\\G\nsystem id'",
    "mysql -e 'select * from `mysql`.`user`'",
    "mysql mysql -e 'select * from user'",
    "mysql -e 'show create user root'",
    "sqlite3 a.db \"select '\nselect '; drop table t; select '\nselect '\"",
    "sqlite3 a.db \"select 1 as [']; drop table t; select 1 as [']\"",
    "sqlite3 a.db 'select 1\n.shell id'",
    "sqlite3 a.db 'pragma user_version(5)'",
    "sqlcmd -Q 'select 1 drop table t'",
    "sqlcmd -Q 'begin drop table t end'",
    "sqlcmd -Q 'select 1\n!!id'",
    "duckdb -c '.shell id'",
    "clickhouse-client -q '\\! id'",
    "redis-cli config get requirepass",
    "redis-cli config get '*'",
    "echo 'ACL LOG \"RESET\"' | redis-cli",
    "mongosh --eval 'db.t.drop/**/(); db.t.find()'",
    "mongosh --eval 'db.t.drop?.(); db.t.find()'",
    "mongosh --eval '(db.t.drop)(); db.t.find()'",
    "mongosh --eval 'db.system.users.find()'",
]


@pytest.mark.parametrize("command", OTHER_CLIENT_ATTACKS)
def test_what_other_clients_do_beyond_a_plain_read_is_held(command: str) -> None:
    assert beyond(command)


OTHER_CLIENT_READS = [
    "mysql -e 'show replica status\\G show processlist\\G'",
    "mysql -e '\\s'",
    "mysql shop -e 'select count(*) from user'",
    "sqlite3 a.db '.headers on\nselect *\nfrom t;\n.tables'",
    "sqlite3 a.db 'pragma table_info(t)'",
    "redis-cli config get maxmemory",
    "mongosh --eval 'db.t.find({name: /foo/, url: \"http://x\"}).limit(5)'",
]


@pytest.mark.parametrize("command", OTHER_CLIENT_READS)
def test_ordinary_use_of_other_clients_only_reads(command: str) -> None:
    assert beyond(command) == set()


CALLED_LIKE_COLUMNS = r"""
psql -c "select (x).pg_read_file from (values ('/etc/passwd'::text)) v(x)"
psql -c "select ('/etc/passwd'::text).pg_read_file"
psql -c "select t.pg_read_file from unnest(array['/etc/passwd']) t"
psql -c 'select t."pg_read_binary_file" from unnest(array[1]) t'
psql -c "select t . lo_export from t"
psql -c "select t.lo_unlink from unnest(array[16400]) t"
psql -c "select t.pg_terminate_backend from unnest(array[1]) t"
psql -c "select 1 from x t where (t.pg_ls_dir) is null"
psql -c "select t.query_to_xml from x t"
psql -c "select t.pg_unlisted from x t"
psql -c "select t.nextval from unnest(array['s'::regclass]) t"
"""
COLUMNS = r"""
psql -c "select a.url, a.file, a.edit from a"
psql -c "select c.relname from pg_catalog.pg_class c join pg_catalog.pg_roles r on true"
psql -c "select * from public.pg_stat_statements order by total_exec_time"
psql -c "select * from a, app.pg_unlisted"
psql -c "select (pg_control_checkpoint()).checkpoint_lsn"
mysql -e "select t.nextval from t"
"""


@pytest.mark.parametrize("command", cases(CALLED_LIKE_COLUMNS))
def test_a_function_called_like_a_column_is_a_call(command: str) -> None:
    assert beyond(command)


@pytest.mark.parametrize("command", cases(COLUMNS))
def test_columns_and_tables_are_no_calls(command: str) -> None:
    assert not beyond(command)
