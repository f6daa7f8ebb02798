"""Plug-ins are found by name, ours and other people's, and loaded only then."""

import subprocess
import sys
from pathlib import Path

import pytest

from hermes.core import plugins
from hermes.core.errors import SettingsError
from hermes.gym.scenario import installed_scenarios, load_scenario
from hermes.models.scripted import open_scripted


def test_a_built_in_takes_the_same_road_as_everybody_elses() -> None:
    assert plugins.load_plugin("models", "scripted") is open_scripted
    assert "scripted" in plugins.plugin_names("models")


def test_an_unknown_name_tells_what_there_is() -> None:
    with pytest.raises(SettingsError, match=r"no models named 'gtp'; there are: .*scripted"):
        plugins.load_plugin("models", "gtp")


def test_a_plug_in_of_another_distribution_is_found(tmp_path: Path) -> None:
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hermes.models]\nodd = stranger:ODD\n")
    (tmp_path / "stranger.py").write_text("def ODD():\n    return 'an odd model'\n")
    code = "from hermes.core.plugins import load_plugin; print(load_plugin('models', 'odd')())"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert found.stdout == "an odd model\n", found.stderr


def test_a_package_offers_folders_of_scenarios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "drills_of_ours-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[hermes.scenarios]\nours = drills_of_ours:folder\n")
    (tmp_path / "drills_of_ours.py").write_text(
        f"from pathlib import Path\ndef folder():\n    return Path({str(tmp_path)!r})\n"
    )
    (tmp_path / "own-drill").mkdir()
    (tmp_path / "own-drill" / "scenario.py").write_text("raise SystemExit('not today')\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = installed_scenarios()
    assert found["own-drill"] == tmp_path / "own-drill"
    assert "config-typo-after-edit" in found
    with pytest.raises(SettingsError, match=r"scenario\.py: SystemExit: not today"):
        load_scenario(found["own-drill"])


def test_loading_a_built_in_does_not_pay_for_the_metadata_of_the_world() -> None:
    code = (
        "import sys; from hermes.core.plugins import load_plugin\n"
        "load_plugin('models', 'scripted'); "
        "print('importlib.metadata' in sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.stdout == "False\n", loaded.stderr
