"""The page of examples is what the command says today, to the line number of each rule."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hermes.cli.main import main

PAGE = Path(__file__).parents[2] / "docs/explanation/policy-by-example.md"
SHOWN = re.findall(
    r"```console\n\$ hermes (policy explain .*)\n((?:.*\n)*?)```", PAGE.read_text("utf-8")
)


def split_by_bash(line: str) -> list[str]:
    """As a person's shell splits it."""
    bash = shutil.which("bash")
    assert bash is not None
    printed = subprocess.check_output([bash, "-c", f"printf '%s\\0' {line}"], text=True)
    return printed.split("\0")[:-1]


@pytest.mark.command
@pytest.mark.parametrize(("line", "shown"), SHOWN, ids=[line for line, _ in SHOWN])
def test_an_example_is_shown_as_it_is(
    line: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/usr")
    around = {**os.environ, "HERMES_HOME": str(tmp_path), "HOME": "/home/u", "LANG": "C.UTF-8"}
    with CliRunner().isolation(env=around) as (output, errors, _):
        code = main(split_by_bash(line))
        sys.stdout.flush()
        printed = output.getvalue().decode()
    assert code == 0, errors.getvalue().decode()
    said, _, last = printed.rstrip("\n").rpartition("\n")
    assert re.match(r"(?:action|hash) +\w", last), "the last line is the hash, which is left out"
    said = re.sub(r"^enforced .*\n", "", said, flags=re.M)  # depends on the kernel
    assert said.rstrip("\n") == shown.rstrip("\n")
