"""Playbooks see which file systems can be written, also where the kernel confines their probes."""

import os
from pathlib import Path

import pytest
from probe_house import policy_at, this_host

from hermes.core.actions import Action
from hermes.core.messages import Risk, ToolCall
from hermes.environments.sandboxing.support import kernel_support
from hermes.skills.format import SharedSnippets

pytestmark = pytest.mark.anyio
NOT_HERE = kernel_support().reason or (
    "" if os.geteuid() == 0 else "only root sees these processes"
)
SEES_PROCESSES = "ls -l /proc/[0-9]*/fd > /dev/null 2>&1"


@pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)
async def test_a_file_system_counts_as_writable_although_its_mount_is_read_only_for_a_probe(
    tmp_path: Path,
) -> None:
    functions = SharedSnippets().read("mounts")
    root = "awk '$2 == \"/\" {print $4}' /proc/mounts"
    command = f"{functions}\n{SEES_PROCESSES}\n{root}\nwritable_mounts"
    async with this_host(tmp_path) as here:
        action = Action(
            call=ToolCall("find-1", "terminal", {"command": command}),
            risk=Risk.CHANGE,
            run="incident-1",
            origin="incident",
            environment=here.name,
            target=here.target,
            isolated=False,
            reviewed=True,
            kernel=await here.kernel_support(),
        )
        decision = policy_at(tmp_path).decide(action)
        assert decision.profile is not None
        async with here.confined(decision.profile) as confined:
            options, *found = (await confined.run(command, timeout=60)).output.splitlines()
    assert options.startswith("ro,")
    assert "/" in found
