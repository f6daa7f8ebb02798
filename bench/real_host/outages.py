"""The outages: how each is caused, how a person ends it, and which of the bench's checks fail."""

from collections.abc import Callable
from dataclasses import dataclass

from real_host.namespace import Namespace
from real_host.services import POSTGRES_DATA, Services
from real_host.watch import Watch

HOME = "/root/.hermes"
BLOCKER = (
    "import socket,time\n"
    "while 1:\n"
    "  try: s=socket.create_server(('127.0.0.1', {port})); time.sleep(3600)\n"
    "  except OSError: time.sleep(0.1)"
)
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

# What counts as the name of a service in a notification. The second is weaker: it points at the
# service for one who knows the host, and counts as detected but not as reported by name.
NAMES = {
    "nginx": (r"\bnginx\b", r"\bnginx\b|:80\b|:443\b"),
    "redis": (r"\bredis\b|redis-server", r"redis|:6379\b"),
    "postgres": (r"\bpostgres", r"postgres|:5432\b"),
    "shop-api": (r"\bshop[-_]api\b", r"\bshop[-_]api\b|\bpython\b|\b8000\b"),
    "home": (r"/root/\.hermes|disk-root-hermes|home (?:folder|directory|disk)", r"journal"),
}


@dataclass
class Stage:
    """What an outage is caused on: a host, its services, and the watch there."""

    host: Namespace
    services: Services
    watch: Watch

    def sh(self, script: str) -> None:
        self.host.run(script)

    def background(self, name: str, command: str) -> None:
        """A process of the host that lives until `end_background`."""
        self.sh(
            f"mkdir -p /run/bench; setsid {command} >/dev/null 2>&1 </dev/null & "
            f"echo $! > /run/bench/{name}"
        )

    def end_background(self, name: str) -> None:
        self.sh(
            f"kill -KILL -- -$(cat /run/bench/{name}) $(cat /run/bench/{name}); "
            f"rm /run/bench/{name}; true"
        )

    def python(self, name: str, code: str) -> None:
        self.host.path(f"/tmp/{name}.py").write_text(code)
        self.background(name, f"{self.services.python} /tmp/{name}.py")

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.host.path(path)
        text = file.read_text()
        if old not in text:
            raise LookupError(f"{path} does not contain {old!r}")
        file.write_text(text.replace(old, new))


@dataclass(frozen=True)
class Outage:
    """One way to break a host. `services`: a notification that names any of them is right."""

    name: str
    kind: str
    services: tuple[str, ...]
    checks: tuple[str, ...]
    cause: Callable[[Stage], None]
    end: Callable[[Stage], None]


def stopped(service: str, *checks: str) -> Outage:
    return Outage(
        f"{service}-stopped",
        "stopped",
        (service,),
        checks or (service,),
        lambda s: s.services.stop(service),
        lambda s: s.services.start(service),
    )


def killed_in_a_loop(service: str) -> Outage:
    def cause(s: Stage) -> None:
        pattern = {"redis": "redis-server", "shop-api": "shop_api.py"}[service]
        s.background("loop", f"bash -c 'while sleep 0.4; do pkill -9 -f {pattern}; done'")

    def end(s: Stage) -> None:
        s.end_background("loop")
        s.services.start(service)

    return Outage(
        f"{service}-killed-in-a-loop", "killed in a loop", (service,), (service,), cause, end
    )


def bad_config(service: str, path: str, old: str, new: str) -> Outage:
    """A mistake in a configuration file that shows when the service is restarted."""

    def cause(s: Stage) -> None:
        s.edit(path, old, new)
        s.services.stop(service)
        s.services.start(service, check=False)

    def end(s: Stage) -> None:
        s.edit(path, new, old)
        s.services.stop(service)
        s.services.start(service)

    return Outage(f"{service}-bad-config", "bad config", (service,), (service,), cause, end)


def port_taken(service: str, port: int) -> Outage:
    def cause(s: Stage) -> None:
        s.services.stop(service)
        s.python("blocker", BLOCKER.format(port=port))
        s.services.start(service, check=False)

    def end(s: Stage) -> None:
        s.end_background("blocker")
        s.services.stop(service)
        s.services.start(service)

    return Outage(f"{service}-port-taken", "port taken", (service,), (service,), cause, end)


def hang(service: str) -> Outage:
    return Outage(
        f"{service}-hangs",
        "hang",
        (service,),
        (service,),
        lambda s: s.services.kill(service, "STOP"),
        lambda s: s.services.kill(service, "CONT"),
    )


def disk_full(service: str, path: str, *checks: str) -> Outage:
    return Outage(
        f"{service}-disk-full",
        "disk full",
        (service,),
        (f"disk:{path}", *checks),
        lambda s: s.sh(f"cat /dev/zero > {path}/core.4711 2>/dev/null; true"),
        lambda s: (s.sh(f"rm {path}/core.4711"), s.services.start(service))[0],
    )


def firewalled(service: str, port: int) -> Outage:
    rule = f"nft add rule inet bench input tcp dport {port} drop"
    chain = "'{ type filter hook input priority 0; }'"
    return Outage(
        f"{service}-firewalled",
        "firewall",
        (service,),
        (service,),
        lambda s: s.sh(
            f"nft add table inet bench && nft add chain inet bench input {chain} && {rule}"
        ),
        lambda s: s.sh("nft delete table inet bench"),
    )


def limited(name: str, limit: str, lift: str) -> Outage:
    """The shop runs into a limit of the kernel; a person restarts it without the limit."""

    def cause(s: Stage) -> None:
        for pid in s.services.pids("shop-api"):
            s.sh(f"prlimit --pid {pid} {limit}")

    return Outage(
        f"shop-api-{name}",
        f"{lift} limit",
        ("shop-api",),
        ("shop-api",),
        cause,
        lambda s: s.services.restart("shop-api"),
    )


def reboot_without(service: str, *checks: str) -> Outage:
    """A power cut; everything comes back, the watch too, but for one service."""

    def cause(s: Stage) -> None:
        s.watch.kill(restart=False)
        s.services.stop_all()
        s.services.start_all(leave_out=(service,))
        s.watch.start()

    return Outage(
        f"reboot-without-{service}",
        "reboot",
        (service,),
        checks,
        cause,
        lambda s: s.services.start(service),
    )


def shell(
    name: str, kind: str, services: tuple[str, ...], checks: tuple[str, ...], cause: str, end: str
) -> Outage:
    return Outage(name, kind, services, checks, lambda s: s.sh(cause), lambda s: s.sh(end))


def _release(broken: bool) -> Callable[[Stage], None]:
    def change(s: Stage) -> None:
        text = "PORT=8000\nRELEASE=broken\n"
        s.edit("/etc/shop/shop.env", *(("PORT=8000\n", text) if broken else (text, "PORT=8000\n")))
        s.services.restart("shop-api")

    return change


def _rotate(password: str) -> Callable[[Stage], None]:
    return lambda s: s.services.psql(f"alter role shop password '{password}'") and None


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
    s.sh(f"mount -o remount,ro {HOME}")
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
        (f"disk:{HOME}",),
        f"cat /dev/zero > {HOME}/core.4711 2>/dev/null; true",
        f"rm {HOME}/core.4711",
    ),
    Outage(
        "home-read-only",
        "home of the watch",
        ("home",),
        (f"disk:{HOME}",),
        _make_home_read_only,
        lambda s: s.sh(f"mount -o remount,rw {HOME}"),
    ),
    reboot_without("redis", "redis", "cart"),
    reboot_without("nginx", "nginx", "tls", "items"),
]
BY_NAME = {outage.name: outage for outage in OUTAGES}
