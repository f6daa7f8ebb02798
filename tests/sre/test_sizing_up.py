"""Nothing is changed before it is known that something is wrong, whatever a playbook has found."""

from pathlib import Path

import pytest

from hermes.app.gym_commander import run_playbooks
from hermes.core.events.incidents import ChangeBegan
from hermes.core.events.skills import PlaybookStarted, PlaybookStepped
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import open_episode
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.scenario import find_scenario
from hermes.skills.discovery import SkillRoot
from hermes.skills.library import Skill, SkillLibrary

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
EAGER = """\
summary: "It finds its signature on every host"
signature:
  probes: [{name: look, command: "echo seen", expect: {contains: seen}}]
steps: [{name: mend, command: "touch /srv/changed", undo: "rm /srv/changed"}]
verify: [{name: works, command: "true"}]
"""


def eager(folder: Path) -> list[Skill]:
    skill = folder / "eager"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: eager\ndescription: always ready\n---\nHow.\n")
    (skill / "playbook.yaml").write_text(EAGER)
    return SkillLibrary([SkillRoot(folder, "user")], {"eager": "trusted"}).skills


@pytest.mark.parametrize(
    ("scenario", "ending"), [("false-alarm", "no-incident"), ("already-recovered", "recovered")]
)
async def test_a_host_that_is_well_is_left_alone_though_a_signature_is_there(
    scenario: str, ending: str, tmp_path: Path
) -> None:
    story = find_scenario(scenario).draw_spec(4)
    async with (
        open_episode(find_scenario(scenario), story) as episode,
        open_bare_run(episode, sandbox_rules()) as stage,
    ):
        said = await run_playbooks(eager(tmp_path), episode, stage)
        events = [each.event async for each in stage.bus.journal.read()]
    assert said.outcome == ending, said
    looks = [each for each in events if isinstance(each, PlaybookStepped)]
    # On a slow machine a match may be too old, and is checked again.
    assert {(each.skill, each.phase, each.ok) for each in looks} == {("eager", "probe", True)}
    assert not [each for each in events if isinstance(each, PlaybookStarted | ChangeBegan)]
