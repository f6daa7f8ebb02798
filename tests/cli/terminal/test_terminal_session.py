"""Chats in a real terminal: tmux draws it, we read the screen and press the keys."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback_model import options, serving

PLAY = Path(__file__).with_name("play.py")
pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Pane:
    def __init__(self, socket: Path) -> None:
        self._tmux = ("tmux", "-S", str(socket), "-f", os.devnull)

    def _run(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def open(self, folder: Path, width: int = 80, height: int = 24) -> None:
        size = ("-x", str(width), "-y", str(height))
        self._run("new-session", "-d", *size, "-c", str(folder), "env PS1=ready: bash --norc")
        self.sees("ready:")

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def type(self, text: str, enter: bool = True) -> None:
        self._run("send-keys", "-l", "--", text)
        if enter:
            self.press("Enter")

    def press(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._run("resize-window", "-x", str(width), "-y", str(height))

    @property
    def screen(self) -> str:
        """What is seen now, and what has scrolled away."""
        return self._run("capture-pane", "-p", "-S", "-500")

    @property
    def below(self) -> str:
        """The last row that is not empty."""
        return self._run("capture-pane", "-p").rstrip().rpartition("\n")[2]

    def sees(self, *texts: str, times: int = 1) -> None:
        deadline = time.monotonic() + 120
        while not all(self.screen.count(text) >= times for text in texts):
            if time.monotonic() > deadline:
                pytest.fail(f"never saw {texts} in:\n{self.screen}")
            time.sleep(0.02)

    def last_row_begins(self, text: str) -> None:
        deadline = time.monotonic() + 120
        while not self.below.startswith(text):
            if time.monotonic() > deadline:
                pytest.fail(f"the last row never began with {text!r}:\n{self.screen}")
            time.sleep(0.02)


@pytest.fixture
def pane(tmp_path: Path) -> Iterator[Pane]:
    pane = Pane(tmp_path / "tmux")
    pane.open(tmp_path)
    try:
        yield pane
    finally:
        pane.close()


def test_a_chat_from_greeting_to_goodbye(pane: Pane, tmp_path: Path) -> None:
    pane.type(f"{sys.executable} {PLAY} {tmp_path / 'home'}")
    pane.sees("☤ Hermes", "tools    4: clarify look terminal wait", "session  run-")
    pane.last_row_begins("❯")

    pane.type("what would you do?")
    pane.sees("❯ what would you do?")
    pane.sees("writing")  # the face, while words still come
    assert "end of the plan" not in pane.screen
    pane.sees("And that is the end of the plan.", "price unknown")
    assert "**what**" not in pane.screen  # every block has been set
    assert pane.screen.count("look at the logs") == 1
    pane.last_row_begins("❯")

    pane.type("then do it")
    pane.sees("┃ $ df -h", "rule changes-ask", "[o]nce | [s]ession | [d]eny (default) ❯")
    pane.type("o")
    pane.sees("💻 df -h  ✓", "It is full: 日本語.")

    pane.type("/usage")
    pane.sees("300 in · 60 out · price unknown", "3 by test:paced")

    pane.resize(50, 20)
    pane.type("and now")
    pane.sees("hanging on")
    pane.press("C-c")
    pane.sees("interrupted")
    pane.last_row_begins("❯")
    pane.press("C-d")
    pane.sees("to continue this session: hermes --resume run-", "left cleanly")
    pane.last_row_begins("ready:")
    pane.type("stty -a | tr ';' '\\n' | grep -c ' icanon'")
    pane.sees("1\nready:")  # the terminal works as before
    assert (tmp_path / "home" / "history").stat().st_mode & 0o777 == 0o600


def test_without_colour_not_one_is_used_and_a_dumb_terminal_gets_lines(
    pane: Pane, tmp_path: Path
) -> None:
    pane.type(f"TERM=dumb NO_COLOR=1 COLUMNS=0 {sys.executable} {PLAY} {tmp_path / 'home'}")
    pane.sees("☤ Hermes")
    pane.type("what would you do?")
    pane.sees("And that is the end of the plan.", "price unknown")
    assert "**what**" in pane.screen  # raw text, as it came
    pane.type("then do it")
    pane.sees("[o]nce | [s]ession | [d]eny")
    pane.press("C-c")
    pane.sees("denied")
    pane.type("/exit")
    pane.sees("left cleanly")


def test_a_killed_chat_is_resumed_where_it_was_cut_off(pane: Pane, tmp_path: Path) -> None:
    with serving() as (address, seen):
        words = " ".join([sys.executable, "-m", "hermes.cli", *options(address)])
        pane.type(f"export HERMES_HOME={tmp_path / 'home'}")
        pane.type(words)
        pane.sees("☤ Hermes")
        pane.last_row_begins("❯")
        pane.type("hello there")
        pane.sees("2 words: hello there")
        pane.type(f"run: touch {tmp_path / 'begun'}; seq 0 | sh; sleep 15")
        pane.sees("effects: exec-dynamic, read, write", "undo: no undo known")
        pane.sees("[o]nce | [s]ession | [a]lways | [d]eny")
        pane.type("o")
        deadline = time.monotonic() + 120
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < deadline, pane.screen
            time.sleep(0.02)
        _kill(tmp_path / "home")
        pane.sees("Killed")
        pane.press("C-c")
        pane.type("stty sane; clear")
        asked = len(seen)
        pane.type(f"{words} --resume")
        pane.sees("❯ hello there", "interrupted in 1 tool call(s)", "may have taken effect")
        pane.sees("words: run: touch", times=1)
        assert "before doing it again" in seen[asked]["messages"][-1]["content"]
        pane.press("C-d")


def test_an_open_prompt_goes_away_when_another_process_answers(pane: Pane, tmp_path: Path) -> None:
    with serving() as (address, _):
        words = [sys.executable, "-m", "hermes.cli", *options(address)]
        pane.type(f"export HERMES_HOME={tmp_path / 'home'}")
        pane.type(" ".join(words))
        pane.sees("☤ Hermes")
        pane.last_row_begins("❯")
        pane.type(f"run: touch {tmp_path / 'begun'}; seq 0 | sh")
        pane.sees("[o]nce | [s]ession | [a]lways | [d]eny")
        done = subprocess.run(
            [*words, "approvals", "approve"],
            env={**os.environ, "HERMES_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
        )
        assert "approved" in done.stdout, done.stderr
        pane.sees("approved by", "(cli)", "words: run: touch")
        pane.last_row_begins("❯")
        assert (tmp_path / "begun").exists()
        pane.press("C-d")


def _kill(home: Path) -> None:
    """kill -9 for the one process that works in this home."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"hermes.cli" in words and f"HERMES_HOME={home}".encode() in variables:
            os.kill(int(folder.name), signal.SIGKILL)
