"""The `hermes` command with a home of its own: in this process, or as a process."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
from click.testing import CliRunner

import hermes
from hermes.cli.main import main


class Ended(msgspec.Struct, frozen=True):
    returncode: int
    stdout: str
    stderr: str


class Hermes:
    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.env = {
            "HERMES_HOME": str(self.home),
            "HOME": str(folder),  # nothing of a test may land in a person's own folders
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(Path(hermes.__file__).parents[1]),  # what is tested, not installed
        }
        self.command = [sys.executable, "-m", "hermes.cli"]

    def __call__(self, *words: str, stdin: str = "", env: dict[str, str] | None = None) -> Ended:
        """In this process, with these variables and no others: quick."""
        clean: dict[str, str | None] = dict.fromkeys(os.environ)
        with CliRunner().isolation(input=stdin, env={**clean, **self.env, **(env or {})}) as out:
            code = main(words)
            sys.stdout.flush()
            return Ended(code, out[0].getvalue().decode(), out[1].getvalue().decode())

    def process(self, *words: str, stdin: str = "", env: dict[str, str] | None = None) -> Ended:
        """As its users run it."""
        done = subprocess.run(
            [*self.command, *words],
            input=stdin,
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Ended(done.returncode, done.stdout, done.stderr)
