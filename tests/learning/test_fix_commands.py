"""What people changed becomes commands: they are run here with a real shell, and undone."""

import subprocess
from pathlib import Path

import pytest

from hermes.learning.fix_commands import (
    KEPT,
    MAX_FILE_CHARS,
    CannotRepeatError,
    FixCommand,
    FixedFile,
    fix_commands,
    value_edits,
)

CONF = "[server]\nport = 80\nworkers = {}\nname = a/b & c\n"


def run(commands: list[FixCommand], folder: Path, *, undo: bool = False) -> None:
    kept = str(folder / "kept")
    for each in reversed(commands) if undo else commands:
        command = each.undo if undo else each.command
        subprocess.run(["bash", "-ec", command.replace(KEPT, kept)], check=True)


@pytest.mark.parametrize(
    ("failing", "fixed"),
    [
        (CONF.format("many"), CONF.format("4")),
        (CONF.format("many"), CONF.format("/srv/a")),
        (CONF.format("4"), CONF.format("'a|b' \\d & $HOME")),
        ("A=1\nC=3\n", "A=1\nC=3\nB=two words\n"),
        ("a: 1\n  - x\n", "a: 1\n  - y\n  - z\n"),
        ("old\\n 100%\n", "new\\n 100% 'quoted' {{x}}\n"),
        ("only line without an end", "another line without an end"),
    ],
)
def test_the_commands_give_the_file_as_people_left_it_and_their_undo_takes_it_back(
    tmp_path: Path, failing: str, fixed: str
) -> None:
    path = tmp_path / "app.conf"
    path.write_text(failing)
    commands = fix_commands([FixedFile(path=str(path), failing=failing, fixed=fixed)])
    run(commands, tmp_path)
    assert path.read_text() == fixed
    run(commands, tmp_path, undo=True)
    assert path.read_text() == failing


def test_a_value_is_set_also_where_the_other_lines_differ(tmp_path: Path) -> None:
    path = tmp_path / "app.conf"
    path.write_text("# of another host\nworkers = 0\nport = 99\n")
    failing, fixed = CONF.format("many"), CONF.format("4")
    run(fix_commands([FixedFile(path=str(path), failing=failing, fixed=fixed)]), tmp_path)
    assert path.read_text() == "# of another host\nworkers = 4\nport = 99\n"


def test_a_line_of_a_section_is_not_added_at_the_end_of_the_file() -> None:
    file = FixedFile(path="/x", failing="[a]\nx=1\n[b]\n", fixed="[a]\nx=1\ny=2\n[b]\n")
    assert value_edits(file) is None


def test_files_that_appear_and_disappear(tmp_path: Path) -> None:
    new, old = tmp_path / "new" / "file", tmp_path / "old"
    old.write_text("in the way\n")
    commands = fix_commands(
        [
            FixedFile(path=str(new), fixed="text\n", new_mode="600"),
            FixedFile(path=str(old), failing="in the way\n"),
        ]
    )
    run(commands, tmp_path)
    assert (new.read_text(), new.stat().st_mode & 0o777, old.exists()) == ("text\n", 0o600, False)
    run(commands, tmp_path, undo=True)
    assert (new.exists(), old.read_text()) == (False, "in the way\n")


def test_a_new_file_takes_the_place_of_a_link_and_what_it_names_stays(tmp_path: Path) -> None:
    masked, elsewhere = tmp_path / "app.service", tmp_path / "elsewhere"
    elsewhere.write_text("other\n")
    elsewhere.chmod(0o666)
    masked.symlink_to(elsewhere)
    commands = fix_commands([FixedFile(path=str(masked), fixed="text\n")])
    run(commands, tmp_path)
    assert (masked.is_symlink(), masked.read_text()) == (False, "text\n")
    run(commands, tmp_path, undo=True)
    assert masked.readlink() == elsewhere
    assert (elsewhere.read_text(), elsewhere.stat().st_mode & 0o777) == ("other\n", 0o666)


def test_the_mode_of_a_file_is_not_given_to_what_a_link_names(tmp_path: Path) -> None:
    link, elsewhere = tmp_path / "link", tmp_path / "elsewhere"
    elsewhere.touch(mode=0o666)
    link.symlink_to(elsewhere)
    mode = elsewhere.stat().st_mode
    file = FixedFile(path=str(link), mode="600", failing_mode="644")
    with pytest.raises(subprocess.CalledProcessError):
        run(fix_commands([file]), tmp_path)
    assert elsewhere.stat().st_mode == mode


def test_modes_are_set_and_undone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    path.chmod(0o600)
    commands = fix_commands([FixedFile(path=str(path), mode="644", failing_mode="600")])
    run(commands, tmp_path)
    assert path.stat().st_mode & 0o777 == 0o644
    run(commands, tmp_path, undo=True)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_long_file_cannot_be_part_of_a_playbook() -> None:
    with pytest.raises(CannotRepeatError, match="too long"):
        fix_commands([FixedFile(path="/x", fixed="x" * (MAX_FILE_CHARS + 1))])


def test_a_changed_unit_is_read_again() -> None:
    path = "/etc/systemd/system/web.service.d/limits.conf"
    made = fix_commands([FixedFile(path=path, failing="MemoryMax=8M\n", fixed="MemoryMax=9M\n")])
    assert [each.command.endswith("&& systemctl daemon-reload") for each in made] == [True]
    assert all(each.undo.endswith("; systemctl daemon-reload") for each in made)


def test_a_link_is_set_and_put_back(tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to("staging")
    made = fix_commands([FixedFile(path=str(link), link="live", failing_link="staging")])
    run(made, tmp_path)
    assert str(link.readlink()) == "live"
    assert [each.undo for each in made] == [f"ln -sfn staging {link}"]
