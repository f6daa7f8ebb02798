"""What a publisher says its skill has solved, played again here: a claim is not a proof."""

from collections.abc import Sequence
from pathlib import Path

import anyio

from hermes.core.errors import HermesError
from hermes.skills.exchange.importer import EvidenceResult, parse_claimed_cases
from hermes.skills.library import Skill
from hermes.skills.lifecycle.evaluation import ReplayCase, ReplayResult, parse_replay_case
from hermes.skills.lifecycle.status import SkillStatus
from hermes.skills.scanner.finding import SkillFile

MAX_REPLAYED_CASES = 3
MAX_LISTED_CASES = 20
REPLAY_TIMEOUT_S = 180.0
"""Seconds for one case: a playbook that hangs has not solved it."""


async def replay_evidence(folder: Path, evidence: Sequence[SkillFile]) -> EvidenceResult:
    """Variants that its publisher measured, played here with the skill and nobody behind it."""
    told = parse_claimed_cases(evidence)
    cases = [case for case in told if is_playable(case.name)][:MAX_REPLAYED_CASES]
    listed = tuple(map(str, cases))
    if not cases:
        missing = ", ".join(sorted({case.name for case in told}))
        why = f"{missing} cannot be played here" if told else "its evidence names no case"
        return EvidenceResult("not-run", why)
    skill = _read_skill(folder)
    if skill.playbook is None:
        return EvidenceResult("not-run", "it has no playbook that could be played", listed)
    try:
        played = [await _replay_case(skill, case) for case in cases]
    except (HermesError, KeyError, OSError) as error:
        return EvidenceResult("not-run", f"the gym could not play it: {error}", listed)
    return _judge_replays(cases, played)


def evidence_lines(proven: EvidenceResult) -> tuple[str, ...]:
    """For the journal: what became of the evidence, then each case that was claimed."""
    return (f"{proven.outcome}: {proven.detail}"[:300], *proven.cases[:MAX_LISTED_CASES])


def unproven_cases(life: SkillStatus) -> list[ReplayCase]:
    """Cases that came as evidence with the version in use and did not hold, or were not played.

    The gate plays them beside its own, so that nothing that was only claimed is ever trusted.
    """
    own = [each for each in life.steps if each.digest == life.digest and not each.candidate]
    told = next((each.evidence for each in own if each.state == "draft" and each.evidence), ())
    if not told or not told[0].startswith(("failed: ", "not-run: ")):
        return []
    found = [parse_replay_case(text) for text in told[1:]]
    return [case for case in found if case is not None and is_playable(case.name)][
        :MAX_REPLAYED_CASES
    ]


def is_playable(scenario: str) -> bool:
    """Whether this machine knows it, and has the programs that it needs."""
    from hermes.gym.scenario import installed_scenarios, load_scenario

    folder = installed_scenarios().get(scenario)
    return folder is not None and not load_scenario(folder).missing_programs()


def _judge_replays(
    cases: Sequence[ReplayCase], played: Sequence[ReplayResult | None]
) -> EvidenceResult:
    good = [one is not None and one.solved and one.by_skill for one in played]
    harm = tuple(what for one in played if one is not None for what in one.harm)
    told = f"{sum(good)} of {len(good)} variants that it claims were solved here"
    if not all(good):
        lost = next(case for case, held in zip(cases, good, strict=True) if not held)
        told = f"{told}; {lost} was not"
    listed = tuple(map(str, cases))
    return EvidenceResult("passed" if all(good) else "failed", told, listed, harm)


async def _replay_case(skill: Skill, case: ReplayCase) -> ReplayResult | None:
    """None when it took too long."""
    from hermes.app.gym_replay import find_baseline, replay_in_gym

    with anyio.move_on_after(REPLAY_TIMEOUT_S):
        return await replay_in_gym(skill, find_baseline("no-op"))(case, True)
    return None


def _read_skill(folder: Path) -> Skill:
    from hermes.skills.discovery import SkillRoot
    from hermes.skills.format.skill_text import parse_skill_text

    text = parse_skill_text((folder / "SKILL.md").read_text(encoding="utf-8"), folder=folder.name)
    return Skill(folder, SkillRoot(folder.parent, "user"), text, "trusted")
