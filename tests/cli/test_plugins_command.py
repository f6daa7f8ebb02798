"""`hermes plugins`: what packages and files bring, and what is wrong with them."""

from pathlib import Path

import msgspec
import pytest
from hermes_command import Hermes

GOOD = 'def spool(probe):\n    return "true"\nENTRY_POINTS = {"hermes.probes": {"spool": spool}}\n'


@pytest.fixture
def hermes(tmp_path: Path) -> Hermes:
    hermes = Hermes(tmp_path)
    folder = hermes.home / "plugins"
    folder.mkdir(parents=True, mode=0o700)
    hermes.home.chmod(0o700)
    (folder / "example.py").write_text(GOOD)
    (folder / "broken.py").write_text("raise RuntimeError('no licence')\n")
    for file in folder.iterdir():
        file.chmod(0o600)
    return hermes


def a_package(folder: Path) -> None:
    info = folder / "stranger-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\nSummary: Odd things\n"
        "Requires-Dist: msgspec>=0.18\nRequires-Dist: surely-not-installed>=2\n"
        'Requires-Dist: pytest; extra == "test"\n'
    )
    (info / "entry_points.txt").write_text(
        "[hermes.models]\nodd = stranger:odd\nopenai = stranger:odd\n"
        "[hermes.wishes]\nx = stranger:odd\n[hermes.probes]\ngone = stranger:none\n"
    )
    (folder / "stranger.py").write_text("def odd():\n    return 1\n")


def test_files_are_listed_and_a_broken_one_says_why(hermes: Hermes) -> None:
    listed = msgspec.json.decode(hermes("plugins", "list", "--json").stdout)
    parts = {each["name"]: each["parts"][0] for each in listed}
    assert (parts["example"]["group"], parts["example"]["status"]) == ("hermes.probes", "ok")
    assert parts["broken"]["status"] == "absent"
    assert "no licence" in parts["broken"]["why"]
    assert "example" in hermes("plugins").stdout
    assert "hermes.probes" in hermes("plugins", "show", "example.py").stdout
    assert "example.py" in hermes("plugins", "show", "spool").stdout
    told = hermes("plugins", "doctor")
    assert told.returncode == 3
    assert "RuntimeError: no licence" in told.stdout
    (hermes.home / "plugins/broken.py").unlink()
    assert hermes("plugins", "doctor").returncode == 0


def test_a_file_that_others_may_write_is_absent(hermes: Hermes) -> None:
    (hermes.home / "plugins/example.py").chmod(0o666)
    shown = msgspec.json.decode(hermes("plugins", "show", "example", "--json").stdout)
    assert "can be written by other users" in shown["parts"][0]["why"]
    missing = hermes("plugins", "show", "exampel")
    assert missing.returncode == 3
    assert "did you mean example?" in missing.stderr


def test_a_package_tells_what_it_needs_and_which_parts_are_absent(
    hermes: Hermes, tmp_path: Path
) -> None:
    a_package(tmp_path / "site")
    path = f"{tmp_path / 'site'}:{hermes.env['PYTHONPATH']}"
    told = hermes.process("plugins", "show", "stranger", "--json", env={"PYTHONPATH": path})
    assert told.returncode == 0, told.stderr
    shown = msgspec.json.decode(told.stdout)
    assert shown["version"] == "1.0"
    assert shown["needs"] == ["msgspec", "surely-not-installed"]
    assert shown["missing"] == ["surely-not-installed"]
    why = {each["name"]: each.get("why", "") for each in shown["parts"]}
    assert why["odd"] == ""
    assert "taken by Hermes itself" in why["openai"]
    assert "no group hermes.wishes" in why["x"]
    assert "none" in why["gone"]
