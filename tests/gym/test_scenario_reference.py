"""The reference of scenarios has every field, and says what it means."""

import inspect
import sys
from pathlib import Path

import msgspec
import pytest

from hermes.gym import scenario_spec
from hermes.gym.scenario import Scenario
from hermes.gym.scenario_spec import RequestSpec, ScenarioSpec
from hermes.settings.describe import field_docs

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))
import reference  # noqa: E402 - a hook of MkDocs, found by the line above

DEFINED = [
    kind
    for _, kind in inspect.getmembers(scenario_spec, inspect.isclass)
    if issubclass(kind, msgspec.Struct) and kind.__module__ == scenario_spec.__name__
]


@pytest.fixture(scope="module")
def page() -> str:
    source = (ROOT / "docs/reference/scenarios.md").read_text("utf-8")
    return reference.on_page_markdown(source)


def test_every_type_that_a_scenario_can_contain_has_a_table(page: str) -> None:
    contained = {*reference.scenario_types(ScenarioSpec)}
    assert {*DEFINED} - contained == {RequestSpec}
    for kind in (Scenario, *contained):
        assert f"## {kind.__name__}\n" in page


@pytest.mark.parametrize("kind", [Scenario, *DEFINED], ids=lambda kind: kind.__name__)
def test_every_field_is_listed_with_its_meaning(kind: type[msgspec.Struct], page: str) -> None:
    names = [each.name for each in msgspec.structs.fields(kind)]
    assert [name for name in names if not field_docs(kind).get(name)] == []
    rows = page.partition(f"## {kind.__name__}\n")[2].partition("\n## ")[0]
    if kind is not RequestSpec:
        assert [name for name in names if f"| `{name}` |" not in rows] == []


def test_every_call_of_the_builder_is_listed(page: str) -> None:
    for name in ("draw_service", "file", "disk", "trigger", "responses", "alert"):
        assert f"`build.{name}(" in page
    assert "inodes" in page
