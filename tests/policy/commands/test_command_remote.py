"""Commands on other hosts and in containers, where nothing confines them."""

import pytest
from reading import beyond, cases

ALLOWED_REMOTE_READS = cases(
    r"""
ssh web1 uptime
ssh web1 "sudo journalctl -u nginx -n 50"
ssh web1 'for d in /srv/*; do du -sh $d; done'
ssh web1 cat /etc/hosts
ssh web1 'n=$(nproc); if [ $n -gt 2 ]; then uptime; fi'
ssh web1 'for i in 1 2 3; do [ $i = 2 ] && echo $i; done'
ssh web1 "awk -v n=3 '{print \$n}' /var/log/app.log"
ssh web1 'tail -100 /var/log/syslog | grep -i error | tail -5'
ssh web1 'grep -r ERROR /var/log/app'
ssh web1 'cd /srv/app && tail -5 app.log'
ssh web1 'wc -l /srv/app/data.csv'
ssh web1 'grep -c timeout /srv/app/settings.ini'
ssh web1 "awk '{print \$1}' /var/log/nginx/access.log | sort | uniq -c"
ssh web1 'find /srv -name "*.conf" -newer /etc/hosts'
ssh web1 tar tf /srv/app.tar
ssh db1 'sudo -u postgres psql -c "select 1"'
ssh a 'ssh b uptime'
ssh web1 java -version
docker exec web cat /app/version.txt
docker exec -i web ps -ef
docker compose exec web ls -la /app
kubectl exec -n prod api-0 -- cat /proc/1/status
kubectl exec api-0 -- curl -s localhost:8080/actuator/health
kubectl exec api-0 -- printenv HOSTNAME
kubectl exec redis-0 -- redis-cli info stats
ansible web -a uptime
ansible all -m setup -a 'filter=ansible_distribution*'
"""
)
HELD_REMOTE_READS = cases(
    r"""
ssh h 'grep -r KEY /proc/self'
ssh h cat /srv/app/settings.py
ssh h 'cat /srv/app/*'
ssh h 'cat < /srv/app/x'
ssh h 'while read l; do echo $l; done < /srv/app/x'
ssh h 'echo $(< /srv/app/x)'
ssh h 'mapfile -t a < /srv/x; echo ${a[@]}'
ssh h 'cat /var/log/../../etc/app.conf'
ssh h 'tail -n 50 /var/log/syslog /srv/x'
ssh h 'sed -n "r /srv/app/x" /var/log/syslog'
ssh h 'diff /etc/hosts /srv/x'
ssh h 'wc --files0-from=/srv/x'
ssh h 'file -f /srv/x'
ssh h 'date -f /srv/x'
ssh h 'journalctl --file /srv/x'
ssh h 'busybox cat /srv/x'
ssh h 'dd if=/srv/x'
ssh h 'rev < /srv/x'
ssh h 'curl -s file:///srv/app/x'
ssh h 'git log -p'
ssh h 'git -C /srv/app show HEAD'
ssh h 'echo $DATABASE_URL'
ssh h 'x=$DATABASE_URL; echo $x'
ssh h 'cat <<< $DB_URL'
ssh h 'env | rev'
docker exec c sh -c 'xargs echo < /app/config'
docker exec c sh -c 'xargs -a /app/config echo'
docker exec c sh -c 'timeout 5 cat < /app/config'
docker exec c sh -c 'sort -V < /app/config'
docker exec c sh -c 'f() { cat; }; f < /app/config'
docker exec c sh -c '{ cat; } < /app/config'
ssh h '[[ $SECRET == a* ]] && echo yes'
ssh h '[ "$SECRET" = a ] && echo yes'
ssh h 'case $DB_URL in a*) echo yes;; esac'
ssh h "awk 'BEGIN{print ENVIRON[\"DB\"]}'"
ssh h 'grep -el /srv/app/config'
ssh h 'grep -A1c x /srv/app/config'
ssh h 'redis-cli config get *'
ssh h printenv
ssh h set
ssh h 'export -p'
ssh h 'declare -p'
ssh h 'compgen -v'
ssh h kubectl --kubeconfig /opt/kube.yaml get pods
ssh h 'kubectl create cm x --from-file=/opt/x --dry-run=client -o yaml'
ssh a 'ssh b cat /srv/x'
ssh h 'docker exec c cat /srv/x'
docker exec c grep -r . /run
docker exec c find / -name '*.conf' -exec cat {} +
docker exec c sh -c 'for f in /app/*; do cat $f; done'
docker exec c sh -c 'env | grep -i secret'
docker exec c strings /app/x
docker compose exec web cat /app/config.yml
podman exec c cat /app/config.yml
kubectl exec x -- grep -r . /var/run/secrets
kubectl exec x -- head -c 100 /app/config
kubectl exec x -- printenv DATABASE_URL
ansible web -a 'cat /srv/app/x'
ansible all -m slurp -a src=/etc/x
ansible all -m debug -a "msg={{ lookup('pipe','id') }}"
ansible all -m assert -a "that=lookup('pipe','id')"
ansible all -a "uptime {{ lookup('pipe','id') }}"
ansible all -m setup
ansible all -m setup -a filter=ansible_env
ansible all -m getent -a database=shadow
"""
)


