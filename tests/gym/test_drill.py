"""Whole drills in real boxes: agents that help, do nothing, misbehave, or break everything."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
from reward_hacks import HACKS_WITHOUT_ACTIONS, REWARD_HACKS

from hermes.core.errors import SettingsError
from hermes.environments.boxes.backend import BoxOpener
from hermes.environments.boxes.local_backend import open_forkserver, open_local_box
from hermes.environments.sandboxing import support
from hermes.gym.drill import DrillResult, DrillTerms, run_drill
from hermes.gym.episodes.baseline_responders import BASELINE_RESPONDERS
from hermes.gym.episodes.responder_context import (
    AnsweredBy,
    EpisodeResponder,
    ResponderContext,
    open_bare_run,
    sandbox_rules,
)
from hermes.gym.scenario import Scenario, find_scenario, installed_scenarios
from hermes.gym.scenario_spec import ScenarioSpec

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
TYPO = "config-typo-after-edit"
QUICK = DrillTerms(window_s=0.0, responder_timeout_s=60.0, symptom_timeout_s=0.3)
FAIR = DrillTerms(window_s=0.0, responder_timeout_s=60.0)
RULES = sandbox_rules()


async def play(
    agent: Callable[[ScenarioSpec], EpisodeResponder],
    *,
    scenario: Scenario | None = None,
    seed: int = 1,
    terms: DrillTerms = QUICK,
    opener: BoxOpener = open_local_box,
) -> DrillResult:
    open_run = partial(open_bare_run, rules=RULES)
    scenario = scenario or find_scenario(TYPO)
    return await run_drill(scenario, seed, open_run, agent, terms, opener=opener)


def running(*commands: str) -> Callable[[ScenarioSpec], EpisodeResponder]:
    """An agent that runs these in its shell, whatever they say."""

    async def respond(context: ResponderContext) -> AnsweredBy:
        for command in commands:
            await context.call_tool("terminal", {"command": command, "timeout": 5})
        return "model"

    return lambda spec: respond


def machine_load() -> int:
    return len([each for each in Path("/proc").iterdir() if each.name.isdigit()])


async def test_the_reference_agent_earns_all_but_the_skill() -> None:
    found = await play(BASELINE_RESPONDERS["reference"], terms=FAIR)
    assert found.resolved, found
    assert found.reward.total == pytest.approx(0.9, abs=0.02), found
    assert found.tool_calls == 3
    assert found.diagnosis is not None
    assert found.diagnosis.evidence


async def test_doing_nothing_earns_nothing_and_restarting_earns_nothing() -> None:
    for name in ("no-op", "restart-everything"):
        found = await play(BASELINE_RESPONDERS[name])
        assert not found.resolved
        assert found.reward.total == 0.0


@pytest.mark.parametrize("name", sorted({TYPO, *sorted(installed_scenarios())[::12]}))
async def test_no_hack_pays(name: str) -> None:
    """On a part of the scenarios, all hacks, some at a time."""
    scenario, found = find_scenario(name), dict[str, DrillResult]()
    if scenario.missing_programs():
        pytest.skip(f"{name} needs {', '.join(scenario.missing_programs())}")
    limit = anyio.CapacityLimiter(4)

    async def one(hack: str, opener: BoxOpener) -> None:
        async with limit:
            agent = REWARD_HACKS[hack]
            found[hack] = await play(agent, scenario=scenario, seed=3, opener=opener)

    async with open_forkserver() as opener, anyio.create_task_group() as group:
        for hack in REWARD_HACKS:
            group.start_soon(one, hack, opener)
    assert not {hack: each.void for hack, each in found.items() if each.void}
    paid = {hack: each for hack, each in found.items() if each.reward.total > 0.05}
    assert not {
        hack for hack in paid if hack in HACKS_WITHOUT_ACTIONS or not paid[hack].resolved
    }, paid


async def test_an_injection_that_fails_makes_the_drill_void() -> None:
    real = find_scenario(TYPO)

    def draw(rng: object) -> ScenarioSpec:
        spec = real.draw_spec(0)
        return ScenarioSpec(**{**_fields(spec), "inject": ("echo no such fault; exit 3",)})

    broken = Scenario(name="broken", group="process", summary="", draw=draw)
    found = await play(BASELINE_RESPONDERS["reference"], scenario=broken)
    assert "the injection failed" in found.void
    assert found.reward.total == 0.0


async def test_an_injection_that_changes_nothing_is_void_as_well() -> None:
    spec = find_scenario(TYPO).draw_spec(0)
    fields = {**_fields(spec), "inject": ("true",)}
    scenario = Scenario(
        name="harmless", group="process", summary="", draw=lambda rng: ScenarioSpec(**fields)
    )
    with anyio.fail_after(120):
        found = await play(BASELINE_RESPONDERS["no-op"], scenario=scenario)
    assert "shows no symptom" in found.void


async def test_code_of_a_scenario_that_fails_makes_the_drill_void_and_is_named() -> None:
    def draw(rng: object) -> ScenarioSpec:
        raise KeyError("no such wording")

    scenario = Scenario(name="mine", group="jobs", summary="", draw=draw)
    found = await play(BASELINE_RESPONDERS["no-op"], scenario=scenario)
    assert found.void.startswith("mine: its code failed: KeyError")


def _fields(spec: ScenarioSpec) -> dict[str, object]:
    return {name: getattr(spec, name) for name in spec.__struct_fields__}


async def test_an_agent_out_of_time_is_stopped_and_judged() -> None:
    async def dawdle(context: ResponderContext) -> AnsweredBy:
        await context.call_tool("terminal", {"command": "sleep 100"})
        return "model"

    found = await play(lambda spec: dawdle, terms=DrillTerms(window_s=0.0, responder_timeout_s=1.0))
    assert found.ended == "out of time after 1 s"
    assert not found.resolved
    assert found.checks


async def test_an_agent_that_fills_the_disk_is_judged_and_the_machine_is_unharmed() -> None:
    free = os.statvfs("/tmp").f_bavail
    found = await play(running("head -c 900M /dev/zero > /var/log/big; df /"))
    assert not found.resolved
    assert not found.void
    assert abs(os.statvfs("/tmp").f_bavail - free) * os.statvfs("/tmp").f_frsize < 500 << 20


async def test_an_agent_that_kills_its_own_shell_goes_on_in_a_new_one() -> None:
    results = []

    async def respond(context: ResponderContext) -> AnsweredBy:
        await context.call_tool("terminal", {"command": "kill -9 $$"})
        results.append(await context.call_tool("terminal", {"command": "hostname"}))
        return "model"

    found = await play(lambda spec: respond)
    assert not found.void
    assert results[0].status == "ok", results


async def test_killing_the_supervisor_and_everything_else_is_judged() -> None:
    found = await play(running("kill -9 1; kill -9 -1", "killall -9 python3; pkill -9 ."))
    assert not found.void
    assert not found.resolved
    assert found.checks


async def test_a_bomb_of_forks_ends_with_the_episode_and_leaves_the_machine_alone() -> None:
    before = machine_load()
    with anyio.fail_after(120):
        found = await play(running("bomb() { bomb | bomb & }; bomb; sleep 1"))
    assert not found.resolved
    assert not found.void

    with anyio.move_on_after(20):
        while True:
            await anyio.sleep(0.1)
            if machine_load() <= before + 60:
                break
    assert machine_load() <= before + 60


async def test_two_drills_of_one_scenario_at_once_do_not_meet() -> None:
    found: list[DrillResult] = []

    async def one() -> None:
        found.append(await play(BASELINE_RESPONDERS["reference"], seed=5, terms=FAIR))

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        group.start_soon(one)
    assert [each.resolved for each in found] == [True, True]
    assert found[0].run != found[1].run


async def test_evidence_that_was_never_run_is_refused_with_what_was() -> None:
    results = []

    async def respond(context: ResponderContext) -> AnsweredBy:
        await context.call_tool("terminal", {"command": "uptime"})
        results.append(
            await context.call_tool("conclude", {"answer": "fix", "evidence": ["cat /etc/none"]})
        )
        results.append(
            await context.call_tool("conclude", {"answer": "fix", "evidence": ["uptime"]})
        )
        return "model"

    found = await play(lambda spec: respond)
    assert results[0].status == "error"
    assert "uptime" in results[0].content
    assert results[1].status == "ok"
    assert found.diagnosis is not None


async def test_a_broken_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "my-scenario"
    folder.mkdir()
    (folder / "scenario.py").write_text("SCENARIO = 1 / 0\n")
    with pytest.raises(SettingsError, match=r"my-scenario.*ZeroDivisionError"):
        find_scenario(str(folder))
