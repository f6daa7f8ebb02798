"""Examples of a whole home: a run and those that worked for it, described with today's tools."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.app import open_application
from hermes.app.trajectories import check_batch, describe_tools, find_runs_begun, read_examples
from hermes.core.errors import SettingsError
from hermes.gym.training.batch import BatchPlan
from hermes.settings.load import load

pytestmark = pytest.mark.anyio


@pytest.mark.command
async def test_a_subagent_is_an_example_of_its_own_after_its_parent(tmp_path: Path) -> None:
    task = {"tasks": [{"goal": "look"}]}
    calls = [{"id": "c1", "name": "delegate", "arguments": task}]
    script = tmp_path / "script.jsonl"
    lines = [{"calls": calls}, {"text": "I looked."}, {"text": "It looked."}]
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    loaded = load(home=tmp_path / "home", variables={"HOME": str(tmp_path)})
    async with open_application(loaded, model=f"scripted:{script}", directory=tmp_path) as house:
        talk = await house.begin("look")
        await talk.say("let somebody look")
        tools = describe_tools(loaded)
        made = [each async for each in read_examples(loaded, house.journal, [talk.run], tools)]
        alone = [
            each
            async for each in read_examples(
                loaded, house.journal, [talk.run], tools, subagents=False
            )
        ]
        begun = await find_runs_begun(house.journal, (made[0].at or talk.ended.at), None)  # type: ignore[union-attr]
    assert [each.messages[-1].text for each in made] == ["It looked.", "I looked."]
    assert made[1].about.parent == talk.run
    assert [each.about.run for each in alone] == [talk.run]
    assert begun == [talk.run], "a subagent is not a run of its own"
    assert "delegate" in [spec.name for spec in made[0].tools]


def test_every_tool_that_comes_with_hermes_is_described(tmp_path: Path) -> None:
    loaded = load(home=tmp_path / "home", variables={"HOME": str(tmp_path)})
    known = describe_tools(loaded)
    assert {"terminal", "read_file", "memory", "skill_view", "conclude", "delegate"} <= set(known)
    assert all(spec.description for spec in known.values())


async def test_a_batch_draws_from_the_distributions_of_the_settings(tmp_path: Path) -> None:
    own = {"tools.distributions": '{"mine": {"terminal": 1.0}}'}
    loaded = load(home=tmp_path, variables={}, overrides=own)
    plan = BatchPlan(dataset_file="prompts.jsonl", run_name="one", distribution="mine")
    check_batch(loaded, plan)
    with pytest.raises(SettingsError, match="there is no distribution 'other'"):
        check_batch(loaded, replace(plan, distribution="other"))
