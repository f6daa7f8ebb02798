"""Sees the whole host for the reflexes: whether anything is wrong, and whether that is all."""

import time

import anyio

from hermes.skills.playbook.facts import Facts
from hermes.skills.playbook.reflex import without
from hermes.skills.playbook.runner import Execute
from hermes.sre.assess import Assessment, assess, look
from hermes.sre.grounds import subject_of
from hermes.sre.symptoms import symptoms

PATIENCE, PAUSE = 4.0, 0.7
"""Seconds in which errors of before may give way to good answers, and between two looks."""


class HostJudge:
    """Fulfils `Judge`; the assessment is kept for whoever has to answer the alert."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self.assessment: Assessment | None = None

    async def all_clear(self, facts: Facts) -> str:
        self.assessment = await assess(facts, self._execute)
        return "; ".join(self.assessment.reasons) if self.assessment.all_clear else ""

    async def more_to_do(self, facts: Facts, mended: str) -> bool:
        """Another unit that the alert names, or one that is plainly sick."""
        rest, until = without(facts, mended), time.monotonic() + PATIENCE
        while True:
            seen = await look(self._execute)
            named = subject_of(facts, seen), subject_of(rest, seen)
            if all(named) and named[0] != named[1] and rest != facts:
                return True
            if not symptoms(rest, seen):
                return False
            if time.monotonic() > until:
                return True
            await anyio.sleep(PAUSE)
