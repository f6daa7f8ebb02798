"""`hermes drill` as its users run it."""

import json
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hermes_command import Hermes

from hermes.environments.sandboxing import support
from hermes.gym.scenario import find_scenario, installed_scenarios

pytestmark = pytest.mark.skipif(
    bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())
)
TYPO = "config-typo-after-edit"


def test_the_list_says_what_can_be_played_here(hermes: Hermes) -> None:
    ended = hermes("drill", "list", "--json")
    found = json.loads(ended.stdout)
    assert found["here"]["boxes"] is True
    names = {each["name"]: each for each in found["scenarios"]}
    assert names.keys() == installed_scenarios().keys()
    assert names[TYPO]["light"] is True
    assert names[TYPO]["missing"] == []


def test_scenarios_of_a_folder_in_the_settings_are_listed_and_played(hermes: Hermes) -> None:
    own = Path(hermes.home) / "own"
    shutil.copytree(installed_scenarios()[TYPO], own / "my-typo")
    settings = Path(hermes.home) / "config.yaml"
    before = settings.read_text() if settings.exists() else ""
    settings.write_text(f"gym:\n  scenarios: [{own}, /no/such/folder]\n")
    try:
        found = json.loads(hermes("drill", "list", "--json").stdout)
        shown = hermes("drill", "show", "my-typo", "--json")
    finally:
        settings.write_text(before)
    assert "my-typo" in {each["name"] for each in found["scenarios"]}
    assert found["problems"][0].startswith("gym.scenarios: /no/such/folder: ")
    assert json.loads(shown.stdout)["name"] == "my-typo"


def test_a_scenario_is_shown_without_its_answer_unless_asked(hermes: Hermes) -> None:
    story = find_scenario(TYPO).draw_spec(3)
    shown = hermes("drill", "show", TYPO, "--seed", "3").stdout
    told = hermes("drill", "show", TYPO, "--seed", "3", "--answer").stdout
    assert story.alert.text in shown
    assert story.reference[0] not in shown
    assert story.reference[0] in told


def test_a_run_without_a_model_has_every_field_and_says_that_nobody_answered(
    hermes: Hermes,
) -> None:
    ended = hermes.process(
        "drill",
        "run",
        TYPO,
        "--model",
        "none",
        "--no-skills",
        "--without-state",
        "--window",
        "0",
        "--json",
    )
    found = json.loads(ended.stdout)
    assert ended.returncode == 1
    assert (found["resolved"], found["answered_by"]) == (False, "nobody")
    assert found["claimed"] == "escalated"
    assert set(found["reward"]) == {
        "resolution",
        "root_cause",
        "report",
        "skill",
        "speed",
        "efficiency",
        "total",
    }
    for field in ("collateral", "policy_breaches", "diagnosis", "seconds", "tool_calls"):
        assert field in found
    for field in ("model_calls", "tokens", "report", "run", "void"):
        assert field in found


def test_a_scenario_that_does_not_exist_is_told_with_what_to_do(hermes: Hermes) -> None:
    ended = hermes("drill", "run", "config-typo", "--model", "none")
    assert ended.returncode == 3
    assert TYPO in ended.stderr
    assert "hermes drill list" in ended.stderr


def test_docker_without_a_daemon_is_refused_with_a_way_out(hermes: Hermes) -> None:
    ended = hermes("drill", "run", TYPO, "--backend", "docker")
    assert ended.returncode == 3
    assert "install and start docker" in ended.stderr


def own_scenario(folder: Path) -> Path:
    """A copy of a shipped one under another name, as a third party would begin."""
    mine = folder / "my-scenario"
    mine.mkdir()
    source = installed_scenarios()[TYPO]
    for name in ("scenario.py", "texts.yaml"):
        (mine / name).write_text((source / name).read_text())
    return mine


def test_a_folder_of_ones_own_is_proved_by_path(hermes: Hermes, tmp_path: Path) -> None:
    ended = hermes.process(
        "drill", "selftest", str(own_scenario(tmp_path)), "--seeds", "2", "--json"
    )
    found = json.loads(ended.stdout)
    assert [proof["ok"] for proof in found["proofs"]] == [True, True], ended.stdout
    assert ended.returncode == 0


