"""The shell's own promises, where no environment is needed to see them."""

import os
import subprocess
from pathlib import Path

import pytest

from hermes.core.errors import ToolError
from hermes.environments.shell import SessionShell, folder_in_state


def run(shell: SessionShell, command: str, **more: str) -> str:
    done = subprocess.run(
        shell.launch(command, tree="t", **more).words,
        env={"PATH": os.environ["PATH"], "HOME": "/"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def test_it_works_in_a_place_that_cannot_be_given_variables(tmp_path: Path) -> None:
    shell = SessionShell(str(tmp_path / "made" / "when-needed"), str(tmp_path))
    run(shell, "x=1; cd /usr")
    assert run(shell, "echo $x $PWD $#") == "1 /usr 0\n"


def test_the_state_tells_the_working_folder(tmp_path: Path) -> None:
    shell = SessionShell(str(tmp_path), str(tmp_path))
    run(shell, "mkdir -p $'a\\nb\\nreturn 0'; cd $'a\\nb\\nreturn 0'")
    assert folder_in_state((tmp_path / "state").read_bytes()) == f"{tmp_path}/a\nb\nreturn 0"
    assert folder_in_state(b"half a sta") is None


def test_the_state_is_for_its_owner_alone(tmp_path: Path) -> None:
    shell = SessionShell(str(tmp_path / "state"), str(tmp_path))
    run(shell, "x=1")
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_hostile_state_does_not_break_the_next_command(tmp_path: Path) -> None:
    shell = SessionShell(str(tmp_path), str(tmp_path))
    run(shell, "alias printf=false cd=false eval=false builtin=false '['=false if=false")
    run(shell, "cd() { return 9; }; printf() { return 9; }; mv() { return 9; }; export -f cd")
    run(shell, "IFS=/; set -uCf; shopt -s nocasematch failglob; export PATH=/nowhere; x=7")
    assert run(shell, "unalias -a; echo $x") == "7\n"


def test_aliases_of_words_that_we_use_are_kept_and_do_not_matter(tmp_path: Path) -> None:
    shell = SessionShell(str(tmp_path), str(tmp_path))
    shadowing = "alias printf=false builtin=false '[['=false if=false while=false"
    run(shell, f"mkdir -p gone/deeper; cd gone/deeper; {shadowing}; alias own='echo mine'")
    (tmp_path / "gone/deeper").rmdir()
    told = run(shell, "own; alias if; shopt -p expand_aliases nullglob")
    assert told == (
        f"[the working folder {tmp_path}/gone/deeper is gone; now in {tmp_path}/gone]\n"
        "mine\nalias if='false'\nshopt -s expand_aliases\nshopt -u nullglob\n"
    )
    run(shell, "shopt -s nullglob")
    assert run(shell, "own; shopt -p nullglob") == "mine\nshopt -s nullglob\n"
    run(shell, "shopt -u expand_aliases")
    assert "own: command not found" in run(shell, "own; true")


def test_a_debug_trap_of_the_command_does_not_spoil_the_state(tmp_path: Path) -> None:
    shell = SessionShell(str(tmp_path), str(tmp_path))
    run(shell, "trap 'echo at $LINENO' DEBUG; x=1")
    assert run(shell, "echo $x") == "1\n"


def test_an_exit_trap_of_the_command_runs_and_the_state_is_kept(tmp_path: Path) -> None:
    shell = SessionShell(str(tmp_path), str(tmp_path))
    assert run(shell, "trap 'echo cleaned' EXIT; x=1") == "cleaned\n"
    assert run(shell, "echo $x") == "1\n"


def test_random_numbers_stay_random(tmp_path: Path) -> None:
    shell = SessionShell(str(tmp_path), str(tmp_path))
    run(shell, "RANDOM=42; echo $RANDOM")
    assert run(shell, "echo $RANDOM") != run(shell, "echo $RANDOM")


def test_a_background_command_writes_down_its_exit_code(tmp_path: Path) -> None:
    shell = SessionShell(str(tmp_path), str(tmp_path))
    run(shell, "x=1")
    code = tmp_path / "code"
    run(shell, "x=2; exit 12", exit_file=str(code))
    assert code.read_text() == "12"
    assert run(shell, "echo $x") == "1\n"


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    shell = SessionShell(str(tmp_path), str(tmp_path))
    for bad in ("nul\0", "half \ud800"):
        with pytest.raises(ToolError):
            shell.launch(bad, tree="t")
