"""Modal: what is asked of its SDK, and what becomes of its answers. Nothing real could be had: the
SDK is a stand-in that insists on the signatures of the real one, and whose sandboxes are folders
of this machine. `stand_ins/signatures.json` names the version that they were recorded from.
"""

import inspect
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from stand_ins.places import HERE, modal, opening, sdk

from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.core.plugins import load_plugin
from hermes.core.protocols import StartsProcesses
from hermes.environments.cloud.environment import CloudEnvironment
from hermes.environments.modal import open_modal, why_not
from hermes.testing import EnvironmentContract

pytestmark = pytest.mark.anyio
contract = EnvironmentContract()

BY_TRANSPORT = (
    contract.test_stdin_is_what_was_given,
    contract.test_binary_output_breaks_nothing,
    contract.test_much_output_keeps_head_and_tail,
    contract.test_a_very_long_command_runs,
    contract.test_a_command_sees_nothing_of_ours,
    contract.test_files_come_back_as_they_were_written,
    contract.test_odd_names_are_names,
    contract.test_cancelling_ends_the_tree_at_once,
    contract.test_a_process_runs_talks_and_ends,
)
"""Of the contract suite, what depends on how a service carries things to and fro."""

BY_ERRAND = (
    contract.test_the_working_folder_persists,
    contract.test_variables_functions_aliases_and_options_persist,
    contract.test_a_timeout_is_said_and_keeps_the_state_of_before,
    contract.test_a_timeout_ends_those_that_ignore_it_and_those_that_fork_away,
    contract.test_a_child_left_behind_does_not_hold_the_command,
    contract.test_without_stdin_nothing_waits_for_a_person,
    contract.test_pkill_does_not_hit_the_shell_that_runs_it,
    contract.test_what_cannot_be_read_is_told,
    contract.test_what_cannot_be_written_is_told,
    contract.test_two_writers_of_one_file_leave_one_of_both,
    contract.test_killing_a_process_ends_its_tree,
    contract.test_a_process_with_a_terminal_has_one,
    contract.test_a_process_is_found_again_by_its_handle,
)
"""What depends on our own half, which is the same for every service."""


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[CloudEnvironment]:
    async with modal(tmp_path) as environment:
        environment.grace = 0.3
        yield environment


def asked(name: str) -> list[dict[str, Any]]:
    return [arguments for path, arguments in sdk().CALLS if path == name]


@pytest.mark.parametrize("promise", BY_TRANSPORT + BY_ERRAND, ids=lambda promise: promise.__name__)
async def test_modal_stand_in_keeps(promise: Callable[..., Any], place: CloudEnvironment) -> None:
    assert isinstance(place, StartsProcesses)
    await promise(**{name: place for name in inspect.signature(promise).parameters})


async def test_a_sandbox_is_limited_and_knows_no_key(tmp_path: Path) -> None:
    sdk().CALLS.clear()
    settings: dict[str, Any] = {"modal_image": "img:1", "memory_mb": 512, "cpus": 1.5}
    async with modal(tmp_path, docker_network=False, **settings) as place:
        assert place.isolated
        assert (place.name, place.target) == ("modal", "img:1")
        told = (await place.run("env; cat /proc/*/environ | tr '\\0' '\\n'")).output
    assert "as-stand-in" not in told
    (made,) = asked("modal.Sandbox.create.aio")
    assert asked("modal.Image.from_registry") == [{"tag": "img:1"}]
    assert made["memory"] == (128, 512)
    assert made["cpu"] == (0.125, 1.5)
    assert made["block_network"] is True
    assert made["timeout"] <= 24 * 3600
    assert made["idle_timeout"] <= made["timeout"]
    assert not {"secrets", "env", "volumes", "include_oidc_identity_token"} & made.keys()
    assert len(asked("modal.Sandbox.terminate.aio")) == 1


async def test_a_sandbox_that_is_gone_is_told_and_the_next_command_gets_another(
    place: CloudEnvironment,
) -> None:
    await place.run("x=1")
    sdk().MACHINES[-1].end()
    with pytest.raises(EnvironmentFailed, match="already shut down"):
        await place.run("echo $x")
    assert (await place.run("echo ${x-none}")).output == "none\n"


async def test_a_command_that_removes_our_folder_is_told(place: CloudEnvironment) -> None:
    with pytest.raises(EnvironmentFailed, match="removed"):
        await place.run('rm -rf "$TMPDIR"/.hermes-*; sleep 5')
    assert (await place.run("echo on")).output == "on\n"


async def test_what_lies_between_the_ends_of_an_output_is_not_kept(
    place: CloudEnvironment,
) -> None:
    used = 'du -cm "$TMPDIR"/.hermes-*/*.out | tail -1 | cut -f1'
    result = await place.run(
        f"head -c 40M /dev/zero; until (($({used}) < 10)); do sleep 0.05; done; echo trimmed",
        timeout=30,
    )
    assert result.output.endswith("\0trimmed\n")
    assert result.dropped_bytes > 39 * 1024 * 1024


async def test_keys_that_are_missing_or_wrong_are_the_operators_to_fix(tmp_path: Path) -> None:
    sdk()
    given = opening(tmp_path)
    keyless = type(given)(given.settings, tmp_path, tmp_path, given.variables, {})
    with pytest.raises(SettingsError, match="MODAL_TOKEN_ID and MODAL_TOKEN_SECRET must be set"):
        async with open_modal(keyless):
            pass
    assert "MODAL_TOKEN_ID" in (await why_not(keyless) or "")
    assert await why_not(given) is None
    wrong = type(given)(
        given.settings, tmp_path, tmp_path, {}, {**given.secrets, "MODAL_TOKEN_ID": "no"}
    )
    with pytest.raises(SettingsError, match="does not accept"):
        async with open_modal(wrong):
            pass
    assert load_plugin("environments", "modal") is open_modal


def without(name: str, module: str) -> str:
    """What `why_not` says where no SDK is installed, real or stand-in."""
    program = (
        "import sys, anyio\nfrom pathlib import Path\n"
        f"sys.modules[{name!r}] = None\n"
        "from hermes.environments.open import EnvironmentOpening\n"
        "from hermes.environments.settings import TerminalSettings\n"
        f"from hermes.environments.{module} import why_not\n"
        "opening = EnvironmentOpening(TerminalSettings(), Path(), Path())\n"
        "print(anyio.run(why_not, opening))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_without_the_sdk_it_is_said_what_to_install() -> None:
    assert "pip install 'hermes-oncall[modal]'" in without("modal", "modal")


def test_opening_loads_no_sdk() -> None:
    program = (
        "import sys\nimport hermes.environments.modal, hermes.environments.daytona\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('modal', 'daytona')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_signatures_are_those_of_the_sdk_where_it_is_installed() -> None:
    """Here they usually are not; then the recorded ones are all there is to go by."""
    recorded = json.loads((HERE / "signatures.json").read_text())
    assert {name: sdk["version"] for name, sdk in recorded.items()} == {
        "modal": "1.6.3",
        "daytona": "0.226.1",
    }
    for name in recorded:
        if _really_installed(name):
            record = (
                "import sys, json, record_signatures as r; print(json.dumps(r.record(sys.argv[1])))"
            )
            done = subprocess.run(
                [sys.executable, "-c", record, name],
                capture_output=True, text=True, check=True, env={"PYTHONPATH": str(HERE)},
            )  # fmt: skip
            assert json.loads(done.stdout)["signatures"] == recorded[name]["signatures"]


def _really_installed(name: str) -> bool:
    found = find_spec(name)
    return found is not None and str(HERE) not in str(found.origin)
