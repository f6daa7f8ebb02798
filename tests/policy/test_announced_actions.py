"""An announcement runs unless somebody stops it, so only what restarts or tunes is announced."""

import pytest
from policy_setup import call, gate

GATE = gate()


def announced(command: str) -> bool:
    """`moderate` is the one rule of the set that announces commands of a model."""
    return GATE.decide(call("terminal", command=command)).rule == "moderate"


@pytest.mark.parametrize(
    "command",
    [
        # code of a file or an image that somebody names
        "systemctl link /tmp/evil.service",
        "systemctl start /tmp/evil.service",
        "systemctl enable --now /tmp/evil.service",
        "systemctl add-wants multi-user.target evil.service",
        "systemctl bind nginx /tmp/a /etc/passwd",
        "systemctl mount-image nginx /tmp/x.img",
        "sysctl -p /tmp/x.conf",
        "sysctl -w kernel.core_pattern='|/tmp/x %p'",
        "sysctl kernel.modprobe=/tmp/x",
        "pm2 start /tmp/x.js",
        "varnishadm vcl.load x /tmp/x.vcl",
        "iptables-restore < /tmp/rules",
        "docker run -d evil/x",
        "docker compose -f /tmp/evil.yaml up -d",
        "docker service update --image evil/x api",
        "kubectl set image deploy/api api=evil/api",
        "kubectl set env deploy/api LD_PRELOAD=/x.so",
        "kubectl set serviceaccount deploy api cluster-admin",
        "argocd app set api --revision evil",
        "redis-cli config set dir /var/spool/cron",
        "redis-cli -p 6380 CONFIG SET dbfilename authorized_keys",
        "mysql -e \"set global init_connect='x'\"",
        # files of the system are covered by others
        "mount --bind /tmp/fake /etc/ssl",
        "mount -t tmpfs tmpfs /etc",
        "mount -t overlay overlay -o lowerdir=/etc,upperdir=/tmp/u,workdir=/tmp/w /etc",
        "mount -o remount,exec,suid /tmp",
        # defences and records are switched off
        "auditctl -e 0",
        "auditctl -D",
        "systemctl stop auditd",
        "systemctl mask --now auditd.service",
        "systemctl disable fail2ban",
        "service rsyslog stop",
        "rc-service auditd stop",
        "rc-update del auditd",
        "fail2ban-client stop",
        "ufw --force disable",
        "iptables -P INPUT ACCEPT && iptables -F",
        "ip netns exec prod iptables -F",
        "firewall-cmd --zone=public --add-port=1-65535/tcp --permanent",
        "sysctl -w kernel.randomize_va_space=0",
        "redis-cli config set requirepass ''",
        "mysql -e 'SET GLOBAL general_log = 0'",
        "rabbitmqctl set_permissions guest '.*' '.*' '.*'",
        "loginctl enable-linger www-data",
        "resolvectl dns eth0 203.0.113.53",
        "iptables -t nat -A PREROUTING -p tcp --dport 443 -j DNAT --to-destination 203.0.113.9",
        # nobody reaches the host any more, or it stops
        "ip link set eth0 down",
        "ip route replace default via 10.0.0.66",
        "ip route del default",
        "ip addr flush dev bond0",
        "iptables -P INPUT DROP",
        "nmcli con down 'Wired connection 1'",
        "tc qdisc add dev eth0 root netem loss 40%",
        "systemctl stop sshd",
        "systemctl isolate rescue.target",
        "systemctl start poweroff.target",
        "systemctl set-default emergency.target",
        "systemctl soft-reboot",
        "ipmitool chassis power cycle",
        "docker swarm leave --force",
        "kubectl taint nodes --all dead=true:NoExecute",
        "umount -a",
        "supervisorctl stop all",
        "psql -c 'select pg_promote()'",
        "orchestrator-client -c force-master-failover -i db1",
    ],
)
def test_what_gives_access_or_takes_it_away_waits_for_a_person(command: str) -> None:
    assert GATE.decide(call("terminal", command=command)).verdict == "ask"
    assert not announced(command)


@pytest.mark.parametrize(
    "command",
    [
        "systemctl restart nginx",
        "systemctl start postgresql@15-main.service",
        "systemctl stop sidekiq",
        "systemctl restart sshd",
        "systemctl enable --now nginx",
        "systemctl daemon-reload",
        "systemctl reload nginx haproxy apache2",
        "service nginx restart",
        "rc-service nginx restart",
        "supervisorctl restart web",
        "pm2 restart api",
        "nginx -s reload",
        "docker restart web",
        "docker compose up -d",
        "docker update --memory 1g --memory-swap 1g web",
        "kubectl rollout restart deploy/api",
        "kubectl rollout undo deploy/api",
        "kubectl set resources deploy/api -c api --limits=memory=1Gi",
        "kubectl scale deploy/api --replicas=3",
        "redis-cli -p 6379 CONFIG SET maxmemory 2gb",
        "sysctl -w net.core.somaxconn=4096",
        "sysctl -w vm.swappiness=10 fs.file-max=1000000",
        "sysctl --system",
        "mount /srv/data",
        "mount -a",
        "mount -o remount,rw /",
        "umount /srv/nfs",
        "iptables -D INPUT -p tcp --dport 5432 -j DROP",
        "ip link set eth1 up",
        "tc qdisc del dev eth0 root",
        "kill 812",
        "psql -c 'select pg_terminate_backend(812)'",
        "mysql -e 'set global max_connections = 500'",
    ],
)
def test_a_restart_and_a_usual_setting_are_announced(command: str) -> None:
    assert announced(command)
