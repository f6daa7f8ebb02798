"""Counts the modules of Hermes that three commands load, and fails when there are too many.

usage: python scripts/startup.py

Start-up time grows with the modules that are imported. The count does not depend on the machine:
the probes are listed, not found on the host, and nothing is indexed in the background.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

MAX_MODULES = {"--version": 5, "chat -q": 200, "watch": 310}
SOURCE = Path(__file__).resolve().parents[1] / "src"
PROBES_TEXT = """\
probes:
  - {name: disk-root, kind: disk, what: /, limit: 100}
  - {name: log, kind: log, what: /dev/null}
  - {name: own, kind: command, what: test -e /etc/passwd}
"""
MARKER = "modules loaded: "
PROGRAM = f"""
import atexit, runpy, sys

def report():
    loaded = sum(name.partition(".")[0] == "hermes" for name in sys.modules)
    print("{MARKER}" + str(loaded), file=sys.stderr)

atexit.register(report)
runpy.run_module("hermes.cli", run_name="__main__", alter_sys=True)
"""


def count_modules(arguments: list[str], home: Path) -> int:
    variables = {
        "HERMES_HOME": str(home),
        "HERMES_MEMORY__INDEX": "false",
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "NO_COLOR": "1",
    }
    printed = subprocess.check_output(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**variables, "PYTHONPATH": str(SOURCE)},  # this checkout, not the installed one
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    counts = [line for line in printed.splitlines() if line.startswith(MARKER)]
    return int(counts[-1].removeprefix(MARKER))


def main() -> int:
    exceeded = False
    with tempfile.TemporaryDirectory() as folder:
        home, script = Path(folder, "home"), Path(folder, "replies.jsonl")
        home.mkdir(mode=0o700)
        (home / "probes.yaml").write_text(PROBES_TEXT)
        script.write_text('{"text": "hello"}\n')
        commands = {
            "--version": ["--version"],
            "chat -q": ["chat", "-q", "hello", "-m", f"scripted:{script}"],
            "watch": ["watch", "--once", "--model", "none", "--no-listen"],
        }
        for name, arguments in commands.items():
            loaded, limit = count_modules(arguments, home), MAX_MODULES[name]
            exceeded |= loaded > limit
            sys.stdout.write(f"hermes {name:10} {loaded:4} modules, at most {limit}\n")
    return exceeded


if __name__ == "__main__":
    sys.exit(main())
