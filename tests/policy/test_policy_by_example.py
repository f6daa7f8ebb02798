"""The page of examples is what the command says today, to the line number of each rule."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/explanation/policy-by-example.md"
SHOWN = re.findall(
    r"```console\n\$ hermes (policy explain .*)\n((?:.*\n)*?)```", PAGE.read_text("utf-8")
)
HERMES = Path(sys.executable).with_name("hermes")


@pytest.mark.parametrize(("line", "shown"), SHOWN, ids=[line for line, _ in SHOWN])
def test_an_example_is_shown_as_it_is(line: str, shown: str, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    around = {**os.environ, "HERMES_HOME": str(tmp_path), "HOME": "/home/u", "LANG": "C.UTF-8"}
    done = subprocess.run(
        [bash, "-c", f"{HERMES} {line}"], capture_output=True, text=True, env=around, cwd="/usr"
    )
    assert done.returncode == 0, done.stderr
    said, _, last = done.stdout.rstrip("\n").rpartition("\n")
    assert re.match(r"(?:action|hash) +\w", last), "the last line is the hash, which is left out"
    said = re.sub(r"^enforced .*\n", "", said, flags=re.M)  # depends on the kernel
    assert said.rstrip("\n") == shown.rstrip("\n")
