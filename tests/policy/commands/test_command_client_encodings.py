"""Options of database clients by which statements end elsewhere than they seem to."""

import pytest
from reading import beyond, cases

HIDES = r"""
PGCLIENTENCODING=GBK psql -l
export PGCLIENTENCODING=sjis
psql 'dbname=shop client_encoding=GBK' -l
psql 'postgresql:///shop?client_encoding=%47BK' -l
psql -c '\encoding big5' -l
psql shop <<< 'select 1 \encoding gbk'
mysql --default-character-set=gbk -e 'select 1'
mysql --default-character-set gbk -e 'select 1'
mysql -e 'set names gbk; select 1'
mysql -e 'set character set gb18030'
mysql --loose-delimiter=QQ -e 'select 1 QQ drop table y QQ'
mysql --maximum-delimiter=QQ -e 'select 1'
mysql --skip-delimiter -e 'select 1 0 drop table y'
mysql --enable-local-infile -h a.example -e 'select 1'
mariadb --loose-local-infile=1 -h a.example -e 'select 1'
"""
LOOKS = r"""
PGCLIENTENCODING=UTF8 psql -l
psql 'postgresql:///shop?client_encoding=utf8' -l
psql -c 'select encoding, datname from pg_database'
mysql --default-character-set=utf8mb4 -e 'select 1'
mysql -e 'set names utf8mb4; select 1'
mysql -e "show variables like 'character_set%'"
mysql --skip-column-names -e 'select 1'
"""


@pytest.mark.parametrize("command", cases(HIDES))
def test_an_option_that_hides_statements_is_no_look(command: str) -> None:
    assert "exec-dynamic" in beyond(command)


@pytest.mark.parametrize("command", cases(LOOKS))
def test_a_usual_encoding_is_only_a_look(command: str) -> None:
    assert not beyond(command)


def test_taking_the_next_value_of_a_sequence_is_a_change() -> None:
    assert beyond("mysql -e 'select next value for s'") == {"write"}
    assert not beyond("mysql -e 'select next, value from s'")
