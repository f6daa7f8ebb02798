"""Variables that an earlier command, a function, a trap or a pipeline may have set."""

import pytest
from reading import beyond, cases

UNKNOWN = r"""
redis-cli ${x:-get} a 77
redis-cli ${x-get} a 77
redis-cli ${x:-get} a 77 > /tmp/out
wget -qO page ${u:-http://localhost/page}
curl -so page "${u:-http://localhost/page}"
redis-cli ${v[@]:-get} a 77
supervisorctl ${v:-status} web
ssh 127.0.0.1 ${c:-uptime}
bash -c "${q:-ls}"
echo "${q:-select 1}" | psql
psql <<< "${q:-select 1}"
getent hosts ${x:-www}.example.com
q=${x:-get}; redis-cli $q a 5
export q=${x:-get}; redis-cli $q a 5
set -- ${x:-get}; redis-cli $1 a 5
for c in ${x:-get}; do redis-cli $c a 5; done
case set in *) c=set;; esac; redis-cli ${c:-get} a 5
v=get; f() { v=set; }; f; redis-cli $v a 5
v=get; f() { read v; }; f; redis-cli $v a 5
v=get; f() { v=set; local v; }; f; redis-cli $v a 5
v=get; f() { (local v); v=set; }; f; redis-cli $v a 5
v=get; f() { [ -e x ] && local v; v=set; }; f; redis-cli $v a 5
v=get; f() { local v; g; }; g() { v=set; }; g; redis-cli $v a 5
v=get; shopt -s lastpipe; echo set | read v; redis-cli $v a 5
shopt -s nullglob
shopt -s cdable_vars
shopt -s "$option"
trap 'v=set' DEBUG; v=get; redis-cli $v a 5
v=get; trap 'redis-cli $v a 5' EXIT; v=set
"""
KNOWN = r"""
tail -n ${N:-100} /var/log/syslog
redis-cli ${x:+-n 1} info
x=get; redis-cli ${x:-set} a
x=get; redis-cli ${x-set} a
x=get; f() { echo a; }; f; redis-cli $x a
x=get; f() { local x=set; x=put; }; f; redis-cli $x a
x=get; f() { x=set; }; f | cat; redis-cli $x a
echo a | cat; x=get; redis-cli $x a
trap 'echo ended' EXIT; redis-cli get a
shopt -s globstar; ls **/*.log
shopt lastpipe
"""


@pytest.mark.parametrize("command", cases(UNKNOWN))
def test_what_may_have_been_set_before_is_unknown(command: str) -> None:
    assert beyond(command) - {"write", "delete", "irreversible"}


@pytest.mark.parametrize("command", cases(KNOWN))
def test_what_is_known_stays_a_plain_read(command: str) -> None:
    assert not beyond(command)
