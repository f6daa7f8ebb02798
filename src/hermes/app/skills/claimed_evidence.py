"""Replays the cases that a publisher claims for its skill: a claim is not a proof."""

from collections.abc import Sequence
from pathlib import Path

import anyio

from hermes.core.errors import HermesError
from hermes.skills.discovery import SkillRoot
from hermes.skills.exchange.importer import EvidenceResult, parse_claimed_cases
from hermes.skills.format import parse_skill_text
from hermes.skills.library import Skill
from hermes.skills.lifecycle.evaluation import ReplayCase, ReplayResult, parse_replay_case
from hermes.skills.lifecycle.status import SkillStatus
from hermes.skills.scanner.finding import SkillFile

MAX_REPLAYED_CASES = 3
MAX_LISTED_CASES = 20
REPLAY_TIMEOUT_S = 180.0
"""Seconds for one case: a playbook that hangs has not solved it."""


async def replay_evidence(folder: Path, evidence: Sequence[SkillFile]) -> EvidenceResult:
    """Variants that the publisher measured, run here with the skill and no other responder."""
    claimed = parse_claimed_cases(evidence)
    cases = [case for case in claimed if is_playable(case.name)][:MAX_REPLAYED_CASES]
    listed = tuple(map(str, cases))
    if not cases:
        missing = ", ".join(sorted({case.name for case in claimed}))
        why = f"{missing} cannot be played here" if claimed else "its evidence names no case"
        return EvidenceResult("not-run", why)
    text = parse_skill_text((folder / "SKILL.md").read_text(encoding="utf-8"), folder=folder.name)
    skill = Skill(folder, SkillRoot(folder.parent, "user"), text, "trusted")
    if skill.playbook is None:
        return EvidenceResult("not-run", "it has no playbook that could be played", listed)
    try:
        played = [await _replay_case(skill, case) for case in cases]
    except (HermesError, KeyError, OSError) as error:
        return EvidenceResult("not-run", f"the gym could not play it: {error}", listed)
    return _judge_replays(cases, played)


def evidence_lines(proven: EvidenceResult) -> tuple[str, ...]:
    """For the journal: the result of the replay, then each claimed case."""
    return (f"{proven.outcome}: {proven.detail}"[:300], *proven.cases[:MAX_LISTED_CASES])


def unproven_cases(status: SkillStatus) -> list[ReplayCase]:
    """Cases claimed for the version in use that did not hold, or were not run.

    The evaluation runs them with its own, so that a mere claim is never trusted.
    """
    own = [each for each in status.steps if each.digest == status.digest and not each.candidate]
    evidence = next((each.evidence for each in own if each.state == "draft" and each.evidence), ())
    if not evidence or not evidence[0].startswith(("failed: ", "not-run: ")):
        return []
    found = [parse_replay_case(text) for text in evidence[1:]]
    return [case for case in found if case is not None and is_playable(case.name)][
        :MAX_REPLAYED_CASES
    ]


def is_playable(scenario: str) -> bool:
    """Return whether this machine has the scenario, and the programs that it needs."""
    from hermes.gym.scenario import installed_scenarios, load_scenario

    folder = installed_scenarios().get(scenario)
    return folder is not None and not load_scenario(folder).missing_programs()


def _judge_replays(
    cases: Sequence[ReplayCase], played: Sequence[ReplayResult | None]
) -> EvidenceResult:
    good = [one is not None and one.solved and one.by_skill for one in played]
    harm = tuple(what for one in played if one is not None for what in one.harm)
    summary = f"{sum(good)} of {len(good)} variants that it claims were solved here"
    if not all(good):
        lost = next(case for case, held in zip(cases, good, strict=True) if not held)
        summary = f"{summary}; {lost} was not"
    listed = tuple(map(str, cases))
    return EvidenceResult("passed" if all(good) else "failed", summary, listed, harm)


async def _replay_case(skill: Skill, case: ReplayCase) -> ReplayResult | None:
    """Return None when it took too long."""
    from hermes.app.skills.gym_replay import find_baseline, replay_in_gym

    with anyio.move_on_after(REPLAY_TIMEOUT_S):
        return await replay_in_gym(skill, find_baseline("no-op"))(case, True)
    return None
