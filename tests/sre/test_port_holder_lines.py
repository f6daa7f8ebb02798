"""Who holds a port is visible to the scripts of an escalation, confined as a watch runs them."""

import os
import socket
from pathlib import Path

import pytest
from probe_house import policy_at, this_host

from hermes.core.actions import Action
from hermes.core.messages import Risk, ToolCall
from hermes.environments.sandboxing.support import kernel_support
from hermes.sre.escalation.host_scripts import script_command

pytestmark = pytest.mark.anyio
NOT_HERE = kernel_support().reason or (
    "" if os.geteuid() == 0 else "only root sees these processes"
)


@pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)
@pytest.mark.parametrize("script", ["ports", "firewall"])
async def test_the_holder_of_a_port_is_found_while_confined(tmp_path: Path, script: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = script_command(script, f"ports={port}")
        async with this_host(tmp_path) as here:
            action = Action(
                call=ToolCall("fact-1", "terminal", {"command": command}),
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
            assert (decision.verdict, decision.profile is not None) == ("allow", True)
            async with here.confined(decision.profile) as confined:
                shown = (await confined.run(command, timeout=60)).output
                assert confined.collect() == []
    assert (f"holder={port}\t{os.getpid()}\t" in shown) == (script == "ports")
