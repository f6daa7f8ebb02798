"""Looks back over failing runs: one proposal by a model, tried at the same gate as any skill."""

from collections.abc import Callable

from hermes.app.lifecycle import Lives
from hermes.core.events.skills import SkillsReviewed
from hermes.core.ids import new_id
from hermes.core.protocols import Journal, Model, Recorded
from hermes.settings.load import Loaded
from hermes.skills.library import Library, Skill
from hermes.skills.lifecycle.life import Life
from hermes.skills.lifecycle.replay import Case, Replay, case_of
from hermes.skills.review.due import Due, due, finished_tasks
from hermes.skills.review.proposal import Proposal, propose

KINDS = (
    "run.started",
    "turn.ended",
    "tool.requested",
    "tool.finished",
    "incident.verified",
    "skill.reviewed",
)


async def when_due(journal: Journal, loaded: Loaded, *, anyway: bool = False) -> Due | None:
    """What there is to read; with `anyway` also before its time."""
    settings = loaded.settings.skills
    records = [each async for each in journal.read(kinds=KINDS)]
    found = due(records, every=settings.review_every, same=settings.same_errors)
    if found is None and anyway:
        failing = [task for task in finished_tasks(records) if task.failed or task.errors]
        return Due(why="asked for", tasks=tuple(failing[-10:])) if failing else None
    return found


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
