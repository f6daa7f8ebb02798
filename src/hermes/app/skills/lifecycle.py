"""The lifecycle of skills: drafted, evaluated, promoted, used, demoted."""

import shutil
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
from hermes.skills.format import compute_skill_digest
from hermes.skills.history import SkillHistory, copy_skill, swap_in
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
    from hermes.skills.distill.distillation import DistilledSkill

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

    async def status(self, skill: str) -> SkillStatus:
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
        self,
        distilled: "DistilledSkill",
        *,
        run: str,
        by: str = "hermes",
        category: str = "",
        evidence: tuple[str, ...] = (),
    ) -> SkillDraft:
        """A new skill, or the next version of a similar one. `category`: the folder of a new one;
        `evidence`: what shows that it works, besides the run."""
        from hermes.skills.distill.distillation import write_distilled_skill

        trial = self.root / DRAFTS_FOLDER / distilled.name
        write_distilled_skill(distilled, trial)
        new = self.read_skill(trial)
        library = self._library()
        near = find_most_similar(new, library.skills)
        if near is None and distilled.name in library.skills_by_name:
            near = SimilarSkill(distilled.name, 1.0)
        if near is not None:
            return await self._extend(trial, near, library, run=run, by=by)
        folder = self.root / category / distilled.name
        folder.parent.mkdir(parents=True, exist_ok=True)
        trial.rename(folder)
        self._history.record(folder, reason="distilled", by=by)
        reason = "distilled from a verified run"
        shown = (run, *evidence)
        return await self._record_draft(folder, run=run, reason=reason, evidence=shown, by=by)

    async def _extend(
        self, trial: Path, near: SimilarSkill, library: SkillLibrary, *, run: str, by: str
    ) -> SkillDraft:
        from hermes.skills.lifecycle.similarity import extend_skill

        old = library.find(near.skill)
        folder = self.root / DRAFTS_FOLDER / old.name
        extend_skill(old, trial, folder)
        reason = f"extends it: a new one was ×{near.score:.2f} the same"
        drafted = await self._record_draft(
            folder, old, run=run, reason=reason, evidence=(run,), by=by
        )
        return msgspec.structs.replace(drafted, extends=near)

    async def _record_draft(
        self,
        folder: Path,
        parent: Skill | None = None,
        *,
        run: str,
        reason: str,
        evidence: tuple[str, ...] = (),
        by: str,
    ) -> SkillDraft:
        """With a parent, the draft waits as its next version."""
        digest = compute_skill_digest(folder)
        before = await self._baseline_events(parent, run=run, by=by) if parent else []
        event = SkillChanged(
            run=run,
            skill=folder.name,
            digest=digest,
            state="draft",
            parents=(parent.digest,) if parent else (),
            evidence=evidence,
            reason=reason,
            by=by,
            candidate=parent is not None,
        )
        await self._publish(*before, event)
        return SkillDraft(skill=folder.name, folder=folder, digest=digest)

    async def _baseline_events(self, old: Skill, *, run: str, by: str) -> list[SkillChanged]:
        """Records the parent, also a bundled one, so that it can be restored."""
        folder = self.root / old.name
        if not folder.is_dir():
            copy_skill(old.folder, folder)
        self._history.record(folder, reason="before it is extended", by=by)
        if any(each.digest == old.digest for each in (await self.status(old.name)).steps):
            return []
        reason = "as it was before it was extended"
        return [
            SkillChanged(
                run=run, skill=old.name, digest=old.digest, state=old.state, reason=reason, by=by
            )
        ]

    async def candidate(
        self, skill: Skill, changes: Mapping[str, str], *, run: str, reason: str
    ) -> SkillDraft:
        """The next version of a skill with some files changed; it waits for the evaluation."""
        folder = self.root / DRAFTS_FOLDER / skill.name
        shutil.rmtree(folder, ignore_errors=True)
        copy_skill(skill.folder, folder)
        for name, text in changes.items():
            (folder / name).write_text(text, encoding="utf-8")
        self.read_skill(folder)
        return await self._record_draft(folder, skill, run=run, reason=reason, by="hermes")

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

        if folder.parent.name == DRAFTS_FOLDER:
            return []
        return unproven_cases(await self.status(folder.name))

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
        status = await self.status(folder.name)
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
        new = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        copy_skill(candidate, new)
        swap_in(new, folder)
        self._history.record(folder, reason="passed the gate", by=by)
        shutil.rmtree(candidate)

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
        use = SkillUsed(run=run, skill=skill, digest=digest, verified=verified, incident=incident)
        await self._publish(msgspec.structs.replace(use, detail=why))
        status = await self.status(skill)
        verdict = decide_after_use(status, run=run, live_uses=self._settings.live_uses)
        if verdict is not None:
            if verdict.restore:
                version = self._history.find(skill, verdict.restore[:12])
                self._history.restore(self.root / skill, version, by="hermes")
            await self._publish(verdict.event)
        return verdict

    def read_skill(self, folder: Path) -> Skill:
        library = SkillLibrary([SkillRoot(folder.parent, "user")])
        found = library.skills_by_name.get(folder.name)
        if found is None:
            reason = "; ".join(map(str, library.problems)) or f"{folder} holds no skill"
            raise SettingsError(reason)
        return found
