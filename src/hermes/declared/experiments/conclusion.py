"""Concludes what experiments without a proved cause show, and what they leave open."""

from collections.abc import Sequence
from typing import Literal

from hermes.core.errors import EnvironmentFailed
from hermes.declared.collectors.readers import RunCommand
from hermes.declared.experiments.copy_setup import CopySetup
from hermes.declared.experiments.growth import find_deleted_files
from hermes.declared.experiments.root_cause import RootCause
from hermes.declared.experiments.suspects import Suspect, names_item
from hermes.environments.copies import CannotCopyError

MAX_NAMED = 3
UnprovedStatus = Literal["ruled-out", "not-reproduced", "impossible"]


async def conclude_unproved(
    cause: RootCause,
    setup: CopySetup,
    lost: Sequence[Suspect],
    run: RunCommand,
    held: Sequence[str] = (),
) -> tuple[UnprovedStatus, str]:
    """The status, and why. `lost`: changes that cannot be put back on a copy; `held`: ports of
    services that do not run, with the processes that hold them. Nothing is ruled out by a copy
    that fails with everything put back: it may not be able to show the service healthy."""
    untested = _ordered([*setup.suspects, *lost], setup)
    if cause.status == "not-reproduced":
        found = [cause.why, *await _what_copies_lack(setup, run, held)]
        return cause.status, "; ".join([*found, *_named("not tested", untested)])
    if cause.status == "ruled-out" and not lost:
        return cause.status, cause.why
    if cause.status not in ("ruled-out", "untestable"):
        return "impossible", cause.why
    if full := setup.expected.full_stores:
        return "impossible", _full_text(full, setup.suspects)
    why = [
        *_named("could not be tested on a copy", untested),
        *([cause.why] if cause.status == "untestable" else []),
        *await _left_out(setup),
        *_named("cannot be put back in a copy", _unrevertible(setup, lost)),
    ]
    return "impossible", "; ".join(why)


def _ordered(suspects: Sequence[Suspect], setup: CopySetup) -> list[str]:
    """Their labels, first of those that concern a failing service."""
    failing = [each for name in setup.services if (each := setup.programs.named(name))]

    def is_foreign(suspect: Suspect) -> bool:
        key = suspect.change.item.key
        return not any(
            service.name == key.removesuffix(".service")
            or any(map(service.concerns, suspect.paths))
            for service in failing
        )

    return [each.label for each in sorted(suspects, key=is_foreign)]


def _unrevertible(setup: CopySetup, lost: Sequence[Suspect]) -> list[str]:
    return list(dict.fromkeys([*(each.label for each in lost), *setup.changed_definitions]))


async def _what_copies_lack(setup: CopySetup, run: RunCommand, held: Sequence[str]) -> list[str]:
    """Return why a copy may not show the fault, in words."""
    found = [*held, *await find_deleted_files(run)]
    asked = ["requests that users made do not change that"] if setup.requests else []
    lacking = [f"a copy does not have this: {each}" for each in found]
    return [*asked, *lacking, *await _left_out(setup)]


async def _left_out(setup: CopySetup) -> list[str]:
    """What is on the host and not in a copy, first what a service concerned needs."""
    try:
        copy = await setup.source.copy(setup.limits)
    except CannotCopyError:
        return []
    try:
        found = copy.left_out
    except EnvironmentFailed:
        return []
    finally:
        await copy.close()
    paths = [path for each in setup.suspects for path in each.paths]
    failing = [each for name in setup.services if (each := setup.programs.named(name))]
    services = [*failing, *setup.programs.services_of(paths)]
    text = "\n".join(f"{each.unit_text}\n{each.named_text}" for each in services)
    needed = sorted(found, key=lambda each: not names_item(text, each.partition(":")[0]))
    return _named("not in the copy", needed)


def _named(what: str, labels: Sequence[str]) -> list[str]:
    if not labels:
        return []
    more = f" and {len(labels) - MAX_NAMED} more" if len(labels) > MAX_NAMED else ""
    return [f"{what}: {', '.join(labels[:MAX_NAMED])}{more}"]


def _full_text(full: Sequence[str], suspects: Sequence[Suspect]) -> str:
    """A store that is full stays so: that a change has filled it is neither shown nor excluded."""
    named = ", ".join(each.label for each in suspects[:MAX_NAMED])
    changed = f", and no copy can tell whether one of these filled it: {named}" if named else ""
    return f"no revert empties what is full ({'; '.join(full)}){changed}"
