"""`watch.mode` selects the policy set of the watch."""

from pathlib import Path

import pytest

from hermes.app.policy import effective_policy_settings, with_watch_mode
from hermes.settings.load import load


@pytest.mark.parametrize(
    ("mode", "chosen"), [("observe", "observe"), ("suggest", "suggest"), ("act", "careful")]
)
@pytest.mark.parametrize("isolated", [False, True])
def test_each_mode_selects_its_set_everywhere(
    tmp_path: Path, mode: str, chosen: str, isolated: bool
) -> None:
    loaded = load(home=tmp_path, variables={}, overrides={"watch.mode": mode})
    watched = with_watch_mode(loaded)
    assert effective_policy_settings(watched, isolated=isolated).set == chosen


def test_without_a_chosen_mode_the_set_of_the_policy_stays(tmp_path: Path) -> None:
    loaded = load(home=tmp_path, variables={}, overrides={"policy.set": "observe"})
    assert with_watch_mode(loaded).settings.policy.set == "observe"
    assert with_watch_mode(load(home=tmp_path, variables={})).settings.policy.set == "careful"
