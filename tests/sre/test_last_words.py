"""People who are called are told what the sick service says itself."""

import pytest

from hermes.environments.confinement import probe
from hermes.gym.episode import open_episode
from hermes.gym.scenario import find
from hermes.gym.stage import bare_stage, rules
from hermes.sre.assessing.last_words import last_words

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(probe.hopeless()), reason=str(probe.hopeless())),
]


@pytest.mark.parametrize("named", [True, False])
async def test_the_complaint_and_not_the_request_is_told(named: bool) -> None:
    """A broker that is full; it is found by its name, or as the one that complains most."""
    scenario = find("needs-approval")
    story = scenario.story(3, "train")
    service = story.alert.labels["service"] if named else "no-such-service"
    async with open_episode(scenario, story) as episode, bare_stage(episode, rules()) as stage:
        words = await last_words(stage.execute, service)
    assert words is not None
    assert words.unit == f"{story.alert.labels['service']}.service"
    assert story.faults[0].value[0] in words.line
    assert "/publish" not in words.line
