"""A grant is for one exact action, is used up, runs out, and no clock can stretch it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermes.policy.approvals.grants import Grant, LiveGrants

START = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Clocks:
    """A wall clock that people may set, and one that only goes forward."""

    def __init__(self) -> None:
        self.wall = START
        self.ticks = 100.0

    def pass_(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.ticks += seconds

    def grants(self) -> LiveGrants:
        return LiveGrants(clock=lambda: self.wall, monotonic=lambda: self.ticks)


def grant(**more: Any) -> Grant:
    given = {"id": "g1", "action": "abc", "run": "r1", "by": ("ann",)}
    return Grant(**{**given, "given_at": START, "valid_for": 900.0, **more})


def test_a_grant_is_used_up() -> None:
    grants = Clocks().grants()
    grants.give(grant(uses=2))
    assert [grants.use("abc", "r1") is not None for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(("action", "run"), [("abd", "r1"), ("abc", "r2"), ("", "r1")])
def test_it_is_for_that_action_of_that_run_only(action: str, run: str) -> None:
    grants = Clocks().grants()
    grants.give(grant())
    assert grants.use(action, run) is None


def test_a_session_grant_lasts_as_long_as_the_session() -> None:
    grants = Clocks().grants()
    grants.give(grant(scope="session", uses=0))
    assert all(grants.use("abc", "r1") for _ in range(50))
    grants.end("r1")
    assert grants.use("abc", "r1") is None


def test_it_runs_out() -> None:
    clocks = Clocks()
    grants = clocks.grants()
    grants.give(grant(uses=9))
    clocks.pass_(899)
    assert grants.use("abc", "r1")
    clocks.pass_(2)
    assert grants.use("abc", "r1") is None
    assert grants.live() == []


def test_setting_the_time_back_does_not_make_it_last_longer() -> None:
    clocks = Clocks()
    grants = clocks.grants()
    grants.give(grant(uses=9))
    clocks.pass_(600)
    clocks.wall -= timedelta(seconds=500)
    clocks.ticks += 301
    assert grants.use("abc", "r1") is None


def test_a_time_before_it_was_given_voids_it() -> None:
    clocks = Clocks()
    grants = clocks.grants()
    grants.give(grant(uses=9))
    clocks.wall -= timedelta(days=1)
    assert grants.use("abc", "r1") is None


def test_a_clock_that_jumps_ahead_ends_it() -> None:
    clocks = Clocks()
    grants = clocks.grants()
    grants.give(grant(uses=9))
    clocks.wall += timedelta(hours=2)
    assert grants.use("abc", "r1") is None


def test_one_from_before_a_restart_has_only_what_was_left() -> None:
    clocks = Clocks()
    clocks.pass_(600)
    grants = clocks.grants()
    grants.give(grant(uses=2), used=1)
    assert grants.use("abc", "r1")
    assert grants.use("abc", "r1") is None
    grants.give(grant(id="g2", uses=1), used=1)
    grants.give(grant(id="g3", given_at=START - timedelta(hours=1)))
    grants.give(grant(id="g4", given_at=START + timedelta(days=9)))
    assert grants.live() == []


def test_it_can_be_taken_back() -> None:
    grants = Clocks().grants()
    grants.give(grant())
    assert grants.revoke("g1")
    assert not grants.revoke("g1")
    assert grants.use("abc", "r1") is None
