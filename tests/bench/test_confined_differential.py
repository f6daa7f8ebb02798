"""Generated texts behave the same with and without confinement; the whole run is in bench/."""

import subprocess
import sys
from pathlib import Path

import pytest
from confined_differential import BOX

from hermes.environments.sandboxing import support

BENCH = Path(__file__).parents[2] / "bench" / "confined_differential.py"


@pytest.mark.skipif(bool(support.kernel_support().reason), reason="nothing is confined here")
@pytest.mark.skipif(support.find_bubblewrap() is None, reason="bubblewrap is not installed")
def test_generated_plain_texts_end_the_same_and_confined_texts_change_nothing() -> None:
    assert "--ro-bind / /" in BOX
    argv = [sys.executable, str(BENCH), "--cases", "60", "--seed", "7"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = done.stdout.splitlines()[-1]
    assert summary.endswith(": 0 differ")
    assert int(summary.split("; ")[1].split()[0]) >= 15
