"""Concludes what experiments without a proved cause show, and what they leave open."""

from collections.abc import Sequence

from hermes.declared.collectors.readers import RunCommand
from hermes.declared.experiments.copy_setup import CopySetup
from hermes.declared.experiments.growth import find_deleted_files
from hermes.declared.experiments.root_cause import RootCause, RootCauseStatus
from hermes.declared.experiments.suspects import Suspect

MAX_NAMED = 3


async def conclude_unproved(
    cause: RootCause, setup: CopySetup, lost: Sequence[str], run: RunCommand
) -> tuple[RootCauseStatus, str]:
    """The status, and why. `lost`: changes that cannot be put back on a copy. Changes are ruled out
    only where all of them were tried and nothing that stays on every copy explains the fault."""
    if cause.status == "not-reproduced":
        return cause.status, "; ".join([cause.why, *await _what_copies_lack(setup, run)])
    if cause.status != "ruled-out":
        return cause.status, cause.why
    if untried := [*lost, *setup.changed_definitions]:
        return "impossible", _untried_text(untried)
    if full := setup.expected.full_stores:
        return "impossible", _full_text(full, setup.suspects)
    return cause.status, cause.why


async def _what_copies_lack(setup: CopySetup, run: RunCommand) -> list[str]:
    """Return why a copy may not show the fault, in words."""
    found = await find_deleted_files(run)
    asked = ["requests that users made do not change that"] if setup.requests else []
    return [*asked, *(f"a copy does not have this: {each}" for each in found)]


def _untried_text(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - MAX_NAMED} more" if len(labels) > MAX_NAMED else ""
    named = f"{', '.join(labels[:MAX_NAMED])}{more}"
    return f"what else changed is no cause, but this cannot be put back in a copy: {named}"


def _full_text(full: Sequence[str], suspects: Sequence[Suspect]) -> str:
    """A store that is full stays so: that a change has filled it is neither shown nor excluded."""
    named = ", ".join(each.label for each in suspects[:MAX_NAMED])
    changed = f", and no copy can tell whether one of these filled it: {named}" if named else ""
    return f"no revert empties what is full ({'; '.join(full)}){changed}"
