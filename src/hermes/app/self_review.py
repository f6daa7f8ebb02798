"""Reviews that begin by themselves: when one is due, who may do it, and what came of it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import anyio

from hermes.app.claims import Claims, RunTaken, claim
from hermes.app.lifecycle import Lives, Publish
from hermes.app.review_due import tasks_since, when_due
from hermes.app.reviewing import review
from hermes.core.errors import HermesError, SettingsError
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.skills import SkillsReviewed
from hermes.core.ids import new_id
from hermes.core.messages import Completion, Message, ToolSpec, Value
from hermes.core.protocols import Journal, Model
from hermes.settings.load import Loaded
from hermes.skills.library import Library, Skill
from hermes.skills.lifecycle.replay import Replay
from hermes.skills.review.due import Due, most_alike
from hermes.skills.review.findings import findings

RUN = "review"
PATIENCE = 1800.0
"""Seconds after which a review ends with nothing, whatever it waits for."""


class ReviewStatus(Value, kw_only=True, frozen=True):
    by_itself: bool
    model: str
    """Who would propose changes; empty: failures are only counted."""
    running: str = ""
    """Which process is at it."""
    due: Due | None = None
    tasks: int = 0
    """Finished since the last one."""
    every: int = 15
    alike: int = 0
    """Of these, those that met the most frequent error."""
    same: int = 3
    last: SkillsReviewed | None = None
    last_at: datetime | None = None


@asynccontextmanager
async def only_one(loaded: Loaded, journal: Journal) -> AsyncIterator[None]:
    """One review at a time of a home, and of a store that is shared. Raises `SettingsError`."""
    claims = Claims(loaded.home / "locks")
    try:
        await claim(RUN, claims, journal)
    except RunTaken as taken:
        told = "a review is at work already; see: hermes skills review --status"
        raise SettingsError(told) from taken
    try:
        yield
    finally:
        claims.close()


async def review_by_itself(
    found: Due,
    journal: Journal,
    lives: Lives,
    library: Library,
    publish: Publish,
    model: Model | None,
    replay: Callable[[Skill], Replay],
) -> SkillsReviewed:
    """Always ends with a word in the journal: what failed once is not tried again at once."""
    counted = _Counted(model) if model is not None else None
    event = await counted_only(found, journal) if counted is None else None
    if counted is not None:
        with anyio.move_on_after(PATIENCE):
            try:
                event = await review(found, journal, lives, library, counted, replay)
            except HermesError as error:
                event = await counted_only(found, journal, f"no review by a model: {error}")
        costs = [
            ModelAnswered(run=RUN, model=each.model, usage=each.usage) for each in counted.answers
        ]
        await publish(*costs)
    event = event or await counted_only(found, journal, "it took too long and was given up")
    await publish(event)
    return event


async def counted_only(found: Due, journal: Journal, why: str = "") -> SkillsReviewed:
    """What can be said without a model: which failures are alike, and which skills were at hand."""
    runs = {task.run: [each async for each in journal.read(run=task.run)] for task in found.tasks}
    said = why or "no model may propose anything (skills.review_model)"
    return SkillsReviewed(
        run=new_id(RUN),
        why=found.why,
        runs=tuple(runs),
        detail=f"{findings(found, runs)}; {said}",
    )


async def status_of(journal: Journal, loaded: Loaded) -> ReviewStatus:
    settings = loaded.settings.skills
    last: SkillsReviewed | None = None
    async for recorded in journal.read(kinds=("skill.reviewed",)):
        last = recorded.event if isinstance(recorded.event, SkillsReviewed) else last
    tasks = await tasks_since(journal)
    return ReviewStatus(
        by_itself=settings.review_by_itself,
        model=settings.review_model,
        running=await _running(journal, loaded),
        due=await when_due(journal, loaded),
        tasks=len(tasks),
        every=settings.review_every,
        alike=len(most_alike(tasks)[1]),
        same=settings.same_errors,
        last=last,
        last_at=last.at if last else None,
    )


async def _running(journal: Journal, loaded: Loaded) -> str:
    try:
        async with only_one(loaded, journal):
            return ""
    except SettingsError as taken:
        return str(taken.__cause__)


class _Counted:
    """A model whose answers are remembered, for what they cost. Fulfils `Model`."""

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