@pytest.mark.parametrize("command", ALLOWED_REMOTE_READS)
def test_plain_reads_on_another_host_are_free(command: str) -> None:
    assert not beyond(command)


@pytest.mark.parametrize("command", HELD_REMOTE_READS)
def test_other_reads_on_another_host_are_held(command: str) -> None:
    assert beyond(command)


@pytest.mark.parametrize(
    "command",
    [
        "docker -H tcp://198.51.100.7:2375 ps",
        "docker --host=tcp://build:2375 exec c ls",
        "podman --url tcp://build:1 ps",
    ],
)
def test_a_daemon_that_an_argument_chooses_gets_the_command(command: str) -> None:
    assert "network-out" in beyond(command)


@pytest.mark.parametrize(
    "command",
    [
        "docker -H unix:///var/run/docker.sock ps",
        "docker -H ssh://web1 ps",
        "docker --context prod ps",
    ],
)
def test_a_daemon_of_the_user_is_asked(command: str) -> None:
    assert not beyond(command)


@pytest.mark.parametrize(
    ("command", "held"),
    [
        ("echo 'show info; disable server x/y' | nc -U /run/haproxy/admin.sock", True),
        ("echo 'stats reset' | nc localhost 11211", True),
        (r"printf 'GET / HTTP/1.1\r\nX: SET a 1\r\n' | nc localhost 6379", True),
        ("echo 'show stat' | nc -U /run/haproxy/admin.sock", False),
        ("echo stats | nc localhost 11211", False),
        (r"printf 'GET / HTTP/1.0\r\nHost: x\r\n\r\n' | nc localhost 80", False),
        ("openssl s_client -proxy 127.0.0.1:6379 -connect a:1", True),
        ("echo 'GET /' | openssl s_client -connect a:443", True),
        ("openssl s_client -connect a:443 -sess_in x", True),
        ("echo | openssl s_client -connect db:5432 -starttls postgres", False),
        ("openssl s_client -connect api:443 -showcerts </dev/null", False),
    ],
)
def test_only_known_requests_are_sent_over_an_open_connection(command: str, held: bool) -> None:
    assert bool(beyond(command)) == held


@pytest.mark.parametrize(
    ("command", "held"),
    [
        ("psql -c 'select app.lower(x) from t'", True),
        ("psql -c 'select update_timestamp()'", True),
        ("psql -c 'select notify_if(1)'", True),
        ("psql -c 'select array_cleanup(1)'", True),
        ("psql -c 'select pg_catalog.lower(x) from t'", False),
        (
            "psql -c 'select to_timestamp(1), date_trunc($$day$$, now()), array_agg(x) from t'",
            False,
        ),
    ],
)
def test_sql_functions_of_users_may_do_anything(command: str, held: bool) -> None:
    assert bool(beyond(command)) == held


@pytest.mark.parametrize(
    ("command", "held"),
    [
        ("curl --unix-socket /var/run/docker.sock http://localhost/containers/x/json", True),
        (
            "curl --unix-socket /run/docker.sock http://l/containers/x/archive?path=/etc/shadow",
            True,
        ),
        ("curl localhost:2375/containers/x/json", True),
        ("curl --some-new-option x http://localhost", True),
        ("curl --unix-socket /var/run/docker.sock http://localhost/v1.43/containers/json", False),
        ("curl --unix-socket /run/app.sock http://localhost/health", False),
        (
            "curl -fsSLk --compressed --http2 -o /dev/null -w '%{http_code}' https://localhost/",
            False,
        ),
        ("psql -c 'show primary_conninfo'", True),
        ("psql -c \"select setting from pg_settings where name = 'primary_conninfo'\"", True),
        ("psql -c 'select a.pid from t, unnest(pg_blocking_pids(1)) as a(pid)'", False),
        ("vault token lookup", True),
        ("psql -c 'show all'", True),
        ("mysql --database=mysql -e 'select * from user'", True),
        ("mysql -Dmysql -e 'select * from db, user'", True),
        ("mysql -e 'use mysql; select * from user'", True),
        ("mysql -h db -e 'select user, host from information_schema.processlist'", False),
        ("mongosh --eval 'print(process.env)'", True),
        ("""mongosh --eval 'db.getCollection("system" + ".users").find()'""", True),
        ("""mongosh --eval 'require("fs").stats()'""", True),
        ("mongosh --eval 'db.orders.find({state: 1}).sort({at: -1}).limit(5)'", False),
        ("mongosh --eval 'printjson(rs.status())'", False),
        (r"curl -s $'http://localhost/a\r\nSET x 1'", True),
        ("declare -p PATH", False),
    ],
)
def test_what_a_daemon_tells_about_its_secrets_is_held(command: str, held: bool) -> None:
    assert bool(beyond(command)) == held


@pytest.mark.parametrize(
    "command",
    [
        "ssh h 'sort -o /tmp/x.log /srv/app/settings.py'",
        "ssh h 'cp /srv/app/settings.py /tmp/x.log'",
        "ssh h 'echo x > /tmp/x.log'",
        "ssh h 'find / -name x -fprintf /tmp/x.log %p'",
        "docker exec c rm /tmp/x",
        "kubectl exec p -- touch /tmp/x",
    ],
)
def test_temporary_files_of_another_host_are_not_ours(command: str) -> None:
    assert "unknown" in beyond(command)
