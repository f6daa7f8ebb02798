"""nginx, redis, PostgreSQL and the shop on one host: supervisord, plain daemons or containers."""

import subprocess
import sys
import time
from pathlib import Path

from real_host.containers import (
    container_pids,
    create_container,
    keep_stopped,
    kill_engine,
    start_container,
    start_engine,
)
from real_host.namespace import CommandError, Namespace

POSTGRES_BIN = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/nonexistent"))
POSTGRES_DATA = f"/var/lib/postgresql/{POSTGRES_BIN.parent.name}/main"
API_SOURCE = Path(__file__).with_name("shop_api.py")
SUPERVISOR_CACHE = Path.home() / ".cache" / "hermes-bench" / "supervisor"
SERVICES = ("postgres", "redis", "shop-api", "nginx")
MANAGERS = ("supervisord", "daemons", "docker")
START_TIMEOUT_S = 20.0

NGINX = """\
user www-data;
worker_processes 1;
pid /run/nginx.pid;
error_log /var/log/nginx/error.log;
events { worker_connections 256; }
http {
  access_log /var/log/nginx/access.log;
  include /etc/nginx/mime.types;
  proxy_connect_timeout 3s;
  proxy_read_timeout 6s;
  upstream shop { server 127.0.0.1:8000 max_fails=0; }
  server {
    listen 127.0.0.1:80;
    listen 127.0.0.1:443 ssl;
    server_name localhost;
    ssl_certificate /etc/nginx/server.crt;
    ssl_certificate_key /etc/nginx/server.key;
    location /static/ { root /srv/www; }
    location / { proxy_pass http://shop; }
  }
}
"""
REDIS = """\
bind 127.0.0.1
port 6379
dir /var/lib/redis
logfile /var/log/redis/redis-server.log
pidfile /run/redis/redis-server.pid
appendonly yes
appendfsync everysec
save ""
"""
POSTGRES = """
listen_addresses = '127.0.0.1'
unix_socket_directories = '/run/postgresql'
max_connections = 20
superuser_reserved_connections = 3
shared_buffers = 8MB
min_wal_size = 2MB
max_wal_size = 8MB
autovacuum = off
"""
SUPERVISOR = """\
[unix_http_server]
file=/run/supervisor.sock
[supervisord]
logfile=/var/log/supervisor/supervisord.log
pidfile=/run/supervisord.pid
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix:///run/supervisor.sock
"""
PROGRAM = """\
[program:{name}]
command={command}
user={user}
autorestart=true
stopsignal={signal}
stdout_logfile={log}
redirect_stderr=true
"""
WRAPPER = """\
#!{python}
import sys
sys.path.insert(0, {cache!r})
from supervisor.{module} import main
sys.argv[0] = {module!r}
main()
"""


def prepare(folder: Path) -> None:
    """What all hosts copy: a database cluster, certificates, supervisord. Once per run."""
    if not SUPERVISOR_CACHE.exists():
        install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(SUPERVISOR_CACHE)]
        subprocess.run([*install, "supervisor"], check=True)
    cluster = folder / "cluster"
    cluster.mkdir(parents=True)
    cluster.chmod(0o755)
    initdb = f"{POSTGRES_BIN}/initdb -D {cluster}/main --wal-segsize=1 -A scram-sha-256"
    script = f"""
set -e
chmod 755 {folder.parent} {folder}; chown postgres {cluster}
echo admin-secret > {cluster}/pw; chown postgres {cluster}/pw
setpriv --reuid postgres --regid postgres --clear-groups {initdb} --pwfile {cluster}/pw >/dev/null
sed -i 's/^local.*/local all all trust/' {cluster}/main/pg_hba.conf
cd {folder}
openssl req -x509 -newkey rsa:2048 -nodes -keyout server.key -out server.crt -days 90 \
  -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
mkdir -p ca/new && touch ca/index && echo 01 > ca/serial
openssl req -new -key server.key -subj /CN=localhost -out server.csr
printf '[ca]\\ndefault_ca=d\\n[d]\\ndatabase=ca/index\\nserial=ca/serial\\n' > c
printf 'new_certs_dir=ca/new\\n' >> c
printf 'default_md=sha256\\npolicy=p\\n[p]\\ncommonName=supplied\\n' >> c
openssl ca -batch -config c -selfsign -keyfile server.key -in server.csr -out expired.crt \
  -startdate 20250101000000Z -enddate 20250201000000Z 2>/dev/null
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    if done.returncode:
        raise CommandError(f"the shared files could not be made: {done.stdout}{done.stderr}")


class Services:
    """The four services of a host, and how a person starts and stops them there."""

    def __init__(self, host: Namespace, manager: str, shared: Path) -> None:
        self.host = host
        self.manager = manager
        self.shared = shared
        self.python = sys.executable

    def install(self) -> None:
        """Write configuration and data; nothing is started."""
        host = self.host
        host.run(f"""
