"""Causes are proved on copies of hosts without systemd, and reverted through their supervisors."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.app.changes.cause_search import ExperimentFinder, ExperimentHost
from hermes.app.gym_commander import REPLAY_SETTINGS, run_playbooks
from hermes.core.events.experiments import ExperimentsEnded, FixTested
from hermes.core.events.incidents import ChangeBegan, ChangesUndone, IncidentVerified
from hermes.declared.store import StateStore
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import open_episode
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.scenario import find_scenario
from hermes.gym.supervisors.hosts import missing_supervisor_programs
from hermes.policy.redaction.redactor import Redactor

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
SETTINGS = replace(
    REPLAY_SETTINGS,
    reflex=False,
    verify=replace(REPLAY_SETTINGS.verify, patience=60.0),  # a supervisor on a busy machine
)
COMMANDS = {
    "supervisord": "supervisorctl ",
    "runit": "sv restart ",
    "s6": "s6-svc ",
    "sysvinit": "service ",
    "daemon": "pkill ",
}
FIX_EVENTS = (FixTested, ChangeBegan, ChangesUndone, IncidentVerified)


@pytest.mark.parametrize("kind", COMMANDS)
async def test_the_edited_line_is_reverted_and_the_supervisor_restarts(
    kind: str, tmp_path: Path
) -> None:
    if missing := missing_supervisor_programs(kind):
        pytest.skip(f"not installed here: {', '.join(missing)}")
    scenario, store = find_scenario("config-typo-after-edit"), StateStore(tmp_path)
    spec = scenario.draw_spec(1, "train")
    async with (
        open_episode(scenario, spec, states=store, supervisor=kind) as episode,
        open_bare_run(episode, sandbox_rules()) as stage,
    ):
        host = ExperimentHost.from_environment(stage.environment, store, episode.memory.daemons)
        finder = ExperimentFinder(host, redact=Redactor({}).clean)
        ending = await run_playbooks((), episode, stage, SETTINGS, finder)
        events = [each.event async for each in stage.bus.journal.read(run=stage.run)]
        outcome = await episode.judge(window_s=0.5, symptom_timeout_s=60.0)
    ended = [each for each in events if isinstance(each, ExperimentsEnded)]
    assert [each.why for each in ended if each.status != "proved"] == []
    assert ended[0].causes == ("file /etc/ledger/ledger.conf",)
    fix_events = [each for each in events if isinstance(each, FIX_EVENTS)]
    assert (ending.outcome, ending.answered_by) == ("resolved", "experiment"), (ending, fix_events)
    changes = [each.command for each in events if isinstance(each, ChangeBegan)]
    assert any(COMMANDS[kind] in each for each in changes)
    assert not any("systemctl" in each for each in changes)
    assert outcome.resolved
