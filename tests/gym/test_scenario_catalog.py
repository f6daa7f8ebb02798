"""Where scenarios come from: the built-in ones, plug-ins, and folders in the settings."""

from pathlib import Path

import pytest

from hermes.core.errors import SettingsError
from hermes.gym.scenario import find_scenario, installed_scenarios, load_scenario, scenario_catalog

TYPO = "config-typo-after-edit"
SCENARIO = """
from hermes.gym.scenario import shared_module
from hermes.gym.scenario_builder import build_scenario

CHECKS = shared_module(__file__, "checks")
SCENARIO = build_scenario(__file__, CHECKS.draw, "files", "{summary}")
"""


def install_plugin(folder: Path, name: str, code: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(f"[hermes.scenarios]\n{name} = {name}_code:folder\n")
    (folder / f"{name}_code.py").write_text(code)


def add_scenario(root: Path, name: str, summary: str = "mine") -> None:
    (root / name).mkdir(parents=True)
    (root / name / "scenario.py").write_text(SCENARIO.format(summary=summary))
    (root / name / "texts.yaml").write_text("alerts: [x]\n")
    (root / "checks.py").write_text("def draw(build): ...\n")


@pytest.mark.parametrize(
    "code",
    [
        "raise RuntimeError('two\\nlines')",
        "def folder(): raise RuntimeError('two\\nlines')",
        "def folder(): return None",
        "from pathlib import Path\ndef folder(): return Path('/no/such/folder')",
    ],
    ids=("import", "call", "value", "path"),
)
def test_a_broken_plug_in_is_one_line_and_the_others_are_listed(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_in = installed_scenarios()
    name = f"broken_{abs(hash(code))}"
    install_plugin(tmp_path, name, code)
    monkeypatch.syspath_prepend(tmp_path)
    catalog = scenario_catalog()
    assert catalog.folders == built_in
    assert len(catalog.problems) == 1
    assert name in catalog.problems[0]
    assert "\n" not in catalog.problems[0]
    with pytest.raises(SettingsError, match=name):
        find_scenario("no-such-scenario")


def test_a_plug_in_does_not_replace_a_built_in_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_scenario(tmp_path / "theirs", TYPO, "replaced")
    add_scenario(tmp_path / "theirs", "their-own")
    code = f"from pathlib import Path\ndef folder(): return Path({str(tmp_path / 'theirs')!r})"
    install_plugin(tmp_path, "a_replacement", code)
    monkeypatch.syspath_prepend(tmp_path)
    catalog = scenario_catalog()
    assert "replaced" not in load_scenario(catalog.folders[TYPO]).summary
    assert "their-own" in catalog.folders
    taken = f"plug-in a_replacement: the name {TYPO} is taken by plug-in built_in; left out"
    assert catalog.problems == (taken,)


def test_scenarios_of_a_folder_are_listed_and_share_a_module(tmp_path: Path) -> None:
    add_scenario(tmp_path, "first-one")
    add_scenario(tmp_path, "second-one")
    folders = (str(tmp_path),)
    found = installed_scenarios(folders)
    assert {"first-one", "second-one", TYPO} <= found.keys()
    one, two = (find_scenario(name, folders) for name in ("first-one", "second-one"))
    assert one.summary == two.summary == "mine"
    assert scenario_catalog((str(tmp_path / "missing"),)).problems


def test_a_broken_shared_module_is_named(tmp_path: Path) -> None:
    add_scenario(tmp_path, "first-one")
    (tmp_path / "checks.py").write_text("1 / 0\n")
    with pytest.raises(SettingsError, match=r"checks\.py: ZeroDivisionError"):
        find_scenario("first-one", (str(tmp_path),))
    (tmp_path / "checks.py").unlink()
    with pytest.raises(SettingsError, match="there is no module"):
        find_scenario("first-one", (str(tmp_path),))
