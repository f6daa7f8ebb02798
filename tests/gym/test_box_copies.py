"""A copy of a box: it fails as the first one does, and nothing in it reaches the first."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from hermes.core.errors import EnvironmentFailed
from hermes.declared.experiments.copied_checks import CheckReading, ExpectedReadings
from hermes.declared.experiments.copy_setup import CopySetup
from hermes.declared.experiments.copy_trial import CopyTrial
from hermes.declared.experiments.host_programs import HostPrograms, HostService
from hermes.environments.boxes.box import Box
from hermes.environments.copies import CopyLimits, HostCopy
from hermes.environments.copies.box_copy import BoxCopy
from hermes.environments.sandboxing import support
from hermes.gym.box.environment import host_environment
from hermes.gym.episodes.episode import build_host_plan
from hermes.gym.scenario_spec import HostDisk, HostFile, HostSpec
from hermes.gym.services.python_service import service_unit, shop_service

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
ASK_SHOP = "curl -sf --max-time 2 http://127.0.0.1:4321/items"


def runs(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


async def eventually(happened: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(60):
        while True:
            if await happened():
                return
            await anyio.sleep(0.02)


def shop_box(**more: object) -> Box:
    files, service = shop_service("orders", 4321, '["a"]')
    host = HostSpec(name="web-1", units=(service,), files=tuple(files), **more)  # type: ignore[arg-type]
    return Box([build_host_plan(host)])


async def answers(copy: BoxCopy) -> bool:
    return (await copy.run(ASK_SHOP)).code == 0


async def test_a_changed_setting_fails_in_the_copy_and_its_revert_heals_there_only() -> None:
    async with shop_box() as box:

        async def first_answers() -> bool:
            return (await box.run(ASK_SHOP)).code == 0

        await eventually(first_answers)
        await box.run(
            "cp /etc/orders/orders.conf /srv/kept; echo broken > /etc/orders/orders.conf;"
            "systemctl restart orders"
        )
        copy = await host_environment(box).copy()
        assert not await answers(copy)
        assert (await copy.restart("orders")).timed_out is False
        assert not await answers(copy)
        await copy.run("cat > /etc/orders/orders.conf", stdin=(await box.read("/srv/kept")) or b"")
        await copy.restart("orders")
        await eventually(lambda: answers(copy))
        assert "/etc/orders/orders.conf" in copy.changed_paths()
        assert (await box.read("/etc/orders/orders.conf")) == b"broken\n"
        assert (await box.run(ASK_SHOP)).code != 0
        await copy.close()


async def test_a_trial_ends_when_its_service_has_failed_for_good() -> None:
    unused: Any = None

    async def ask(copy: HostCopy, names: Sequence[str]) -> Sequence[CheckReading]:
        code = (await copy.run(ASK_SHOP)).code
        return [CheckReading(name="http", ok=code == 0, detail="no answer")]

    setup = CopySetup(
        source=unused,
        run_checks=ask,
        expected=ExpectedReadings(failing=(CheckReading(name="http", ok=False),)),
        programs=HostPrograms(services=(HostService(name="orders", state="failed"),)),
        services=["orders"],
        store=unused,
    )
    async with shop_box() as box:
        await box.run("echo broken > /etc/orders/orders.conf; systemctl restart orders")
        copy = await host_environment(box).copy()
        with anyio.fail_after(60):
            outcome, _ = await CopyTrial(setup).settle(copy, lambda: 3600.0)
        assert outcome == "fails"
        await copy.close()


async def test_another_check_that_was_slow_once_does_not_spoil_a_trial() -> None:
    unused: Any = None
    slow = ["disk"]

    async def read(copy: HostCopy, names: Sequence[str]) -> Sequence[CheckReading]:
        late = [each for each in names if each in slow]
        slow[:] = [each for each in slow if each not in late]
        return [CheckReading(name=each, ok=each not in late, detail="late") for each in names]

    setup = CopySetup(
        source=unused,
        run_checks=read,
        expected=ExpectedReadings(
            failing=(CheckReading(name="http", ok=False),), passing=("disk", "unit")
        ),
        programs=HostPrograms(),
        services=[],
        store=unused,
    )
    trial = CopyTrial(setup)
    outcome, readings = await trial.settle(unused)
    assert outcome == "passes"
    assert sorted(each.name for each in readings) == ["disk", "http", "unit"]


async def test_several_copies_run_side_by_side_and_do_not_see_each_other() -> None:
    async with shop_box() as box:
        copies = [await host_environment(box).copy() for _ in range(3)]
        for number, copy in enumerate(copies):
            await copy.run(f"echo {number} > /srv/number")
        for number, copy in enumerate(copies):
            assert (await copy.run("cat /srv/number")).output == f"{number}\n"
            await eventually(lambda copy=copy: answers(copy))
            await copy.close()
        assert (await box.run("ls /srv/number")).code != 0


async def test_fresh_folders_and_removed_files() -> None:
    async with shop_box() as box:
        await box.run(
            "touch /tmp/left /run/left /dev/shm/left; mkdir -p /run/app /srv/a; touch /srv/a/b"
        )
        copy = await host_environment(box).copy()
        listed = await copy.run("ls -A /tmp /run /dev/shm")
        assert "left" not in listed.output
        assert "app" in listed.output
        await copy.run("rm -r /srv/a; mkdir /srv/a; rm /etc/orders/orders.conf")
        assert {"/srv/a/b", "/etc/orders/orders.conf"} <= set(copy.changed_paths())
        assert (await box.run("ls /srv/a/b /etc/orders/orders.conf")).code == 0
        await copy.close()


async def test_what_the_host_removed_from_a_fresh_folder_does_not_come_back() -> None:
    _, service = shop_service("orders", 4321, '["a"]')
    files = [HostFile(path=f"/run/{name}", text=name) for name in ("kept", "used-up")]
    host = HostSpec(name="web-1", units=(service,), files=tuple(files))
    async with Box([build_host_plan(host)]) as box:
        await box.run("rm /run/used-up")
        copy = await host_environment(box).copy()
        assert (await copy.run("cd /run; ls kept used-up 2>/dev/null")).output == "kept\n"
        await copy.close()


async def test_a_full_disk_is_full_in_the_copy_and_can_be_emptied_there() -> None:
    async with shop_box(disks=(HostDisk("/data", 4),)) as box:
        await box.run("head -c 5M /dev/zero > /data/blob")
        copy = await host_environment(box).copy()
        assert (await copy.run("echo more > /data/more")).code != 0
        assert (await copy.run("rm /data/blob; echo more > /data/more")).code == 0
        assert {"/data/blob", "/data/more"} <= set(copy.changed_paths())
        assert (await box.run("ls /data/blob")).code == 0
        await copy.close()


async def test_full_shared_memory_is_full_in_the_copy_without_its_content() -> None:
    async with shop_box() as box:
        await box.run("yes | head -c 14M > /dev/shm/frames; chmod 640 /dev/shm/frames")
        copy = await host_environment(box).copy()
        assert (await copy.run("stat -c '%s %a' /dev/shm/frames")).output == "14680064 640\n"
        assert (await copy.run("cmp -n 14680064 /dev/zero /dev/shm/frames")).code == 0
        assert (await copy.run("head -c 4M /dev/zero > /dev/shm/more")).code != 0
        cleared = await copy.run("rm /dev/shm/*; head -c 4M /dev/zero > /dev/shm/more")
        assert cleared.code == 0
        assert (await box.run("ls /dev/shm")).output == "frames\n"
        await copy.close()


async def test_a_full_root_is_full_in_the_copy_and_can_be_emptied_there() -> None:
    async with shop_box() as box:
        await box.run("head -c 500M /dev/zero > /srv/blob")
        copy = await host_environment(box).copy(CopyLimits(memory_mb=1024))
        assert (await copy.run("head -c 20M /dev/zero > /srv/more")).code != 0
        assert (await copy.run("rm /srv/blob; head -c 20M /dev/zero > /srv/more")).code == 0
        await copy.close()


async def test_a_copy_ends_with_its_box_and_with_its_time() -> None:
    async with shop_box() as box:
        short = await host_environment(box).copy(CopyLimits(time_s=0.5))
        long = await host_environment(box).copy()

        async def has_ended() -> bool:
            try:
                await short.box.run("true")
            except EnvironmentFailed:
                return True
            return False

        await eventually(has_ended)
        await short.close()
        pid = long.box.backend.copied_pids[0]
        assert runs(pid)

    async def is_gone() -> bool:
        return not runs(pid)

    await eventually(is_gone)


async def test_a_fork_bomb_in_a_copy_leaves_the_first_box_alone() -> None:
    async with shop_box() as box:
        copy = await host_environment(box).copy(CopyLimits(processes=64))
        await copy.run("bomb() { bomb | bomb & }; bomb; sleep 1", timeout_s=3)
        assert (await box.run("for i in 1 2 3 4 5; do /bin/true || exit 1; done")).code == 0
        await copy.close()


async def test_a_process_of_the_first_box_cannot_be_seen_or_killed() -> None:
    sleeper = service_unit("sleeper", "/bin/sleep 1000")
    plan = build_host_plan(HostSpec(name="web-1", units=(sleeper,)))
    async with Box([plan]) as box:
        copy = await host_environment(box).copy()
        await copy.run("kill -9 -1; systemctl stop sleeper")
        assert (await box.run("systemctl is-active sleeper")).output == "active\n"
        assert (await copy.run("mount -o remount,rw /usr && touch /usr/x")).code != 0
        assert (await copy.run("umount /usr")).code != 0
        await copy.close()


async def test_data_of_a_running_program_is_copied_and_not_shared() -> None:
    writer = HostFile(
        path="/opt/writer.py",
        text="import os, time\n"
        "f = open('/var/lib/writer/data', 'a')\n"
        "while True:\n    f.write('x' * 100 + '\\n'); f.flush(); time.sleep(0.01)\n",
    )
    unit = service_unit("writer", "/usr/bin/python3 -S /opt/writer.py")
    pre = HostFile(
        path=unit.path,
        text=unit.text.replace(
            "[Service]", "[Service]\nExecStartPre=/bin/mkdir -p /var/lib/writer"
        ),
    )
    plan = build_host_plan(HostSpec(name="web-1", units=(pre,), files=(writer,)))
    async with Box([plan]) as box:

        async def writes() -> bool:
            return bool(await box.read("/var/lib/writer/data"))

        await eventually(writes)
        copy = await host_environment(box).copy()
        await copy.run("systemctl stop writer")
        size = (await copy.run("stat -c %s /var/lib/writer/data")).output
        await box.run("touch /var/lib/writer/new")
        assert (await copy.run("stat -c %s /var/lib/writer/data")).output == size
        assert (await copy.run("ls /var/lib/writer/new")).code != 0
        state = await box.run("grep State /proc/$(pgrep -f writer.py)/status")
        assert "stopped" not in state.output
        await copy.close()
