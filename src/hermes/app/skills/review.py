"""Reviews failed runs: a model proposes one change, which is evaluated like any skill."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from hermes.app.run_locks import RunLocked, RunLocks, lock_run
from hermes.app.skills.lifecycle import SkillDraft, SkillLifecycle
from hermes.app.skills.review_due import find_due_review, list_unreviewed_tasks
from hermes.core.errors import HermesError, SettingsError
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.skills import SkillsReviewed
from hermes.core.messages import Completion, Message, ToolSpec, Value
from hermes.core.protocols import Journal, JournalRecord, Model, PublishEvents
from hermes.core.run_ids import new_id
from hermes.settings.load import LoadedSettings
from hermes.skills.history import copy_skill
from hermes.skills.library import Skill, SkillLibrary
from hermes.skills.lifecycle.evaluation import (
    ReplayCase,
    ReplayResult,
    RunReplay,
    parse_replay_case,
)
from hermes.skills.lifecycle.proposal import SkillProposal, propose_change
from hermes.skills.lifecycle.review import DueReview, describe_failures, find_most_common_error
from hermes.skills.lifecycle.status import SkillStatus
from hermes.skills.playbook.reader import PLAYBOOK_FILE as PLAYBOOK

if TYPE_CHECKING:
    from hermes.skills.lifecycle.evolution import CaseScore

SKILL_FILE = "SKILL.md"
MAX_EVOLUTION_REPLAYS = 24


async def review_failures(
    found: DueReview,
    journal: Journal,
    lifecycle: SkillLifecycle,
    library: SkillLibrary,
    model: Model,
    replay: Callable[[Skill], RunReplay],
) -> SkillsReviewed:
    """Raises `ModelError`. Without cases that once proved the skill, the change stays a draft."""
    run = new_id("review")
    runs: dict[str, list[JournalRecord]] = {}
    for task in found.tasks:
        runs[task.run] = [each async for each in journal.read(run=task.run)]
    proposal, why = await propose_change(found, runs, library.skills, model)
    names = tuple(task.run for task in found.tasks)
    if proposal is None:
        return SkillsReviewed(run=run, why=found.why, runs=names, detail=why)
    accepted, detail = await _try_proposal(proposal, lifecycle, library, replay, run)
    return SkillsReviewed(
        run=run,
        why=found.why,
        runs=names,
        changed=proposal.skill,
        accepted=accepted,
        detail=f"{proposal.why}; {detail}",
    )


async def _try_proposal(
    proposal: SkillProposal,
    lifecycle: SkillLifecycle,
    library: SkillLibrary,
    replay: Callable[[Skill], RunReplay],
    run: str,
) -> tuple[bool, str]:
    skill = library.find(proposal.skill)
    changes = {proposal.file: proposal.text}
    drafted = await lifecycle.candidate(skill, changes, run=run, reason=proposal.why)
    cases = proving_cases(await lifecycle.status(skill.name))
    if not cases:
        return False, "no case has proven this skill yet, so the change waits as a draft"
    return await _evaluate_draft(drafted, lifecycle, cases, replay, run)


async def _evaluate_draft(
    drafted: SkillDraft,
    lifecycle: SkillLifecycle,
    cases: list[ReplayCase],
    replay: Callable[[Skill], RunReplay],
    run: str,
) -> tuple[bool, str]:
    changed = lifecycle.read_skill(drafted.folder)
    judgement, _ = await lifecycle.evaluate(drafted.folder, cases, replay(changed), run=run)
    return judgement.passed, "it passed the gate" if judgement.passed else judgement.reasons[0]


def proving_cases(status: SkillStatus) -> list[ReplayCase]:
    """The cases of its last evaluation, to be run again."""
    cases = status.measured.cases if status.measured else ()
    return [case for case in map(parse_replay_case, cases) if case is not None]


async def evolve_skill(
    skill: Skill,
    lifecycle: SkillLifecycle,
    model: Model,
    replay: Callable[[Skill], RunReplay],
) -> tuple[bool, str]:
    """Search for better texts of a skill with `gepa`; the best one still has to pass the
    evaluation.

    Raises `SettingsError` without the extra, or without cases to run.
    """
    try:
        from hermes.skills.lifecycle.evolution import CaseScore, evolve_texts
    except ImportError as error:
        raise SettingsError("this needs the extra: pip install 'hermes-oncall[evolve]'") from error
    from tempfile import TemporaryDirectory

    cases = proving_cases(await lifecycle.status(skill.name))
    if not cases:
        raise SettingsError(f"no case has proven {skill.name}; see: hermes skills promote --help")
    texts = {name: skill.read_linked_file(name) for name in skill.files if name == PLAYBOOK}
    texts[SKILL_FILE] = (skill.folder / SKILL_FILE).read_text("utf-8")
    trials = count(1)
    with TemporaryDirectory() as root:

        async def score(changes: dict[str, str], case: ReplayCase) -> CaseScore:
            """The problems of these texts are the feedback for the next ones."""
            folder = Path(root, str(next(trials)), skill.name)
            copy_skill(skill.folder, folder)
            for name, text in changes.items():
                (folder / name).write_text(text, encoding="utf-8")
            try:
                changed = lifecycle.read_skill(folder)
            except SettingsError as error:
                return CaseScore(score=0.0, feedback=str(error))
            fatal = [str(each) for each in changed.problems if each.fatal]
            if fatal:
                return CaseScore(score=0.0, feedback="; ".join(fatal))
            return _score_replay(await replay(changed)(case, True))

        best = await evolve_texts(texts, cases, score, model, max_replays=MAX_EVOLUTION_REPLAYS)
    if best == texts:
        return False, "nothing better was found"
    run, reason = new_id("evolve"), f"evolved over {MAX_EVOLUTION_REPLAYS} plays"
    drafted = await lifecycle.candidate(skill, best, run=run, reason=reason)
    return await _evaluate_draft(drafted, lifecycle, cases, replay, run)


def _score_replay(played: ReplayResult) -> "CaseScore":
    from hermes.skills.lifecycle.evolution import CaseScore

    outcome = f"{'solved' if played.solved else 'not solved'} in {played.seconds:.1f} s"
    if played.harm:
        return CaseScore(score=0.0, feedback=f"{outcome}; harm: {'; '.join(played.harm)}")
    quick = 1.0 / (1.0 + played.seconds / 10.0)
    return CaseScore(score=0.7 + 0.3 * quick if played.solved else 0.0, feedback=outcome)


REVIEW_RUN = "review"
REVIEW_TIMEOUT_S = 1800.0
"""Seconds after which a review ends without a result, whatever it waits for."""


class ReviewStatus(Value, kw_only=True, frozen=True):
    by_itself: bool
    model: str
    """The model that would propose changes; empty: failures are only counted."""
    running: str = ""
    """The process that runs a review now."""
    due: DueReview | None = None
    tasks: int = 0
    """Runs finished since the last review."""
    every: int = 15
    alike: int = 0
    """Of these, the runs with the most frequent error."""
    same: int = 3
    last: SkillsReviewed | None = None
    last_at: datetime | None = None


@asynccontextmanager
async def review_lock(loaded: LoadedSettings, journal: Journal) -> AsyncIterator[None]:
    """One review at a time of a home, and of a shared store. Raises `SettingsError`."""
    claims = RunLocks(loaded.home / "locks")
    try:
        await lock_run(REVIEW_RUN, claims, journal)
    except RunLocked as taken:
        problem = "a review is already running; see: hermes skills review --status"
        raise SettingsError(problem) from taken
    try:
        yield
    finally:
        claims.close()


async def run_automatic_review(
    found: DueReview,
    journal: Journal,
    lifecycle: SkillLifecycle,
    library: SkillLibrary,
    publish: PublishEvents,
    model: Model | None,
    replay: Callable[[Skill], RunReplay],
) -> SkillsReviewed:
    """Always records an event at the end: a failed review is not repeated at once."""
    counted = _MeteredModel(model) if model is not None else None
    event = await review_without_model(found, journal) if counted is None else None
    if counted is not None:
        with anyio.move_on_after(REVIEW_TIMEOUT_S):
            try:
                event = await review_failures(found, journal, lifecycle, library, counted, replay)
            except HermesError as error:
                event = await review_without_model(found, journal, f"no review by a model: {error}")
        for each in counted.answers:
            await publish(ModelAnswered(run=REVIEW_RUN, model=each.model, usage=each.usage))
    event = event or await review_without_model(found, journal, "it took too long and was given up")
    await publish(event)
    return event


async def review_without_model(found: DueReview, journal: Journal, why: str = "") -> SkillsReviewed:
    """The result without a model: which failures are alike, and which skills were available."""
    runs = {task.run: [each async for each in journal.read(run=task.run)] for task in found.tasks}
    reason = why or "no model may propose anything (skills.review_model)"
    return SkillsReviewed(
        run=new_id(REVIEW_RUN),
        why=found.why,
        runs=tuple(runs),
        detail=f"{describe_failures(found, runs)}; {reason}",
    )


async def read_review_status(journal: Journal, loaded: LoadedSettings) -> ReviewStatus:
    settings = loaded.settings.skills
    last: SkillsReviewed | None = None
    async for recorded in journal.read(kinds=("skill.reviewed",)):
        last = recorded.event if isinstance(recorded.event, SkillsReviewed) else last
    tasks = await list_unreviewed_tasks(journal)
    return ReviewStatus(
        by_itself=settings.review_by_itself,
        model=settings.review_model,
        running=await _find_running_review(journal, loaded),
        due=await find_due_review(journal, loaded),
        tasks=len(tasks),
        every=settings.review_every,
        alike=len(find_most_common_error(tasks)[1]),
        same=settings.same_errors,
        last=last,
        last_at=last.at if last else None,
    )


async def _find_running_review(journal: Journal, loaded: LoadedSettings) -> str:
    try:
        async with review_lock(loaded, journal):
            return ""
    except SettingsError as taken:
        return str(taken.__cause__)


class _MeteredModel:
    """A `Model` that remembers its answers, for their cost."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.window = model.name, model.window
        self.answers: list[Completion] = []

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        answer = await self._model.complete(messages, tools)
        self.answers.append(answer)
        return answer
