"""Settings of a real redis that were made at run time are taken back; others are left alone."""

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from supervisor_host import SupervisorHost, needs_namespaces
from test_playbooks_under_supervisors import play

pytestmark = [
    pytest.mark.anyio,
    needs_namespaces,
    pytest.mark.skipif(not shutil.which("redis-server"), reason="redis is not installed"),
]
NAME = "redis-runtime-setting"
DEADLINE_S = 120.0


class Redis:
    """A redis server with a configuration file on a host."""

    def __init__(self, host: SupervisorHost, lines: str = "", name: str = "redis") -> None:
        self.host, self.name = host, name
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = int(one.getsockname()[1])
        conf = (
            f"bind 127.0.0.1\nport {self.port}\ndir /srv\nsave ''\ndbfilename {name}.rdb\n{lines}"
        )
        host.path(f"/srv/{name}.conf").write_text(conf)
        host.path("/srv/limit.conf").write_text("maxmemory 100kb\n")
        host.run(
            f"ip link set lo up; redis-server /srv/{name}.conf --daemonize yes >/dev/null 2>&1"
        )
        self.until("PING", "PONG")

    def ask(self, words: str) -> str:
        return self.host.run(f"redis-cli -p {self.port} {words}")

    def until(self, words: str, expected: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while expected not in (answer := self.ask(words)):
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)


@contextmanager
def a_redis(lines: str = "") -> Iterator[Redis]:
    with SupervisorHost() as host:
        redis = Redis(host, lines)
        try:
            yield redis
        finally:
            redis.ask("SHUTDOWN NOSAVE")


async def test_a_lowered_memory_limit_is_set_back_to_that_of_the_file() -> None:
    with a_redis("maxmemory 64mb\n") as redis:
        redis.ask("CONFIG SET maxmemory 100kb")
        assert "OOM" in redis.ask("SET a 1")
        result = await play(redis.host, NAME, "redis refuses writes")
        assert (result.outcome, result.detail) == ("applied", "")
        assert redis.ask("CONFIG GET maxmemory").split() == ["maxmemory", str(64 * 1024 * 1024)]
        assert redis.ask("SET a 1").strip() == "OK"


@pytest.mark.parametrize(
    ("lines", "cause", "answer"),
    [
        pytest.param("", "REPLICAOF 127.0.0.1 1", "READONLY", id="replica"),
        pytest.param(
            "include /srv/limit.conf\n", "CONFIG SET maxmemory 100kb", "OOM", id="include"
        ),
        pytest.param("maxmemory 100kb\n", "PING", "OOM", id="limit-in-the-file"),
    ],
)
async def test_what_is_written_down_or_elsewhere_stays(lines: str, cause: str, answer: str) -> None:
    with a_redis(lines) as redis:
        redis.ask(cause)
        assert answer in redis.ask("SET a 1")
        before = redis.ask("CONFIG GET '*'")
        result = await play(redis.host, NAME, "redis refuses writes")
        assert result.outcome == "declined" and not result.changed
        assert redis.ask("CONFIG GET '*'") == before