set -e
mount -t tmpfs tmpfs /dev/shm
mkdir -p /var/log/nginx /var/log/redis /var/log/shop /var/log/postgresql /var/log/supervisor
mkdir -p /run/redis /run/postgresql /srv/www/static /srv/shop /etc/shop /etc/supervisor/conf.d
mount -t tmpfs -o size=16m redis-data /var/lib/redis
mount -t tmpfs -o size=8m nginx-log /var/log/nginx
mount -t tmpfs -o size=96m postgres-data /var/lib/postgresql
chown redis /run/redis /var/lib/redis /var/log/redis
chown postgres /run/postgresql /var/lib/postgresql /var/log/postgresql
chown www-data /var/log/nginx
mkdir -p {POSTGRES_DATA}; rmdir {POSTGRES_DATA}
echo hello > /srv/www/static/hello.html
""")
        for name in ("server.key", "server.crt", "expired.crt"):
            host.path(f"/etc/nginx/{name}").write_bytes((self.shared / name).read_bytes())
        host.run("mv /etc/nginx/expired.crt /srv/www/old.crt")
        source = self.shared / "cluster" / "main"
        target = host.path(POSTGRES_DATA)
        subprocess.run(["cp", "-a", str(source), str(target)], check=True)
        with (target / "postgresql.conf").open("a") as config:
            config.write(POSTGRES)
        host.path("/etc/nginx/nginx.conf").write_text(NGINX)
        host.path("/etc/redis/redis.conf").write_text(REDIS)
        host.path("/srv/shop/shop_api.py").write_text(API_SOURCE.read_text())
        host.path("/srv/shop/catalogue.json").write_text('{"1": "lamp", "2": "chair"}\n')
        host.path("/etc/shop/shop.env").write_text(
            "PORT=8000\nDB_HOST=db.internal\nDB_PASSWORD=shop-secret\nREDIS_HOST=cache.internal\n"
        )
        if self.manager == "supervisord":
            self._install_supervisor()

    def _install_supervisor(self) -> None:
        config = SUPERVISOR
        for name in SERVICES:
            config += PROGRAM.format(name=name, **self._foreground(name))
        self.host.path("/etc/supervisor/supervisord.conf").write_text(config)
        for module in ("supervisord", "supervisorctl"):
            wrapper = self.host.path(f"/usr/local/bin/{module}")
            values = {"python": sys.executable, "cache": str(SUPERVISOR_CACHE), "module": module}
            wrapper.write_text(WRAPPER.format(**values))
            wrapper.chmod(0o755)

    def _foreground(self, name: str) -> dict[str, str]:
        return {
            "postgres": {
                "command": f"{POSTGRES_BIN}/postgres -D {POSTGRES_DATA}",
                "user": "postgres",
                "signal": "INT",
                "log": "/var/log/postgresql/postgresql.log",
            },
            "redis": {
                "command": "/usr/bin/redis-server /etc/redis/redis.conf",
                "user": "redis",
                "signal": "TERM",
                "log": "/var/log/redis/stdout.log",
            },
            "shop-api": {
                "command": f"{sys.executable} /srv/shop/shop_api.py",
                "user": "root",
                "signal": "TERM",
                "log": "/var/log/shop/shop-api.log",
            },
            "nginx": {
                "command": "/usr/sbin/nginx -g 'daemon off;'",
                "user": "root",
                "signal": "QUIT",
                "log": "/var/log/supervisor/nginx.log",
            },
        }[name]

    def start(self, name: str, *, check: bool = True) -> None:
        if self.manager == "supervisord":
            command = f"supervisorctl status {name} | grep -q RUNNING || supervisorctl start {name}"
            done = self.host.run(command, check=False)
            if check and "ERROR" in done.stdout and "already started" not in done.stdout:
                raise CommandError(f"{self.host.name}: {name}: {done.stdout}")
            return
        if self.manager == "docker":
            problem = start_container(self.host, name)
            if check and "rror" in problem:
                raise CommandError(f"{self.host.name}: {name}: {problem}")
            return
        if self.pids(name):
            return
        spec = self._foreground(name)
        script = {
            "postgres": f"setpriv --reuid postgres --regid postgres --clear-groups {POSTGRES_BIN}/"
            f"pg_ctl -D {POSTGRES_DATA} -l {spec['log']} -s -w -t 10 start",
            "redis": "setpriv --reuid redis --regid redis --clear-groups "
            f"{spec['command']} --daemonize yes",
            "shop-api": f"setsid {spec['command']} >> {spec['log']} 2>&1 < /dev/null &",
            "nginx": "nginx",
        }[name]
        self.host.run(script, check=check)

    def stop(self, name: str) -> None:
        """Stop a service in an orderly way, as a person would."""
        if self.manager == "supervisord":
            self.host.run(f"supervisorctl stop {name}", check=False)
            return
        if self.manager == "docker":
            self.host.run(f"docker stop -t 5 {name}", check=False)
            return
        script = {
            "postgres": "setpriv --reuid postgres --regid postgres --clear-groups "
            f"{POSTGRES_BIN}/pg_ctl -D {POSTGRES_DATA} -s -m immediate stop",
            "redis": "redis-cli shutdown nosave",
            "nginx": "nginx -s stop",
        }.get(name)
        if script:
            self.host.run(script, check=False, timeout=15)
        self.kill(name)

    def kill(self, name: str, signal: str = "KILL") -> None:
        """Send a signal to all processes of a service."""
        pids = " ".join(map(str, self.pids(name)))
        if pids:
            # One that is still ending would look as if the service ran already.
            gone = f"for i in $(seq 50); do kill -0 {pids} 2>/dev/null || break; sleep 0.1; done"
            wait = gone if signal == "KILL" else "true"
            self.host.run(f"kill -{signal} {pids}; {wait}", check=False)

    def pids(self, name: str) -> list[int]:
        if self.manager == "docker":
            return container_pids(self.host, name)
        pattern = {
            "postgres": ("postgres", f"{POSTGRES_BIN}/postgres"),
            "redis": ("redis-server", "/usr/bin/redis-server"),
            "shop-api": (f"{sys.executable} /srv/shop/shop_api.py",),
            "nginx": ("nginx: ", "/usr/sbin/nginx"),
        }[name]
        return self.host.pids(lambda command: command.startswith(pattern))

    def restart(self, name: str) -> None:
        self.stop(name)
        self.start(name)

    def start_all(self, leave_out: tuple[str, ...] = ()) -> None:
        if self.manager == "supervisord":
            config = self.host.path("/etc/supervisor/supervisord.conf")
            text = config.read_text().replace("autostart=false\n", "")
            for name in leave_out:
                text = text.replace(f"[program:{name}]\n", f"[program:{name}]\nautostart=false\n")
            config.write_text(text)
            self.host.run("supervisord -c /etc/supervisor/supervisord.conf")
            return
        if self.manager == "docker":
            start_engine(self.host)
            for name in SERVICES:
                spec = self._foreground(name)
                create_container(self.host, name, spec["command"], spec["user"])
                if name in leave_out:
                    keep_stopped(self.host, name)
        for name in SERVICES:
            if name not in leave_out:
                self.start(name)

    def create_database(self) -> None:
        """The tables and roles of the shop; `bench` is the role of the bench's own checks."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.psql("select 1", check=False).returncode:
            if time.monotonic() > deadline:
                raise CommandError(f"{self.host.name}: PostgreSQL did not start")
            time.sleep(0.2)
        self.psql(
            "create role shop login password 'shop-secret'; create role bench login password 'b';"
        )
        self.psql("create database shop owner shop")
        self.psql(
            "create table items (id int); insert into items values (1), (2);"
            "create table visits (at timestamptz); grant all on items, visits to shop, bench",
            database="shop",
        )

    def psql(
        self, query: str, database: str = "postgres", *, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        command = f"psql -h /run/postgresql -U postgres -qAt -d {database} -c"
        return self.host.run(f'{command} "{query}"', check=check)

    def stop_all(self) -> None:
        """End everything at once, as a power cut does."""
        if self.manager == "docker":
            kill_engine(self.host, SERVICES)
        for pid in self.host.pids(lambda command: "/supervisord" in command):
            self.host.run(f"kill -KILL {pid}", check=False)
        for name in SERVICES:
            self.kill(name)
        self.host.run("rm -rf /run/*.pid /run/*/*.pid /run/supervisor.sock /run/postgresql/.s*")
