"""Runs the commander of real incidents against a host of the gym."""

from collections.abc import Sequence

from hermes.core.incident import IncidentDetails
from hermes.gym.drill import raise_alert
from hermes.gym.episodes.episode import Episode
from hermes.gym.episodes.responder_context import BareEpisodeRun, ResponderContext
from hermes.skills.library import Skill
from hermes.sre.cause import CauseFinder, FixTester
from hermes.sre.checks import open_independent_checks
from hermes.sre.commander import Commander, IncidentResult
from hermes.sre.context import IncidentContext
from hermes.sre.settings import SreSettings, VerifySettings

REPLAY_SETTINGS = SreSettings(
    verify=VerifySettings(window=0.0, longest_window=0.0, patience=5.0, every=0.25),
    traces=0.0,
    agents=False,
)
"""For an oracle that judges over its own window, on a host with few services."""


async def run_playbooks(
    skills: Sequence[Skill],
    episode: Episode,
    stage: BareEpisodeRun,
    settings: SreSettings = REPLAY_SETTINGS,
    cause_finder: CauseFinder | None = None,
    fix_tester: FixTester | None = None,
) -> IncidentResult:
    """Work on the incident from its alert to its close, with these skills as the library and no
    model."""

    async def library() -> Sequence[Skill]:
        return skills

    context = IncidentContext(
        bus=stage.bus,
        executor=stage.executor,
        environment=stage.environment,
        artifacts=stage.artifacts,
        settings=settings,
        skills=library,
        checks_for=lambda case: open_independent_checks(
            case, stage.environment, episode.memory.probes
        ),
        origin="gym",
        daemons=lambda: episode.memory.daemons,
        cause_finder=cause_finder,
        fix_tester=fix_tester,
    )
    await raise_alert(episode, stage)
    return await Commander(context, build_case(stage.responder_context(episode))).run()


def build_case(scene: ResponderContext) -> IncidentDetails:
    alert = scene.alert
    return IncidentDetails(
        incident=scene.incident,
        run=scene.run,
        title=alert.title,
        text=alert.text,
        labels=dict(alert.labels),
        severity=alert.severity,
        service=alert.labels.get("service", ""),
    )
