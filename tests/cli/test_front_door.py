"""The front door: what costs nothing, what every ending looks like from outside."""

import fcntl
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from hermes_command import Hermes

from hermes import __version__
from hermes.cli import exit_codes
from hermes.cli.commands import COMMAND_GROUPS, COMMANDS, help_text
from hermes.core import errors


def test_version_and_help_load_neither_click_nor_msgspec(hermes: Hermes) -> None:
    for word in ("--version", "--help"):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "hermes.cli", word],
            env=hermes.env,
            capture_output=True,
            text=True,
            check=True,
        )
        loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "hermes.cli.main" in loaded
        assert loaded.isdisjoint({"click", "msgspec", "hermes.settings", "yaml", "pathlib"})


def test_version_is_said_the_same_way_everywhere(hermes: Hermes) -> None:
    line = f"hermes {__version__}\n"
    assert hermes.process("--version").stdout == line
    assert hermes("-V").stdout == line
    assert hermes("--set", "display.color=never", "--version").stdout == line


def test_help_names_every_command_and_is_the_same_by_both_roads(hermes: Hermes) -> None:
    quick = hermes.process("--help")
    assert quick.returncode == 0
    for name, (_, line) in COMMANDS.items():
        assert f"  {name} " in quick.stdout
        assert line in quick.stdout
    slow = hermes("--set", "display.color=never", "--help")
    assert slow.stdout == quick.stdout


def test_help_begins_with_the_main_job_and_gives_an_example_for_each_group() -> None:
    text = help_text()
    order = [text.index(f"\n  {name} ") for name in ("watch", "incident", "health", "approvals")]
    assert order == sorted(order)
    assert order[-1] < min(text.index(f"\n  {name} ") for name in ("chat", "setup", "drill"))
    for _, example, table in COMMAND_GROUPS:
        assert f"  example: {example}" in text
        assert example.split()[1] in table, "an example of a group uses a command of that group"


def test_a_misspelt_command_is_told_the_nearest(hermes: Hermes) -> None:
    done = hermes("sesions")
    assert done.returncode == exit_codes.USAGE
    assert "Did you mean sessions?" in done.stderr


def test_options_that_are_not_ours_belong_to_chat(hermes: Hermes) -> None:
    done = hermes("--no-such-option")
    assert done.returncode == exit_codes.USAGE
    assert "Usage: hermes chat" in done.stderr
    assert "No such option" in done.stderr


def test_no_words_at_all_are_a_chat_and_text_piped_in_is_its_question(hermes: Hermes) -> None:
    nothing = hermes.process()
    assert nothing.returncode == exit_codes.USAGE
    assert "Usage: hermes chat" in nothing.stderr
    chosen = {"DEFAULT_MODEL": "openrouter:x/y"}
    asked = hermes.process(stdin="why is the disk full?\n", env=chosen)
    assert asked.returncode == exit_codes.MODEL
    assert "there is no key" in asked.stderr


def test_a_failure_is_one_line_without_a_traceback(hermes: Hermes) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text("agnt:\n  max_iterations: 3\n")
    done = hermes.process("status")
    assert done.returncode == exit_codes.SETTINGS
    assert done.stdout == ""
    where = hermes.home / "config.yaml"
    assert done.stderr == f"hermes: {where}:1:1: unknown key agnt; did you mean agent?\n"


def test_debugging_shows_where_it_came_from(hermes: Hermes) -> None:
    done = hermes("config", "get", "nothing.like.this", env={"HERMES_DEBUG": "1"})
    assert "Traceback" in done.stderr
    assert done.returncode == exit_codes.SETTINGS


def test_every_error_has_its_exit_code() -> None:
    cases = {
        errors.SettingsError("x"): 3,
        errors.InvalidApiKey("x"): 4,
        errors.RateLimited("x"): 4,
        errors.EnvironmentFailed("x"): 5,
        errors.StoreFull("x"): 6,
        errors.PolicyDenied("x"): 7,
        errors.BudgetExceeded("x"): 8,
        errors.ToolError("x"): 1,
    }
    assert {error: exit_codes.exit_code_for(error) for error in cases} == cases


