"""Random kills of a process that delivers: nothing is lost, and repeats are marked."""

from pathlib import Path

import pytest
from delivery_kills import kill_deliveries

pytestmark = [pytest.mark.anyio, pytest.mark.torture]


@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_is_lost_or_doubled_without_a_mark(tmp_path: Path, seed: int) -> None:
    result = await kill_deliveries(tmp_path, kills=25, seed=seed)
    assert result.problems == []
    assert result.kills == 25
    assert result.messages >= 12
