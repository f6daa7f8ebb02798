"""`hermes version`, `update`, `uninstall`, `completion`, `tools`."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from hermes_command import Hermes

from hermes import __version__
from hermes.cli import exit_codes


def test_version_says_what_it_runs_on(hermes: Hermes) -> None:
    facts = json.loads(hermes("version", "--json").stdout)
    assert facts["version"] == __version__
    assert facts["home"] == str(hermes.home)
    assert "msgspec" in facts["libraries"]
    assert f"version         {__version__}" in hermes("version").stdout


def test_an_update_is_said_and_not_done_without_a_yes(hermes: Hermes) -> None:
    done = hermes("update")
    assert done.returncode == exit_codes.USAGE  # a script must not take it for done
    assert "install --upgrade" in done.stdout
    assert "use --yes" in done.stderr
    assert "Up to date" not in done.stdout
    assert json.loads(hermes("update", "--json").stdout)["kind"] == "checkout"


@pytest.fixture
def lived_in(hermes: Hermes) -> Hermes:
    hermes("config", "set", "agent.max_depth", "2")
    hermes("config", "set", "FAL_KEY", "x")
    (hermes.home / "journal.db").write_text("")
    (hermes.home / "artifacts").mkdir()
    (hermes.home / "artifacts" / "one").write_text("text")
    return hermes


def test_nothing_is_taken_away_without_a_yes(lived_in: Hermes) -> None:
    done = lived_in("uninstall", "--all", "--keep-program")
    assert f"delete  {lived_in.home}" in done.stdout
    assert done.returncode == exit_codes.USAGE
    assert (lived_in.home / "config.yaml").exists()


def test_settings_can_be_kept(lived_in: Hermes) -> None:
    done = lived_in("uninstall", "--keep-config", "--keep-program", "--yes")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in lived_in.home.iterdir()} == {"config.yaml", ".env"}


def test_everything_can_go(lived_in: Hermes) -> None:
    done = lived_in("uninstall", "--all", "--keep-program", "--yes")
    assert done.returncode == 0, done.stderr
    assert not lived_in.home.exists()


def test_a_home_is_saved_and_comes_back(lived_in: Hermes, tmp_path: Path) -> None:
    (lived_in.home / "journal.db").unlink()
    saved = str(tmp_path / "saved.tar.gz")
    done = json.loads(lived_in("backup", saved, "--json").stdout)
    assert (done["file"], done["files"] >= 3) == (saved, True)
    assert lived_in("backup", saved).returncode == exit_codes.SETTINGS
    refused = lived_in("restore", saved)
    assert refused.returncode == exit_codes.SETTINGS and "--force" in refused.stderr
    other = {"HERMES_HOME": str(tmp_path / "other")}
    back = json.loads(lived_in("restore", saved, "--json", env=other).stdout)
    assert back["files"] == done["files"]
    assert (tmp_path / "other" / ".env").read_text() == "FAL_KEY=x\n"
    Path(saved).write_bytes(b"damaged")
    broken = lived_in("restore", saved, env={"HERMES_HOME": str(tmp_path / "third")})
    assert broken.returncode == exit_codes.STORE


def installed_as(hermes: Hermes, folder: Path, name: str, target: str) -> dict[str, str]:
    """The variables of a process in which a package of this name was installed in `folder`."""
    info = folder / f"{name.replace('-', '_')}-9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
    (info / "entry_points.txt").write_text(f"[console_scripts]\nhermes = {target}\n")
    path = os.pathsep.join((str(folder), hermes.env["PYTHONPATH"]))
    return {"PYTHONPATH": path, "PYTHONNOUSERSITE": "1"}


@pytest.mark.parametrize("name", ["hermes-oncall", "hermes"])
def test_the_program_is_removed_the_way_it_came(hermes: Hermes, tmp_path: Path, name: str) -> None:
    variables = installed_as(hermes, tmp_path / "site", name, "hermes.cli.main:main")
    run = json.loads(hermes.process("uninstall", "--json", env=variables).stdout)["run"]
    assert run[-2] == "-y"
    assert run[-1] in {name, "hermes-oncall"}


def test_the_package_of_another_project_is_neither_updated_nor_removed(
    hermes: Hermes, tmp_path: Path
) -> None:
    variables = installed_as(hermes, tmp_path / "site", "hermes", "somebody.else:main")
    libraries = link_libraries(tmp_path / "libraries")
    source = "import hermes.cli.admin.installation as i; print(i.find_installation().kind)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", source],
        env={**hermes.env, **variables, "PYTHONPATH": f"{variables['PYTHONPATH']}:{libraries}"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "unknown", done.stderr


def link_libraries(folder: Path) -> Path:
    """The installed libraries, without Hermes itself."""
    folder.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if not each.name.startswith("hermes"):
            (folder / each.name).symlink_to(each)
    return folder


@pytest.mark.parametrize(
    ("make", "told"),
    [
        ([], "does not look like a Hermes home"),
        (["config.yaml", ".git"], "there is a .git in it"),
    ],
)
def test_a_folder_that_is_not_ours_is_never_deleted(
    hermes: Hermes, make: list[str], told: str
) -> None:
    hermes.home.mkdir()
    for name in [*make, "thesis.txt"]:
        (hermes.home / name).write_text("")
    done = hermes("uninstall", "--all", "--keep-program", "--yes")
    assert done.returncode == exit_codes.SETTINGS
    assert told in done.stderr
    assert (hermes.home / "thesis.txt").exists()


def test_a_persons_own_folder_is_never_deleted(lived_in: Hermes, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("")
    env = {"HERMES_HOME": str(tmp_path)}  # which is HOME in these tests
    done = lived_in("uninstall", "--all", "--keep-program", "--yes", env=env)
    assert done.returncode == exit_codes.SETTINGS
    assert "much more than Hermes" in done.stderr


def test_bash_completes_commands_and_options(hermes: Hermes) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = hermes("completion", "bash").stdout

    def complete(*words: str) -> list[str]:
        typed = " ".join(map(shlex.quote, words))
        code = (
            f"{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; "
            "_hermes_completion hermes; printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        done = subprocess.run([bash, "-c", code], env=hermes.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert complete("hermes", "co") == ["config", "copy", "completion"]
    assert complete("hermes", "config", "mig") == ["migrate"]
    assert "--changed" in complete("hermes", "config", "view", "--")


def test_completion_is_installed_for_one_person(hermes: Hermes, tmp_path: Path) -> None:
    done = hermes("completion", "fish", "--install")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".config/fish/completions/hermes.fish").read_text()
    plan = json.loads(hermes("uninstall", "--keep-config", "--json").stdout)
    assert plan["delete"] == [str(tmp_path / ".config/fish/completions/hermes.fish")]
    unknown = hermes("completion", env={"SHELL": "/bin/tcsh"})
    assert unknown.returncode == exit_codes.USAGE


def test_tools_are_listed_with_toolset_risk_and_whether_they_are_on(hermes: Hermes) -> None:
    rows = {row["tool"]: row for row in json.loads(hermes("tools", "--json").stdout)}
    assert rows["read_file"]["risk"] == "read"
    assert "file" in rows["read_file"]["toolsets"]
    assert rows["read_file"]["on"]
    assert rows["delegate"]["on"]
    hermes("config", "set", "tools.toolsets", "planning")
    rows = {row["tool"]: row for row in json.loads(hermes("tools", "--json").stdout)}
    assert rows["read_file"]["here"] == "off"
    assert rows["todo"]["here"] == "on"
    assert "read_file" in hermes("tools").stdout
    assert "planning" in hermes("tools", "sets").stdout


def test_one_tool_is_shown_with_what_it_takes(hermes: Hermes) -> None:
    assert "path" in hermes("tools", "show", "read_file").stdout
    missing = hermes("tools", "show", "read_fil")
    assert missing.returncode == exit_codes.FAILED
    assert "read_file" in missing.stderr
