"""Addresses that a service takes for an order, or that are another protocol in disguise."""

import pytest
from reading import beyond, cases

ACTS = r"""
curl -s 'http://127.0.0.1:9001/index.html?action=stopall'
curl -s 'http://127.0.0.1:9001/index.html?processname=db&action=clearlog'
curl -s 'http://127.0.0.1:9001/?action=s[t-t]op'
curl -s 'http://127.0.0.1:9001/?action=s{to,ta}p'
curl -s 'http://127.0.0.1:9001/api/{s,d}top'
curl -s http://127.0.0.1:15000/quitquitquit
curl 127.0.0.1/stop
curl -s 'http://127.0.0.1:8123/?query=DROP+TABLE+x'
curl -s 'http://127.0.0.1:8983/solr/x/update?stream.body=%3Cdelete/%3E'
wget -qO- 'http://127.0.0.1:9001/?action=restartall'
git ls-remote 'http://127.0.0.1:9001/index.html?action=stop'
pip index versions -i 'http://127.0.0.1:9001/?action=stop' x
npm view --registry='http://127.0.0.1:9001/?action=stop' x
curl --proto-default gopher 127.0.0.1:6379/_FLUSHALL
curl -s '{gopher}://127.0.0.1:6379/_FLUSHALL'
curl -s 'go[p-p]her://127.0.0.1:6379/_FLUSHALL'
curl -s dict.localhost:6379/x
curl -s 'http://127.0.0.1/{a,b,c}{a,b,c}{a,b,c}{a,b,c}'
curl -s --request-target '/index.html?action=stopall' http://127.0.0.1:9001/
curl -s -G -d action=stopall http://127.0.0.1:9001/index.html
curl -s -G -d processname=a -d action=stop http://127.0.0.1:9001/index.html
curl -s -G --data-urlencode 'query=drop table t' http://127.0.0.1:8123/
curl -s -G --json '?cmd=shutdown' http://127.0.0.1:8080/x
curl -sI --get --data-raw action=stopall 'http://127.0.0.1:9001/?a=b'
curl -sL http://a.example:9001/page
wget -qO- http://a.example:9001/page
curl -s 'http://127.0.0.1/?%64elete=1'
curl -s http://127.0.0.1/-/quit
curl -s http://127.0.0.1/api/v1/drain
curl -s http://127.0.0.1:18080/jobs/1/run
curl -s http://127.0.0.1:9090/api/v1/admin/tsdb/snapshot
curl -s 'http://127.0.0.1/api/switch?state=off'
curl -s 'http://127.0.0.1/balancer-manager?b=x&w=y&dw=1'
supervisorctl -s http://a.example:9001 status
supervisorctl -shttp://a.example:9001 status
supervisorctl --serverurl=http://a.example:9001 status
"""
LOOKS = r"""
curl -s 'http://127.0.0.1:8080/?action=status'
curl -s 'http://127.0.0.1:8080/page[1-300]'
curl -s 'http://[::1]:8080/health'
curl -s 'http://127.0.0.1:8123/?query=SELECT+1'
curl -s 'http://127.0.0.1:9090/api/v1/query?query=sum(rate(resets_total[5m]))'
curl -s 'http://127.0.0.1:9200/_cat/indices?v&s=index'
curl -s http://127.0.0.1:8080/actuator/health
curl -s 'http://127.0.0.1:8080/items?sort=name&pretty=true'
curl -s http://127.0.0.1:8080/build/info
curl -s http://127.0.0.1:8080/runs/1/log
squidclient mgr:info
curl -s -G --data-urlencode 'query=up' http://127.0.0.1:9090/api/v1/query
curl -sL http://localhost:3000/login
curl -sL https://docs.example.com/page
curl -s https://docs.example.com/stop
git ls-remote https://git.example.com/a/b.git
supervisorctl -s http://localhost:9001 status
"""


@pytest.mark.parametrize("command", cases(ACTS))
def test_an_address_with_an_order_counts_as_sent(command: str) -> None:
    assert "network-out" in beyond(command)


@pytest.mark.parametrize("page", ["mgr:shutdown", "mgr:reconfigure", "mgr:info@secret"])
def test_the_manager_of_squid_is_only_read_at_known_pages(page: str) -> None:
    assert "service-change" in beyond(f"squidclient {page}")


@pytest.mark.parametrize("command", cases(LOOKS))
def test_an_address_without_one_is_only_read(command: str) -> None:
    assert not beyond(command)
