"""Words with which a client of a database carries commands to a server of another protocol."""

import pytest
from reading import beyond, cases

CARRIES = r"""
psql -h 127.0.0.1 -p 11211 -U $'x\nflush_all\n' -l
psql $'host=127.0.0.1 port=11211 user=\'x\nflush_all\'' -l
psql 'postgresql://x%0Aflush_all%0A@127.0.0.1:11211/' -l
psql -h 127.0.0.1 -U 'x⏎flush_all' -l
u=$(printf 'x\nflush_all\n'); psql -U "$u" -h 127.0.0.1 -l
psql -U "$(sed 's/,/\n/' <<< x,flush_all)" -h 127.0.0.1 -l
PGUSER=$'x\nflush_all' psql -h 127.0.0.1 -l
PGAPPNAME=$(printf 'x\nflush_all\n') psql -h 127.0.0.1 -l
export PGDATABASE=$'x\nflush_all'
pg_isready -h 127.0.0.1 -p 11211 -d $'x\nflush_all\n'
mongosh 'mongodb://127.0.0.1:11211/?appName=x%0Aflush_all%0A' --eval 'db.stats()'
ldapsearch -x -H ldap://127.0.0.1:11211 -D $'\nflush_all\n'
zabbix_get -s 127.0.0.1 -p 11211 -k $'x\nflush_all\n'
redis-cli -p 16411 get flush_all
redis-cli -p 16411 get $'x\nflush_all\n'
redis-cli -p 11211 get x
redis-cli -u redis://127.0.0.1:11211/0 get x
redis-cli -s /run/haproxy/admin.sock get x
redis-cli -s /run/redis/redis.sock get 'delete x'
"""
LOOKS = r"""
psql -h db.internal -U app -d shop -c $'select 1,\n2'
psql shop <<< $'select 1;\nselect 2;'
pg_isready -h $(hostname) -p 5432
mongosh mongodb://127.0.0.1:27017/ --eval $'db.stats()\n'
mysql -h db -u app -e $'show\ntables'
redis-cli -p 6380 -a secret info memory
redis-cli -s /run/redis/redis.sock info
ldapsearch -x -H ldap://ldap.internal -b 'ou=our people,dc=a' '(cn=Ann Smith)'
"""


@pytest.mark.parametrize("command", cases(CARRIES))
def test_text_that_another_server_would_take_for_commands_counts_as_sent(command: str) -> None:
    assert "network-out" in beyond(command)


@pytest.mark.parametrize("command", cases(LOOKS))
def test_statements_and_plain_words_only_look(command: str) -> None:
    assert beyond(command) <= {"secret-read"}
