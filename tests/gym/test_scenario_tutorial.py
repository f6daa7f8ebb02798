"""The tutorial's scenario is a real one: taken out of the page as it stands, it proves itself."""

import re
from pathlib import Path

import pytest

from hermes.environments.sandboxing import support
from hermes.gym.episodes.self_test import prove_scenario
from hermes.gym.scenario import find_scenario

PAGE = Path(__file__).parent.parent.parent / "docs/tutorial/first-scenario.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    page = PAGE.read_text()
    made = tmp_path / "data-moved-away"
    made.mkdir()
    for language, name in (("yaml", "texts.yaml"), ("python", "scenario.py")):
        (block,) = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
        (made / name).write_text(block)
    return made


@pytest.mark.anyio
@pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason()))
async def test_the_scenario_of_the_tutorial_proves_itself(folder: Path) -> None:
    scenario = find_scenario(str(folder))
    for seed in (0, 3):
        proof = await prove_scenario(scenario, seed)
        assert proof.ok, proof
