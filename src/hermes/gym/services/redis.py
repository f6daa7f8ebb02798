"""A Redis server for scenarios, and the source of a small client for services that use it."""

from hermes.core.messages import Value
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import SEVERAL_USERS
from hermes.gym.scenario_spec import HostFile, HostFolder, ScriptCheck, UnitRunningCheck

REDIS_NEEDS = ("redis-server", "redis-cli", SEVERAL_USERS)
REDIS_CLIENT = """\
class CacheError(Exception):
    pass

def reply(file):
    head = file.readline().decode("utf-8", "replace").strip()
    if not head:
        raise CacheError("connection closed")
    if head[0] == "-":
        raise CacheError(head[1:])
    if head[0] == "$":
        size = int(head[1:])
        return None if size < 0 else file.read(size + 2)[:-2].decode()
    return head[1:]

def ask(conf, *words):
    line = socket.socket()
    line.settimeout(float(conf.get("cache_timeout", 2.0)))
    try:
        line.connect((conf.get("cache_host", "127.0.0.1"), int(conf["cache_port"])))
        parts = [f"${len(word)}\\r\\n{word}\\r\\n" for word in words]
        line.sendall(f"*{len(words)}\\r\\n{''.join(parts)}".encode())
        with line.makefile("rb") as file:
            return reply(file)
    except OSError as error:
        raise CacheError(f"{type(error).__name__} {error}")
    finally:
        line.close()

"""
_REDIS_CONF = """\
bind {bind}
port {port}
protected-mode no
dir /var/lib/redis
save ""
appendonly yes
appendfsync no
aof-use-rdb-preamble no
maxmemory {maxmemory}
maxmemory-policy {policy}
"""
_REDIS_UNIT = """\
[Unit]
Description=Redis

[Service]
ExecStart=/usr/bin/redis-server /etc/redis/redis.conf
User=www
Restart=on-failure
RestartSec=200ms

[Install]
WantedBy=multi-user.target
"""


class RedisServer(Value, kw_only=True, frozen=True):
    port: int
    files: tuple[HostFile, ...]
    folders: tuple[HostFolder, ...]
    unit: HostFile

    @property
    def cli(self) -> str:
        return f"redis-cli -p {self.port}"

    @property
    def ran_on(self) -> UnitRunningCheck:
        return UnitRunningCheck(name="the cache ran on", unit=self.unit.path, undisturbed=True)

    def says(self, name: str, script: str, *, host: int = 0) -> ScriptCheck:
        """In `script`, `%s` stands for redis-cli with its options."""
        return ScriptCheck(name=name, script=script % self.cli, host=host)

    def has(self, name: str, value: str, *, host: int = 0) -> ScriptCheck:
        return self.says(f"{name} is there", f'[ "$(%s GET {name})" = {value} ]', host=host)

    def setting(self, name: str, value: str) -> ScriptCheck:
        return self.says(f"{name} is {value}", f"%s CONFIG GET {name} | grep -qx {value}")

    def writes(self, prefix: str) -> ScriptCheck:
        """A check that keys with this prefix are being written."""
        return self.says(
            f"{prefix} is written to",
            f"for try in $(seq 20); do [ -n \"$(%s --scan --pattern '{prefix}*' | head -1)\" ] "
            "&& exit 0; sleep 0.1; done; exit 1",
        )

    def written(self, times: int) -> str:
        """A script that waits until so many more writes were tried, on a slow machine too."""
        return (
            "tried() { sum=0; for part in $("
            f"{self.cli} INFO commandstats | tr -d '\\r' | grep '^cmdstat_set:' | tr ',' ' '); do "
            "case $part in *calls=*) sum=$((sum + ${part##*calls=})) ;; esac; done; }; "
            f"tried; goal=$((sum + {times})); for try in $(seq 200); do tried; "
            "[ $sum -ge $goal ] && break; sleep 0.05; done"
        )


def redis_server(
    rng: RandomSource,
    rows: dict[str, str],
    *,
    maxmemory: str = "32mb",
    policy: str = "noeviction",
    bind: str = "127.0.0.1",
) -> RedisServer:
    port = rng.pick((6379, 6380, 7001, rng.port()))
    conf = _REDIS_CONF.format(bind=bind, port=port, maxmemory=maxmemory, policy=policy)
    entries = "".join(_append_only_entry("SET", name, value) for name, value in rows.items())
    folder = "/var/lib/redis/appendonlydir"
    manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n"
    return RedisServer(
        port=port,
        files=(
            HostFile(path="/etc/redis/redis.conf", text=conf),
            HostFile(path=f"{folder}/appendonly.aof.manifest", text=manifest, owner=1001),
            HostFile(path=f"{folder}/appendonly.aof.1.incr.aof", text=entries, owner=1001),
        ),
        folders=(
            HostFolder(path="/var/lib/redis", owner=1001),
            HostFolder(path=folder, owner=1001),
        ),
        unit=HostFile(path="redis.service", text=_REDIS_UNIT),
    )


def _append_only_entry(*words: str) -> str:
    return f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
