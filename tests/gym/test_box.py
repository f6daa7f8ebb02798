"""A real host in a box: what runs in it, what it cannot reach, and that nothing is left of it."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from hermes.core.errors import EnvironmentFailed
from hermes.environments.boxes import local_backend
from hermes.environments.boxes.backend import BoxPlan
from hermes.environments.boxes.box import Box
from hermes.environments.boxes.local_backend import (
    Forkserver,
    LocalBoxBackend,
    open_forkserver,
)
from hermes.environments.sandboxing import support
from hermes.gym.box.environment import host_environment
from hermes.gym.episodes.episode import build_host_plan
from hermes.gym.scenario_spec import HostDisk, HostFile, HostSpec
from hermes.gym.services.python_service import service_unit, shop_service

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]


def a_host(*units: HostFile, files: tuple[HostFile, ...] = (), **more: object) -> HostSpec:
    return HostSpec(name="web-1", units=units, files=files, **more)  # type: ignore[arg-type]


def sleeper(name: str = "sleeper", *, more: str = "") -> HostFile:
    return service_unit(name, "/bin/sleep 1000", more=more)


async def eventually(happened: Callable[[], Awaitable[bool]], seconds: float = 120.0) -> None:
    with anyio.fail_after(seconds):
        while True:
            if await happened():
                return
            await anyio.sleep(0.02)


async def wait_for(box: Box, unit: str, state: str) -> dict[str, object]:
    with anyio.fail_after(120):
        while True:
            result: dict[str, object] = (await box.call_supervisor("show", unit))["said"]
            if result["state"] == state:
                return result
            await anyio.sleep(0.02)


async def test_a_service_is_started_and_answers_over_the_hosts_own_network() -> None:
    files, service = shop_service("orders", 4321, '["a"]')
    async with Box([build_host_plan(a_host(service, files=tuple(files)))]) as box:
        with anyio.fail_after(120):
            while True:
                result = await box.send_over_network(
                    {"port": 4321, "send": b"GET /items HTTP/1.0\r\n\r\n"}
                )
                if "heard" in result:
                    break
                await anyio.sleep(0.02)
        assert b'["a"]' in result["heard"]


async def test_systemctl_and_journalctl_speak_as_people_expect() -> None:
    async with Box([build_host_plan(a_host(sleeper()))]) as box:
        await wait_for(box, "sleeper", "active")
        result = await box.run(
            "systemctl status sleeper; systemctl is-active sleeper; systemctl list-units"
        )
        assert "Active: active (running)" in result.output
        assert "sleeper.service" in result.output
        stopped = await box.run("systemctl stop sleeper; systemctl is-active sleeper")
        assert (stopped.code, stopped.output) == (3, "inactive\n")
        missing = await box.run("systemctl start nothing-like-it")
        assert missing.code == 5
        assert "not found" in missing.output
        journal = await box.run("journalctl -u sleeper -o cat -n 2")
        assert "Stopped Sleeper service." in journal.output


async def test_a_crashing_service_is_given_up_on_and_says_why() -> None:
    crashing = service_unit("crash", "/bin/sh -c 'echo boom >&2; exit 3'")
    async with Box([build_host_plan(a_host(crashing))]) as box:
        result = await wait_for(box, "crash", "failed")
        assert result["result"] == "start-limit-hit"
        log = await box.run("journalctl -u crash -o cat")
        assert "boom" in log.output
        assert "status=3" in log.output


async def test_a_changed_unit_waits_for_daemon_reload() -> None:
    async with Box([build_host_plan(a_host(sleeper()))]) as box:
        await wait_for(box, "sleeper", "active")
        file = "/etc/systemd/system/sleeper.service"
        await box.run(f"sed -i 's/1000/2000/' {file}; touch -d '+2 seconds' {file}")
        warned = await box.run("systemctl status sleeper")
        assert "daemon-reload" in warned.output
        await box.run("systemctl daemon-reload; systemctl restart sleeper")
        running = await box.run("ps ax")
        assert "sleep 2000" in running.output
        assert "sleep 1000" not in running.output


async def test_a_service_over_its_memory_limit_is_killed_and_the_journal_says_so() -> None:
    greedy = service_unit("greedy", "/usr/bin/python3 -S -E -c 'x = bytearray(80 << 20); input()'")
    more = HostFile(
        path="greedy.service", text=greedy.text.replace("[Install]", "MemoryMax=40M\n[Install]")
    )
    async with Box([build_host_plan(a_host(more))]) as box:

        async def killed() -> bool:
            return "OOM" in (await box.run("journalctl -u greedy -o cat")).output

        await eventually(killed)


async def test_cron_runs_its_tables_by_time_and_on_request() -> None:
    table = HostFile(path="/etc/cron.d/touch", text="0 0 1 1 * root echo ran >> /srv/ran\n")
    async with Box([build_host_plan(a_host(files=(table,)))]) as box:
        assert (await box.call_supervisor("cron", "touch"))["codes"] == [0]
        assert await box.read("/srv/ran") == b"ran\n"
        assert (await box.call_supervisor("cron", "no such job"))["codes"] == []


async def test_a_small_disk_is_full_when_it_is_full() -> None:
    async with Box([build_host_plan(a_host(disks=(HostDisk("/var/log/app", 4),)))]) as box:
        result = await box.run("head -c 8M /dev/zero > /var/log/app/x")
        assert "No space left" in result.output
        assert (await box.disk_space("/var/log/app"))["free"] == 0
        assert (await box.disk_space("/"))["free"] > 50 << 20


async def test_nothing_outside_can_be_read_or_changed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from the real machine")
    async with Box([build_host_plan(a_host())]) as box:
        result = await box.run(
            f"cat {secret}; touch /usr/mine; ls /home /root; cat /proc/sys/kernel/hostname; "
            # Last: a process in the box may have the same number, the script itself for example.
            f"echo x > /proc/sys/kernel/core_pattern; ip route; kill -9 {os.getpid()}"
        )
        assert "real machine" not in result.output
        assert "web-1" in result.output
        assert "Read-only file system" in result.output
        assert "Permission denied" in result.output
    assert secret.read_text() == "from the real machine"


async def test_the_first_process_cannot_be_killed_from_inside() -> None:
    async with Box([build_host_plan(a_host(sleeper()))]) as box:
        await wait_for(box, "sleeper", "active")
        await box.run("kill -9 1; kill -9 -1; kill -STOP 1")
        assert (await box.call_supervisor("list"))["said"]["units"]


async def test_a_script_that_hangs_is_ended_and_says_so() -> None:
    async with Box([build_host_plan(a_host())]) as box:
        result = await box.run("echo begun; sleep 1000", timeout=0.3)
        assert result.timed_out
        assert result.output == "begun\n"
        left = await box.run("sleep 1000 > /dev/null & echo went on", timeout=5)
        assert (left.code, left.output) == (0, "went on\n")


async def test_two_hosts_reach_each_other_and_can_be_parted() -> None:
    if shutil.which("ip") is None or shutil.which("nft") is None:
        pytest.skip("ip and nft are not installed")
    files, service = shop_service("orders", 4321, '["a"]')
    listening = [
        HostFile(path=file.path, text=file.text.replace('"127.0.0.1"', '"0.0.0.0"'))
        for file in files
    ]
    first = build_host_plan(HostSpec(name="a", address="10.8.0.1"))
    other = build_host_plan(
        HostSpec(name="b", address="10.8.0.2", files=tuple(listening), units=(service,))
    )
    get = "exec 3<>/dev/tcp/10.8.0.2/4321; printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
    async with Box([first, other]) as box:

        async def answers() -> bool:
            return "ok" in (await box.run(get)).output

        await eventually(answers)
        await box.run(
            "nft add table ip t; nft add chain ip t i '{type filter hook input priority 0;}'; "
            "nft add rule ip t i tcp dport 4321 drop",
            host=1,
        )
        parted = await box.run(f'timeout 0.5 bash -c "{get}"')
        assert parted.code == 124


async def test_the_agents_place_keeps_its_shell_and_its_files_in_the_host() -> None:
    async with Box([build_host_plan(a_host())]) as box, host_environment(box) as environment:
        await environment.run("cd /tmp; export COLOUR=red")
        result = await environment.run("pwd; echo $COLOUR; hostname")
        assert result.output == "/tmp\nred\nweb-1\n"
        await environment.write("/srv/x/y", b"hello")
        assert await box.read("/srv/x/y") == b"hello"
        assert environment.isolated


async def test_a_bomb_of_forks_is_bounded_and_the_box_still_answers() -> None:
    async with Box([build_host_plan(a_host())], processes=64) as box:
        await box.run("bomb() { bomb | bomb & }; bomb", timeout=1)
        answer = await box.call_supervisor("list")
        assert "said" in answer or "error" in answer


async def test_nothing_is_left_of_a_box() -> None:
    async with Box([build_host_plan(a_host(sleeper()))]) as box:
        await wait_for(box, "sleeper", "active")
        carrier = box.backend
        assert isinstance(carrier, LocalBoxBackend)
        pids = [carrier.init_process.pid, *carrier.init_process.host_pids]
        groups = [Path(entry).parent for entry in carrier.init_process.cgroup.entries]

    async def gone() -> bool:
        return not any([await anyio.Path(f"/proc/{pid}").exists() for pid in pids])

    await eventually(gone)
    assert not any(group.exists() for group in groups)
    with pytest.raises(EnvironmentFailed):
        await box.run("true")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="the system has no Python")
async def test_an_ordinary_user_without_spare_user_numbers_has_a_box_too(tmp_path: Path) -> None:
    """With the system's Python: ours may lie where that user cannot look.

    What else that user runs does not count as processes of a box or of a copy.
    """
    python = Path("/usr/bin/python3")
    source = Path(sys.modules["hermes"].__path__[0]).parent
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    script = tmp_path / "try.py"
    script.write_text(
        "import anyio, subprocess\n"
        "from hermes.environments.boxes.box import Box\n"
        "from hermes.environments.copies import CopyLimits\n"
        "from hermes.environments.copies.machine_copy import copy_machine\n"
        "from hermes.gym.episodes.episode import build_host_plan\n"
        "from hermes.gym.scenario_spec import HostSpec\n"
        "async def main():\n"
        "    async with Box([build_host_plan(HostSpec(name='mine'))], processes=40) as box:\n"
        "        print((await box.run('id -u; hostname; touch /etc/mine && echo wrote')).output)\n"
        "    copy = await copy_machine(CopyLimits(processes=40))\n"
        "    print((await copy.run('id -u; touch /tmp/mine && echo wrote')).output)\n"
        "    await copy.close()\n"
        "others = [subprocess.Popen(['sleep', '60']) for _ in range(60)]\n"
        "try:\n"
        "    anyio.run(main)\n"
        "finally:\n"
        "    for each in others:\n"
        "        each.kill()\n"
    )
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder.is_relative_to("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    done = await anyio.run_process(
        [
            "setpriv",
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            str(python),
            str(script),
        ],
        env={"PYTHONPATH": f"{source}:{packages}", "HOME": "/tmp", "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.stdout.decode() == "0\nmine\nwrote\n\n0\nwrote\n\n", done.stderr.decode()


def test_an_answer_that_comes_too_late_is_not_that_of_the_next_box(tmp_path: Path) -> None:
    links = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
    (ours_late, late), (ours, theirs) = links
    server = Forkserver(timeout_s=0.2)
    with (tmp_path / "errors").open("w") as errors, ours_late, late, theirs:
        os.kill(server.pid, signal.SIGSTOP)
        with pytest.raises(EnvironmentFailed):
            server.spawn(late.fileno(), errors.fileno())
        os.kill(server.pid, signal.SIGCONT)
        server.timeout_s = 120.0
        _, process = server.spawn(theirs.fileno(), errors.fileno())
        theirs.close()
        ours.close()
        assert select.select([process], [], [], 120.0)[0], "this is the process of another box"
        os.close(process)
    server.stop()


def test_a_box_init_that_does_not_answer_is_not_said_to_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_backend, "BOX_INIT_TIMEOUT_S", 0.1)
    plan, started = BoxPlan(), []
    plan.copied_pids = (1,)

    def spawn(link: int, _: int) -> tuple[int, int]:
        started.append(subprocess.Popen(("sleep", "60"), pass_fds=(link,)))
        return started[-1].pid, os.pidfd_open(started[-1].pid)

    with pytest.raises(EnvironmentFailed, match=r"did not answer within 0\.1 s"):
        local_backend.BoxInitProcess(plan, spawn)
    assert not Path(f"/proc/{started[0].pid}").exists()
    started[0].returncode = 0  # it was waited for


async def test_boxes_of_a_forkserver_are_separate_and_end_like_others() -> None:
    async with open_forkserver() as opener:
        async with (
            Box([build_host_plan(a_host(sleeper()))], opener=opener) as one,
            Box([build_host_plan(a_host())], opener=opener) as two,
        ):
            await wait_for(one, "sleeper", "active")
            await one.run("echo mine > /srv/mark")
            assert await two.read("/srv/mark") is None
            assert "sleeper" not in (await two.run("ps aux; systemctl list-units")).output
            carriers = [each.backend for each in (one, two)]
            pids = [each.init_process.pid for each in carriers if isinstance(each, LocalBoxBackend)]
        assert len(set(pids)) == 2

        async def gone() -> bool:
            return not any([await anyio.Path(f"/proc/{pid}/root").exists() for pid in pids])

        await eventually(gone)
        async with Box([build_host_plan(a_host())], opener=opener) as three:
            assert (await three.run("echo well")).output == "well\n"
    with pytest.raises(EnvironmentFailed):
        async with Box([build_host_plan(a_host())], opener=opener):
            pass


async def test_long_scripts_and_messages_reach_the_host_many_at_a_time() -> None:
    """Longer than a message of a socket, than its queue, and than one argument of a program."""
    filler = "x" * 100_000
    async with Box([build_host_plan(a_host())]) as box:
        results: list[str] = []

        async def run_one(size: int) -> None:
            ran = await box.run(f": {filler * size}; echo ran", trusted=bool(size % 2))
            results.append(ran.output)

        async with anyio.create_task_group() as group:
            for size in (1, 1, 1, 1, 1, 1, 1, 1, 2, 7):
                group.start_soon(run_one, size)
        assert results == ["ran\n"] * 10
