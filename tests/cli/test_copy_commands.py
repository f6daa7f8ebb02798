"""`hermes copy`: commands in a copy of this machine."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hermes.cli.root_command import root
from hermes.environments.sandboxing import support

pytestmark = pytest.mark.skipif(
    bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())
)


@pytest.fixture
def file() -> Iterator[Path]:
    """Not below /tmp, which is empty in a copy."""
    path = Path("/var/tmp/hermes-copy-command-test")
    path.write_text("one\ntwo\n")
    yield path
    path.unlink()


def hermes(home: Path, *words: str, stdin: str = "") -> Result:
    env = {"HERMES_HOME": str(home), "NO_COLOR": "1"}
    return CliRunner().invoke(root, ["copy", *words], env=env, input=stdin, standalone_mode=False)


def test_run_prints_the_output_and_names_what_changed(tmp_path: Path, file: Path) -> None:
    done = hermes(tmp_path, "run", "--", f"rm {file}; echo gone; exit 3")
    assert done.return_value == 3
    assert done.stdout == "gone\n"
    assert f"changed in the copy only: {file}" in done.stderr
    assert file.exists()


def test_diff_shows_lines_and_as_json_the_kind_of_each_change(tmp_path: Path, file: Path) -> None:
    done = hermes(tmp_path, "diff", "--", "sed", "-i", "s/two/three/", str(file))
    assert "-two\n+three\n" in done.stdout
    words = f"echo more >> {file}; echo x > {file}.new"
    changes = json.loads(hermes(tmp_path, "diff", "--json", "--", words).stdout)["changes"]
    kinds = {each["path"]: each["kind"] for each in changes if str(file) in each["path"]}
    assert kinds == {str(file): "changed", f"{file}.new": "added"}
    assert file.read_text() == "one\ntwo\n"


@pytest.mark.parametrize("command", ["run", "diff"])
def test_json_says_what_is_not_in_the_copy_and_nothing_is_printed_beside_it(
    tmp_path: Path, command: str
) -> None:
    done = hermes(tmp_path, command, "--json", "--", "true")
    assert done.stderr == ""
    left_out = json.loads(done.stdout)["left_out"]
    assert all(isinstance(each, str) for each in left_out)
    plain = hermes(tmp_path, command, "--", "true")
    assert [line for line in plain.stderr.splitlines() if line.startswith("not in the copy: ")] == [
        f"not in the copy: {each}" for each in left_out
    ]


def test_shell_runs_what_it_is_given_when_there_is_no_terminal(tmp_path: Path) -> None:
    done = hermes(tmp_path, "shell", stdin="echo in a copy; exit 4\n")
    assert (done.return_value, done.stdout) == (4, "in a copy\n")


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    done = hermes(tmp_path, "run", "--json", "--timeout", "0.3", "--", "sleep 60")
    assert json.loads(done.stdout)["timed_out"]
