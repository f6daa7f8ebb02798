"""A dump that a process left behind on a full disk is moved away; everything else stays."""

import time

import pytest
from supervisor_host import SupervisorHost, needs_namespaces
from test_playbooks_under_supervisors import matches, play

pytestmark = [pytest.mark.anyio, needs_namespaces]
NAME = "left-over-file"
ALERT = "100 percent of /var/log/web are in use"
DISK = """
mkdir -p /var/log/web
mount -t tmpfs -o size=8m web /var/log/web
mount -t tmpfs -o size=200m spare /var/tmp
echo kept > /var/log/web/access.log
"""
FILL = "cat /dev/zero > /var/log/web/{} 2>/dev/null"
GONE = 4194304
"""No process has this number: it is the limit of the kernel."""


async def test_a_dump_is_moved_to_another_disk_and_can_be_brought_back() -> None:
    with SupervisorHost() as host:
        host.run(DISK)
        host.run(FILL.format(f"core.{GONE}"))
        size = host.path(f"/var/log/web/core.{GONE}").stat().st_size
        result = await play(host, NAME, ALERT)
        assert (result.outcome, result.detail) == ("applied", "")
        assert host.run("ls /var/log/web").split() == ["access.log"]
        (moved,) = host.path("/var/tmp/hermes-undo").glob(f"*/core.{GONE}")
        assert moved.stat().st_size == size
        assert moved.parent.stat().st_mode & 0o077 == 0


LEFT_ALONE = {
    "another name": "backup.tar",
    "a data file": "appendonly.aof",
    "the dump of a process that runs": "core.1",
}


@pytest.mark.parametrize("what", LEFT_ALONE)
async def test_a_file_that_may_be_needed_stays(what: str) -> None:
    with SupervisorHost() as host:
        host.run(DISK)
        host.run(FILL.format(LEFT_ALONE[what]))
        assert not await matches(host, NAME, ALERT)


async def test_a_dump_that_is_still_read_or_is_old_stays() -> None:
    with SupervisorHost() as host:
        host.run(DISK)
        host.run(FILL.format(f"core.{GONE}"))
        assert await matches(host, NAME, ALERT)
        host.run(f"setsid sleep 987 < /var/log/web/core.{GONE} >/dev/null 2>&1 & echo $! > /srv/p")
        deadline = time.monotonic() + 60
        while "core" not in host.run("ls -l /proc/$(cat /srv/p)/fd"):
            assert time.monotonic() < deadline
        assert not await matches(host, NAME, ALERT)
        host.run("kill -KILL $(cat /srv/p)")
        host.run(f"touch -d '3 hours ago' /var/log/web/core.{GONE}")
        assert not await matches(host, NAME, ALERT)


async def test_without_a_disk_with_room_it_stays() -> None:
    with SupervisorHost() as host:
        host.run(DISK.replace("size=200m", "size=9m"))
        host.run(FILL.format(f"core.{GONE}"))
        assert not await matches(host, NAME, ALERT)