def test_a_void_proof_is_shown_as_such_and_fails(hermes: Hermes, tmp_path: Path) -> None:
    mine = own_scenario(tmp_path)
    file = mine / "scenario.py"
    file.write_text(file.read_text().replace("build.inject(", 'build.inject("exit 7",'))
    ended = hermes("drill", "selftest", str(mine), "--seeds", "1")
    assert ended.returncode == 1
    assert "void: my-scenario: the injection failed" in ended.stdout


def test_the_bench_of_agents_without_a_model_has_a_table_and_a_picture(
    hermes: Hermes, tmp_path: Path
) -> None:
    plot = tmp_path / "bench.svg"
    ended = hermes.process(
        "drill", "bench", TYPO, "--seeds", "1", "--window", "0", "--plot", str(plot)
    )
    assert ended.returncode == 0, ended.stderr
    rows = {line.split()[0]: line for line in ended.stdout.splitlines() if line.strip()}
    assert "100%" in rows["reference"]
    assert "0%" in rows["no-op"]
    assert plot.read_text().startswith("<svg")


def test_a_person_mends_it_in_a_shell_and_is_scored_from_elsewhere_and_at_the_end(
    hermes: Hermes,
) -> None:
    story = find_scenario(TYPO).draw_spec(0)
    main, side = pty.openpty()
    command = [*hermes.command, "drill", "shell", TYPO, "--window", "0"]
    sitting = subprocess.Popen(
        command, stdin=side, stdout=side, stderr=side, env=hermes.env, start_new_session=True
    )
    os.close(side)
    try:
        heard = read_until(main, b"]# ")
        assert story.alert.title.encode() in heard
        before = hermes.process("drill", "score", "--json")
        for line in story.reference:
            os.write(main, f"{line}\n".encode())
        os.write(main, b"echo do''ne\n")
        read_until(main, b"done")
        after = hermes.process("drill", "score", "--json")
        os.write(main, b"exit\n")
        end = read_until(main, b"resolved")
        assert (before.returncode, after.returncode) == (1, 0), (before, after)
        assert b"not resolved" not in end
        assert sitting.wait(120) == 0
    finally:
        sitting.kill()
        sitting.wait()
        os.close(main)


def read_until(terminal: int, words: bytes, seconds: float = 120.0) -> bytes:
    heard, deadline = b"", time.monotonic() + seconds
    while words not in heard:
        assert time.monotonic() < deadline, heard
        heard += os.read(terminal, 65536)
    return heard


def test_no_open_shell_is_said_plainly(hermes: Hermes) -> None:
    ended = hermes("drill", "score")
    assert ended.returncode == 1
    assert "hermes drill shell" in ended.stderr


@pytest.fixture
def their_home() -> Iterator[Path]:
    """Not below pytest's own folder, which every other run of it closes to others again."""
    with tempfile.TemporaryDirectory(prefix="drill-") as name:
        os.chown(name, 65534, 65534)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="the system has no Python")
def test_an_ordinary_user_without_spare_numbers_plays_light_ones(their_home: Path) -> None:
    """With the system's Python: ours may lie where that user cannot look."""
    source = Path(sys.modules["hermes"].__path__[0]).parent
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    words = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3"]
    env = {
        "PYTHONPATH": f"{source}:{packages}",
        "HOME": str(their_home),
        "HERMES_HOME": str(their_home),
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
    }

    def run(*given: str) -> subprocess.CompletedProcess[str]:
        command = ["setpriv", *words, "-m", "hermes.cli", "drill", *given, "--json"]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)

    ended = run("list")
    assert ended.stdout, ended.stderr
    listed = json.loads(ended.stdout)
    assert listed["here"]["single_user"] is True
    assert any("uidmap" in each for each in listed["here"]["missing"])
    proved = run("selftest", TYPO, "--seeds", "1")
    assert proved.returncode == 0, proved.stdout + proved.stderr
    words_of_run = ("--model", "none", "--no-skills", "--without-state", "--window", "0")
    ended = run("run", TYPO, *words_of_run)
    assert ended.stdout, ended.stderr
    assert json.loads(ended.stdout)["answered_by"] == "nobody"
