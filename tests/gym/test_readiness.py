"""What is reported on machines that lack something, and what still runs there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.environments.sandboxing import support
from hermes.gym.episodes.readiness import (
    SEVERAL_USERS_HINT,
    GymReadiness,
    missing_requirements,
    needs_several_users,
)
from hermes.gym.scenario import Scenario, find_scenario
from hermes.gym.scenario_spec import (
    FaultDescription,
    HostFile,
    HostSpec,
    ScenarioAlert,
    ScenarioSpec,
)

TYPO = "config-typo-after-edit"


def a_scenario(*, needs: tuple[str, ...] = (), owner: int = 0) -> Scenario:
    host = HostSpec(name="h", files=(HostFile(path="/srv/x", owner=owner),))
    spec = ScenarioSpec(
        hosts=(host,),
        alert=ScenarioAlert(title="t", text="t"),
        healthy=(),
        symptoms=(),
        fault=FaultDescription(component=("c",), mechanism=("m",)),
    )
    return Scenario(name="x", group="files", summary="", draw=lambda rng: spec, needs=needs)


def test_a_missing_program_is_named() -> None:
    assert missing_requirements(a_scenario(needs=("no-such-server",))) == (
        "no-such-server is not installed",
    )
    assert missing_requirements(a_scenario()) == ()


def test_without_boxes_nothing_can_be_played_and_the_reason_is_given() -> None:
    here = GymReadiness(boxes=False, missing=("namespaces: no",))
    assert missing_requirements(a_scenario(), here) == ("namespaces: no",)


def test_with_one_user_number_scenarios_of_root_alone_still_run() -> None:
    here = GymReadiness(boxes=True, single_user=True)
    assert missing_requirements(find_scenario(TYPO), here) == ()
    assert not needs_several_users(a_scenario())
    assert missing_requirements(a_scenario(owner=1001), here) == (SEVERAL_USERS_HINT,)


def without_namespaces(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """In a user namespace of our own that allows no further one: as on a locked-down machine."""
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh"]
    return subprocess.run(
        [*command, sys.executable, "-m", "hermes.cli", "drill", *words],
        env={"HERMES_HOME": str(folder), "HOME": str(folder), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason()))
@pytest.mark.skipif(shutil.which("unshare") is None, reason="util-linux is not installed")
def test_a_machine_without_namespaces_says_so(tmp_path: Path) -> None:
    listed = without_namespaces("list", "--json", folder=tmp_path)
    found = json.loads(listed.stdout)
    assert found["here"]["boxes"] is False
    assert "namespaces" in found["here"]["missing"][0]
    assert all(each["missing"] or each["broken"] for each in found["scenarios"])
    refused = without_namespaces("run", TYPO, "--model", "none", folder=tmp_path)
    assert refused.returncode == 3
    assert "cannot run here: namespaces" in refused.stderr
    assert "hermes drill list" in refused.stderr
