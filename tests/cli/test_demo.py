"""The first thing that anybody sees: hosts broken and fixed, by what comes with Hermes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.app.drills.demo import RECENT_CHANGES_RULE
from hermes.gym.episodes.readiness import check_readiness, missing_requirements
from hermes.gym.scenario import find_scenario

if missing := missing_requirements(find_scenario("config-typo-after-edit"), check_readiness()):
    pytest.skip(f"no host can be built here: {'; '.join(missing)}", allow_module_level=True)


def test_the_demo_notices_fixes_proves_and_reports_three_times(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hermes.cli", "demo", "--keep", str(tmp_path / "kept")],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    said = done.stdout
    assert said.count("closed as resolved") == 3
    assert said.count("✓ independent check: ") == 3
    assert said.count("no model was asked") == 3
    assert "## Root cause" in said
    assert len(list((tmp_path / "kept" / "incidents").glob("*.md"))) >= 3
    assert "\x1b[" not in said
    assert_one_edit_of_eight_is_found(said)


def assert_one_edit_of_eight_is_found(said: str) -> None:
    """The third act: by experiment."""
    assert "maria makes 8 edits in 5 files" in said
    assert "5 changes since the known good state" in said
    for what in (
        "an unchanged copy of the host: it fails as on the host",
        "a copy with all 5 changes reverted: the checks pass",
        "catalog.conf (line 4): it fails as on the host",
        "a copy with only this reverted",
        "the revert while services run",
    ):
        assert what in said
    diagnosis = [line for line in said.splitlines() if line.startswith("Diagnosis: ")][-1]
    assert "catalog.conf, line 4" in diagnosis
    assert "‘encoding = utf-8’ was replaced by ‘encoding = ascii’; changed by maria" in diagnosis
    assert f"allow: {RECENT_CHANGES_RULE}" in said, "the rule is shown where it decides"
    assert f"Rule {RECENT_CHANGES_RULE}: " in said
