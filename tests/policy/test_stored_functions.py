"""What a decision says about functions that a database runs behind the relations of a query."""

import pytest
from msgspec.structs import replace
from policy_setup import call

from hermes.core.actions import KernelSupport
from hermes.policy.actions.confinement_profile import build_profile
from hermes.policy.actions.enforceability import check_enforcement
from hermes.policy.actions.reader import ActionContext, ActionReader, resolve_symlinks
from hermes.policy.command_analysis import analyse_command

READER = ActionReader(analyse_command, lookup=resolve_symlinks)


def gaps(command: str) -> str:
    action = replace(call("terminal", command=command), environment="local")
    effects = READER.read(action, ActionContext(cwd="/srv/app", home="/home/me"))
    return check_enforcement(
        build_profile(effects), KernelSupport(landlock=7, root=True), effects.unread
    )[1]


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("psql -U postgres -c 'select * from v'", "the role postgres"),
        ("psql -c 'table only v'", "the role that it logs in with"),
        ("psql -c 'select * from pg_locks l, coalesce(1, 2) c, v'", "the role that"),
        ("psql -c 'select * from pg_locks l left join v using (pid)'", "the role that"),
        ("psql -c 'select 1' -c 'select * from pg_locks, v join w on true'", "the role that"),
        ("psql postgres://monitor@db/shop -c 'select * from/**/shop.v'", "the role monitor"),
        ("psql 'host=db user=app' -c 'explain analyze select * from v'", "the role app"),
        ("psql -c 'with pg as (select * from v) select * from pg'", "the role that"),
        ("echo 'select * from v' | psql -U app", "the role app"),
        ("mysql -u root -e 'select * from shop.v'", "the role root"),
        ("ls; psql -U app -Atc 'select count(*) from orders' | head", "the role app"),
    ],
)
def test_it_says_with_whose_rights_they_run(command: str, role: str) -> None:
    assert f"functions behind views, foreign tables and operators run as {role}" in gaps(command)


@pytest.mark.parametrize(
    "command",
    [
        "psql -U postgres -c 'select pid, query from pg_stat_activity'",
        "psql -c 'select now()'",
        "psql -c 'select extract(epoch from xact_start) from pg_catalog.pg_stat_activity'",
        "psql -c 'with x as (select 1) select * from x'",
        "psql -c 'select relname from pg_class join information_schema.tables t on true'",
        "psql -c 'select * from generate_series(1, 3)'",
        "psql -c 'select a from pg_locks l join pg_class c on coalesce(l.a, c.b) where x in (1)'",
        "psql -c 'select * from (select pid, usename from pg_stat_activity) a, (values (1)) b'",
        "psql -c \"select 'from v' from pg_locks\"",
        "psql -l",
        "mysql -e 'select * from performance_schema.threads'",
        "redis-cli get from",
    ],
)
def test_it_says_nothing_of_queries_of_the_catalogs(command: str) -> None:
    assert "functions behind" not in gaps(command)
