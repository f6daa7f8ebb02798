"""What root of a host does there does not change what the oracle's scripts see."""

import shutil
from pathlib import Path

import anyio
import pytest

from hermes.environments.boxes.box import Box
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import Oracle, build_host_plan
from hermes.gym.scenario_spec import HostDisk, HostFile, HostSpec, ScenarioCheck, ScriptCheck
from hermes.gym.services.python_service import service_unit

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
DISK = HostDisk("/var/data", 4)
HOST = HostSpec(
    name="web-1",
    files=(HostFile(path="/srv/value", text="right"),),
    units=(service_unit("sleeper", "/bin/sleep 1000"),),
    disks=(DISK,),
)


async def holds(box: Box, check: ScenarioCheck) -> bool:
    return (await Oracle(box).run_checks((check,)))[0].ok


@pytest.mark.parametrize(
    ("forgery", "script"),
    [
        ("mount --bind /usr/bin/true /usr/bin/bash", "grep -q wrong /srv/value"),
        ("mount --bind /usr/bin/true /usr/bin/grep", "grep -q wrong /srv/value"),
        (
            "mount -o remount,bind,rw /usr/local/sbin; cp /usr/bin/true /usr/local/sbin/systemctl",
            "systemctl is-active no-such-unit",
        ),
        (
            "mkdir /tmp/x; echo wrong > /tmp/x/value; mount --bind /tmp/x /srv",
            "grep -q wrong /srv/value",
        ),
        ("echo wrong > /tmp/x; mount --bind /tmp/x /proc/uptime", "grep -q wrong /proc/uptime"),
        (
            "echo 'import os; os._exit(0)' > /root/json.py",
            "python3 -c 'import json, sys; sys.exit(1)'",
        ),
        (
            "folder=$(python3 -m site --user-site); mkdir -p $folder;"
            " echo 'import os; os._exit(0)' > $folder/usercustomize.py",
            "python3 -c 'raise SystemExit(1)'",
        ),
    ],
)
async def test_a_check_is_not_forged_by_mounts_and_files(forgery: str, script: str) -> None:
    async with Box([build_host_plan(HOST)]) as box:
        done = await box.run(forgery)
        assert done.code == 0, done.output
        assert not await holds(box, ScriptCheck(name="wrong", script=script))
        right = "grep -q right /srv/value && systemctl is-active sleeper"
        assert await holds(box, ScriptCheck(name="right", script=right))


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
async def test_a_check_loads_no_library_that_the_host_names(tmp_path: Path) -> None:
    source, library = tmp_path / "always.c", tmp_path / "always.so"
    source.write_text(
        "#include <unistd.h>\n__attribute__((constructor)) void f(void) { _exit(0); }\n"
    )
    await anyio.run_process(["cc", "-shared", "-fPIC", "-o", str(library), str(source)])
    plan = build_host_plan(HOST)
    plan.files += (("/srv/always.so", library.read_bytes(), 0o755, 0),)
    async with Box([plan]) as box:
        assert (await box.run("echo /srv/always.so > /etc/ld.so.preload; ls")).code == 0
        assert (await box.run("false")).code == 0
        assert not await holds(box, ScriptCheck(name="wrong", script="false"))


async def test_a_check_is_answered_by_the_supervisor_and_no_other_process() -> None:
    """The name of its socket is a file, which root can replace."""
    impostor = (
        "rm /run/systemd/private; python3 - <<'END' > /dev/null 2>&1 &\n"
        "import marshal, socket\n"
        "line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "line.bind('/run/systemd/private'); line.listen()\n"
        "while True:\n"
        "    client = line.accept()[0]; client.recv(999)\n"
        "    client.send(marshal.dumps({'state': 'active'})); client.close()\n"
        "END\n"
        "for i in $(seq 200); do [ -S /run/systemd/private ] && break; sleep 0.02; done"
    )
    async with Box([build_host_plan(HOST)]) as box:
        await box.run(impostor)
        active = ScriptCheck(name="wrong", script="systemctl is-active no-such-unit")
        assert not await holds(box, active)
