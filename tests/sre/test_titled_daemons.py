"""A daemon that shows a title in place of its command line can still be started again."""

import pytest

from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import HostUnit, PlainDaemon
from hermes.sre.probes.host_scan import ServiceCriteria, parse_scan
from hermes.sre.probes.inventory import find_running_services

SCAN = """\
listen=127.0.0.1\t80\tnginx\t 122 121
parent=121\t1\t
started=121\troot\t/\t\t master process nginx\t{title}\x1f
process=121\t1\t121\t0\t70\t\t/usr/sbin/nginx\ttini:0<\t{title}
parent=122\t121\t
started=122\twww-data\t/\t\t worker process\tnginx: worker process\x1f
process=122\t121\t121\t0\t70\t\t/usr/sbin/nginx\tnginx:0<tini:0<\tnginx: worker process
"""
REDIS_SCAN = """\
listen=127.0.0.1\t6379\tredis-server\t 70
parent=70\t1\t
started=70\tredis\t/var/lib/redis\t\t   \t/usr/bin/redis-server 127.0.0.1:6379\x1f{more}
process=70\t1\t70\t0\t71\t\t/usr/bin/redis-server\ttini:0<\t/usr/bin/redis-server 127.0.0.1:6379
"""


def daemon_of(scan: str) -> PlainDaemon:
    found = next(find_running_services(parse_scan(scan), ServiceCriteria(settle_s=0.0))).daemon
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("title", "command"),
    [
        ("nginx: master process nginx", ("nginx",)),
        (
            "nginx: master process /usr/sbin/nginx -c /srv/n.conf",
            ("/usr/sbin/nginx", "-c", "/srv/n.conf"),
        ),
        (
            "nginx: master process nginx -g pid /run/n.pid; daemon on;",
            ("nginx", "-g", "pid /run/n.pid; daemon on;"),
        ),
    ],
)
def test_the_command_of_nginx_follows_its_title(title: str, command: tuple[str, ...]) -> None:
    daemon = daemon_of(SCAN.format(title=title))
    assert (daemon.command, daemon.title, daemon.user) == (command, title, "root")


def test_the_zeros_behind_a_title_are_no_arguments() -> None:
    daemon = daemon_of(REDIS_SCAN.format(more="\x1f" * 40))
    assert daemon.command == ()
    assert daemon.title == "/usr/bin/redis-server 127.0.0.1:6379"


def test_redis_is_started_with_the_file_that_it_names() -> None:
    more = "/usr/bin/redis-server\x1f/etc/redis/redis.conf\x1f"
    daemon = daemon_of(REDIS_SCAN.format(more=more))
    supervisors = HostSupervisors([HostUnit(name=daemon.name, kind="daemon")], [daemon])
    restart = supervisors.render("restart", daemon.name)
    assert "pkill -f -x -- '/usr/bin/redis-server 127\\.0\\.0\\.1:6379'" in restart
    assert "setsid /usr/bin/redis-server /etc/redis/redis.conf" in restart


def test_a_title_without_a_known_file_starts_nothing() -> None:
    assert daemon_of(REDIS_SCAN.format(more="")).command == ()
