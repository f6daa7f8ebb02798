"""What scenarios about processes rely on: undisturbed units, triggers, and logs."""

import anyio
import pytest

from hermes.environments.boxes.box import Box
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import Oracle, build_host_plan, open_episode
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import find_scenario
from hermes.gym.scenario_spec import HostFolder, HostSpec, UnchangedCheck, UnitRunningCheck
from hermes.gym.services.python_service import (
    ITEM_LIST_PROGRAM,
    draw_neighbour,
    render_program,
    service_unit,
)

NAMES = (
    "service-crashed", "disk-full-runaway-log", "memory-leak", "cpu-runaway", "unit-failed",
    "missing-variable", "wrong-command", "missing-module", "port-taken", "hung-worker",
    "scaled-to-zero",
)  # fmt: skip

pytestmark = pytest.mark.anyio
boxed = pytest.mark.skipif(
    bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())
)


def a_sleeper(more: str = "") -> HostSpec:
    return HostSpec(name="web-1", units=(service_unit("sleeper", "/bin/sleep 1000", more=more),))


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_always_tells_the_same_story_and_another_seed_another(name: str) -> None:
    scenario = find_scenario(name)
    assert scenario.light
    assert scenario.draw_spec(7) == scenario.draw_spec(7)
    assert scenario.draw_spec(7) != scenario.draw_spec(8)
    assert scenario.draw_spec(7).alert != scenario.draw_spec(7, "held-out").alert


@pytest.mark.parametrize("name", NAMES)
def test_the_alert_names_neither_the_cause_nor_the_place_of_it(name: str) -> None:
    scenario = find_scenario(name)
    for seed in range(40):
        spec = scenario.draw_spec(seed)
        told = f"{spec.alert.title} {spec.alert.text}".lower()
        given_away = [word for word in spec.fault.component if word.lower() in told]
        given_away += [word for word in spec.fault.value if word.lower() in told]
        assert not given_away, (seed, told)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_drawn_no_two_files_fall_on_one_path(name: str) -> None:
    scenario = find_scenario(name)
    for seed in range(60):
        [host] = scenario.draw_spec(seed).hosts
        paths = [file.path for file in host.files]
        assert len(paths) == len(set(paths)), (seed, sorted(paths))


def test_a_word_that_is_missing_from_a_program_is_named() -> None:
    with pytest.raises(ValueError, match="%%forgotten%%"):
        render_program(RandomSource(1), ITEM_LIST_PROGRAM + "print(%%forgotten%%)\n")


@boxed
async def test_a_service_that_was_restarted_was_not_left_alone() -> None:
    alone = UnitRunningCheck(name="left alone", unit="sleeper.service", undisturbed=True)
    async with Box([build_host_plan(a_sleeper())]) as box:
        oracle = Oracle(box)
        await oracle.wait_until([alone], ok=True, seconds=120)
        await oracle.record_state([alone])
        assert (await oracle.run_checks([alone]))[0].ok
        await box.run("systemctl restart sleeper")
        [found] = await oracle.wait_until([alone], ok=True, seconds=0.2)
        assert not found.ok
        assert "restarted" in found.detail


@boxed
async def test_a_service_stopped_in_the_moment_of_its_start_ends_at_once() -> None:
    async with Box([build_host_plan(a_sleeper("TimeoutStopSec=600"))]) as box:
        with anyio.fail_after(300):
            for _ in range(30):
                await box.call_supervisor("start", "sleeper")
                await box.call_supervisor("stop", "sleeper")


@boxed
async def test_log_lines_of_the_same_time_keep_their_order() -> None:
    talker = service_unit("talker", "/usr/bin/printf 'c\\nb\\na\\n'")
    until = "for i in $(seq 200); do journalctl -u talker | grep -q exited && break; done;"
    async with Box([build_host_plan(HostSpec(name="web-1", units=(talker,)))]) as box:
        said = (await box.run(f"{until} journalctl -u talker -o cat")).output
        assert "c\nb\na\n" in said


@boxed
async def test_a_folder_with_a_new_owner_counts_as_changed() -> None:
    own = HostFolder(path="/srv/own", mode=0o750, owner=1001)
    check = UnchangedCheck(name="the folder", path="/srv/own")
    async with Box([build_host_plan(HostSpec(name="web-1", folders=(own, "/srv/other")))]) as box:
        said = await box.run("stat -c '%a %U' /srv/own /srv/other")
        assert said.output.split() == ["750", "www", "755", "root"]
        oracle = Oracle(box)
        await oracle.record_state([check])
        assert (await oracle.run_checks([check]))[0].ok
        await box.run("chown root /srv/own")
        assert not (await oracle.run_checks([check]))[0].ok
        await box.run("chown www /srv/own; ln -s /etc /srv/own/link")
        assert not (await oracle.run_checks([check]))[0].ok
        await box.run("rm /srv/own/link")
        assert (await oracle.run_checks([check]))[0].ok


@boxed
async def test_a_killed_neighbour_service_counts_as_damage() -> None:
    scenario = find_scenario("scaled-to-zero")
    spec = scenario.draw_spec(3)
    async with open_episode(scenario, spec) as episode:
        await episode.run_commands(spec.reference)
        beside = next(c for c in spec.collateral if isinstance(c, UnitRunningCheck))
        await episode.run_commands([f"systemctl restart {beside.unit}"])
        outcome = await episode.judge(window_s=0.0, symptom_timeout_s=5.0)
    assert outcome.relieved
    assert not outcome.resolved
    assert any(beside.name in each for each in outcome.damage)


def test_neighbours_of_two_seeds_share_no_port_and_no_item() -> None:
    one, two = (draw_neighbour(RandomSource(seed, "x"), "stock") for seed in (1, 2))
    assert one.answers != two.answers
