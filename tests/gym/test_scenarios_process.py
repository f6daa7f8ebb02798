"""What the scenarios of processes lean on: who was disturbed, what was asked for, what is told."""

import time

import pytest

from hermes.environments.confinement import probe
from hermes.gym.box.box import Box
from hermes.gym.dice import Dice
from hermes.gym.episode import host_plan, open_episode
from hermes.gym.oracle import Oracle
from hermes.gym.parts.microweb import SHELF, program
from hermes.gym.parts.premises import neighbour
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import find
from hermes.gym.story import Folder, Host, Running, Same

NAMES = (
    "service-crashed", "disk-full-runaway-log", "memory-leak", "cpu-runaway", "unit-failed",
    "missing-variable", "wrong-command", "missing-module", "port-taken", "hung-worker",
    "scaled-to-zero",
)  # fmt: skip

pytestmark = pytest.mark.anyio
boxed = pytest.mark.skipif(bool(probe.hopeless()), reason=str(probe.hopeless()))


def a_sleeper(more: str = "") -> Host:
    return Host(name="web-1", units=(unit("sleeper", "/bin/sleep 1000", more=more),))


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_always_tells_the_same_story_and_another_seed_another(name: str) -> None:
    scenario = find(name)
    assert scenario.light
    assert scenario.story(7) == scenario.story(7)
    assert scenario.story(7) != scenario.story(8)
    assert scenario.story(7).alert != scenario.story(7, "held-out").alert


@pytest.mark.parametrize("name", NAMES)
def test_the_alert_names_neither_the_cause_nor_the_place_of_it(name: str) -> None:
    for seed in range(40):
        story = find(name).story(seed)
        told = f"{story.alert.title} {story.alert.text}".lower()
        given_away = [word for word in story.fault.component if word.lower() in told]
        given_away += [word for word in story.fault.value if word.lower() in told]
        assert not given_away, (seed, told)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_drawn_no_two_files_fall_on_one_path(name: str) -> None:
    for seed in range(60):
        [host] = find(name).story(seed).hosts
        paths = [file.path for file in host.files]
        assert len(paths) == len(set(paths)), (seed, sorted(paths))


def test_a_word_that_is_missing_from_a_program_is_named() -> None:
    with pytest.raises(ValueError, match="%%forgotten%%"):
        program(Dice(1), SHELF + "print(%%forgotten%%)\n")


@boxed
async def test_a_service_that_was_restarted_was_not_left_alone() -> None:
    alone = Running(name="left alone", unit="sleeper.service", undisturbed=True)
    async with Box([host_plan(a_sleeper())]) as box:
        oracle = Oracle(box)
        await oracle.until([alone], ok=True, seconds=10)
        await oracle.remember([alone])
        assert (await oracle.look([alone]))[0].ok
        await box.run("systemctl restart sleeper")
        [found] = await oracle.until([alone], ok=True, seconds=0.2)
        assert not found.ok
        assert "restarted" in found.detail


@boxed
async def test_a_service_stopped_in_the_moment_of_its_start_ends_at_once() -> None:
    async with Box([host_plan(a_sleeper("TimeoutStopSec=60"))]) as box:
        started = time.monotonic()
        for _ in range(30):
            await box.tell("start", "sleeper")
            await box.tell("stop", "sleeper")
        assert time.monotonic() - started < 30


@boxed
async def test_lines_of_one_moment_are_shown_in_the_order_in_which_they_were_said() -> None:
    talker = unit("talker", "/usr/bin/printf 'c\\nb\\na\\n'")
    until = "for i in $(seq 200); do journalctl -u talker | grep -q exited && break; done;"
    async with Box([host_plan(Host(name="web-1", units=(talker,)))]) as box:
        said = (await box.run(f"{until} journalctl -u talker -o cat")).output
        assert "c\nb\na\n" in said


@boxed
async def test_a_folder_of_a_user_is_seen_to_change_hands() -> None:
    own = Folder(path="/srv/own", mode=0o750, owner=1001)
    check = Same(name="the folder", path="/srv/own")
    async with Box([host_plan(Host(name="web-1", folders=(own, "/srv/other")))]) as box:
        said = await box.run("stat -c '%a %U' /srv/own /srv/other")
        assert said.output.split() == ["750", "www", "755", "root"]
        oracle = Oracle(box)
        await oracle.remember([check])
        assert (await oracle.look([check]))[0].ok
        await box.run("chown root /srv/own")
        assert not (await oracle.look([check]))[0].ok
        await box.run("chown www /srv/own; ln -s /etc /srv/own/link")
        assert not (await oracle.look([check]))[0].ok
        await box.run("rm /srv/own/link")
        assert (await oracle.look([check]))[0].ok


@boxed
async def test_whoever_was_killed_next_door_is_counted_as_damage() -> None:
    scenario = find("scaled-to-zero")
    story = scenario.story(3)
    async with open_episode(scenario, story) as episode:
        await episode.apply(story.reference)
        beside = next(c for c in story.collateral if isinstance(c, Running))
        await episode.apply([f"systemctl restart {beside.unit}"])
        outcome = await episode.judge(window=0.0, patience=5.0)
    assert outcome.relieved
    assert not outcome.resolved
    assert any(beside.name in each for each in outcome.damage)


def test_neighbours_of_two_seeds_share_no_port_and_no_item() -> None:
    one, two = (neighbour(Dice(seed, "x"), "stock") for seed in (1, 2))
    assert one.answers != two.answers
