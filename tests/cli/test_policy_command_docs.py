"""The page of examples shows what the command really says."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hermes_command import Hermes

PAGE = Path(__file__).parents[2] / "docs/explanation/policy-by-example.md"
EXAMPLES = re.findall(
    r"```console\n\$ hermes (policy explain .*)\n((?:.*\n)*?)```", PAGE.read_text("utf-8")
)


def words(line: str) -> list[str]:
    """As a shell would hand them over."""
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run([bash, "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True)
    return done.stdout.split("\0")[:-1]


def gist(text: str) -> tuple[str, str]:
    """The verdict in one word, then the piece with its carets and what each piece does."""
    head, _, rest = text.partition("\n\n")
    verdict = re.match(r"verdict +([\w-]+)", head)
    assert verdict is not None
    pieces = re.split(r"\n\n(?!what it does)", rest)[0]
    return verdict[1], pieces.strip("\n")


def test_there_are_ten() -> None:
    assert len(EXAMPLES) == 10


@pytest.mark.parametrize(("line", "shown"), EXAMPLES, ids=[line for line, _ in EXAMPLES])
def test_an_example_is_what_the_command_says(hermes: Hermes, line: str, shown: str) -> None:
    done = hermes(*words(line))
    assert done.returncode == 0, done.stderr
    assert gist(done.stdout) == gist(shown)
