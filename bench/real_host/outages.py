"""The outages: how each is caused, how a person ends it, and which of the bench's checks fail."""

from collections.abc import Callable

from real_host.blind_outages import read_blind_outages
from real_host.faults import (
    Outage,
    Stage,
    bad_config,
    disk_full,
    firewalled,
    hang,
    killed_in_a_loop,
    limited,
    port_taken,
    reboot_without,
    shell,
    stopped,
)
from real_host.namespace import WATCH_HOME
from real_host.services import POSTGRES_DATA

HOLDER = (
    "import psycopg,time; w='host=127.0.0.1 dbname=shop user=shop password=shop-secret'; c=[]\n"
    "while 1:\n"
    "  try: c.append(psycopg.connect(w))\n"
    "  except psycopg.Error: time.sleep(0.5)"
)
LOCKER = (
    "import psycopg,time; c=psycopg.connect('host=/run/postgresql dbname=shop user=postgres');"
    "c.execute('lock table items in access exclusive mode'); time.sleep(3600)"
)


def _release(broken: bool) -> Callable[[Stage], None]:
    def change(s: Stage) -> None:
        text = "PORT=8000\nRELEASE=broken\n"
        s.edit("/etc/shop/shop.env", *(("PORT=8000\n", text) if broken else (text, "PORT=8000\n")))
        s.services.restart("shop-api")

    return change


def _rotate(password: str) -> Callable[[Stage], None]:
    def change(s: Stage) -> None:
        s.services.psql(f"alter role shop password '{password}'")

    return change


def _upstream(old: int, new: int) -> Callable[[Stage], None]:
    def change(s: Stage) -> None:
        s.edit("/etc/nginx/nginx.conf", f"127.0.0.1:{old} max", f"127.0.0.1:{new} max")
        s.sh("nginx -s reload")

    return change


def _leave_stale_pid_file(s: Stage) -> None:
    s.services.kill("postgres")
    s.background("stranger", "setpriv --reuid postgres --regid postgres --clear-groups sleep 3600")
    s.sh(
        f"cd {POSTGRES_DATA}; sed 1d postmaster.pid > /tmp/rest;"
        "cat /run/bench/stranger /tmp/rest > postmaster.pid"
    )
    s.services.start("postgres", check=False)


def _remove_stale_pid_file(s: Stage) -> None:
    s.end_background("stranger")
    s.sh(f"rm -f {POSTGRES_DATA}/postmaster.pid")
    s.services.start("postgres")


def _own_data_by_root(s: Stage) -> None:
    s.sh(f"chown -R root {POSTGRES_DATA}")
    s.services.stop("postgres")
    s.services.start("postgres", check=False)


def _own_data_by_postgres(s: Stage) -> None:
    s.sh(f"chown -R postgres {POSTGRES_DATA}")
    s.services.start("postgres")


def _mount_read_only(s: Stage) -> None:
    """As the kernel does after an error of a disk; redis finds out when it is started again."""
    s.services.stop("redis")
    s.sh("mount -o remount,ro /var/lib/redis")
    s.services.start("redis", check=False)


def _mount_writable(s: Stage) -> None:
    s.sh("mount -o remount,rw /var/lib/redis")
    s.services.start("redis")


def _make_home_read_only(s: Stage) -> None:
    """The journal is open for writing while a watch runs, so it is down for that moment."""
    s.watch.kill(restart=False)
    s.sh(f"mount -o remount,ro {WATCH_HOME}")
    s.watch.start()


def _hold(name: str, code: str) -> tuple[Callable[[Stage], None], Callable[[Stage], None]]:
    return (lambda s: s.python(name, code)), (lambda s: s.end_background(name))


