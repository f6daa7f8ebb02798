"""One fix by a person, in a box: what Hermes learns from it, and the drill that it becomes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.app.application import open_application
from hermes.app.changes.incident_states import IncidentStates
from hermes.app.gym_commander import build_case
from hermes.app.incidents.drill import make_incident_drill
from hermes.app.incidents.lessons import LessonWriter
from hermes.app.incidents.response import build_incident_context
from hermes.core.errors import HermesError
from hermes.core.events.experiments import LessonLearned
from hermes.core.events.incidents import IncidentClosed, IncidentOpened, IncidentRecovered
from hermes.core.incident import IncidentDetails, incident_details
from hermes.declared.store import STATES_FOLDER, StateStore
from hermes.environments.sandboxing import support
from hermes.gym.box.environment import host_environment
from hermes.gym.episodes.episode import Episode, open_episode
from hermes.gym.episodes.responder_context import BareEpisodeRun, open_bare_run, sandbox_rules
from hermes.gym.episodes.self_test import prove_scenario
from hermes.gym.scenario import find_scenario, load_scenario
from hermes.gym.scenario_spec import ScenarioSpec
from hermes.policy.redaction.redactor import Redactor
from hermes.settings.load import load
from hermes.sre.checks import open_independent_checks
from hermes.sre.reports.report_text import render_report

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
TYPO, SEED = "config-typo-after-edit", 1
INCIDENT = "incident-20260101-120000-a1b2c3"
redact = Redactor({}).clean


@dataclass
class EscalatedIncident:
    """A broken host, its failing state kept."""

    episode: Episode
    stage: BareEpisodeRun
    states: IncidentStates
    details: IncidentDetails

    @property
    def spec(self) -> ScenarioSpec:
        return self.episode.spec

    async def fix(self, *commands: str) -> None:
        await self.episode.run_commands(commands or self.spec.reference)
        outcome = await self.episode.judge(window_s=0.5, symptom_timeout_s=10.0)
        assert outcome.resolved

    @property
    def settings_file(self) -> str:
        return self.spec.fault.component[0]


@asynccontextmanager
async def escalated(folder: Path) -> AsyncIterator[EscalatedIncident]:
    scenario, store = find_scenario(TYPO), StateStore(folder / "states")
    spec = scenario.draw_spec(SEED)
    async with (
        open_episode(scenario, spec, states=store) as episode,
        open_bare_run(episode, sandbox_rules()) as stage,
    ):
        details = build_case(stage.responder_context(episode))
        journal, publish = stage.bus.journal, stage.bus.publish
        host = spec.hosts[0].name
        states = IncidentStates(stage.environment, store, host, journal, publish)
        checks = await open_independent_checks(details, stage.environment)
        kept = await states.keep_failing(details, checks)
        assert kept is not None
        assert any(not each.ok for each in kept.readings)
        yield EscalatedIncident(episode, stage, states, details)


async def test_their_change_is_proved_and_becomes_a_draft_without_the_names_of_this_host(
    tmp_path: Path,
) -> None:
    async with escalated(tmp_path) as incident:
        innocent = f"echo '# looked at' >> /etc/{incident.details.service}/notes.txt"
        await incident.fix(innocent, *incident.spec.reference)
        lesson = await LessonWriter(incident.states, redact=redact).write(incident.details)
    assert lesson is not None
    assert (lesson.event.status, lesson.category) == ("proved", "change-prevention")
    (changed,) = lesson.event.changed
    assert changed.partition(" (line ")[0] == f"file {incident.settings_file}", (
        "what did not matter is left out"
    )
    assert "+workers = " in lesson.event.diff
    assert lesson.draft is not None, lesson.event.why
    steps = " ".join(step.command for step in lesson.draft.parse().steps)
    assert "workers = " in steps
    assert incident.details.service not in steps, "names of this host became parameters"
    assert all(step.undo for step in lesson.draft.parse().steps[:1])


async def test_a_recovery_without_a_change_teaches_nothing(tmp_path: Path) -> None:
    async with escalated(tmp_path) as incident:
        writer = LessonWriter(incident.states, redact=redact)
        lesson = await writer.write(incident.details)  # nobody changed anything
        assert lesson is not None
        assert (lesson.event.status, lesson.draft) == ("not-proved", None)
        assert "no file, service or setting differs" in lesson.event.why


async def test_the_drill_of_an_incident_proves_itself_and_has_no_secret(tmp_path: Path) -> None:
    secret = "hunter-Sesame-4711"
    async with escalated(tmp_path) as incident:
        path = incident.settings_file
        await incident.fix(f"echo 'api_password = {secret}' >> {path}", *incident.spec.reference)
        await incident.states.keep_recovered(incident.details)
        folder = tmp_path / "incident-1"
        journal, store = incident.stage.bus.journal, incident.states.store
        drill = await make_incident_drill(journal, store, incident.details, folder, redact)
    everything = "".join(each.read_text() for each in folder.iterdir())
    assert secret not in everything
    assert any(path in each for each in (script for script in drill.spec.reference))
    proof = await prove_scenario(load_scenario(folder), 1)
    assert (proof.ok, proof.problems, proof.void) == (True, (), "")


async def test_without_kept_states_there_is_no_drill(tmp_path: Path) -> None:
    async with escalated(tmp_path) as incident:
        other = IncidentDetails(incident="incident-x", run="run-x", title="another")
        with pytest.raises(HermesError, match="no states were kept for incident-x"):
            await make_incident_drill(
                incident.stage.bus.journal,
                incident.states.store,
                other,
                tmp_path / "none",
                redact,
            )


async def test_an_escalated_incident_that_people_end_leaves_a_draft_and_a_report(
    tmp_path: Path,
) -> None:
    scenario, home = find_scenario(TYPO), tmp_path / "home"
    spec = scenario.draw_spec(SEED)
    loaded = load(home=home, variables={"HOME": str(tmp_path)})
    async with open_episode(scenario, spec, states=StateStore(home / STATES_FOLDER)) as episode:
        environment = host_environment(episode.box, name=spec.hosts[0].name)
        async with open_application(loaded, origin="incident", environment=environment) as app:
            opened = IncidentOpened(
                run=INCIDENT,
                incident=INCIDENT,
                title=spec.alert.title,
                severity="P1",
                service=spec.alert.labels["service"],
                facts=tuple(spec.alert.labels.items()),
            )
            await app.bus.publish(opened)
            document = build_incident_context(app, loaded.settings.sre).report
            details = incident_details(opened)
            await document(details)
            await app.bus.publish(
                IncidentClosed(run=INCIDENT, incident=INCIDENT, outcome="escalated")
            )
            await episode.run_commands(spec.reference)
            assert (await episode.judge(window_s=0.5, symptom_timeout_s=10.0)).resolved
            over = IncidentRecovered(
                run=INCIDENT, incident=INCIDENT, recovered_at=datetime.now(UTC)
            )
            await app.bus.publish(over)
            await document(details)
            await document(details)
            records = [each async for each in app.journal.read(run=INCIDENT)]
    lessons = [each.event for each in records if isinstance(each.event, LessonLearned)]
    assert [each.status for each in lessons] == ["proved"], "once, with proof"
    drafts = list((home / "skills" / "change-prevention").iterdir())
    assert [each.name for each in drafts] == [lessons[0].skill]
    report = render_report(records)
    assert "Learned from people" in report
    assert spec.fault.component[0] in report
