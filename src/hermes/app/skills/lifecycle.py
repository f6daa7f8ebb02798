"""The lifecycle of skills: drafted, evaluated, promoted, used, demoted."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillChanged, SkillUsed
from hermes.core.messages import Value
from hermes.core.protocols import Journal, PublishEvents
from hermes.settings.load import LoadedSettings
from hermes.skills.discovery import SkillRoot
from hermes.skills.format.skill_folder import compute_skill_digest
from hermes.skills.history import SkillHistory, copy_skill
from hermes.skills.library import Skill, SkillLibrary
from hermes.skills.lifecycle.evaluation import (
    EvaluationCriteria,
    ReplayCase,
    ReplayPair,
    RunReplay,
    SkillEvaluation,
    build_measured_event,
    evaluate_pairs,
    require_claimed_cases,
    run_replay_pairs,
)
from hermes.skills.lifecycle.similarity import SimilarSkill, find_most_similar
from hermes.skills.lifecycle.status import (
    SkillStateChange,
    SkillStatus,
    change_state,
    decide_after_use,
    fold_skill_statuses,
)

if TYPE_CHECKING:
    from hermes.skills.distill.skill_draft import DistilledSkill

DRAFTS_FOLDER = ".drafts"
SKILL_EVENT_KINDS = ("skill.changed", "skill.measured", "skill.used")


class SkillDraft(Value, kw_only=True, frozen=True):
    skill: str
    folder: Path
    digest: str
    extends: SimilarSkill | None = None
    """The similar skill in use: the draft waits as its next version."""


class SkillLifecycle:
    """The skills of one home and their states. `library` are those in use."""

    def __init__(
        self,
        loaded: LoadedSettings,
        journal: Journal,
        publish: PublishEvents,
        library: Callable[[], SkillLibrary],
    ) -> None:
        self._journal, self._publish = journal, publish
        self._library = library
        self._settings = loaded.settings.skills
        self.root = loaded.home / "skills"
        self._history = SkillHistory(self.root)

    async def life(self, skill: str) -> SkillStatus:
        events = [each.event async for each in self._journal.read(kinds=SKILL_EVENT_KINDS)]
        status = fold_skill_statuses(events).get(skill) or SkillStatus(skill=skill)
        known = self._library().skills_by_name.get(skill)
        if known is None or any(not each.candidate for each in status.steps):
            return status
        # A bundled skill has its state without an event in the journal.
        return msgspec.structs.replace(status, state=known.state, digest=known.digest)

    def waiting_candidate(self, skill: str) -> Path | None:
        """The next version of a skill that has not passed the evaluation yet."""
        folder = self.root / DRAFTS_FOLDER / skill
        return folder if folder.is_dir() else None

    async def draft(
        self, distilled: "DistilledSkill", *, run: str, by: str = "hermes"
    ) -> SkillDraft:
        """A new skill, or the next version of a similar one."""
        from hermes.skills.distill.skill_draft import write_distilled_skill

        trial = self.root / DRAFTS_FOLDER / distilled.name
        write_distilled_skill(distilled, trial)
        new = self.read_skill(trial)
        library = self._library()
        near = find_most_similar(new, library.skills)
        if near is None and distilled.name in library.skills_by_name:
            near = SimilarSkill(distilled.name, 1.0)
        if near is not None:
            return await self._extend(trial, near, library, run=run, by=by)
        folder = self.root / distilled.name
        trial.rename(folder)
        self._history.record(folder, reason="distilled", by=by)
        digest = compute_skill_digest(folder)
        await self._publish(
            SkillChanged(
                run=run,
                skill=distilled.name,
                digest=digest,
                state="draft",
                reason="distilled from a verified run",
                evidence=(run,),
                by=by,
            )
        )
        return SkillDraft(skill=distilled.name, folder=folder, digest=digest)

    async def _extend(
        self, trial: Path, near: SimilarSkill, library: SkillLibrary, *, run: str, by: str
    ) -> SkillDraft:
        from hermes.skills.lifecycle.similarity import extend_skill

        old = library.find(near.skill)
        folder = self.root / DRAFTS_FOLDER / old.name
        extend_skill(old, trial, folder)
        digest = compute_skill_digest(folder)
        await self._publish(
            *await self._baseline_events(old, run=run, by=by),
            SkillChanged(
                run=run,
                skill=old.name,
                digest=digest,
                state="draft",
                parents=(old.digest,),
                evidence=(run,),
                reason=f"extends it: a new one was ×{near.score:.2f} the same",
                by=by,
                candidate=True,
            ),
        )
        return SkillDraft(skill=old.name, folder=folder, digest=digest, extends=near)

    async def _baseline_events(self, old: Skill, *, run: str, by: str) -> list[SkillChanged]:
        """Records the parent, also a bundled one, so that it can be restored."""
        folder = self.root / old.name
        if not folder.is_dir():
            copy_skill(old.folder, folder)
        self._history.record(folder, reason="before it is extended", by=by)
        if any(each.digest == old.digest for each in (await self.life(old.name)).steps):
            return []
        reason = "as it was before it was extended"
        return [
            SkillChanged(
                run=run, skill=old.name, digest=old.digest, state=old.state, reason=reason, by=by
            )
        ]

    async def candidate(
        self, skill: Skill, changes: Mapping[str, str], *, run: str, reason: str, by: str = "hermes"
    ) -> SkillDraft:
        """The next version of a skill with some files changed; it waits for the evaluation."""
        folder = self.root / DRAFTS_FOLDER / skill.name
        _remove_folder(folder)
        copy_skill(skill.folder, folder)
        for name, text in changes.items():
            (folder / name).write_text(text, encoding="utf-8")
        self.read_skill(folder)
        digest = compute_skill_digest(folder)
        standing = await self._baseline_events(skill, run=run, by=by)
        await self._publish(
            *standing,
            SkillChanged(
                run=run,
                skill=skill.name,
                digest=digest,
                state="draft",
                parents=(skill.digest,),
                reason=reason,
                by=by,
                candidate=True,
            ),
        )
        return SkillDraft(skill=skill.name, folder=folder, digest=digest)

    async def evaluate(
        self,
        folder: Path,
        cases: list[ReplayCase],
        replay: RunReplay,
        *,
        run: str,
        by: str = "hermes",
    ) -> tuple[SkillEvaluation, list[ReplayPair]]:
        """Evaluate a skill. If it passes it is validated, and comes into use if it was waiting.

        For an imported skill, the claimed cases that were not replayed here must hold as well.
        """
        claimed = await self._claimed_cases(folder)
        cases = [*cases, *(case for case in claimed if case not in cases)]
        pairs = await run_replay_pairs(cases, replay)
        demands = EvaluationCriteria(variants=self._settings.variants, faster=self._settings.faster)
        judgement = require_claimed_cases(evaluate_pairs(pairs, demands), pairs, claimed)
        skill, digest = folder.name, compute_skill_digest(folder)
        record = build_measured_event(skill, digest, judgement, pairs, run=run)
        await self._publish(record)
        if judgement.passed:
            await self._record_validation(folder, digest, judgement, record.cases, run=run, by=by)
        return judgement, pairs

    async def _claimed_cases(self, folder: Path) -> list[ReplayCase]:
        from hermes.app.skills.claimed_evidence import unproven_cases

        return (
            []
            if folder.parent.name == DRAFTS_FOLDER
            else unproven_cases(await self.life(folder.name))
        )

    async def _record_validation(
        self,
        folder: Path,
        digest: str,
        judgement: SkillEvaluation,
        cases: tuple[str, ...],
        *,
        run: str,
        by: str,
    ) -> None:
        status = await self.life(folder.name)
        parents = status.parents
        if folder.parent.name == DRAFTS_FOLDER:
            parents = (status.digest,) if status.digest else ()
            self._activate(folder, by=by)
            status = SkillStatus(skill=status.skill, steps=status.steps)
        elif status.state in ("validated", "trusted"):
            return  # validated again: no promotion
        best = judgement.best
        gain = f", {best.name} ×{best.ratio:.2f} (at most ×{best.upper:.2f})" if best else ""
        reason = f"solves {judgement.solved_with} of {judgement.variants} variants{gain}"
        event = change_state(status, "validated", run=run, by=by, reason=reason)
        event = msgspec.structs.replace(event, digest=digest, parents=parents, evidence=cases)
        await self._publish(event)

    def _activate(self, candidate: Path, *, by: str) -> None:
        folder = self.root / candidate.name
        if folder.is_dir():
            self._history.record(folder, reason="before its next version", by=by)
            folder.rename(folder.with_name(f".{folder.name}.old"))
        copy_skill(candidate, folder)
        self._history.record(folder, reason="passed the gate", by=by)
        _remove_folder(folder.with_name(f".{folder.name}.old"))
        _remove_folder(candidate)

    async def record_use(
        self,
        skill: str,
        digest: str,
        *,
        verified: bool,
        run: str,
        incident: str = "",
        why: str = "",
    ) -> SkillStateChange | None:
        """A use in production; its consequence follows at once: trust, or a demotion."""
        await self._publish(
            SkillUsed(
                run=run,
                skill=skill,
                digest=digest,
                verified=verified,
                incident=incident,
                detail=why,
            )
        )
        verdict = decide_after_use(
            await self.life(skill), run=run, live_uses=self._settings.live_uses
        )
        if verdict is not None:
            if verdict.restore:
                self._restore(skill, verdict.restore)
            await self._publish(verdict.event)
        return verdict

    def _restore(self, skill: str, digest: str) -> None:
        folder = self.root / skill
        version = self._history.find(skill, digest[:12])
        self._history.restore(folder, version, by="hermes")

    def read_skill(self, folder: Path) -> Skill:
        library = SkillLibrary([SkillRoot(folder.parent, "user")])
        found = library.skills_by_name.get(folder.name)
        if found is None:
            reason = "; ".join(map(str, library.problems)) or f"{folder} holds no skill"
            raise SettingsError(reason)
        return found


def _remove_folder(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