OUTAGES = [
    stopped("nginx", "nginx", "tls", "items"),
    stopped("redis", "redis", "shop-api", "cart"),
    stopped("postgres", "postgres", "shop-api", "items"),
    stopped("shop-api", "shop-api", "items"),
    killed_in_a_loop("shop-api"),
    killed_in_a_loop("redis"),
    bad_config("nginx", "/etc/nginx/nginx.conf", "proxy_pass http", "proxy_pas http"),
    bad_config("redis", "/etc/redis/redis.conf", "port 6379", "port six"),
    bad_config(
        "postgres",
        f"{POSTGRES_DATA}/postgresql.conf",
        "max_connections = 20",
        "max_connections = x",
    ),
    bad_config("shop-api", "/etc/shop/shop.env", "PORT=8000", "PORT=80OO"),
    port_taken("shop-api", 8000),
    port_taken("nginx", 80),
    disk_full("redis", "/var/lib/redis"),
    disk_full("nginx", "/var/log/nginx"),
    disk_full("postgres", "/var/lib/postgresql"),
    Outage(
        "redis-read-only", "read-only", ("redis",), ("redis",), _mount_read_only, _mount_writable
    ),
    shell(
        "redis-memory-full",
        "memory limit of redis",
        ("redis",),
        ("redis",),
        "redis-cli config set maxmemory-policy noeviction; redis-cli config set maxmemory 100kb",
        "redis-cli config set maxmemory 0",
    ),
    Outage(
        "postgres-connections",
        "connections exhausted",
        ("postgres",),
        ("postgres", "shop-api"),
        *_hold("holder", HOLDER),
    ),
    Outage(
        "shop-password-rotated",
        "wrong password",
        ("shop-api", "postgres"),
        ("shop-api",),
        _rotate("rotated"),
        _rotate("shop-secret"),
    ),
    shell(
        "redis-password-set",
        "wrong password",
        ("redis", "shop-api"),
        ("redis", "cart"),
        "redis-cli config set requirepass hunter2",
        "redis-cli -a hunter2 config set requirepass ''",
    ),
    Outage(
        "shop-broken-release",
        "error 500",
        ("shop-api",),
        ("shop-api", "items"),
        _release(True),
        _release(False),
    ),
    hang("shop-api"),
    hang("redis"),
    hang("postgres"),
    hang("nginx"),
    Outage(
        "nginx-upstream-removed",
        "wrong upstream",
        ("nginx",),
        ("items", "cart"),
        _upstream(8000, 8001),
        _upstream(8001, 8000),
    ),
    shell(
        "nginx-certificate-expired",
        "certificate expired",
        ("nginx",),
        ("tls",),
        "cp -p /etc/nginx/server.crt /srv/www/new.crt; cp /srv/www/old.crt /etc/nginx/server.crt;"
        "nginx -s reload",
        "cp /srv/www/new.crt /etc/nginx/server.crt; nginx -s reload",
    ),
    shell(
        "database-name-wrong",
        "wrong address of a name",
        ("shop-api", "postgres"),
        ("shop-api",),
        "sed 's/ db.internal//' /etc/hosts > /tmp/h; echo 127.0.0.66 db.internal >> /tmp/h;"
        "cat /tmp/h > /etc/hosts",
        "echo 127.0.0.1 localhost db.internal cache.internal > /etc/hosts",
    ),
    shell(
        "catalogue-deleted",
        "data file deleted",
        ("shop-api", "nginx"),
        ("items",),
        "mv /srv/shop/catalogue.json /var/tmp/",
        "mv /var/tmp/catalogue.json /srv/shop/",
    ),
    limited("descriptor-limit", "--nofile=6:6", "descriptor"),
    limited("memory-limit", "--as=1000000:1000000", "memory"),
    Outage(
        "postgres-stale-pid-file",
        "stale pid file",
        ("postgres",),
        ("postgres",),
        _leave_stale_pid_file,
        _remove_stale_pid_file,
    ),
    Outage(
        "postgres-wrong-owner",
        "permission",
        ("postgres",),
        ("postgres",),
        _own_data_by_root,
        _own_data_by_postgres,
    ),
    shell(
        "nginx-pages-unreadable",
        "permission",
        ("nginx",),
        ("nginx",),
        "chmod 700 /srv/www/static",
        "chmod 755 /srv/www/static",
    ),
    firewalled("redis", 6379),
    firewalled("postgres", 5432),
    Outage(
        "items-table-locked",
        "lock in the database",
        ("shop-api", "postgres", "nginx"),
        ("items",),
        *_hold("locker", LOCKER),
    ),
    shell(
        "redis-became-a-replica",
        "wrong role",
        ("redis", "shop-api"),
        ("redis", "cart"),
        "redis-cli replicaof 127.0.0.1 1",
        "redis-cli replicaof no one",
    ),
    shell(
        "home-full",
        "home of the watch",
        ("home",),
        (f"disk:{WATCH_HOME}",),
        f"cat /dev/zero > {WATCH_HOME}/core.4711 2>/dev/null; true",
        f"rm {WATCH_HOME}/core.4711",
    ),
    Outage(
        "home-read-only",
        "home of the watch",
        ("home",),
        (f"disk:{WATCH_HOME}",),
        _make_home_read_only,
        lambda s: s.sh(f"mount -o remount,rw {WATCH_HOME}"),
    ),
    reboot_without("redis", "redis", "cart"),
    reboot_without("nginx", "nginx", "tls", "items"),
]
BY_NAME = {outage.name: outage for outage in (*OUTAGES, *read_blind_outages())}
