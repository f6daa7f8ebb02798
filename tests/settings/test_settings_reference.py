"""The settings reference is complete: every key with type, default, meaning and variable."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from hermes.settings.schema import Settings
from hermes.settings.value_types import list_keys
from hermes.settings.variable_names import variables_for

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(reference: ModuleType) -> dict[str, list[str]]:
    found = {}
    for line in reference.setting_tables().splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("| ").replace("\\|", "¦").split(" | ")]
            found[cells[0].strip("`")] = cells
    return found


def test_every_key_stands_in_the_reference_with_its_meaning_and_variable(
    reference: ModuleType,
) -> None:
    found = rows(reference)
    for path in list_keys(Settings):
        key = ".".join(path)
        _, kind, default, about, variables = found[key]
        assert kind and default and about, key
        assert f"`{variables_for(key)[-1]}`" in variables


def test_keys_below_names_and_in_lists_are_listed_too(reference: ModuleType) -> None:
    found = rows(reference)
    assert found["model.providers.NAME.base_url"][1] == "text"
    assert found["sre.notices.sinks[].kind"][3]
    assert not [key for key, cells in found.items() if not cells[3]], "a field without a docstring"


def test_the_page_is_filled_in_when_it_is_built(reference: ModuleType) -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    built = reference.on_page_markdown(page)
    assert "| `policy.announce` |" in built
    assert "<!-- settings -->" not in built
