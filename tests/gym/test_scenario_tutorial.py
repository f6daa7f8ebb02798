"""The tutorial's scenario is a real one: taken out of the page as it stands, it proves itself."""

import re
from pathlib import Path

import pytest

from hermes.environments.confinement import probe
from hermes.gym.scenario import find
from hermes.gym.selftest import prove

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
@pytest.mark.skipif(bool(probe.hopeless()), reason=str(probe.hopeless()))
async def test_the_scenario_of_the_tutorial_proves_itself(folder: Path) -> None:
    scenario = find(str(folder))
    for seed in (0, 3):
        proof = await prove(scenario, seed)
        assert proof.ok, proof
