"""Looks back over failing runs: one proposal by a model, tried at the same gate as any skill."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.app.lifecycle import Lives
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillsReviewed
from hermes.core.ids import new_id
from hermes.core.protocols import Journal, Model, Recorded
from hermes.skills.history import copy_skill
from hermes.skills.library import Library, Skill
from hermes.skills.lifecycle.life import Life
from hermes.skills.lifecycle.replay import Case, Replay, case_of
from hermes.skills.playbook.reading import FILE as PLAYBOOK
from hermes.skills.review.due import Due
from hermes.skills.review.proposal import Proposal, propose

if TYPE_CHECKING:
    from hermes.skills.review.evolution import Scored

MANUAL = "SKILL.md"


async def review(
    found: Due,
    journal: Journal,
    lives: Lives,
    library: Library,
    model: Model,
    replay: Callable[[Skill], Replay],
) -> SkillsReviewed:
    """Raises `ModelError`. Without cases that once proved the skill, the change stays a draft."""
    run = new_id("review")
    runs: dict[str, list[Recorded]] = {}
    for task in found.tasks:
        runs[task.run] = [each async for each in journal.read(run=task.run)]
    proposal, why = await propose(found, runs, library.skills, model)
    names = tuple(task.run for task in found.tasks)
    if proposal is None:
        return SkillsReviewed(run=run, why=found.why, runs=names, detail=why)
    accepted, detail = await _tried(proposal, lives, library, replay, run)
    return SkillsReviewed(
        run=run,
        why=found.why,
        runs=names,
        changed=proposal.skill,
        accepted=accepted,
        detail=f"{proposal.why}; {detail}",
    )


async def _tried(
    proposal: Proposal,
    lives: Lives,
    library: Library,
    replay: Callable[[Skill], Replay],
    run: str,
) -> tuple[bool, str]:
    skill = library.find(proposal.skill)
    changes = {proposal.file: proposal.text}
    drafted = await lives.candidate(skill, changes, run=run, reason=proposal.why)
    cases = proven_by(await lives.life(skill.name))
    if not cases:
        return False, "no case has proven this skill yet, so the change waits as a draft"
    changed = lives.read(drafted.folder)
    judgement, _ = await lives.prove(drafted.folder, cases, replay(changed), run=run)
    return judgement.passed, "it passed the gate" if judgement.passed else judgement.reasons[0]


def proven_by(life: Life) -> list[Case]:
    """The cases of its last gate, to be played again."""
    told = life.measured.cases if life.measured else ()
    return [case for case in map(case_of, told) if case is not None]


async def evolve_skill(
    skill: Skill, lives: Lives, model: Model, replay: Callable[[Skill], Replay], *, plays: int = 24
) -> tuple[bool, str]:
    """Search for better texts of a skill with `gepa`; the best one still has to pass the gate.

    Raises `SettingsError` without the extra, or without cases to play.
    """
    try:
        from hermes.skills.review.evolution import evolve
    except ImportError as error:
        raise SettingsError("this needs the extra: pip install 'hermes[evolve]'") from error
    from tempfile import TemporaryDirectory

    cases = proven_by(await lives.life(skill.name))
    if not cases:
        raise SettingsError(f"no case has proven {skill.name}; see: hermes skills promote --help")
    texts = {name: skill.linked(name) for name in skill.files if name == PLAYBOOK}
    texts[MANUAL] = (skill.folder / MANUAL).read_text("utf-8")
    with TemporaryDirectory() as folder:
        trial = Trial(skill, Path(folder), lives, replay)
        best = await evolve(texts, cases, trial.score, model, plays=plays)
    if best == texts:
        return False, "nothing better was found"
    run, told = new_id("evolve"), f"evolved over {plays} plays"
    drafted = await lives.candidate(skill, best, run=run, reason=told)
    changed = lives.read(drafted.folder)
    judgement, _ = await lives.prove(drafted.folder, cases, replay(changed), run=run)
    return judgement.passed, "it passed the gate" if judgement.passed else judgement.reasons[0]


class Trial:
    """A skill with other texts, played; what is wrong with them is what to learn from."""

    def __init__(
        self, skill: Skill, folder: Path, lives: Lives, replay: Callable[[Skill], Replay]
    ) -> None:
        self._skill, self._lives, self._replay = skill, lives, replay
        self._folder = folder
        self._count = 0

    async def score(self, texts: dict[str, str], case: Case) -> "Scored":
        from hermes.skills.review.evolution import Scored

        self._count += 1
        folder = self._folder / str(self._count) / self._skill.name
        copy_skill(self._skill.folder, folder)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        try:
            changed = self._lives.read(folder)
        except SettingsError as error:
            return Scored(score=0.0, feedback=str(error))
        fatal = [str(each) for each in changed.problems if each.fatal]
        if fatal:
            return Scored(score=0.0, feedback="; ".join(fatal))
        played = await self._replay(changed)(case, True)
        told = f"{'solved' if played.solved else 'not solved'} in {played.seconds:.1f} s"
        if played.harm:
            return Scored(score=0.0, feedback=f"{told}; harm: {'; '.join(played.harm)}")
        quick = 1.0 / (1.0 + played.seconds / 10.0)
        return Scored(score=0.7 + 0.3 * quick if played.solved else 0.0, feedback=told)
