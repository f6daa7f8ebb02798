"""Daytona: what is asked of its SDK, and what becomes of its answers. Nothing real could be had:
the SDK is a stand-in that insists on the signatures of the real one, and whose sandboxes are
folders of this machine. `stand_ins/signatures.json` names the version they were recorded from.
"""

import inspect
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from stand_ins.places import daytona, opening, sdk
from test_modal import BY_TRANSPORT, without

from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.core.plugins import load_plugin
from hermes.environments.cloud.environment import CloudEnvironment
from hermes.environments.daytona import open_daytona, why_not

pytestmark = pytest.mark.anyio


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[CloudEnvironment]:
    async with daytona(tmp_path) as environment:
        environment.grace = 0.3
        yield environment


def asked(name: str) -> list[dict[str, Any]]:
    return [arguments for path, arguments in sdk().CALLS if path == name]


@pytest.mark.parametrize("promise", BY_TRANSPORT, ids=lambda promise: promise.__name__)
async def test_daytona_stand_in_keeps(promise: Callable[..., Any], place: CloudEnvironment) -> None:
    await promise(**{name: place for name in inspect.signature(promise).parameters})


async def test_a_sandbox_is_limited_short_lived_and_knows_no_key(tmp_path: Path) -> None:
    sdk().CALLS.clear()
    settings: dict[str, Any] = {"daytona_image": "img:1", "memory_mb": 1500, "cpus": 1.5}
    async with daytona(tmp_path, docker_network=False, daytona_url="http://d", **settings) as place:
        assert place.isolated
        assert (place.name, place.target) == ("daytona", "img:1")
        assert "dtn_stand-in" not in (await place.run("env; cat /proc/*/environ")).output
    (made,) = asked("daytona.CreateSandboxFromImageParams")
    assert made["image"] == "img:1"
    assert made["ephemeral"] is True
    assert made["public"] is False
    assert made["network_block_all"] is True
    assert made["auto_stop_interval"] > 0
    assert made["ttl_minutes"] > 0
    assert not {"env_vars", "secrets", "volumes"} & made.keys()
    assert asked("daytona.Resources") == [{"cpu": 2, "memory": 2}]
    (config,) = asked("daytona.DaytonaConfig")
    assert config == {"api_key": "dtn_stand-in", "api_url": "http://d", "otel_enabled": False}
    assert len(asked("daytona.AsyncSandbox.delete")) == 1
    assert len(asked("daytona.AsyncDaytona.close")) == 1


async def test_a_big_input_goes_by_file_and_the_file_does_not_stay(
    place: CloudEnvironment,
) -> None:
    data = bytes(range(256)) * 2000
    sdk().CALLS.clear()
    await place.write("big", data)
    (sent,) = asked("daytona._async.filesystem.AsyncFileSystem.upload_file")
    assert data in sent["src"]
    assert not Path(sent["dst"]).exists()  # noqa: ASYNC240 - nothing else runs
    assert await place.read("big") == data


async def test_a_sandbox_that_is_gone_is_told_and_the_next_command_gets_another(
    place: CloudEnvironment,
) -> None:
    await place.run("x=1")
    sdk().MACHINES[-1].end()
    with pytest.raises(EnvironmentFailed, match="Sandbox not found"):
        await place.run("echo $x")
    assert (await place.run("echo ${x-none}")).output == "none\n"


async def test_keys_that_are_missing_or_wrong_are_the_operators_to_fix(tmp_path: Path) -> None:
    sdk()
    given = opening(tmp_path)
    keyless = type(given)(given.settings, tmp_path, tmp_path, given.variables, {})
    with pytest.raises(SettingsError, match="DAYTONA_API_KEY must be set"):
        async with open_daytona(keyless):
            pass
    assert "DAYTONA_API_KEY" in (await why_not(keyless) or "")
    assert await why_not(given) is None
    wrong = type(given)(given.settings, tmp_path, tmp_path, {}, {"DAYTONA_API_KEY": "no"})
    with pytest.raises(SettingsError, match="does not accept DAYTONA_API_KEY"):
        async with open_daytona(wrong):
            pass
    assert load_plugin("environments", "daytona") is open_daytona


def test_without_the_sdk_it_is_said_what_to_install() -> None:
    assert "pip install 'hermes-oncall[daytona]'" in without("daytona", "daytona")
