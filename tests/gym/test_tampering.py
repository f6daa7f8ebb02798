"""What root of a host does there does not change what the oracle's scripts see."""

import shutil
from pathlib import Path

import anyio
import pytest

from hermes.environments.boxes.box import Box
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import Oracle, build_host_plan, open_episode
from hermes.gym.scenario import Scenario
from hermes.gym.scenario_spec import (
    DiskSpaceCheck,
    FaultDescription,
    HostDisk,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioAlert,
    ScenarioCheck,
    ScenarioSpec,
    ScriptCheck,
)
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
            "echo 'import os; os._exit(0)' > ~/json.py",
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


@pytest.mark.parametrize(
    "relief",
    ["mount -t tmpfs -o size=64m none /var/data", "umount /var/data"],
    ids=("covered", "unmounted"),
)
async def test_a_full_disk_stays_full_whatever_is_mounted_there(relief: str) -> None:
    space = DiskSpaceCheck(name="space", path="/var/data", free_mb=2)
    async with Box([build_host_plan(HOST)]) as box:
        assert await holds(box, space)
        await box.run("head -c 8M /dev/zero > /var/data/log")
        assert (await box.run(relief)).code == 0
        assert not await holds(box, space)


async def test_an_enlarged_disk_is_not_one_with_free_space() -> None:
    space = DiskSpaceCheck(name="space", path="/var/data", free_mb=2)
    async with Box([build_host_plan(HOST)]) as box:
        oracle = Oracle(box)
        await oracle.record_state((space,))
        assert (await box.run("mount -i -t tmpfs -o remount,size=64m none /var/data")).code == 0
        assert not (await oracle.run_checks((space,)))[0].ok


async def test_what_was_mounted_by_hand_is_gone_when_the_trigger_is_fired() -> None:
    """A service that writes to a larger tmpfs over its full disk is not fixed."""
    writes = HttpCheck(name="writes", port=4000, contains="written")
    program = (
        "import http.server as h, os\n"
        "class Answer(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        try:\n"
        "            open('/var/data/new', 'wb').write(bytes(1 << 20)); said = b'written'\n"
        "            os.replace('/var/data/new', '/var/data/row')\n"
        "        except OSError as error:\n"
        "            said = str(error).encode()\n"
        "        self.send_response(200); self.end_headers(); self.wfile.write(said)\n"
        "h.HTTPServer(('127.0.0.1', 4000), Answer).serve_forever()\n"
    )
    spec = ScenarioSpec(
        hosts=(
            HostSpec(
                name="web-1",
                files=(HostFile(path="/opt/writer.py", text=program),),
                units=(service_unit("writer", "/usr/bin/python3 /opt/writer.py"),),
                disks=(DISK,),
            ),
        ),
        alert=ScenarioAlert(title="t", text="t"),
        healthy=(writes,),
        symptoms=(writes,),
        inject=("head -c 8M /dev/zero > /var/data/log; true",),
        fault=FaultDescription(component=("/var/data",), mechanism=("disk full",)),
    )
    scenario = Scenario(name="full", group="files", summary="", draw=lambda rng: spec)
    async with open_episode(scenario, spec) as episode:
        await episode.run_commands(("mount -t tmpfs -o size=64m none /var/data",))
        judged = await episode.judge(window_s=0.0, recovery_timeout_s=0.2)
        assert judged.relieved
        assert not judged.resolved
        await episode.run_commands(("rm /var/data/log",))
        assert (await episode.judge(window_s=0.0)).resolved


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
