"""Hosts of a box under other supervisors than the gym's own systemctl."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hermes.environments.boxes.box import Box
from hermes.gym.episodes.episode import Episode, EpisodeVoid, build_host_plan, open_episode
from hermes.gym.episodes.self_test import prove_scenario
from hermes.gym.scenario import find_scenario
from hermes.gym.scenario_spec import HostFile, HostSpec
from hermes.gym.services.python_service import service_unit
from hermes.gym.supervisors.hosts import (
    OWN_SYSTEMCTL,
    ShellUnitControl,
    boot_host,
    missing_supervisor_programs,
    reason_not_expressed,
)
from hermes.gym.supervisors.setups import SUPERVISOR_SETUPS, read_unit

pytestmark = pytest.mark.anyio
SCENARIO = "config-typo-after-edit"
# The package of OpenRC may replace the init of a machine, so `make system` does not install it.
OTHER_KINDS = tuple(
    kind for kind in SUPERVISOR_SETUPS if kind != "openrc" or not missing_supervisor_programs(kind)
)


@pytest.fixture(params=OTHER_KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    missing = missing_supervisor_programs(request.param)
    if missing:
        pytest.skip(f"not installed here: {', '.join(missing)}")
    return str(request.param)


@asynccontextmanager
async def open_healthy(kind: str, name: str = SCENARIO) -> AsyncIterator[Episode]:
    scenario = find_scenario(name)
    spec = scenario.draw_spec(1)
    async with open_episode(scenario, spec, broken=False, supervisor=kind) as episode:
        yield episode


async def test_a_unit_is_stopped_started_and_shown_under_each_supervisor(kind: str) -> None:
    async with open_healthy(kind) as episode:
        unit = read_unit(episode.spec.hosts[0].units[0]).name
        before = await episode.units.show(f"{unit}.service")
        assert before["state"] == "active"
        await episode.units.run(f"systemctl stop {unit}")
        assert (await episode.units.show(unit))["state"] == "inactive"
        await episode.units.run(f"systemctl start {unit}")
        results = await episode.oracle.wait_until(episode.spec.healthy, ok=True, seconds=120.0)
        assert [each.detail for each in results if not each.ok] == []
        after = await episode.units.show(unit)
        assert after["state"] == "active" and after["pid"] != before["pid"]
        shown = await episode.units.run(f"systemctl show -p MainPID --value {unit}")
        assert int(shown.output) == after["pid"]


async def test_an_agent_finds_no_systemctl_that_works_beside_another_supervisor(kind: str) -> None:
    async with open_healthy(kind) as episode:
        listed = await episode.box.run("systemctl list-units; ls /etc/systemd/system")
        assert listed.code != 0
        units = [read_unit(unit).name for unit in episode.spec.hosts[0].units]
        assert not any(unit in listed.output for unit in units)


async def test_only_the_reference_fix_resolves_a_scenario_under_each_supervisor(kind: str) -> None:
    proof = await prove_scenario(find_scenario(SCENARIO), 2, supervisor=kind)
    assert (proof.problems, proof.void) == ((), "")


async def test_a_daemon_without_a_supervisor_is_remembered_from_before_the_fault() -> None:
    async with open_healthy("daemon") as episode:
        commands = {each.command_line for each in episode.memory.daemons}
        assert {read_unit(unit).command for unit in episode.spec.hosts[0].units} <= commands


@pytest.mark.parametrize(
    ("scenario", "kind", "words"),
    [
        ("memory-leak", "supervisord", "MemoryMax"),
        ("missing-variable", "supervisord", "EnvironmentFile"),
        ("missing-variable", "runit", ""),
        ("wrong-command", "runit", "daemon-reload"),
        ("bad-deploy-rollback", "daemon", "about systemd"),
        ("staging-settings-reloaded", "s6", "reload"),
        ("deleted-but-open-file", "docker", ""),
        ("wrong-command", OWN_SYSTEMCTL, ""),
    ],
)
def test_a_scenario_says_why_a_supervisor_cannot_express_it(
    scenario: str, kind: str, words: str
) -> None:
    reason = reason_not_expressed(kind, find_scenario(scenario).draw_spec(0))
    assert words in reason and bool(words) == bool(reason)


async def test_an_episode_that_cannot_be_expressed_is_void() -> None:
    scenario = find_scenario("memory-leak")
    with pytest.raises(EpisodeVoid, match="cannot run under runit"):
        async with open_episode(scenario, scenario.draw_spec(0), supervisor="runit"):
            pass


async def test_environment_and_user_of_a_unit_reach_its_process(kind: str) -> None:
    unit = service_unit(
        "talker",
        "/usr/bin/python3 -S /opt/talker.py",
        more="Environment=COLOUR=deep-blue",
        user="www",
    )
    program = (
        "import os, time\n"
        "with open('/var/lib/talker/said', 'w') as file:\n"
        "    file.write(f\"{os.getuid()} {os.environ['COLOUR']}\")\n"
        "time.sleep(1000)\n"
    )
    host = HostSpec(
        name="host",
        files=(
            HostFile(path="/opt/talker.py", text=program),
            HostFile(path="/var/lib/talker/said", owner=1001),
        ),
        units=(unit,),
    )
    boot = boot_host(kind, host)
    async with Box([build_host_plan(host, boot)]) as box:
        control = ShellUnitControl(box, [boot])
        said = await control.run(
            "for i in $(seq 600); do [ -s /var/lib/talker/said ] && break; sleep 0.1; done; "
            "cat /var/lib/talker/said; cat /var/log/boot.log >&2",
            timeout=90.0,
        )
        assert said.output.startswith("1001 deep-blue")
