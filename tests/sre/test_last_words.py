"""People who are called are told what the sick service says itself."""

from dataclasses import replace
from pathlib import Path

import pytest
from incident_host import Host, events

from hermes.core.actions import Action, Decision
from hermes.core.errors import EnvironmentFailed
from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.incident import Incident
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import open_episode
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.scenario import find_scenario
from hermes.sre.assessment.host_state import read_last_error
from hermes.sre.assessment.symptoms import Assessment
from hermes.sre.context import IncidentWork
from hermes.sre.escalation.collect import publish_escalation
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]


@pytest.mark.parametrize("named", [True, False])
async def test_the_complaint_and_not_the_request_is_told(named: bool) -> None:
    """A broker that is full; it is found by its name, or as the one that complains most."""
    scenario = find_scenario("needs-approval")
    story = scenario.draw_spec(3, "train")
    service = story.alert.labels["service"] if named else "no-such-service"
    async with (
        open_episode(scenario, story) as episode,
        open_bare_run(episode, sandbox_rules()) as stage,
    ):
        words = await read_last_error(stage.execute, service)
    assert words is not None
    assert words.unit == f"{story.alert.labels['service']}.service"
    assert story.faults[0].value[0] in words.line
    assert "/publish" not in words.line


async def test_a_host_that_cannot_be_asked_keeps_nobody_from_being_called(tmp_path: Path) -> None:
    class Silent:
        def decide(self, action: Action) -> Decision:
            if "words=1" in str(action.call.arguments["command"]):
                raise EnvironmentFailed("the host does not answer")
            return Decision(verdict="allow", rule="test")

    host = Host(tmp_path)
    case = await host.open_incident()
    async with host.context() as context:
        executor = Executor({"terminal": make_terminal()}, Silent(), host.person, context.bus)
        work = IncidentWork(replace(context, executor=executor), case)
        await publish_escalation(
            work, Incident(details=case), Assessment(verdict="unknown"), "nobody knows it"
        )
    (told,) = events(host, IncidentDiagnosed)
    assert (told.verdict, told.gaps) == ("escalate", ("nobody knows it",))


async def test_why_nothing_could_be_seen_is_a_gap_and_not_a_cause(tmp_path: Path) -> None:
    why = "the services could not be listed: no systemctl on this host"
    host = Host(tmp_path)
    case = await host.open_incident()
    first = Assessment(verdict="unknown", reasons=(why,))
    async with host.context() as context:
        await publish_escalation(
            IncidentWork(context, case), Incident(details=case), first, "no playbook matched"
        )
    (told,) = events(host, IncidentDiagnosed)
    assert why in told.gaps
    assert (told.mechanism, told.evidence, told.confidence) == ("", (), 0.0)
