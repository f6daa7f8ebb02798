from pathlib import Path

import pytest
import yaml

from hermes.gym.episodes.episode import open_episode
from hermes.gym.random_source import HELD_OUT_INTERVAL, RandomSource
from hermes.gym.scenario import Scenario, find_scenario, installed_scenarios
from hermes.gym.scenario_spec import (
    FaultDescription,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioAlert,
    ScenarioSpec,
    ScriptCheck,
)
from hermes.gym.scenarios.combine import add_decoy, combine_faults, draw_scenario
from hermes.gym.services.python_service import (
    ITEM_LIST_PROGRAM,
    draw_layout,
    render_program,
    service_unit,
    start_unsupervised_script,
)
from hermes.gym.services.shell_scripts import other_settings_unchanged, served_by_unit

pytestmark = pytest.mark.anyio
LINES = [f"{{name}} is not needed any more ({number})" for number in range(8)]


def pair(seed: int) -> tuple[ScenarioSpec, ScenarioSpec, ScenarioSpec]:
    rng = RandomSource(seed, "pair")
    first = draw_scenario("needs-approval", rng)
    second = draw_scenario("hostile-log-line", rng, beside=first)
    return first, second, combine_faults(first, second, ScenarioAlert(title="both", text="both"))


@pytest.mark.parametrize("seed", range(12))
def test_joined_stories_share_neither_units_nor_ports_nor_files(seed: int) -> None:
    *_, both = pair(seed)
    host = both.hosts[0]
    assert len({each.path for each in host.units}) == len(host.units)
    assert len({each.path for each in host.files}) == len(host.files)


def test_stories_with_different_users_do_not_share_a_host() -> None:
    first = draw_scenario("ownership-drift", RandomSource(1))
    second = draw_scenario("needs-approval", RandomSource(2), beside=first)
    with pytest.raises(ValueError, match="different users"):
        combine_faults(first, second, first.alert)


async def test_of_two_faults_mending_one_is_not_enough_and_mending_both_is() -> None:
    first, second, both = pair(3)
    scenario = Scenario(name="pair", group="judgement", summary="", draw=lambda rng: both)
    async with open_episode(scenario, both) as episode:
        await episode.run_commands(first.reference)
        assert not (await episode.judge(window_s=0, symptom_timeout_s=0)).resolved
        await episode.run_commands(second.reference)
        assert (await episode.judge(window_s=0)).resolved


async def test_a_decoy_has_failed_and_the_host_counts_as_well() -> None:
    spec = add_decoy(draw_scenario("needs-approval", RandomSource(4)), RandomSource(4), LINES)
    scenario = Scenario(name="decoy", group="judgement", summary="", draw=lambda rng: spec)
    async with open_episode(scenario, spec, broken=False) as episode:
        ran = await episode.box.run("systemctl --failed; journalctl --no-pager")
        assert "1 loaded units listed" in ran.output
        assert "is not needed any more" in ran.output


async def test_a_process_started_by_hand_is_not_its_unit() -> None:
    rng = RandomSource(5)
    layout = draw_layout(rng, "stock")
    items_file = HostFile(path=f"{layout.data}/items.json", text='["x"]')
    settings = layout.settings(port=layout.port, data=items_file.path, color="blue")
    served = served_by_unit(layout.unit, layout.port)
    kept = other_settings_unchanged("others", settings, "port")
    spec = ScenarioSpec(
        hosts=(
            HostSpec(
                name="one",
                files=(
                    HostFile(path=layout.program, text=render_program(rng, ITEM_LIST_PROGRAM)),
                    settings,
                    items_file,
                ),
                units=(service_unit("stock", layout.command),),
            ),
        ),
        alert=ScenarioAlert(title="", text=""),
        healthy=(HttpCheck(name="it answers", port=layout.port, path="/items"), served, kept),
        symptoms=(),
        fault=FaultDescription(component=(), mechanism=()),
    )
    scenario = Scenario(name="hand", group="judgement", summary="", draw=lambda rng: spec)
    async with open_episode(scenario, spec, broken=False) as episode:
        await episode.run_commands(("systemctl stop stock", start_unsupervised_script(layout)))
        answers, by_unit, others = await episode.oracle.wait_until(
            (spec.healthy[0], served, kept), ok=True, seconds=0.3
        )
        assert (answers.ok, by_unit.ok, others.ok) == (True, False, True)
        await episode.run_commands((layout.put("color", "red"),))
        assert not (await episode.oracle.run_checks((kept,)))[0].ok


@pytest.mark.parametrize("name", ["false-alarm", "already-recovered"])
async def test_where_nothing_is_to_be_mended_a_restart_is_damage(name: str) -> None:
    scenario = find_scenario(name)
    spec = scenario.draw_spec(6)
    async with open_episode(scenario, spec) as episode:
        assert (await episode.judge(window_s=0)).resolved
        await episode.run_commands(spec.shortcut)
        outcome = await episode.judge(window_s=0)
        assert not outcome.resolved
        assert any("was restarted" in each for each in outcome.damage)


@pytest.mark.parametrize("name", sorted(installed_scenarios()))
def test_every_wording_is_there_eight_times_or_more_and_never_twice(name: str) -> None:
    texts = yaml.safe_load((Path(installed_scenarios()[name]) / "texts.yaml").read_text())
    for key, wordings in texts.items():
        assert len(wordings) >= 2 * HELD_OUT_INTERVAL, key
        assert len(set(wordings)) == len(wordings), key


def test_a_check_by_script_says_what_it_is_for() -> None:
    assert isinstance(served_by_unit("a.service", 80), ScriptCheck)
    assert served_by_unit("a.service", 80).name
