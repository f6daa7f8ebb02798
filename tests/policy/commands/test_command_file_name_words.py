"""Wildcards find files whose names become options, queries and addresses of clients."""

import pytest
from reading import beyond, cases

ANY_WORD = r"""
redis-cli -n * info
redis-cli s*
mysql -P *[6\;] -e 'select 1'
mysql -P 1* -e 'select 1'
psql -d * -c 'select 1'
psql -d h* -c 'select 1'
curl -s -A * http://127.0.0.1:18080/page
curl -s http://localhost/api/*
ssh -p * h ls
ssh * ls
ssh -l * h ls
kubectl -n * get pods
kubectl --context * get pods
docker -l * ps
docker exec -u * web ls
mysqladmin -P * status
systemctl -H * status
aws --region * s3 ls
rabbitmqctl -n * list_queues
mongo --port * --eval 'db.stats()'
timeout * ls
nice -n * ls
xargs -a app/s* echo
kubectl get pods -l*
"""
PLAIN = r"""
ls *
grep -n error *.log
wc -l /var/log/*.log
systemctl status nginx*
systemctl list-units 'php*'
curl -s http://localhost/health?full=1
docker ps -f name=web*
docker exec web ls /etc/nginx/conf.d/*
timeout 5 ls *
kubectl get pods --selector=app=web*
"""


@pytest.mark.parametrize("command", cases(ANY_WORD))
def test_names_of_files_as_words_of_a_client_are_known_only_at_run_time(command: str) -> None:
    assert "exec-dynamic" in beyond(command)


@pytest.mark.parametrize("command", cases(PLAIN))
def test_names_of_files_for_programs_of_this_host_stay_plain(command: str) -> None:
    assert not beyond(command)
