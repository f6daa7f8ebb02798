"""What authors of scenarios can write: requests, binary files, small disks, load."""

import json

import anyio
import pytest

from hermes.core.errors import EnvironmentFailed
from hermes.environments.boxes.box import Box
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import Oracle, build_host_plan, inject_fault, open_episode
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario
from hermes.gym.scenario_builder import ScenarioBuilder
from hermes.gym.scenario_spec import (
    DiskSpaceCheck,
    FaultDescription,
    FaultTrigger,
    HostDisk,
    HostFile,
    HostLink,
    HostSpec,
    HttpCheck,
    LoadSpec,
    ScenarioAlert,
    ScenarioSpec,
    ScriptCheck,
    UnchangedCheck,
)
from hermes.gym.services.python_service import service_unit

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
ECHO = """
import http.server as h, json, threading, time
most = now = total = 0
lock = threading.Lock()
class Answer(h.BaseHTTPRequestHandler):
    def answer(self):
        global most, now, total
        with lock:
            if self.path != "/counts":
                now += 1; total += 1; most = max(most, now)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/load":
            time.sleep(0.1)
        with lock:
            if self.path != "/counts":
                now -= 1
        said = {"method": self.command, "key": self.headers.get("X-Key"), "body": body.hex(),
                "host": self.headers.get("Host"), "most": most, "total": total}
        self.send_response(200); self.end_headers(); self.wfile.write(json.dumps(said).encode())
    do_GET = do_POST = do_PUT = do_DELETE = answer
    def log_message(self, *words): pass
h.ThreadingHTTPServer(("127.0.0.1", 4000), Answer).serve_forever()
"""
ECHO_HOST = HostSpec(
    name="web-1",
    files=(HostFile(path="/opt/echo.py", text=ECHO),),
    units=(service_unit("echo", "/usr/bin/python3 /opt/echo.py"),),
)


async def test_a_check_sends_method_headers_and_body() -> None:
    checks = (
        HttpCheck(
            name="post",
            port=4000,
            method="POST",
            headers=(("X-Key", "secret"), ("Host", "shop.test")),
            body="ä",
            contains='"method": "POST", "key": "secret", "body": "c3a4", "host": "shop.test"',
        ),
        HttpCheck(name="delete", port=4000, method="DELETE", contains='"DELETE"'),
        HttpCheck(name="get", port=4000, contains='"GET", "key": null, "body": ""'),
    )
    async with Box([build_host_plan(ECHO_HOST)]) as box:
        found = await Oracle(box).wait_until(checks, ok=True, seconds=120)
        assert [each.ok for each in found] == [True] * 3, found


def test_a_line_break_in_a_request_is_refused() -> None:
    with pytest.raises(ValueError, match="line break"):
        HttpCheck(name="x", port=1, headers=(("X", "1\r\nHost: y"),))


async def test_a_trigger_sends_many_requests_at_the_same_time() -> None:
    async with Box([build_host_plan(ECHO_HOST)]) as box:
        oracle = Oracle(box)
        up = HttpCheck(name="up", port=4000, path="/counts")
        assert (await oracle.wait_until((up,), ok=True, seconds=120))[0].ok
        load = LoadSpec(port=4000, path="/load", method="PUT", body="x", requests=30, parallel=10)
        await oracle.fire_trigger(FaultTrigger(load=load))
        heard = await box.send_over_network({"port": 4000, "send": up.payload()})
        counts = json.loads(bytes(heard["heard"]).partition(b"\r\n\r\n")[2])
        assert counts["total"] == 30
        assert counts["most"] > 1


async def test_a_file_may_be_binary() -> None:
    content = bytes(range(256))
    host = HostSpec(name="web-1", files=(HostFile(path="/srv/x.bin", content=content),))
    async with Box([build_host_plan(host)]) as box:
        assert await box.read("/srv/x.bin") == content


def test_the_builder_takes_bytes_and_inodes(tmp_path_factory: pytest.TempPathFactory) -> None:
    build = ScenarioBuilder(RandomSource(0), {}, tmp_path_factory.mktemp("folder"))
    assert build.file("/srv/x.bin", b"\xff").data == b"\xff"
    build.disk("/var/spool", 8, inodes=100)
    assert build._host["disks"] == [HostDisk("/var/spool", 8, 100)]


async def test_a_disk_can_run_out_of_inodes() -> None:
    host = HostSpec(name="web-1", disks=(HostDisk("/var/spool/app", 8, inodes=50),))
    room = DiskSpaceCheck(name="room", path="/var/spool/app", free_mb=1, free_inodes=20)
    async with Box([build_host_plan(host)]) as box:
        oracle = Oracle(box)
        assert (await oracle.run_checks((room,)))[0].ok
        await oracle.record_state((room,))
        filled = await box.run("cd /var/spool/app; touch $(seq 100)")
        assert "No space left" in filled.output
        assert not (await oracle.run_checks((room,)))[0].ok
        enlarge = "mount -i -t tmpfs -o remount,nr_inodes=900 none /var/spool/app"
        assert (await box.run(enlarge)).code == 0
        found = await oracle.run_checks((room,))
        assert not found[0].ok
        assert "enlarged" in found[0].detail
        with anyio.fail_after(120):
            await box.run("rm /var/spool/app/*")


async def test_a_host_has_links() -> None:
    host = HostSpec(
        name="web-1",
        files=(HostFile(path="/opt/app/releases/2/main", text="two"),),
        links=(HostLink("/opt/app/current", "releases/2"),),
    )
    async with Box([build_host_plan(host)]) as box:
        assert (await box.run("cat /opt/app/current/main; readlink /opt/app/current")).output == (
            "tworeleases/2\n"
        )


async def test_a_file_in_a_folder_of_the_machine_is_refused_with_a_way_out() -> None:
    host = HostSpec(name="web-1", files=(HostFile(path="/usr/local/bin/job", text="x"),))
    with pytest.raises(EnvironmentFailed, match=r"/usr/local/bin/job .*hosts only read it; use .*"):
        async with Box([build_host_plan(host)]):
            pass


async def test_an_edit_beside_the_cause_must_stay() -> None:
    kept = UnchangedCheck(name="the edit is kept", path="/etc/motd", since_fault=True)
    broken = ScriptCheck(name="it works", script="! grep -q bad /etc/app.conf")
    spec = ScenarioSpec(
        hosts=(
            HostSpec(
                name="web-1",
                files=(
                    HostFile(path="/etc/motd", text="old"),
                    HostFile(path="/etc/app.conf", text="good"),
                ),
            ),
        ),
        alert=ScenarioAlert(title="x", text="x"),
        healthy=(broken,),
        symptoms=(broken,),
        inject=("echo new > /etc/motd; echo bad > /etc/app.conf",),
        collateral=(kept,),
        fault=FaultDescription(component=("app.conf",), mechanism=("bad",)),
    )
    scenario = Scenario(name="edits", group="files", summary="x", draw=lambda rng: spec)
    async with open_episode(scenario, spec, broken=False) as episode:
        oracle = episode.oracle
        assert (await oracle.run_checks((kept,)))[0].ok
        await inject_fault(episode)
        assert (await oracle.run_checks((kept,)))[0].ok
        await episode.box.run("echo old > /etc/motd")
        assert not (await oracle.run_checks((kept,)))[0].ok
