"""How a trial judges a copy by the checks of the host."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hermes.declared.experiments.copied_checks import CheckReading, ExpectedReadings
from hermes.declared.experiments.copy_setup import CopySetup
from hermes.declared.experiments.copy_trial import CopyTrial
from hermes.declared.experiments.host_programs import HostPrograms, HostService
from hermes.declared.experiments.rehearsal import rehearse_revert
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import Revert
from hermes.declared.state import Item, ItemId, StateChange
from hermes.declared.store import StateStore
from hermes.environments.copies import CopyLimits, CopyOutput, CopyService, HostCopy

pytestmark = pytest.mark.anyio
CAUSE = Suspect(change=StateChange(ItemId("service", "limit"), Item("enabled"), Item("disabled")))


class MemoryCopy:
    """A copy that knows only whether something was reverted in it."""

    left_out = ()

    def __init__(self) -> None:
        self.reverted = False

    async def run(self, command: str, *, timeout_s: float = 30.0, stdin: bytes = b"") -> CopyOutput:
        return CopyOutput(code=0, output="")

    async def run_nft(self, *words: str) -> CopyOutput:
        return CopyOutput(code=0, output="")

    async def restart(self, *units: str) -> CopyOutput:
        """Only a copy with a revert starts its services again."""
        self.reverted = True
        return CopyOutput(code=0, output="")

    async def stop(self, unit: str) -> CopyOutput:
        return CopyOutput(code=0, output="")

    async def reload_units(self) -> None: ...

    async def unit_states(self) -> Mapping[str, str]:
        return {}

    def changed_paths(self) -> tuple[str, ...]:
        return ()

    async def close(self) -> None: ...


class MemoryHost:
    async def copy(
        self, limits: CopyLimits | None = None, *, units: Sequence[CopyService] = ()
    ) -> HostCopy:
        return MemoryCopy()


def trial(database: Mapping[bool, bool]) -> CopyTrial:
    return CopyTrial(trial_setup(database))


def trial_setup(database: Mapping[bool, bool]) -> CopySetup:
    """`database`: whether its check passes in a copy, by whether something was reverted there."""

    async def run_checks(copy: HostCopy, names: Sequence[str]) -> Sequence[CheckReading]:
        assert isinstance(copy, MemoryCopy)
        passing = {"web": copy.reverted, "database": database[copy.reverted]}
        return [CheckReading(name=each, ok=passing[each]) for each in names]

    return CopySetup(
        source=MemoryHost(),
        run_checks=run_checks,
        expected=ExpectedReadings(
            failing=(CheckReading(name="web", ok=False),), passing=("database",)
        ),
        programs=HostPrograms(services=(HostService(name="web", state="active"),), jobs=()),
        services=["web"],
        store=StateStore(Path("unused")),
        suspects=(CAUSE,),
    )


async def test_what_runs_in_no_copy_says_nothing_about_a_revert() -> None:
    judged = await trial({False: False, True: False}).run([Revert(suspect=CAUSE)])
    assert (judged.outcome, judged.detail) == ("passes", "web passed")


async def test_what_a_revert_breaks_in_a_copy_keeps_it_from_being_the_fix() -> None:
    judged = await trial({False: True, True: False}).run([Revert(suspect=CAUSE)])
    assert judged.outcome == "unclear"
    assert judged.detail.startswith("database")


class CopiedDatabase:
    """The check of a database in copies. `states`: for the first copy, and for all others, what it
    says before and after the revert, poll by poll, the last one for the rest."""

    def __init__(self, *states: dict[bool, list[bool]]) -> None:
        self._states, self._copies = states, list[HostCopy]()

    async def run_checks(self, copy: HostCopy, names: Sequence[str]) -> Sequence[CheckReading]:
        assert isinstance(copy, MemoryCopy)
        if copy not in self._copies:
            self._copies.append(copy)
        state = self._states[min(self._copies.index(copy), len(self._states) - 1)][copy.reverted]
        readings = []
        for name in names:
            ok = copy.reverted
            if name == "database":
                ok = state.pop(0) if state[1:] else state[0]
            readings.append(CheckReading(name=name, ok=ok, detail="no answer"))
        return readings


GOOD = {False: [True], True: [True]}


@pytest.mark.parametrize(
    ("first", "works"),
    [
        ({False: [False], True: [False]}, True),
        ({False: [True], True: [False]}, False),
        ({False: [True], True: [False, False, False, True]}, True),
        ({False: [True], True: [True]}, True),
    ],
)
async def test_a_rehearsal_counts_what_its_copy_showed_before_and_what_is_only_late(
    first: dict[bool, list[bool]], works: bool
) -> None:
    """In other copies the database answers."""
    run_checks = CopiedDatabase(first, GOOD).run_checks
    setup = dataclasses.replace(trial_setup(GOOD), run_checks=run_checks)
    found = await rehearse_revert(setup, CopyTrial(setup), [Revert(suspect=CAUSE)])
    assert found.works == works
    assert works or found.why.startswith("database")


async def test_a_trial_waits_for_a_service_that_starts_late() -> None:
    """Like a database that recovers after it was copied."""
    late = {False: [True], True: [False, False, False, True]}
    run_checks = CopiedDatabase(late, GOOD).run_checks
    setup = dataclasses.replace(trial_setup(GOOD), run_checks=run_checks)
    assert (await CopyTrial(setup).run([Revert(suspect=CAUSE)])).outcome == "passes"


async def test_what_passes_in_every_copy_is_no_objection() -> None:
    judged = await trial({False: True, True: True}).run([Revert(suspect=CAUSE)])
    assert judged.outcome == "passes"
