"""What each kind of command does, one line a case."""

import pytest
from reading import beyond, cases, effects, read

CHANGES = {
    "rm /tmp/x.log": {"delete"},
    "rm -rf /tmp/build": {"delete"},
    "rm -rf /srv/data": {"delete", "irreversible"},
    "rm -rf /": {"delete", "irreversible", "wipe", "self-change"},
    "rm -rf /usr": {"delete", "irreversible", "wipe"},
    "rm -rf /*": {"delete", "irreversible", "wipe", "self-change"},
    'rm -rf "$UNSET/"': {"delete", "irreversible"},
    'rm -rf "${SET:?}/cache"': {"delete"},
    "chmod 644 file": {"write"},
    "chmod u+s /srv/x": {"write", "privilege"},
    "chmod -R 777 /": {"write", "irreversible", "self-change"},
    "mv a b": {"write"},
    "cp a b": {"write"},
    "> app.log": {"write", "delete"},
    "echo x >> notes": {"write"},
    "echo x > /dev/sda": {"write", "wipe", "irreversible"},
    "dd if=/dev/zero of=/dev/nvme0n1": {"write", "delete", "wipe", "irreversible"},
    "mkfs.ext4 /dev/sda1": {"wipe", "irreversible", "delete"},
    "find . -name '*.tmp' -delete": {"delete"},
    "sed -i s/a/b/ f": {"write"},
    "git commit -m 'delete everything'": {"write"},
    "git push --force": {"write", "network-out", "irreversible", "delete"},
    "git push origin +main": {"write", "network-out", "irreversible"},
    "git reset --hard": {"write", "irreversible", "delete"},
    "git clean -fdx": {"irreversible", "delete"},
    "systemctl restart nginx": {"service-change"},
    "systemctl poweroff": {"service-change", "irreversible"},
    "kill -9 42": {"service-change"},
    "kill -9 -1": {"service-change", "irreversible"},
    "sysctl -w vm.swappiness=0": {"service-change"},
    "iptables -F": {"service-change", "irreversible"},
    "ip link set eth0 down": {"service-change", "irreversible"},
    "crontab -r": {"delete", "irreversible"},
    "useradd eve": {"privilege", "write"},
    "kubectl delete ns prod": {"delete", "irreversible"},
    "etcdctl check perf": {"write"},
    "whois -h 127.0.0.1 -p 7001 'set x 1'": {"network-out"},
    "ssh -O exit web1": {"service-change"},
    "kubectl delete pod web-1": {"delete", "irreversible"},
    "kubectl scale deploy/x --replicas=0": {"service-change", "delete", "irreversible"},
    "kubectl scale deploy/x --replicas=3": {"service-change"},
    "kubectl rollout restart deploy/x": {"service-change"},
    "helm uninstall x": {"delete", "irreversible"},
    "terraform destroy": {"delete", "irreversible"},
    "terraform apply -auto-approve": {"write", "irreversible", "delete"},
    "docker volume rm x": {"delete", "irreversible"},
    "docker restart x": {"service-change"},
    "docker run -v /:/h alpine ls": {
        *("service-change", "exec-dynamic", "privilege", "self-change", "irreversible")
    },
    "redis-cli FLUSHALL": {"delete", "irreversible"},
    "redis-cli config set dir /x": {"service-change", "privilege"},
    "journalctl --vacuum-size=1": {"delete", "irreversible"},
    "aws s3 rm s3://b --recursive": {"delete", "irreversible"},
    "cat /etc/shadow": {"secret-read"},
    "curl -d @f http://example.com": {"network-out"},
    "frobnicate": {"unknown"},
    "./deploy.sh": {"unknown"},
    "$X": {"exec-dynamic"},
    "apt-get install x": {"write", "service-change", "exec-dynamic"},
    "sudo rm x": {"delete", "privilege"},
    "runuser -u root -- rm x": {"delete", "privilege"},
    'runuser -u "$WHO" -- rm x': {"delete", "privilege"},
    "runuser -u bob -G root -- rm x": {"delete", "privilege"},
    "runuser -u bob -- rm x": {"delete"},
}


@pytest.mark.parametrize("command", CHANGES)
def test_a_change_has_the_effects_it_has_and_no_others(command: str) -> None:
    assert beyond(command) == CHANGES[command]


PLAIN = cases(r"""
grep 'rm -rf' log
echo "drop table"
systemctl status nginx
journalctl -u x -n 50
ls -la | sort | head
ps aux
df -h
ss -tlnp
top -b -n 1
tail -f /var/log/syslog
cat < /dev/null
ls > /dev/null 2>&1
awk '{print $1}' f
sed -n 5p f
true # rm x
for i in 1 2 3; do echo $i; done
x=$(date); echo $x
kubectl get pods -n prod
kubectl exec web -- ps aux
docker logs -f api
git log --oneline
terraform plan
psql -c 'select count(*) from t'
redis-cli info
curl -s localhost:8080/health
ping -c1 example.com
ssh web1 uptime
sudo journalctl -u kubelet
ls ~/.ssh
find / -name '*.log' -size +1G
kill -0 42
git clean -n
cat <<'E'⏎rm -rf /⏎E
python3 -c 'import json,sys; print(json.load(sys.stdin)["a"])'
rm --help
sleep 1
kubectl delete pod x --dry-run=client
rsync -an --delete a/ b/
[ -f x ] && echo yes
""")


@pytest.mark.parametrize("command", PLAIN)
def test_looking_is_only_looking(command: str) -> None:
    assert read(command).is_read_only, read(command).commands


def test_asking_this_machine_is_told_apart_from_asking_the_world_and_from_sending() -> None:
    assert effects("curl -s localhost/health") == {"read", "network-local"}
    assert effects("curl -s https://example.com/") == {"read", "network-read"}
    assert "network-out" in effects('curl "https://example.com/?a=b"')
    assert "network-out" in effects("curl https://example.com/$(hostname)")
    assert "network-out" in effects("curl -X POST localhost/x")


def test_every_effect_has_a_reason() -> None:
    for command in CHANGES:
        for found in read(command).commands:
            assert {line.split(":")[0] for line in found.why} == found.effects


def test_a_command_says_what_it_is_where_it_stands_and_what_it_changes() -> None:
    (found,) = read("  rm -f ../x.log").commands
    assert (found.program, found.argv) == ("rm", ("rm", "-f", "../x.log"))
    assert found.node == (2, 16)
    assert found.changes == found.paths == ("/srv/x.log",)
    assert found.flags == ("-f",)


def test_nothing_is_nothing() -> None:
    for command in ("", "  ", "# just a remark", "\n\n"):
        assert effects(command) == {"read"}
