"""The same boxes in containers of a real docker daemon."""

import json
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest
import real_docker

from hermes.core.errors import EnvironmentFailed
from hermes.environments.boxes.box import Box
from hermes.gym.box.docker_backend import docker_box_opener
from hermes.gym.box.environment import host_environment
from hermes.gym.episodes.episode import build_host_plan
from hermes.gym.episodes.readiness import check_readiness, missing_requirements
from hermes.gym.episodes.self_test import prove_scenarios
from hermes.gym.scenario import find_scenario
from hermes.gym.scenario_spec import HostSpec
from hermes.gym.settings import GymSettings

pytestmark = pytest.mark.anyio
LIGHT = (
    "config-typo-after-edit",
    "dns-wrong",
    "scaled-to-zero",
    "service-crashed",
    "unit-failed",
    "wrong-command",
)


def containers() -> list[str]:
    return real_docker.daemon().containers("label=hermes-gym")


async def gone() -> None:
    with anyio.fail_after(120):
        while containers():  # noqa: ASYNC110 - the daemon tells nobody
            await anyio.sleep(0.05)


async def test_scenarios_prove_themselves_in_containers(in_containers: GymSettings) -> None:
    """Six light ones, and one with nginx."""
    chosen = [find_scenario(name) for name in (*LIGHT, "wrong-upstream")]
    proofs = await prove_scenarios(chosen, (1,), jobs=2, opener=docker_box_opener(in_containers))
    assert [proof.scenario for proof in proofs if not proof.ok] == [], proofs
    await gone()


async def test_the_agents_place_is_the_host_and_not_the_container(
    in_containers: GymSettings,
) -> None:
    async with (
        Box(
            [build_host_plan(HostSpec(name="web-1"))], opener=docker_box_opener(in_containers)
        ) as box,
        host_environment(box) as layout,
    ):
        await layout.run("cd /tmp; export COLOUR=red")
        assert (await layout.run("pwd; echo $COLOUR; hostname")).output == "/tmp\nred\nweb-1\n"
        await layout.write("/srv/x/y", b"hello")
        assert await box.read("/srv/x/y") == b"hello"
        outside = await layout.run("cat /proc/self/uid_map; ls /proc | grep -c '^[0-9]'")
        assert "1700000000" in outside.output  # user 0 of the host is nobody in the container
        parted = await box.run("kill -9 1; sleep 0.1; echo alive")
        assert parted.output == "alive\n"


async def test_hosts_in_one_container_have_a_network_of_their_own(
    in_containers: GymSettings,
) -> None:
    first, second = HostSpec(name="a", address="10.9.0.1"), HostSpec(name="b", address="10.9.0.2")
    listening = (
        "import _socket as s\nl = s.socket()\nl.bind(('10.9.0.2', 4000))\nl.listen()\n"
        "c = s.socket(fileno=l._accept()[0])\nc.send(b'well')"
    )
    calling = "exec 3<>/dev/tcp/10.9.0.2/4000; cat <&3"
    async with Box(
        [build_host_plan(first), build_host_plan(second)], opener=docker_box_opener(in_containers)
    ) as box:
        await box.run(f'(python3 -c "{listening}" >/dev/null 2>&1 &) ; sleep 0.3', host=1)
        assert (await box.run(calling)).output == "well"


async def test_a_killed_hermes_leaves_no_container(in_containers: GymSettings) -> None:
    script = (
        "import anyio\n"
        "from hermes.environments.boxes.box import Box\n"
        "from hermes.gym.box.docker_backend import docker_box_opener\n"
        "from hermes.gym.episodes.episode import build_host_plan\n"
        "from hermes.gym.settings import GymSettings\n"
        "from hermes.gym.scenario_spec import HostSpec\n"
        "async def main():\n"
        f"    settings = GymSettings(docker_image={in_containers.docker_image!r},"
        f" docker_host={in_containers.docker_host!r})\n"
        "    async with Box([build_host_plan(HostSpec(name='h'))],"
        " opener=docker_box_opener(settings)):\n"
        "        print('open', flush=True)\n"
        "        await anyio.sleep(600)\n"
        "anyio.run(main)\n"
    )
    async with await anyio.open_process([sys.executable, "-c", script]) as process:
        assert process.stdout is not None
        try:
            with anyio.fail_after(60):
                assert (await process.stdout.receive()).startswith(b"open")
            assert containers()
        finally:
            process.send_signal(signal.SIGKILL)
    await gone()


async def test_a_missing_image_is_reported(
    in_containers: GymSettings,
) -> None:
    absent = GymSettings(docker_image="no-such-image", docker_host=in_containers.docker_host)
    with pytest.raises(EnvironmentFailed, match="no-such-image"):
        async with Box([build_host_plan(HostSpec(name="h"))], opener=docker_box_opener(absent)):
            pass
    await gone()


def test_readiness_names_the_daemon_the_image_and_its_programs(
    in_containers: GymSettings,
) -> None:
    nobody = GymSettings(backend="docker", docker_host="unix:///nonexistent/docker.sock")
    here = check_readiness(nobody)
    assert not here.boxes
    assert "start docker" in here.missing[0]
    there = check_readiness(in_containers)
    assert there.boxes
    assert missing_requirements(find_scenario("config-typo-after-edit"), there) == ()
    assert (
        missing_requirements(find_scenario("redis-out-of-memory"), there)[0]
        == "redis-server is not in the image"
    )


async def test_a_drill_runs_in_a_container_by_the_command_line(
    in_containers: GymSettings, tmp_path: Path
) -> None:
    config = {"gym": {"docker_image": in_containers.docker_image}}
    config["gym"]["docker_host"] = in_containers.docker_host
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    words = ("run", "config-typo-after-edit", "--model", "reference", "--window", "0.2", "--json")
    done = await anyio.run_process(
        [sys.executable, "-m", "hermes.cli", "drill", *words, "--backend", "docker"],
        env={"HERMES_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["resolved"] is True
