"""What a resolved drill taught, tried at once: a draft of it, alone, on a host it has not seen."""

import tempfile
from pathlib import Path

from hermes.app.proving import baseline, rehearse_in_gym, replay_in_gym
from hermes.core.errors import HermesError
from hermes.gym.box.carrier import Opener
from hermes.gym.box.here import open_here
from hermes.gym.conclude import of_run
from hermes.gym.dice import Split
from hermes.gym.drill import SkillTrial
from hermes.gym.scenario import Scenario
from hermes.gym.stage import Stage
from hermes.skills.cards import Root
from hermes.skills.distill.distil import distil
from hermes.skills.distill.writing import write_folder
from hermes.skills.library import Library
from hermes.skills.lifecycle.replay import Case

ELSEWHERE = 500_009
"""How far away the seed of the fresh variant lies: no bench walks that far."""


def skill_trial(
    reference: str, *, split: Split = "train", opener: Opener = open_here
) -> SkillTrial:
    """`reference` finds the scenario again: its name, or the path of its folder. Nothing is kept:
    whether a skill stays is decided in the home, by more than one case."""

    async def learned(scenario: Scenario, seed: int, stage: Stage) -> bool:
        records = await of_run(stage.bus.journal, stage.run, after=stage.since)
        rehearse = rehearse_in_gym(reference, seed, split=split, opener=opener)
        try:
            draft = await distil(records, rehearse=rehearse)
            with tempfile.TemporaryDirectory(prefix="hermes-draft-") as folder:
                write_folder(draft, Path(folder) / draft.name)
                skill = Library([Root(Path(folder), "user")], {}).find(draft.name)
                replay = replay_in_gym(skill, baseline("no-op"), split=split, opener=opener)
                tried = await replay(Case(name=reference, seed=seed + ELSEWHERE), True)
        except HermesError:  # nothing that could be learned, or no host to try it on
            return False
        return tried.solved and not tried.harm

    return learned
