"""One round of health checks."""

from collections.abc import Sequence

import anyio
import pytest

from hermes.core.errors import EnvironmentFailed
from hermes.sre.health import HealthCheckResult, run_health_round

pytestmark = pytest.mark.anyio


async def test_what_could_not_be_asked_is_not_fine() -> None:
    async def found() -> Sequence[HealthCheckResult]:
        return [
            HealthCheckResult(name="web", ok=True),
            HealthCheckResult(name="db", ok=False),
            HealthCheckResult(name="disk", ok=None),
        ]

    checked, _ = await run_health_round(found, 1.0)
    assert (checked.ok, checked.checks) == (False, 3)
    assert (checked.failing, checked.unknown) == (("db",), ("disk",))


async def test_a_place_that_takes_no_commands_is_unknown() -> None:
    async def broken() -> Sequence[HealthCheckResult]:
        raise EnvironmentFailed("the container is gone")

    checked, looked = await run_health_round(broken, 1.0)
    assert (checked.ok, checked.checks) == (False, 0)
    assert looked[0].detail == "the container is gone"


async def test_a_round_that_hangs_ends() -> None:
    async def hangs() -> Sequence[HealthCheckResult]:
        await anyio.sleep_forever()
        return ()

    checked, looked = await run_health_round(hangs, 0.01)
    assert not checked.ok
    assert "did not end within" in looked[0].detail
