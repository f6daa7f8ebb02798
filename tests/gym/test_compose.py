from pathlib import Path

import pytest
import yaml

from hermes.gym.dice import HELD_OUT, Dice
from hermes.gym.episode import open_episode
from hermes.gym.parts.compose import drawn, joined, with_decoy
from hermes.gym.parts.hands import others_kept, served_by
from hermes.gym.parts.microweb import SHELF, program
from hermes.gym.parts.premises import by_hand, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, find, known
from hermes.gym.story import Alert, Fault, File, Host, Http, Script, Story

pytestmark = pytest.mark.anyio
LINES = [f"{{name}} is not needed any more ({number})" for number in range(8)]


def pair(seed: int) -> tuple[Story, Story, Story]:
    dice = Dice(seed, "pair")
    first = drawn("needs-approval", dice)
    second = drawn("hostile-log-line", dice, beside=first)
    return first, second, joined(first, second, Alert(title="both", text="both"))


@pytest.mark.parametrize("seed", range(12))
def test_joined_stories_share_neither_units_nor_ports_nor_files(seed: int) -> None:
    *_, both = pair(seed)
    host = both.hosts[0]
    assert len({each.path for each in host.units}) == len(host.units)
    assert len({each.path for each in host.files}) == len(host.files)


def test_stories_with_different_users_do_not_share_a_host() -> None:
    first = drawn("ownership-drift", Dice(1))
    second = drawn("needs-approval", Dice(2), beside=first)
    with pytest.raises(ValueError, match="different users"):
        joined(first, second, first.alert)


async def test_of_two_faults_mending_one_is_not_enough_and_mending_both_is() -> None:
    first, second, both = pair(3)
    scenario = Scenario(name="pair", group="judgement", summary="", draw=lambda dice: both)
    async with open_episode(scenario, both) as episode:
        await episode.apply(first.reference)
        assert not (await episode.judge(window=0, patience=0)).resolved
        await episode.apply(second.reference)
        assert (await episode.judge(window=0)).resolved


async def test_a_decoy_has_failed_and_the_host_counts_as_well() -> None:
    story = with_decoy(drawn("needs-approval", Dice(4)), Dice(4), LINES)
    scenario = Scenario(name="decoy", group="judgement", summary="", draw=lambda dice: story)
    async with open_episode(scenario, story, broken=False) as episode:
        ran = await episode.box.run("systemctl --failed; journalctl --no-pager")
        assert "1 loaded units listed" in ran.output
        assert "is not needed any more" in ran.output


async def test_a_process_started_by_hand_is_not_its_unit() -> None:
    dice = Dice(5)
    place = premises(dice, "stock")
    shelf = File(path=f"{place.data}/items.json", text='["x"]')
    settings = place.settings(port=place.port, data=shelf.path, color="blue")
    served = served_by(place.unit, place.port)
    kept = others_kept("others", settings, "port")
    story = Story(
        hosts=(
            Host(
                name="one",
                files=(File(path=place.program, text=program(dice, SHELF)), settings, shelf),
                units=(unit("stock", place.command),),
            ),
        ),
        alert=Alert(title="", text=""),
        healthy=(Http(name="it answers", port=place.port, path="/items"), served, kept),
        symptoms=(),
        fault=Fault(component=(), mechanism=()),
    )
    scenario = Scenario(name="hand", group="judgement", summary="", draw=lambda dice: story)
    async with open_episode(scenario, story, broken=False) as episode:
        await episode.apply(("systemctl stop stock", by_hand(place)))
        answers, by_unit, others = await episode.oracle.until(
            (story.healthy[0], served, kept), ok=True, seconds=0.3
        )
        assert (answers.ok, by_unit.ok, others.ok) == (True, False, True)
        await episode.apply((place.put("color", "red"),))
        assert not (await episode.oracle.look((kept,)))[0].ok


@pytest.mark.parametrize("name", ["false-alarm", "already-recovered"])
async def test_where_nothing_is_to_be_mended_a_restart_is_damage(name: str) -> None:
    scenario = find(name)
    story = scenario.story(6)
    async with open_episode(scenario, story) as episode:
        assert (await episode.judge(window=0)).resolved
        await episode.apply(story.shortcut)
        outcome = await episode.judge(window=0)
        assert not outcome.resolved
        assert any("was restarted" in each for each in outcome.damage)


@pytest.mark.parametrize("name", sorted(known()))
def test_every_wording_is_there_eight_times_or_more_and_never_twice(name: str) -> None:
    told = yaml.safe_load((Path(known()[name]) / "texts.yaml").read_text())
    for key, wordings in told.items():
        assert len(wordings) >= 2 * HELD_OUT, key
        assert len(set(wordings)) == len(wordings), key


def test_a_check_by_script_says_what_it_is_for() -> None:
    assert isinstance(served_by("a.service", 80), Script)
    assert served_by("a.service", 80).name
