"""What a publisher says its skill has solved, played again here: a claim is not a proof."""

from collections.abc import Sequence
from pathlib import Path

import anyio

from hermes.core.errors import HermesError
from hermes.skills.exchange.claims import claimed
from hermes.skills.exchange.importing import Proven
from hermes.skills.library import Skill
from hermes.skills.lifecycle.life import Life
from hermes.skills.lifecycle.replay import Case, Replayed, case_of
from hermes.skills.scanner.finding import Entry

MOST_CASES = 3
MOST_TOLD = 20
PATIENCE = 180.0
"""Seconds for one case: a playbook that hangs has not solved it."""


async def rerun_in_gym(folder: Path, evidence: Sequence[Entry]) -> Proven:
    """Variants that its publisher measured, played here with the skill and nobody behind it."""
    told = claimed(evidence)
    cases = [case for case in told if playable(case.name)][:MOST_CASES]
    listed = tuple(map(str, cases))
    if not cases:
        missing = ", ".join(sorted({case.name for case in told}))
        why = f"{missing} cannot be played here" if told else "its evidence names no case"
        return Proven("not-run", why)
    skill = _read(folder)
    if skill.playbook is None:
        return Proven("not-run", "it has no playbook that could be played", listed)
    try:
        played = [await _play(skill, case) for case in cases]
    except (HermesError, KeyError, OSError) as error:
        return Proven("not-run", f"the gym could not play it: {error}", listed)
    return _judged(cases, played)


def claims(proven: Proven) -> tuple[str, ...]:
    """For the journal: what became of the evidence, then each case that was claimed."""
    return (f"{proven.outcome}: {proven.detail}"[:300], *proven.cases[:MOST_TOLD])


def unproven(life: Life) -> list[Case]:
    """Cases that came as evidence with the version in use and did not hold, or were not played.

    The gate plays them beside its own, so that nothing that was only claimed is ever trusted.
    """
    own = [each for each in life.steps if each.digest == life.digest and not each.candidate]
    told = next((each.evidence for each in own if each.state == "draft" and each.evidence), ())
    if not told or not told[0].startswith(("failed: ", "not-run: ")):
        return []
    found = [case_of(text) for text in told[1:]]
    return [case for case in found if case is not None and playable(case.name)][:MOST_CASES]


def playable(scenario: str) -> bool:
    """Whether this machine knows it, and has the programs that it needs."""
    from hermes.gym.scenario import known, load_scenario

    folder = known().get(scenario)
    return folder is not None and not load_scenario(folder).missing()


def _judged(cases: Sequence[Case], played: Sequence[Replayed | None]) -> Proven:
    good = [one is not None and one.solved and one.by_skill for one in played]
    harm = tuple(what for one in played if one is not None for what in one.harm)
    told = f"{sum(good)} of {len(good)} variants that it claims were solved here"
    if not all(good):
        lost = next(case for case, held in zip(cases, good, strict=True) if not held)
        told = f"{told}; {lost} was not"
    listed = tuple(map(str, cases))
    return Proven("passed" if all(good) else "failed", told, listed, harm)


async def _play(skill: Skill, case: Case) -> Replayed | None:
    """None when it took too long."""
    from hermes.app.proving import baseline, replay_in_gym

    with anyio.move_on_after(PATIENCE):
        return await replay_in_gym(skill, baseline("no-op"))(case, True)
    return None


def _read(folder: Path) -> Skill:
    from hermes.skills.cards import Root
    from hermes.skills.format.skill_text import read_skill

    text = read_skill((folder / "SKILL.md").read_text(encoding="utf-8"), folder=folder.name)
    return Skill(folder, Root(folder.parent, "user"), text, "trusted")
