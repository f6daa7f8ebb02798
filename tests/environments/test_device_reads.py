"""Devices: their raw content is that of every file on them, so reading one is no plain read."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermes.core.actions import ConfinementProfile
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing import support
from hermes.policy.actions.action_effects import ActionEffects
from hermes.policy.actions.confinement_profile import build_profile
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.command_analysis import analyse_command
from hermes.policy.examination import action_from_description, parse_description

NOT_HERE = support.kernel_support().reason
pytestmark = pytest.mark.anyio
SECRET = "fake-value-1"


def read_effects(command: str, folder: str = "/srv") -> ActionEffects:
    action = action_from_description(parse_description({"command": command}))
    context = ActionContext(cwd=folder, home="/home/nobody")
    return ActionReader(analyse_command).read(action, context)


def effects_of(command: str) -> frozenset[str]:
    return frozenset(read_effects(command).effects)


def judged(command: str, folder: Path) -> ConfinementProfile:
    return build_profile(read_effects(command, str(folder)))


async def run(
    place: LocalEnvironment, command: str, profile: ConfinementProfile
) -> tuple[str, list[str]]:
    async with place.confined(profile) as confined:
        result = await confined.run(command, timeout=120)
        return result.output, [str(each) for each in confined.collect()]


@pytest.mark.parametrize(
    "command",
    [
        "strings /dev/loop0 | grep x",
        "cat /dev/sda1",
        "cat < /dev/nvme0n1",
        "cat /dev/sd*",
        "head -c1 /dev/dm-0",
        "grep -a x /dev/mapper/vg-root",
        "zcat /dev/disk/by-uuid/1",
        "dd if=/dev/sda bs=1M count=1 | strings",
        "dd if=/dev/sda of=/dev/stdout",
        "dd if=/dev/sda of=/dev/null of=/dev/fd/1",
        "xxd /dev/mem",
        "cat /dev/kmem",
        "cat /dev/port",
        "cat /dev/input/event0",
        "cat /dev/watchdog",
        "cat /dev/watchdog0",
        "cat /dev/vcs1",
        "cat /dev/st0",
        "cat /dev/ttyS0",
        "cat /proc/kmsg",
        "cat /proc/kcore",
        "cat /srv/../dev/vda",
        "cat /proc/1/root/dev/vda",
    ],
)
def test_reading_a_device_is_reading_secrets(command: str) -> None:
    assert "secret-read" in effects_of(command)


@pytest.mark.parametrize(
    "command",
    [
        "blkid /dev/sda1",
        "smartctl -a /dev/sda",
        "lsblk /dev/sda",
        "fdisk -l /dev/sda",
        "file -s /dev/sda",
        "hdparm -tT /dev/sda",
        "badblocks -sv /dev/sdb",
        "dumpe2fs -h /dev/sda1",
        "blockdev --getsize64 /dev/sda",
        "udevadm info /dev/sda",
        "lsof /dev/sda1",
        "ls -l /dev/sd* /dev/disk/by-id/ /dev/input",
        "dd if=/dev/sda of=/dev/null bs=1M count=100",
        "cat /dev/null /dev/stdin /dev/shm/x /dev/kmsg",
        "head -c 8 /dev/urandom | xxd",
        "mount | grep /dev/sda",
        "df /dev/sda1",
        "cat <(df)",
        "tty; stat /dev/pts/0",
    ],
)
def test_programs_of_devices_stay_plain_reads(command: str) -> None:
    assert effects_of(command) <= {"read"}


@pytest.mark.parametrize("program", ["smartctl -a", "fdisk -l", "lsblk -f", "file -s", "lvs"])
def test_programs_of_devices_may_open_them(tmp_path: Path, program: str) -> None:
    profile = judged(f"{program} /dev/sda; cat *.log", tmp_path)
    assert profile.refused_reads
    assert profile.granted_reads == (f"{program.partition(' ')[0]}:/dev/*",)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """A block device with a secret, under a name that says nothing."""
    image, node = tmp_path / "image", tmp_path / "node"
    image.write_bytes(f"{SECRET}\n".encode().ljust(4096, b"\0"))
    found = subprocess.run(
        ["losetup", "--find", "--show", image], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"no loop device: {found.stderr}")
    loop = found.stdout.strip()
    try:
        os.mknod(node, 0o060600, Path(loop).stat().st_rdev)
        (tmp_path / "link").symlink_to(loop)
        yield Path(loop)
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    async with LocalEnvironment(tmp_path, variables) as place:
        await place.kernel_support()
        yield place


@pytest.mark.skipif(bool(NOT_HERE) or os.geteuid() != 0, reason=NOT_HERE or "needs root")
async def test_a_device_that_is_found_at_run_time_is_not_read(
    here: LocalEnvironment, device: Path, tmp_path: Path
) -> None:
    number = device.name.removeprefix("loop")
    for command in (f"strings /dev/l??p{number}", "cat lin?", "cat nod?"):
        output, blocked = await run(here, command, judged(command, tmp_path))
        assert SECRET not in output
        assert [each for each in blocked if each.startswith("read of /")], command
    plain = f"head -c 12 {device}"
    assert (await run(here, plain, ConfinementProfile()))[0] == SECRET
    allowed = f"file -s {device}; cat imag?"
    output, blocked = await run(here, allowed, judged(allowed, tmp_path))
    assert f"{device}: " in output
    assert blocked == []
