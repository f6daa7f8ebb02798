"""Commands are tried on copies of a box, and fixes are tested before they touch anything."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from hermes.app.fix_tests import try_commands
from hermes.app.tooling import copy_tools
from hermes.core.errors import ToolError
from hermes.environments.boxes.box import Box
from hermes.environments.sandboxing import support
from hermes.gym.box.environment import BoxHostEnvironment, host_environment
from hermes.gym.episodes.episode import open_episode
from hermes.gym.scenario import find_scenario

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
SCENARIO = "config-typo-after-edit"
SETTINGS_FILE = "/etc/ledger/ledger.conf"


@asynccontextmanager
async def broken_host() -> AsyncGenerator[tuple[Box, BoxHostEnvironment], None]:
    scenario = find_scenario(SCENARIO)
    async with (
        open_episode(scenario, scenario.draw_spec(1, "train")) as episode,
        host_environment(episode.box) as environment,
    ):
        yield episode.box, environment


async def test_candidates_run_on_copies_of_their_own_and_nothing_reaches_the_host() -> None:
    async with broken_host() as (box, environment):
        before = await box.read(SETTINGS_FILE)
        text = await try_commands(
            environment,
            [f"echo one >> {SETTINGS_FILE}; echo made", f"rm {SETTINGS_FILE}; ls /etc/ledger"],
            10.0,
        )
        assert await box.read(SETTINGS_FILE) == before
    first, second = text.split("\n\n")
    assert "made" in first
    assert f"[changed on the copy: {SETTINGS_FILE}]" in first
    assert second.startswith("2. rm ")
    assert "ledger.conf" not in second.splitlines()[1:-1]


async def test_output_is_withheld_where_nobody_knows_what_a_command_reads() -> None:
    async with broken_host() as (_, environment):
        text = await try_commands(
            environment, ["echo 'cat /etc/ledger/*' > /tmp/x; chmod +x /tmp/x; /tmp/x"], 10.0
        )
        moved = await try_commands(environment, [f"mv {SETTINGS_FILE} /tmp/y; cat /tmp/y"], 10.0)
    assert "workers" not in text
    assert "its output is withheld" in text
    assert "workers" not in moved


async def test_a_command_that_does_not_end_is_ended() -> None:
    async with broken_host() as (_, environment):
        assert "timed out" in await try_commands(environment, ["sleep 600"], 1.0)


async def test_the_tool_is_offered_only_where_the_environment_can_be_copied() -> None:
    async with broken_host() as (_, environment):
        assert list(copy_tools(environment)) == ["try_on_copy"]
        environment.copyable = False
        assert not copy_tools(environment)
        with pytest.raises(ToolError, match="cannot be copied"):
            await try_commands(environment, ["true"], 1.0)
