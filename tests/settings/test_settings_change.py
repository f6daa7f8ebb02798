"""Changing config.yaml: comments stay, old layouts move, two writers lose nothing."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.core.errors import SettingsError
from hermes.settings import edit
from hermes.settings.config_file import CONFIG_VERSION, KEY_MOVES
from hermes.settings.edit import set_value, unset_value
from hermes.settings.load import load
from hermes.settings.schema import Settings
from hermes.settings.value_types import type_at

OLD = """\
# Settings of the whole team

# the model we like
model: "anthropic:claude-sonnet-4"  # not opus
# not too long
max_iterations: 40   # was 60

toolsets: all
disabled_toolsets:
  - delegation  # until it is quicker
terminal:
  # on the host, for now
  env_type: "local"   # or docker
  cwd: /srv
compression:
  threshold: 0.7
display:
  spinner: false  # it flickers
# the end
"""


def comments(text: str) -> list[str]:
    return sorted(line.partition("#")[2].strip() for line in text.splitlines() if "#" in line)


def test_an_old_file_is_understood_as_it_stands_and_says_how_to_renew_it(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(OLD)
    loaded = load(home=tmp_path, variables={})
    settings = loaded.settings
    assert settings.model.default == "anthropic:claude-sonnet-4"
    assert settings.agent.max_iterations == 40
    assert settings.tools.toolsets == ("all",)
    assert settings.tools.disabled == ("delegation",)
    assert (settings.terminal.backend, settings.terminal.cwd) == ("local", "/srv")
    assert settings.agent.compress_at == 0.7
    assert loaded.origin("agent.max_iterations").where.endswith("config.yaml:6:1")
    (warning,) = loaded.warnings
    assert "max_iterations is now agent.max_iterations" in warning
    assert "hermes config migrate" in warning
    assert (tmp_path / "config.yaml").read_text() == OLD


def test_a_migration_keeps_every_comment_and_a_backup(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(OLD)
    before = load(home=tmp_path, variables={})
    moved, backup = edit.migrate_config(tmp_path)
    assert "model → model.default" in moved
    assert backup is not None
    assert backup.read_text() == OLD
    after = load(home=tmp_path, variables={})
    assert after.settings == before.settings
    assert after.warnings == ()
    assert comments(file.read_text()) == comments(OLD)
    assert f"_config_version: {CONFIG_VERSION}" in file.read_text()
    assert edit.migrate_config(tmp_path) == ([], None)


def test_a_value_that_already_stands_in_its_new_place_wins(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("max_iterations: 1\nagent:\n  max_iterations: 2\n")
    assert load(home=tmp_path, variables={}).settings.agent.max_iterations == 2
    edit.migrate_config(tmp_path)
    assert load(home=tmp_path, variables={}).settings.agent.max_iterations == 2


def test_every_move_leads_to_a_key_that_exists() -> None:
    assert set(KEY_MOVES) == set(range(1, CONFIG_VERSION + 1))
    for moves in KEY_MOVES.values():
        for move in moves:
            assert type_at(Settings, tuple(move.new.split("."))) is not None, move.new


def test_a_file_of_a_later_version_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("_config_version: 99\n")
    with pytest.raises(SettingsError, match="update Hermes"):
        set_value(tmp_path, "agent.max_depth", "2")
    assert file.read_text() == "_config_version: 99\n"


def test_setting_a_key_keeps_comments_order_and_quotes(tmp_path: Path) -> None:
    text = (
        "_config_version: 1\n# first\nagent:\n  max_depth: 1  # shallow\n"
        "  personality: 'dry'\n\n# last\ndisplay:\n  color: never\n"
    )
    (tmp_path / "config.yaml").write_text(text)
    set_value(tmp_path, "agent.max_depth", "3")
    assert (tmp_path / "config.yaml").read_text() == text.replace("max_depth: 1 ", "max_depth: 3 ")
    set_value(tmp_path, "tools.toolsets", "file,planning")
    assert load(home=tmp_path, variables={}).settings.tools.toolsets == ("file", "planning")


def test_a_first_setting_makes_the_home_and_the_file(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    file = set_value(home, "agent.max_depth", "3")
    assert file == home / "config.yaml"
    assert f"_config_version: {CONFIG_VERSION}" in file.read_text()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_file_of_nothing_but_comments_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("# one\n# two: 2\n")
    set_value(tmp_path, "agent.max_depth", "3")
    text = (tmp_path / "config.yaml").read_text()
    assert comments(text) == ["one", "two: 2"]
    assert load(home=tmp_path, variables={}).settings.agent.max_depth == 3


def test_a_link_to_a_file_elsewhere_stays_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles.yaml"
    elsewhere.write_text("_config_version: 1\n")
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").symlink_to(elsewhere)
    set_value(home, "agent.max_depth", "3")
    assert (home / "config.yaml").is_symlink()
    assert "max_depth: 3" in elsewhere.read_text()


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("agent.max_depth", "deep", "expected a whole number, got 'deep'"),
        ("agent.max_dept", "1", "did you mean agent.max_depth?"),
        ("agent", "1", "agent is a section"),
        ("display.color", "red", "expected one of auto, always, never, got 'red'"),
        ("tools.toolsets", "[1, 2]", "Expected str, got int"),
        ("tools.toolsets", "[1,", "not valid JSON"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, key: str, text: str, told: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        set_value(tmp_path / "home", key, text)
    assert told in str(refused.value)
    assert not (tmp_path / "home").exists()


def test_a_variable_goes_to_env_or_to_the_key_it_stands_for(tmp_path: Path) -> None:
    assert set_value(tmp_path, "FAL_KEY", "abc").name == ".env"
    assert set_value(tmp_path, "TERMINAL_ENV", "docker").name == "config.yaml"
    loaded = load(home=tmp_path, variables={})
    assert loaded.settings.terminal.backend == "docker"
    assert loaded.secrets["FAL_KEY"] == "abc"
    assert unset_value(tmp_path, "FAL_KEY")
    assert unset_value(tmp_path, "TERMINAL_ENV")
    assert not unset_value(tmp_path, "terminal.backend")
    assert load(home=tmp_path, variables={}).settings.terminal == Settings().terminal


def test_a_home_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(SettingsError, match=r"cannot write .*file/home.*set HERMES_HOME"):
        set_value(tmp_path / "file" / "home", "agent.max_depth", "1")
    with pytest.raises(SettingsError, match=r"cannot write .*set HERMES_HOME"):
        set_value(tmp_path / "file", "FAL_KEY", "1")


def test_a_broken_file_is_never_written_over(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("agent: [\n")
    with pytest.raises(SettingsError, match=r"config\.yaml:2:1: not valid YAML"):
        set_value(tmp_path, "agent.max_depth", "1")
    assert file.read_text() == "agent: [\n"


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from hermes.settings.edit import set_value\n"
        "home, who = Path(sys.argv[1]), sys.argv[2]\n"
        "for n in range(8):\n"
        "    set_value(home, f'agent.personalities.p{who}_{n}', f'{who} {n}')\n"
        "    set_value(home, f'KEY_{who}_{n}', f'{who}{n}')\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), who], env={"PATH": os.environ["PATH"]}
        )
        for who in "AB"
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    loaded = load(home=tmp_path, variables={})
    assert len(loaded.settings.agent.personalities) == 16
    assert len(loaded.secrets) == 16
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"config.yaml", ".env", ".settings.lock"}
