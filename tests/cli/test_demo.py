"""The first thing that anybody sees: a host broken and mended twice, by what is on board."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.gym.episodes.readiness import check_readiness, missing_requirements
from hermes.gym.scenario import find_scenario

if missing := missing_requirements(find_scenario("config-typo-after-edit"), check_readiness()):
    pytest.skip(f"no host can be built here: {'; '.join(missing)}", allow_module_level=True)


def test_the_demo_notices_mends_proves_and_reports_twice(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hermes.cli", "demo", "--plain", "--keep", str(tmp_path / "kept")],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    said = done.stdout
    assert said.count("closed as resolved") == 2
    assert said.count("✓ independent check: ") == 2
    assert said.count("no model was asked") == 2
    assert "## Root cause" in said
    assert len(list((tmp_path / "kept" / "incidents").glob("*.md"))) >= 2
