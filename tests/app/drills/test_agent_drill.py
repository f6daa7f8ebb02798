"""The production agent in a broken box: same house, same rules, same journal."""

import json
from pathlib import Path

import anyio
import pytest

from hermes.app.drills.drill import parse_agent, run_agent_drill, settings_for_agent
from hermes.core.errors import SettingsError
from hermes.environments.sandboxing import support
from hermes.gym.drill import DrillTerms
from hermes.gym.scenario import find_scenario
from hermes.memory.store import open_journal
from hermes.settings.load import LoadedSettings, load

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
TYPO, SEED = "config-typo-after-edit", 4
TERMS = DrillTerms(window_s=0.0, responder_timeout_s=60.0)


def call(number: int, tool: str, **arguments: object) -> str:
    calls = [{"id": f"call-{number}", "name": tool, "arguments": arguments}]
    return json.dumps({"calls": calls})


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedSettings:
    """One model alone: what a crew does is in tests/sre."""
    return load(
        home=tmp_path / "home",
        variables={"HOME": str(tmp_path)},
        overrides={"sre.minds": "alone"},
    )


def script(folder: Path, *lines: str, name: str = "script") -> str:
    file = folder / f"{name}.jsonl"
    file.write_text("\n".join([*lines, '{"text": "done"}']))
    return f"scripted:{file}"


def fixing(folder: Path, name: str = "script") -> str:
    story = find_scenario(TYPO).draw_spec(SEED)
    look = f"journalctl -u {story.alert.labels['service']} -n 20"
    fault = story.fault
    return script(
        folder,
        call(1, "terminal", command=look),
        *(call(2 + at, "terminal", command=each) for at, each in enumerate(story.reference)),
        call(
            9,
            "conclude",
            answer="fix",
            component=fault.component[0],
            mechanism=fault.mechanism[0],
            value=fault.value[0],
            evidence=[look],
        ),
        name=name,
    )


async def test_a_model_that_fixes_it_is_scored_from_the_homes_journal(
    loaded: LoadedSettings, tmp_path: Path
) -> None:
    agent = parse_agent(fixing(tmp_path), skills=False, states=False)
    found = await run_agent_drill(loaded, find_scenario(TYPO), SEED, agent, TERMS)
    assert found.resolved, found
    assert found.answered_by == "model"
    assert found.model_calls == 5
    assert found.tool_calls > 3, "its own three, and the looks of the commander"
    assert found.reward.root_cause == 0.15
    async with open_journal(loaded.store) as journal:
        kinds = [each.event.kind async for each in journal.read(run=found.run)]
    assert kinds[0] == "run.started"
    for kind in ("alert.raised", "incident.diagnosed", "incident.verified", "incident.closed"):
        assert kind in kinds


async def test_a_model_that_only_talks_earns_nothing(
    loaded: LoadedSettings, tmp_path: Path
) -> None:
    agent = parse_agent(script(tmp_path), skills=False, states=False)
    found = await run_agent_drill(loaded, find_scenario(TYPO), SEED, agent, TERMS)
    assert not found.resolved
    assert found.reward.total <= 0.05


async def test_without_a_model_and_without_skills_nobody_answers(loaded: LoadedSettings) -> None:
    found = await run_agent_drill(
        loaded, find_scenario(TYPO), SEED, parse_agent("none", skills=False, states=False), TERMS
    )
    assert (found.answered_by, found.resolved) == ("nobody", False)


async def test_a_bundled_playbook_fixes_a_mistyped_setting_without_a_model(
    loaded: LoadedSettings,
) -> None:
    found = await run_agent_drill(loaded, find_scenario(TYPO), SEED, parse_agent("none"), TERMS)
    assert (found.answered_by, found.resolved, found.model_calls) == ("playbook", True, 0), found


async def test_a_model_that_fails_says_so_in_the_result(
    loaded: LoadedSettings, tmp_path: Path
) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text("# nothing\n")
    found = await run_agent_drill(
        loaded,
        find_scenario(TYPO),
        SEED,
        parse_agent(f"scripted:{file}", skills=False, states=False),
        TERMS,
    )
    assert found.ended.startswith("failed: ")
    assert not found.resolved


async def test_the_turns_of_a_model_are_bounded(loaded: LoadedSettings, tmp_path: Path) -> None:
    busy = [call(at, "terminal", command=f"echo {at}") for at in range(20)]
    agent = parse_agent(script(tmp_path, *busy), turns=3, skills=False, states=False)
    found = await run_agent_drill(loaded, find_scenario(TYPO), SEED, agent, TERMS)
    assert found.model_calls <= 4, "three, and one that sums up without tools"


async def test_two_drills_share_one_home(loaded: LoadedSettings, tmp_path: Path) -> None:
    found = []

    async def one(name: str) -> None:
        agent = parse_agent(fixing(tmp_path, name), skills=False, states=False)
        found.append(await run_agent_drill(loaded, find_scenario(TYPO), SEED, agent, TERMS))

    async with anyio.create_task_group() as group:
        group.start_soon(one, "a")
        group.start_soon(one, "b")
    assert [each.resolved for each in found] == [True, True], found


def test_a_drill_may_read_memory_and_never_adds_to_it(loaded: LoadedSettings) -> None:
    without = settings_for_agent(loaded, parse_agent("none", memory=False)).settings.memory
    assert not (without.notes or without.recall or without.learn)
    memory = settings_for_agent(loaded, parse_agent("none")).settings.memory
    assert (memory.notes, memory.recall, memory.learn) == (True, True, False)


async def test_an_agent_cut_off_at_work_has_still_answered(
    loaded: LoadedSettings, tmp_path: Path
) -> None:
    slow = script(tmp_path, call(1, "terminal", command="sleep 60"))
    terms = DrillTerms(window_s=0.0, responder_timeout_s=12.0, symptom_timeout_s=0.2)
    found = await run_agent_drill(
        loaded, find_scenario(TYPO), SEED, parse_agent(slow, skills=False, states=False), terms
    )
    assert found.ended == "out of time after 12 s"
    assert found.answered_by == "model"


async def test_a_model_that_nobody_knows_is_an_error_and_no_void_drill(
    loaded: LoadedSettings,
) -> None:
    with pytest.raises(SettingsError):
        await run_agent_drill(
            loaded, find_scenario(TYPO), SEED, parse_agent("nobody-like:that"), TERMS
        )
