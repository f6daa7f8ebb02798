"""A copy of this machine: what it shows, what it may use, and that nothing is left of it."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from hermes.environments.boxes.backend import HostPlan
from hermes.environments.boxes.box import Box
from hermes.environments.confinement.namespaces import SANDBOX_DEVICES
from hermes.environments.copies import CannotCopyError, CopyLimits, CopyService
from hermes.environments.copies.machine_copy import (
    HIDDEN_CREDENTIALS,
    NO_NAMESPACES,
    NO_OVERLAY,
    copy_machine,
    explain_failure,
)
from hermes.environments.local import LocalEnvironment
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.sandboxing import support
from hermes.environments.sandboxing.cgroups import CGROUP_PREFIX, create_cgroup, remove_cgroup
from hermes.environments.settings import TerminalSettings
from hermes.gym.box.environment import BoxHostClient
from hermes.policy.commands import tables

HERE = Path(__file__).parent
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="services of several users need root")


async def eventually(happened: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(60):
        while True:
            if await happened():
                return
            await anyio.sleep(0.02)


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def seen_folder() -> Iterator[Path]:
    """Not below /tmp, which is empty in a copy."""
    folder = Path(f"/var/tmp/hermes-copy-test-{os.getpid()}")
    folder.mkdir(mode=0o755)
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


async def test_the_copy_shows_files_and_cannot_change_them(seen_folder: Path) -> None:
    (seen_folder / "kept").write_text("kept\n")
    (seen_folder / "changed").write_text("before\n")
    copy = await copy_machine(cwd=str(seen_folder))
    ran = await copy.run("cat kept; cat > changed; rm kept; echo new > new", stdin=b"after\n")
    assert (ran.code, ran.output) == (0, "kept\n")
    assert (await copy.run("cat changed")).output == "after\n"
    expected = {f"{seen_folder}/{name}" for name in ("kept", "changed", "new")}
    assert expected == {each for each in copy.changed_paths() if str(seen_folder) in each}
    await copy.close()
    assert (seen_folder / "changed").read_text() == "before\n"
    assert names_in(seen_folder) == ["changed", "kept"]


async def test_two_copies_of_one_machine_do_not_see_each_other(seen_folder: Path) -> None:
    first, second = await copy_machine(), await copy_machine()
    await first.run(f"echo 1 > {seen_folder}/x")
    assert (await second.run(f"ls {seen_folder}")).output == ""
    await first.close()
    await second.close()


async def test_nothing_in_a_copy_changes_the_devices_of_the_machine() -> None:
    names = [f"/dev/{name}" for name in SANDBOX_DEVICES]
    before = {name: device_attributes(name) for name in names}
    copy = await copy_machine()
    try:
        for name in names:
            # What is set is what was there, so that a failure harms no one.
            mode, uid, gid = (before[name][at] for at in range(3))
            await copy.run(f"chmod {mode & 0o7777:o} {name}; chown {uid}:{gid} {name}")
            await copy.run(f"touch {name}")
        used = await copy.run("head -c 3 /dev/zero > /dev/null && echo x >> /dev/null; echo $?")
    finally:
        await copy.close()
    assert used.output == "0\n"
    assert {name: device_attributes(name) for name in names} == before


def device_attributes(path: str) -> tuple[int, ...]:
    found = Path(path).stat()
    return (found.st_mode, found.st_uid, found.st_gid, found.st_ctime_ns, found.st_mtime_ns)


async def test_secrets_are_hidden_and_fresh_folders_are_empty(seen_folder: Path) -> None:
    own = seen_folder / "own"
    own.write_text("secret")
    copy = await copy_machine(hidden=(str(own),))
    assert (await copy.run(f"cat {own}")).output == ""
    assert "$" not in (await copy.run("cat /etc/shadow")).output
    assert (await copy.run("ls -A /tmp /dev/shm")).output == "/dev/shm:\n\n/tmp:\n"
    listed = await copy.run("find /run -type s -o -type f | grep -v /run/host-copy")
    assert set(listed.output.split()) <= {"/run/systemd/private"}
    await copy.close()


def test_the_hidden_credentials_are_those_of_the_policy() -> None:
    assert list(HIDDEN_CREDENTIALS) == list(tables.path_lists()["hidden_credentials"])


@needs_root
async def test_a_service_runs_as_its_unit_says_and_follows_its_files(seen_folder: Path) -> None:
    (seen_folder / "env").write_text("GREETING=hello\n")
    report = f"/bin/sh -c 'id -un; pwd; echo $GREETING; ulimit -n; cat {seen_folder}/env; sleep 99'"
    definition = (
        f"ExecStart={report}",
        "User=nobody",
        f"WorkingDirectory={seen_folder}",
        f"EnvironmentFile={seen_folder}/env",
        "LimitNOFILE=77",
    )
    copy = await copy_machine(
        units=[CopyService(name="speaker", definition=definition, running=True)]
    )

    async def spoke(words: str) -> bool:
        log = await copy.run("journalctl -u speaker -o cat")
        return words in log.output

    await eventually(lambda: spoke(f"nobody\n{seen_folder}\nhello\n77\n"))
    await copy.run(f"echo GREETING=changed > {seen_folder}/env")
    assert (await copy.restart("speaker")).code == 0
    await eventually(lambda: spoke("changed\n77"))
    unit = "[Service]\nExecStart=/bin/sh -c 'echo from-the-file; sleep 99'\n"
    await copy.run("cat > /etc/systemd/system/speaker.service", stdin=unit.encode())
    await copy.reload_units()
    await copy.restart("speaker")
    await eventually(lambda: spoke("from-the-file"))
    assert "speaker.service" not in names_in(Path("/etc/systemd/system"))
    await copy.close()


async def test_a_service_that_goes_to_the_background_stays_running(seen_folder: Path) -> None:
    start = "/bin/sh -c 'setsid sleep 99 & echo $! > /run/daemon.pid'"
    unit = CopyService(
        name="daemon",
        definition=("Type=forking", "PIDFile=/run/daemon.pid", f"ExecStart={start}"),
        running=True,
    )
    copy = await copy_machine(units=[unit])

    async def runs() -> bool:
        return (
            await copy.run("systemctl is-active daemon; pgrep -c sleep")
        ).output == "active\n1\n"

    await eventually(runs)
    await copy.run("systemctl stop daemon")

    async def stopped() -> bool:
        return (await copy.run("pgrep sleep")).code == 1

    await eventually(stopped)
    await copy.close()


async def test_a_fork_bomb_is_bounded_and_ends_with_the_copy() -> None:
    copy = await copy_machine(CopyLimits(processes=40))
    await copy.run("bomb() { bomb | bomb & }; bomb; sleep 1", timeout_s=3)
    await copy.close()

    async def is_over() -> bool:
        return not [each for each in running_command_lines() if "bomb | bomb" in each]

    await eventually(is_over)


async def test_the_disk_of_a_copy_is_bounded() -> None:
    copy = await copy_machine(CopyLimits(disk_mb=8))
    ran = await copy.run("head -c 20M /dev/zero > /var/tmp/large; stat -c %s /var/tmp/large")
    assert "No space left" in ran.output
    assert int(ran.output.split()[-1]) <= 8 << 20
    await copy.close()


async def test_a_copy_ends_when_its_time_is_over() -> None:
    copy = await copy_machine(CopyLimits(time_s=0.3))
    mark = f"{random.randrange(10**6, 10**7)}"
    await copy.run(f"setsid sleep {mark} >/dev/null 2>&1 &")

    async def is_over() -> bool:
        return not [each for each in running_command_lines() if mark in each]

    await eventually(is_over)
    await copy.close()


def running_command_lines() -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def read_mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def left_cgroups() -> list[str]:
    return [
        f"{folder}/{name}"
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if name.startswith(CGROUP_PREFIX)
    ]


async def test_fifty_kills_leave_nothing() -> None:
    mounts = read_mounts()
    before = set(left_cgroups())
    mark = f"{random.randrange(10**6, 10**7)}"
    pids: list[int] = []
    for _ in range(10):
        programs = [start_program(mark) for _ in range(5)]
        for program in programs:
            assert program.stdout is not None
            program.stdout.readline()
            time.sleep(random.random() * 0.15)  # noqa: ASYNC251 - a moment to be killed at
            program.kill()
            program.communicate()
            pids.append(program.pid)

    async def is_over() -> bool:
        return not [each for each in running_command_lines() if mark in each]

    await eventually(is_over)
    killed = {f"-{pid}-" for pid in pids}

    async def are_removed() -> bool:
        # Killed between the creation of a cgroup and the start of its box: the next one removes it.
        await remove_cgroup(create_cgroup(memory=1 << 26, processes=8))
        new = set(left_cgroups()) - before
        return not [each for each in new if any(pid in each for pid in killed)]

    await eventually(are_removed)
    assert read_mounts() == mounts
    assert mark not in names_in(Path("/etc"))


def start_program(mark: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, str(HERE / "killed_copy.py"), mark],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


async def test_without_namespaces_the_reason_says_what_to_do() -> None:
    code = (
        "import os, anyio\n"
        "from pathlib import Path\n"
        "from hermes.environments.confinement import kernel\n"
        "from hermes.environments.copies.machine_copy import copy_machine\n"
        "uid = os.getuid()\n"
        "kernel.system_call('unshare', 0x10000000)\n"
        "Path('/proc/self/setgroups').write_text('deny')\n"
        "Path('/proc/self/uid_map').write_text(f'1000 {uid} 1')\n"
        "Path('/proc/sys/user/max_user_namespaces').write_text('0')\n"
        "try:\n    anyio.run(copy_machine)\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    done = await anyio.run_process([sys.executable, "-c", code], check=False)
    assert done.stdout.decode().startswith("CannotCopyError " + NO_NAMESPACES), done


def test_without_overlays_the_reason_says_what_to_do() -> None:
    assert NO_OVERLAY in explain_failure("mount: No such device")
    assert issubclass(CannotCopyError, Exception)


async def test_a_local_environment_can_be_copied_and_a_remote_one_says_why_not(
    seen_folder: Path,
) -> None:
    async with LocalEnvironment(seen_folder, {"PATH": os.defpath}) as here:
        copy = await here.copy(CopyLimits(processes=64))
        assert (await copy.run("pwd")).output == f"{seen_folder}\n"
        await copy.close()
        mark = f"{random.randrange(10**6, 10**7)}"
        left_open = await here.copy()
        await left_open.run(f"setsid sleep {mark} >/dev/null 2>&1 &")

    async def is_over() -> bool:
        return not [each for each in running_command_lines() if mark in each]

    await eventually(is_over)
    client = BoxHostClient(Box([HostPlan()]), 0)
    elsewhere = RemoteEnvironment(
        "ssh", "web-1", client, settings=TerminalSettings(), isolated=False
    )
    with pytest.raises(CannotCopyError, match=r"web-1 is reached over ssh.*run Hermes there"):
        await elsewhere.copy()


@needs_root
async def test_programs_of_supervisord_are_units_of_the_copy() -> None:
    definition = ("ExecStart=sleep 1000", "SourcePath=/etc/supervisor/supervisord.conf")
    unit = CopyService(name="worker", definition=definition, running=True)
    copy = await copy_machine(units=[unit])
    try:
        control = "supervisorctl -c /etc/supervisor/supervisord.conf"
        status = await copy.run(f"{control} status web:worker")
        assert status.output.startswith("web:worker RUNNING pid ")
        before = (await copy.run(f"{control} pid worker")).output
        assert (await copy.run(f"{control} restart web:worker")).code == 0
        assert (await copy.run(f"{control} pid worker")).output != before
        await copy.stop("worker")
        assert (await copy.run(f"{control} status")).output == "worker STOPPED\n"
    finally:
        await copy.close()


@needs_root
async def test_a_program_of_supervisord_is_read_again_from_its_configuration() -> None:
    definition = ("ExecStart=sleep 1000", "User=nobody", "SourcePath=/etc/hermes-test.conf")
    unit = CopyService(name="worker", definition=definition, running=True)
    section = (
        "[program:worker]\ncommand=/usr/bin/sleep 2000 ; long\nenvironment=A=1,B=2\n[program:x]\n"
    )
    copy = await copy_machine(units=[unit])
    shown = "xargs -0 -n 99 < /proc/$(supervisorctl pid worker)/cmdline"
    try:
        assert (await copy.run(shown)).output == "/usr/bin/sleep 1000\n"
        await copy.run("cat > /etc/hermes-test.conf", stdin=section.encode())
        assert (await copy.run("supervisorctl restart worker; " + shown)).output.endswith("1000\n")
        assert (await copy.run("supervisorctl update; supervisorctl restart worker")).code == 0
        assert (await copy.run(shown)).output == "/usr/bin/sleep 2000\n"
        variables = "tr '\\0' '\\n' < /proc/$(supervisorctl pid worker)/environ | grep -x '[AB]=.'"
        assert (await copy.run(variables)).output.split() == ["A=1", "B=2"]
    finally:
        await copy.close()
