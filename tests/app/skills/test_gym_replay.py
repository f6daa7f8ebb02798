"""A replay is an incident: a skill that no incident would use proves nothing."""

from pathlib import Path

import pytest

from hermes.app.skills.gym_replay import find_baseline, replay_in_gym
from hermes.app.skills.library import open_library
from hermes.environments.sandboxing import support
from hermes.settings.load import load
from hermes.skills.history import copy_skill
from hermes.skills.library import Skill
from hermes.skills.lifecycle.evaluation import ReplayCase

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
SKILL, CASE = "port-taken", ReplayCase(name="port-taken", seed=1)


def draft(home: Path) -> Skill:
    """One that comes with Hermes, as somebody's own draft."""
    loaded = load(home=home, variables={})
    copy_skill(open_library(loaded).find(SKILL).folder, home / "skills" / SKILL)
    skill = open_library(loaded).find(SKILL)
    assert skill.state == "draft"
    return skill


async def test_a_draft_is_played_as_it_would_be_once_it_is_trusted(tmp_path: Path) -> None:
    played = await replay_in_gym(draft(tmp_path), find_baseline("no-op"))(CASE, True)
    assert (played.solved, played.by_skill, played.turns, played.harm) == (True, True, 0, ())


async def test_what_the_alert_does_not_call_for_is_not_played(tmp_path: Path) -> None:
    skill = draft(tmp_path)
    file = skill.folder / "playbook.yaml"
    text = file.read_text().replace("signature:\n", "signature:\n  alert: ['never said']\n", 1)
    file.write_text(text)
    assert skill.playbook is not None, skill.problems
    played = await replay_in_gym(skill, find_baseline("restart-everything"))(CASE, True)
    assert (played.by_skill, played.turns) == (False, 1), "somebody else had to answer"
