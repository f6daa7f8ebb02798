"""A fix of one host tells where its names, paths and values are found on another one."""

import subprocess
from pathlib import Path

import pytest

from hermes.core.incident import IncidentDetails
from hermes.learning.fix_commands import FixedFile, fix_commands, value_edits
from hermes.learning.people_fix import PeopleFix, observation_commands


def look(command: str, unit: str, folder: Path) -> str:
    """Its output on a host with this definition of the unit; empty where it fails."""
    (folder / "unit").write_text(unit)
    script = f"systemctl() {{ cat {folder}/unit; }}; {command}"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else ""


def looks_of(file: FixedFile) -> list[str]:
    details = IncidentDetails(incident="i", run="r", title="shop is slow")
    return observation_commands(PeopleFix(details=details, services=("shop",), files=(file,)))


def absurd_value_look(failing: str, fixed: str) -> str:
    looks = looks_of(FixedFile(path="/etc/shop.conf", failing=failing, fixed=fixed))
    return next(each for each in looks if each.startswith("grep -HsE"))


def test_a_file_with_the_name_of_the_service_is_found_in_another_folder(tmp_path: Path) -> None:
    file = FixedFile(path="/opt/ops/tidy-shop.conf", failing="owner=a\n", fixed="owner=b\n")
    command = next(each for each in looks_of(file) if each.startswith("find "))
    (tmp_path / "scripts").mkdir()
    found = tmp_path / "scripts" / "tidy-shop.conf"
    found.touch()
    command = command.replace("/etc /opt /srv", str(tmp_path))
    assert look(command, "", tmp_path) == str(found)
    (tmp_path / "tidy-shop.conf").touch()
    assert not look(command, "", tmp_path)


@pytest.mark.parametrize("other", ["pause_ms=0\n", "pause_ms: 00\n", "  pause_ms = 0\n"])
def test_a_setting_with_an_absurd_value_is_found_under_another_name(
    tmp_path: Path, other: str
) -> None:
    command = absurd_value_look("wait = 0\nport = 80\n", "wait = 90\nport = 80\n")
    assert "wait" not in command
    conf = tmp_path / "b.conf"
    conf.write_text(f"port = 8000\n{other}")
    unit = f"# /etc/systemd/system/b.service\nExecStart=/usr/bin/b -c {conf}\n"
    assert look(command, unit, tmp_path) == f"pause_ms {conf}"


@pytest.mark.parametrize("other", ["pause_ms=0\nretries=0\n", "pause_ms=5\n", "name=a0\n"])
def test_nothing_is_found_where_it_is_not_the_only_one(tmp_path: Path, other: str) -> None:
    conf = tmp_path / "b.conf"
    conf.write_text(other)
    command = absurd_value_look("wait = 0\n", "wait = 90\n")
    assert not look(command, f"ExecStart=/usr/bin/b {conf}\n", tmp_path)


@pytest.mark.parametrize(
    ("failing", "fixed", "absurd"),
    [
        ("size=1000000", "size=7", True),
        ("size=-1", "size=7", True),
        ("size=64", "size=7", False),
        ("size=12M", "size=128M", False),
        ("size=0", "size=a b", False),
        ("a.size=0", "a.size=7", False),
    ],
)
def test_an_ordinary_value_says_nothing_without_its_name(
    failing: str, fixed: str, absurd: bool
) -> None:
    file = FixedFile(path="/etc/shop.conf", failing=f"{failing}\n", fixed=f"{fixed}\n")
    edits = value_edits(file)
    assert edits is not None
    assert [each.has_absurd_value for each in edits] == [absurd]


@pytest.mark.parametrize("line", ["wait=0", "wait: 0", "  wait = 00"])
def test_an_absurd_value_is_replaced_however_its_line_is_spaced(tmp_path: Path, line: str) -> None:
    conf = tmp_path / "shop.conf"
    conf.write_text(f"port=80\n{line}\nwaiter=0\n")
    made = fix_commands([FixedFile(path=str(conf), failing="wait = 0\n", fixed="wait = 90\n")])
    command = made[0].command.partition(" && ")[2].partition(" && ")[2]
    subprocess.run(["bash", "-ec", command], check=True)
    assert conf.read_text() == f"port=80\n{line.rstrip('0')}90\nwaiter=0\n"


def test_a_missing_program_is_replaced_by_the_last_release_that_exists(tmp_path: Path) -> None:
    def unit(path: object) -> str:
        return f"[Service]\nExecStart=/usr/bin/env -i {path} --all\n"

    for release in ("v1.9.0", "v1.10.2"):
        (tmp_path / release).mkdir()
        (tmp_path / release / "run").touch()
    wrong, right = tmp_path / "v1.8.8/run", tmp_path / "v1.10.2/run"
    file = FixedFile(
        path="/etc/systemd/system/shop.service", failing=unit(wrong), fixed=unit(right)
    )
    looks = looks_of(file)
    missing = next(each for each in looks if each.startswith("systemctl cat shop | "))
    newest = next(each for each in looks if "sort -V" in each)
    assert look(missing, unit(wrong), tmp_path) == str(wrong)
    assert not look(missing, unit(right), tmp_path)
    assert look(newest, unit(wrong), tmp_path) == str(right)
    assert f"s|{wrong}|{right}|" in fix_commands([file])[0].command


def test_a_program_that_was_moved_is_found_below_the_folder_that_is_left(tmp_path: Path) -> None:
    def unit(path: object) -> str:
        return f"[Service]\nExecStart=/usr/bin/env -i {path} --all\n"

    for release in ("1.9.0", "1.10.2"):
        (tmp_path / "app" / release / "bin").mkdir(parents=True)
        (tmp_path / "app" / release / "bin" / "main.py").touch()
    wrong, right = tmp_path / "app/main.py", tmp_path / "app/1.10.2/bin/main.py"
    file = FixedFile(
        path="/etc/systemd/system/shop.service", failing=unit(wrong), fixed=unit(right)
    )
    missing, newest = (each for each in looks_of(file) if "systemctl cat shop | " in each)
    assert look(missing, unit(wrong), tmp_path) == str(wrong)
    assert look(newest, unit(wrong), tmp_path) == str(right)
    assert not look(newest, unit(right), tmp_path)
    assert f"s|{wrong}|{right}|" in fix_commands([file])[0].command


def test_a_setting_is_found_that_the_last_kept_copy_has_and_the_file_lacks(tmp_path: Path) -> None:
    kept, env = tmp_path / "backups", tmp_path / "env"
    kept.mkdir()
    env.write_text("A=1\nB=2\n")
    (kept / "shop.2026-01-02").write_text("A=1\nB=2\nSHARD=east-7\n")
    (kept / "shop.2026-01-01").write_text("A=1\n")
    (kept / "mail.2026-02-01").write_text("A=1\nOTHER=3\n")
    file = FixedFile(path=str(env), failing="A=1\nB=2\n", fixed="A=1\nB=2\nSHARD=x\n")
    command = next(each for each in looks_of(file) if each.startswith("grep -hvxFf"))
    command = command.replace("/var/backups", str(kept))
    assert look(command, "", tmp_path) == "SHARD = east-7"
    env.write_text("A=1\nB=2\nSHARD=east-7\n")
    assert not look(command, "", tmp_path)