def test_a_reader_that_went_away_is_no_reason_to_complain(hermes: Hermes) -> None:
    for words in (["config", "view"], ["--help"]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [*hermes.command, *words], env=hermes.env, stdout=write, stderr=subprocess.PIPE
        )
        os.close(write)
        assert done.stderr == b""
        assert done.returncode == exit_codes.FAILED


@pytest.mark.parametrize("words", [("--version",), ("config", "view")])
def test_output_that_cannot_be_written_is_said_in_one_line(
    hermes: Hermes, words: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*hermes.command, *words], env=hermes.env, stdout=full, stderr=subprocess.PIPE
        )
    assert done.stderr == b"hermes: the output could not be written: No space left on device\n"
    assert done.returncode == exit_codes.FAILED


@pytest.mark.parametrize("words", ["--version", "config view", "sessions delete x"])
def test_closed_streams_are_empty_ones(hermes: Hermes, words: str) -> None:
    closed = f'exec "$0" -m hermes.cli {words} <&- >&- 2>error'
    folder = hermes.home.parent
    subprocess.run(["sh", "-c", closed, sys.executable], env=hermes.env, cwd=folder, timeout=60)
    assert "bug in Hermes" not in (folder / "error").read_text()
    assert "Traceback" not in (folder / "error").read_text()


def test_a_terminal_of_few_letters_shows_question_marks(hermes: Hermes) -> None:
    few = {"PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
    assert "agent.max_iterations" in shown_on_a_terminal(hermes, "config", "view", env=few)


def test_control_c_while_modules_are_loaded_is_130_and_one_line(
    hermes: Hermes, tmp_path: Path
) -> None:
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = hermes.process("status", env={"PYTHONPATH": str(tmp_path)})
    assert done.stderr == "hermes: interrupted\n"
    assert done.returncode == exit_codes.INTERRUPTED


def test_control_c_at_a_question_is_130_and_changes_nothing(hermes: Hermes) -> None:
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [*hermes.command, "config", "set", "FAL_KEY"],
        env=hermes.env,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(inner)
    shown = b""
    while b"FAL_KEY" not in shown:
        shown += os.read(outer, 1024)
    os.write(outer, b"\x03")
    assert process.wait(timeout=120) == exit_codes.INTERRUPTED
    os.close(outer)
    assert not hermes.home.exists()


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def shown_on_a_terminal(hermes: Hermes, *words: str, env: dict[str, str]) -> str:
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [*hermes.command, *words],
        env={**hermes.env, "TERM": "xterm", "COLUMNS": "100", **env},
        stdin=inner,
        stdout=inner,
        stderr=inner,
    )
    os.close(inner)
    shown = b""
    while True:
        try:
            piece = os.read(outer, 65536)
        except OSError:  # Linux says it this way when the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(outer)
    assert process.wait(timeout=120) == 0
    return shown.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colour_unless_it_is_unwanted(hermes: Hermes) -> None:
    show = ("config", "get", "model")
    assert "\x1b[" in shown_on_a_terminal(hermes, *show, env={})
    assert "\x1b[" not in shown_on_a_terminal(hermes, *show, env={"NO_COLOR": "1"})
    assert "\x1b[" not in shown_on_a_terminal(hermes, *show, env={"TERM": "dumb"})
    never = {"HERMES_DISPLAY__COLOR": "never"}
    assert "\x1b[" not in shown_on_a_terminal(hermes, *show, env=never)


def test_tables_keep_no_colour_either_and_fit_a_narrow_terminal(hermes: Hermes) -> None:
    view = ("config", "view")
    wide = shown_on_a_terminal(hermes, *view, env={"NO_COLOR": "1"})
    assert "\x1b[3" not in wide
    assert "agent.max_iterations" in wide
    narrow = shown_on_a_terminal(hermes, *view, env={"NO_COLOR": "1", "COLUMNS": "40"})
    assert "key: agent.max_iterations" in narrow
    assert max(map(len, narrow.splitlines())) <= 60


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_can_be_asked_for_help(hermes: Hermes, name: str) -> None:
    done = hermes(name, "--help")
    assert done.returncode == 0, done.stderr
    assert f"Usage: hermes {name}" in done.stdout
