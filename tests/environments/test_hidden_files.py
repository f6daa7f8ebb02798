"""Files with secrets that the kernel hides, whatever names a command finds at run time."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.core.actions import ConfinementProfile
from hermes.environments.confinement.hidden_files import find_hidden_files
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing import support

NOT_HERE = support.kernel_support().reason or ("" if os.geteuid() == 0 else "needs root")
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]
ACCOUNTS = ConfinementProfile(hidden=("/etc/shadow",))


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    (tmp_path / "list").write_text("/etc/shadow\0")
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    async with LocalEnvironment(tmp_path, variables) as place:
        yield place


async def run(place: LocalEnvironment, command: str, profile: ConfinementProfile) -> str:
    async with place.confined(profile) as confined:
        return (await confined.run(command, timeout=120)).output


def first_hash() -> str:
    lines = [line.split(":") for line in Path("/etc/shadow").read_text().splitlines()]
    return next((words[1] for words in lines if len(words[1]) > 3), "")


@pytest.mark.parametrize(
    "command",
    [
        "sort --files0-from=list",
        "cat $(tr -d '\\0' < list)",
        "find /etc -name 'sh*w' -exec cat {} +",
        "git diff --no-index /dev/null /etc/shadow",
        "cat /proc/self/root/etc/shadow",
        "cat < /etc/shadow",
    ],
)
async def test_account_files_keep_their_lines_without_hashes(
    here: LocalEnvironment, command: str
) -> None:
    output = await run(here, command, ACCOUNTS)
    assert "root:" in output, output
    if first_hash():
        assert first_hash() not in output
    assert "daemon:" in output


async def test_account_programs_and_listings_answer_as_usual(here: LocalEnvironment) -> None:
    for command in (
        "stat -c '%a %U %G %Y' /etc/shadow",
        "ls -l /etc/shadow | cut -c1-10",
        "chage -l root",
        "passwd -S root",
        "passwd -S daemon",
        "df --output=target | sort",
        "ls /tmp | sort | grep -v hermes",
    ):
        unconfined = (await here.run(command, timeout=120)).output
        assert await run(here, command, ACCOUNTS) == unconfined, command


async def test_credentials_are_found_in_each_home(
    here: LocalEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    for name in ("id_rsa", "id_rsa.pub", "config"):
        (tmp_path / ".ssh" / name).write_text(f"content of {name}")
    key = tmp_path / ".ssh" / "id_rsa"
    key.chmod(0o640)
    profile = ConfinementProfile(hidden=("~/.ssh/id_*",))
    output = await run(here, "cat .ssh/*; stat -c %a .ssh/id_rsa", profile)
    assert output == "content of configcontent of id_rsa.pub640\n"
    assert "content of id_rsac" not in await run(here, "read f < <(ls .ssh/*_rsa); cat $f", profile)
    changing = ConfinementProfile(hidden=("~/.ssh/id_*",), writable=(str(key),))
    await run(here, f"echo new > {key}", changing)
    assert key.read_text() == "new\n"
    assert find_hidden_files(("~/.ssh/id_*",), (str(tmp_path),)) == ()


async def test_no_copy_of_the_mounts_shows_what_is_hidden(here: LocalEnvironment) -> None:
    code = (
        "import ctypes, os; libc = ctypes.CDLL(None); "
        "fd = libc.syscall(428, -100, b'/', 1); "
        "print(fd < 0 or os.read(os.open('etc/shadow', os.O_RDONLY, dir_fd=fd), 99))"
    )
    profile = ConfinementProfile(hidden=("/etc/shadow",), special=("devices",))
    assert await run(here, f'python3 -c "{code}"', profile) == "True\n"


HIDE_AND_COUNT = """
import os, sys
from hermes.environments.confinement.hidden_files import StandIns
stand_ins = StandIns(copies_mounts=sys.argv[1] == "yes")
stand_ins.prepare()
before = sum(1 for _ in open("/proc/self/mountinfo"))
for _ in range(3):
    if os.fork() == 0:
        stand_ins.rehearse()
        stand_ins.hide((sys.argv[2], "/no/such"))
        mounts = sum(1 for _ in open("/proc/self/mountinfo")) - before
        found = os.stat(sys.argv[2])
        print(repr(open(sys.argv[2]).read()), oct(found.st_mode)[-3:], found.st_mtime_ns, mounts)
        sys.stdout.flush()
        os._exit(0)
    os.wait()
print(repr(open(sys.argv[2]).read()))
"""


@pytest.mark.parametrize("copies", ["yes", "no"])
def test_old_and_new_kernels_hide_a_file_and_leave_no_other_mount(
    tmp_path: Path, copies: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    secret.chmod(0o640)
    os.utime(secret, ns=(5, 7_000_000_000))
    found = subprocess.run(
        [sys.executable, "-c", HIDE_AND_COUNT, copies, str(secret)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert found.stdout.splitlines() == [*["'' 640 7000000000 1"] * 3, "'hunter2'"], found.stderr
