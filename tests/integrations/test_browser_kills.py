"""A killed Hermes leaves neither a browser nor a profile behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser_pages import PageServer, needs_chromium, page_server

from hermes.environments.processes.piped_process import end_orphans
from hermes.integrations.browser.launch import PROFILE_PREFIX

pytestmark = [pytest.mark.torture, needs_chromium]
DEADLINE_S = 60.0
VICTIM = Path(__file__).with_name("browser_victim.py")


@pytest.fixture
def server() -> Iterator[PageServer]:
    with page_server({"/": "<h1>Here</h1>"}) as made:
        yield made


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Profiles are made in it; their paths must be short."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    yield folder
    folder.rmdir()  # it is empty


def wait_until(true: Callable[[], object]) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def processes_of(folder: Path) -> set[int]:
    """Processes whose command names the folder: the browser, its helpers and its watchdog."""
    found = set()
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder / PROFILE_PREFIX).encode() in (each / "cmdline").read_bytes():
                found.add(int(each.name))
        except OSError:
            continue
    return found


def profiles(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def start_victim(server: PageServer, records: Path, temporary: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(VICTIM), server.address, str(records)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


def kill_at(victim: subprocess.Popen[str], word: str) -> None:
    assert victim.stdout is not None
    assert any(line.strip() == word for line in victim.stdout)
    victim.kill()
    victim.wait()
    victim.stdout.close()


@pytest.mark.parametrize("word", ["started", "open"])
def test_the_browser_and_its_profile_end_with_a_killed_owner(
    tmp_path: Path, temporary: Path, server: PageServer, word: str
) -> None:
    kill_at(start_victim(server, tmp_path, temporary), word)
    assert wait_until(lambda: not processes_of(temporary))
    assert wait_until(lambda: not profiles(temporary))


@pytest.mark.anyio
async def test_a_later_start_ends_what_a_killed_watchdog_left(
    tmp_path: Path, temporary: Path, server: PageServer
) -> None:
    victim = start_victim(server, tmp_path, temporary)
    assert victim.stdout is not None
    assert any(line.strip() == "open" for line in victim.stdout)
    watchdogs = [pid for pid in processes_of(temporary) if _is_watchdog(pid, victim.pid)]
    assert len(watchdogs) == 1
    for pid in (*watchdogs, victim.pid):
        os.kill(pid, signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    assert profiles(temporary)  # nobody was there to remove it
    await end_orphans(tmp_path / "processes" / "piped")
    assert wait_until(lambda: not processes_of(temporary))
    assert profiles(temporary) == []


def _is_watchdog(pid: int, parent: int) -> bool:
    """A shell that our process started and that is not the browser."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(stat[1]) == parent and b"read -r leader" in b" ".join(words)
