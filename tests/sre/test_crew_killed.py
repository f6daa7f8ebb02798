"""A crew killed at any point is followed by another one, and nothing is changed twice."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from investigation_setup import SETTINGS, InvestigationSetup, calls, concludes, finds, runs
from msgspec.structs import replace

from hermes.core.actions import Action, Approval, Decision
from hermes.core.events import Event
from hermes.core.events.incidents import IncidentClosed
from hermes.core.incident import IncidentDetails
from hermes.core.protocols import Model
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.models.scripted import ScriptedModel
from hermes.sre.checks import CheckResult, IndependentChecks
from hermes.sre.commander import Commander, IncidentResult
from hermes.sre.context import IncidentContext
from hermes.sre.responders.model_team import ModelTeam
from hermes.sre.settings import SreSettings, VerifySettings

pytestmark = pytest.mark.anyio
SOON = VerifySettings(window=0.02, patience=0.1, every=0.02, timeout=60.0, trigger=False)
QUICK = SreSettings(reflex=False, verify=SOON, time_limit=60.0)
EVERY = 13
"""Of the points at which it may be killed; prime to the length of what is written."""


class Killed(BaseException):
    """In place of a kill: nothing may catch it."""


class Mortal(InMemoryJournal):
    lives: int | None = None

    async def append(self, *events: Event) -> Sequence[int]:
        if self.lives is not None:
            self.lives -= 1
            if self.lives < 0:
                raise Killed
        return await super().append(*events)


def alive(folder: Path, job: str) -> Model:
    """A new one each time: a life begins without memory."""
    look = "echo web is not there"
    mend = f"echo fixed >> {folder}/ledger; touch {folder}/well"
    guess = {"component": "web", "evidence": [look], "check": f"test -f {folder}/well"}
    scripts = {
        "processes": [runs(look), finds("web is not there", look)],
        "synthesis": [concludes("fix", guess)],
        "remediator": [runs(mend), calls(("done", {"summary": "fixed"}))],
    }
    return ScriptedModel(scripts[job])


async def yes(action: Action, decision: Decision) -> Approval:
    return Approval(approved=True, by="test")


def ground(crew: ModelTeam, folder: Path) -> IncidentContext:
    async def eyes(case: IncidentDetails) -> IndependentChecks:
        async def see() -> Sequence[CheckResult]:
            return [CheckResult(check="web", ok=(folder / "well").exists())]

        return see

    means = crew.dependencies
    return IncidentContext(
        bus=means.bus,
        executor=means.executor,
        environment=means.environment,
        artifacts=means.artifacts,
        settings=QUICK,
        checks_for=eyes,
        responder=crew,
    )


async def lived(
    setup: InvestigationSetup, folder: Path, case: IncidentDetails
) -> IncidentResult | None:
    """None when it was killed."""
    try:
        async with setup.folder(folder, model_for=lambda job: alive(folder, job)) as crew:
            return await Commander(ground(crew, folder), case).run()
    except BaseException as error:
        if not _is_kill(error):
            raise
    return None


def _is_kill(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_kill(each) for each in error.exceptions)
    return isinstance(error, Killed)


async def test_killed_at_any_point_it_goes_on_and_fixes_it_once(tmp_path: Path) -> None:
    for lives in range(5, 1000, EVERY):
        folder = tmp_path / str(lives)
        folder.mkdir()
        journal = Mortal()
        setup = InvestigationSetup({}, replace(SETTINGS, layers=("processes",)), yes, journal)
        case = await setup.opened()
        journal.lives = lives
        ending = await lived(setup, folder, case)
        if ending is not None:
            assert lives > 4 * EVERY, "it was hardly ever killed"
            return
        journal.lives = None
        ending = await lived(setup, folder, case)
        assert ending is not None
        assert ending.outcome == "resolved", (lives, ending)
        assert (folder / "ledger").read_text() == "fixed\n", lives
        assert len(setup.events(IncidentClosed)) == 1
    pytest.fail("it never came to an end")
