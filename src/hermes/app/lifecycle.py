"""Takes skills through their lives: drafted, measured, promoted, used, taken back."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillChanged, SkillUsed
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.settings.load import Loaded
from hermes.skills.cards import Root
from hermes.skills.format.digest import digest_of
from hermes.skills.history import History, copy_skill
from hermes.skills.library import Library, Skill
from hermes.skills.lifecycle.gate import Demands, Judgement, hold_to, judge, measured
from hermes.skills.lifecycle.life import Life, lives_in, step
from hermes.skills.lifecycle.likeness import Likeness, nearest
from hermes.skills.lifecycle.replay import Case, Pair, Replay, replay_pairs
from hermes.skills.lifecycle.watch import Verdict, after_use

if TYPE_CHECKING:
    from hermes.skills.distill.writing import Distilled

Publish = Callable[..., Awaitable[Sequence[int]]]
DRAFTS = ".drafts"
KINDS = ("skill.changed", "skill.measured", "skill.used")


class Drafted(Value, kw_only=True, frozen=True):
    skill: str
    folder: Path
    digest: str
    extends: Likeness | None = None
    """The skill in use that it is near to: it waits as that one's next version."""


class Lives:
    """The skills of one home and what became of them. `library` are those in use."""

    def __init__(
        self, loaded: Loaded, journal: Journal, publish: Publish, library: Callable[[], Library]
    ) -> None:
        self._journal, self._publish = journal, publish
        self._library = library
        self._settings = loaded.settings.skills
        self.root = loaded.home / "skills"
        self._history = History(self.root)

    async def life(self, skill: str) -> Life:
        events = [each.event async for each in self._journal.read(kinds=KINDS)]
        life = lives_in(events).get(skill) or Life(skill=skill)
        known = self._library().all.get(skill)
        if known is None or any(not each.candidate for each in life.steps):
            return life
        # One that came with Hermes has its state without a word in the journal.
        return msgspec.structs.replace(life, state=known.state, digest=known.digest)

    def waiting(self, skill: str) -> Path | None:
        """The next version of a skill that has not passed the gate yet."""
        folder = self.root / DRAFTS / skill
        return folder if folder.is_dir() else None

    async def draft(self, made: "Distilled", *, run: str, by: str = "hermes") -> Drafted:
        """A new skill, or the next version of one that is nearly the same."""
        from hermes.skills.distill.writing import write_folder

        trial = self.root / DRAFTS / made.name
        write_folder(made, trial)
        new = self.read(trial)
        library = self._library()
        near = nearest(new, library.skills)
        if near is None and made.name in library.all:
            near = Likeness(made.name, 1.0)
        if near is not None:
            return await self._extend(trial, near, library, run=run, by=by)
        folder = self.root / made.name
        trial.rename(folder)
        self._history.record(folder, reason="distilled", by=by)
        digest = digest_of(folder)
        await self._publish(
            SkillChanged(
                run=run,
                skill=made.name,
                digest=digest,
                state="draft",
                reason="distilled from a verified run",
                evidence=(run,),
                by=by,
            )
        )
        return Drafted(skill=made.name, folder=folder, digest=digest)

    async def _extend(
        self, trial: Path, near: Likeness, library: Library, *, run: str, by: str
    ) -> Drafted:
        from hermes.skills.lifecycle.extending import extend_folder

        old = library.find(near.skill)
        folder = self.root / DRAFTS / old.name
        extend_folder(old, trial, folder)
        digest = digest_of(folder)
        await self._publish(
            *await self._standing(old, run=run, by=by),
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
        return Drafted(skill=old.name, folder=folder, digest=digest, extends=near)

    async def _standing(self, old: Skill, *, run: str, by: str) -> list[SkillChanged]:
        """The parent as something that can be come back to, also when it came with Hermes."""
        folder = self.root / old.name
        if not folder.is_dir():
            copy_skill(old.folder, folder)
        self._history.record(folder, reason="before it is extended", by=by)
        if any(each.digest == old.digest for each in (await self.life(old.name)).steps):
            return []
        told = "as it was before it was extended"
        return [
            SkillChanged(
                run=run, skill=old.name, digest=old.digest, state=old.state, reason=told, by=by
            )
        ]

    async def candidate(
        self, skill: Skill, changes: Mapping[str, str], *, run: str, reason: str, by: str = "hermes"
    ) -> Drafted:
        """The next version of a skill with some files changed; it waits until the gate lets it."""
        folder = self.root / DRAFTS / skill.name
        _remove(folder)
        copy_skill(skill.folder, folder)
        for name, text in changes.items():
            (folder / name).write_text(text, encoding="utf-8")
        self.read(folder)
        digest = digest_of(folder)
        standing = await self._standing(skill, run=run, by=by)
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
        return Drafted(skill=skill.name, folder=folder, digest=digest)

    async def prove(
        self, folder: Path, cases: list[Case], replay: Replay, *, run: str, by: str = "hermes"
    ) -> tuple[Judgement, list[Pair]]:
        """The gate. What passes is validated, and comes into use if it was waiting.

        Of a skill from elsewhere, what was claimed and nobody here has seen has to hold as well.
        """
        claimed = await self._claimed(folder)
        cases = [*cases, *(case for case in claimed if case not in cases)]
        pairs = await replay_pairs(cases, replay)
        demands = Demands(variants=self._settings.variants, faster=self._settings.faster)
        judgement = hold_to(judge(pairs, demands), pairs, claimed)
        skill, digest = folder.name, digest_of(folder)
        record = measured(skill, digest, judgement, pairs, run=run)
        await self._publish(record)
        if judgement.passed:
            await self._validated(folder, digest, judgement, record.cases, run=run, by=by)
        return judgement, pairs

    async def _claimed(self, folder: Path) -> list[Case]:
        from hermes.app.exchange_evidence import unproven

        return [] if folder.parent.name == DRAFTS else unproven(await self.life(folder.name))

    async def _validated(
        self,
        folder: Path,
        digest: str,
        judgement: Judgement,
        cases: tuple[str, ...],
        *,
        run: str,
        by: str,
    ) -> None:
        life = await self.life(folder.name)
        parents = life.parents
        if folder.parent.name == DRAFTS:
            parents = (life.digest,) if life.digest else ()
            self._into_use(folder, by=by)
            life = Life(skill=life.skill, steps=life.steps)
        elif life.state in ("validated", "trusted"):
            return  # proven again: nothing to step up to
        best = judgement.best
        gain = f", {best.name} ×{best.ratio:.2f} (at most ×{best.upper:.2f})" if best else ""
        told = f"solves {judgement.solved_with} of {judgement.variants} variants{gain}"
        event = step(life, "validated", run=run, by=by, reason=told)
        event = msgspec.structs.replace(event, digest=digest, parents=parents, evidence=cases)
        await self._publish(event)

    def _into_use(self, candidate: Path, *, by: str) -> None:
        folder = self.root / candidate.name
        if folder.is_dir():
            self._history.record(folder, reason="before its next version", by=by)
            folder.rename(folder.with_name(f".{folder.name}.old"))
        copy_skill(candidate, folder)
        self._history.record(folder, reason="passed the gate", by=by)
        _remove(folder.with_name(f".{folder.name}.old"))
        _remove(candidate)

    async def used(
        self,
        skill: str,
        digest: str,
        *,
        verified: bool,
        run: str,
        incident: str = "",
        why: str = "",
    ) -> Verdict | None:
        """A live use; what follows from it is done at once: trust, or the way back."""
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
        verdict = after_use(await self.life(skill), run=run, live_uses=self._settings.live_uses)
        if verdict is not None:
            if verdict.restore:
                self._restore(skill, verdict.restore)
            await self._publish(verdict.event)
        return verdict

    def _restore(self, skill: str, digest: str) -> None:
        folder = self.root / skill
        version = self._history.find(skill, digest[:12])
        self._history.restore(folder, version, by="hermes")

    def read(self, folder: Path) -> Skill:
        library = Library([Root(folder.parent, "user")])
        found = library.all.get(folder.name)
        if found is None:
            told = "; ".join(map(str, library.mistakes)) or f"{folder} holds no skill"
            raise SettingsError(told)
        return found


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
