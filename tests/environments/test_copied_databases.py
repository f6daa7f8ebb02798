"""Small databases in use are part of a copy of this machine; large and busy ones are left out."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from hermes.environments.confinement.copied_files import copy_quiet_tree
from hermes.environments.copies.machine_copy import copy_machine
from hermes.environments.sandboxing import support

needs_root = pytest.mark.skipif(
    os.getuid() != 0 or bool(support.no_sandbox_reason()), reason="copies of this machine need root"
)
needs_redis = pytest.mark.skipif(not shutil.which("redis-server"), reason="redis is not installed")


@pytest.fixture
def database() -> Iterator[Path]:
    """The folder of a redis server that runs and has one key. Not below /tmp."""
    folder = Path(f"/var/tmp/hermes-database-test-{os.getpid()}")
    folder.mkdir(mode=0o755)
    socket = folder / "redis.sock"
    words = f"--port 0 --unixsocket {socket} --dir {folder} --appendonly yes".split()
    server = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
    client = ["redis-cli", "-s", str(socket)]
    while subprocess.run([*client, "set", "kept", "value"], capture_output=True).returncode:
        time.sleep(0.05)
    yield folder
    server.kill()
    server.wait()
    shutil.rmtree(folder)


@needs_root
@needs_redis
@pytest.mark.anyio
async def test_a_small_database_starts_in_a_copy_with_its_data(database: Path) -> None:
    copy = await copy_machine()
    try:
        words = f"redis-server --port 7399 --dir {database} --appendonly yes"
        started = await copy.run(f"setsid {words} > /tmp/log 2>&1 < /dev/null & sleep 1; true")
        assert started.code == 0
        asked = await copy.run("redis-cli -p 7399 get kept; redis-cli -p 7399 set kept other")
        assert asked.output.split()[0] == "value"
        assert not [each for each in copy.left_out if str(database) in each]
    finally:
        await copy.close()
    asked_here = await anyio.run_process(
        ["redis-cli", "-s", str(database / "redis.sock"), "get", "kept"]
    )
    assert asked_here.stdout == b"value\n"


@needs_root
@needs_redis
@pytest.mark.anyio
async def test_a_large_database_is_left_out_and_said(database: Path) -> None:
    with (database / "large").open("wb") as file:
        file.write(bytes(70 << 20))
    copy = await copy_machine()
    try:
        assert (await copy.run(f"ls {database}")).output.strip() == ""
        assert f"{database}: a database in use, more than 64 MB" in copy.left_out
    finally:
        await copy.close()


def test_a_folder_is_copied_while_nothing_is_written(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "page").write_text("1")
    (source / "server.pid").write_text("17")
    target.mkdir()
    copy_quiet_tree(str(source), str(target))
    found = [str(each.relative_to(target)) for each in target.rglob("*")]
    assert sorted(found) == ["inner", "inner/page"]


def test_a_folder_with_files_that_were_just_written_is_not_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "log").write_text("x")
    later = time.time() + 60  # as if each look found a new write
    os.utime(source / "log", (later, later))
    with pytest.raises(OSError, match="written all the time"):
        copy_quiet_tree(str(source), str(target))
    assert list(target.iterdir()) == []
