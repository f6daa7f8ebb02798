"""A gateway that is killed again and again answers each message once."""

from pathlib import Path

import pytest
from gateway_kills import kill_gateway

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("press", [False, True], ids=["turns", "presses"])
async def test_after_many_kills_nothing_is_lost_and_nothing_is_done_twice(
    tmp_path: Path, press: bool
) -> None:
    assert await kill_gateway(tmp_path, max_kills=12, seed=19, press=press) > 1
