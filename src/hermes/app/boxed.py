"""The commander of real incidents before a host of the gym; it cannot tell that this is none."""

from collections.abc import Sequence

from hermes.gym.drill import raise_alert
from hermes.gym.episode import Episode
from hermes.gym.stage import BareStage, Scene
from hermes.skills.library import Skill
from hermes.sre.case import Case
from hermes.sre.commander import Commander, Ending
from hermes.sre.eyes import open_eyes
from hermes.sre.ground import Ground
from hermes.sre.settings import SreSettings, VerifySettings

PROOF = SreSettings(
    verify=VerifySettings(window=0.0, longest_window=0.0, patience=5.0, every=0.25),
    traces=0.0,
    agents=False,
)
"""Where an oracle judges over a window of its own, on a host that shows all there is to see."""


async def by_playbooks(
    skills: Sequence[Skill], episode: Episode, stage: BareStage, settings: SreSettings = PROOF
) -> Ending:
    """From the alert to its last word, with these skills for a library and no model."""

    async def library() -> Sequence[Skill]:
        return skills

    ground = Ground(
        bus=stage.bus,
        executor=stage.executor,
        environment=stage.place,
        artifacts=stage.artifacts,
        settings=settings,
        skills=library,
        eyes=lambda case: open_eyes(case, stage.place),
        origin="gym",
    )
    await raise_alert(episode, stage)
    return await Commander(ground, case_in(stage.scene(episode))).command()


def case_in(scene: Scene) -> Case:
    alert = scene.alert
    return Case(
        incident=scene.incident,
        run=scene.run,
        title=alert.title,
        text=alert.text,
        labels=dict(alert.labels),
        severity=alert.severity,
        service=alert.labels.get("service", ""),
    )
