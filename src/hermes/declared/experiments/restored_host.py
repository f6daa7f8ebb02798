"""Copies of a host in an earlier state: the recorded failing state, after people have fixed it."""

from collections.abc import Sequence

from hermes.declared.experiments.copy_changes import restart_services
from hermes.declared.experiments.host_programs import HostPrograms
from hermes.declared.experiments.put_back import (
    CannotRevertError,
    ReadContent,
    archive_script,
    find_targets,
)
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import Revert
from hermes.declared.state import StateChange
from hermes.environments.copies import (
    DEFAULT_LIMITS,
    CannotCopyError,
    Copyable,
    CopyLimits,
    CopyService,
    HostCopy,
)

RESTORE_TIMEOUT_S = 30.0


class RestoredHost:
    """A `Copyable`: each copy has the recorded changes undone and the services restarted.

    `fixes`: from the failing state to the present one, as suspects whose `before` is the present.
    """

    def __init__(
        self,
        source: Copyable,
        fixes: Sequence[Suspect],
        programs: HostPrograms,
        services: Sequence[str],
        read: ReadContent,
    ) -> None:
        self._source, self._read = source, read
        self._fixes, self._programs, self._services = fixes, programs, services

    async def copy(
        self, limits: CopyLimits = DEFAULT_LIMITS, *, units: Sequence[CopyService] = ()
    ) -> HostCopy:
        """Raises `CannotCopyError`, also where the failing state cannot be restored."""
        copy = await self._source.copy(limits, units=units)
        try:
            await self._restore(copy)
        except CannotRevertError as error:
            await copy.close()
            raise CannotCopyError(f"the failing state cannot be restored: {error}") from error
        except BaseException:
            await copy.close()
            raise
        return copy

    async def _restore(self, copy: HostCopy) -> None:
        targets = [
            target
            for each in self._fixes
            if each.change.item.kind == "file"
            for target in find_targets(Revert(suspect=_reversed(each)), self._read)
        ]
        if targets:
            script, archive = archive_script(targets)
            ran = await copy.run(script, timeout_s=RESTORE_TIMEOUT_S, stdin=archive)
            if ran.code:
                raise CannotRevertError(ran.output.strip()[-200:])
        await copy.reload_units()
        stopped = [each.change.item.key for each in self._fixes if _was_stopped(each.change)]
        for unit in stopped:
            await copy.stop(unit)
        paths = [each.change.item.key for each in self._fixes]
        named = [each.name for each in self._programs.services_of(paths)]
        names = dict.fromkeys([*named, *self._services])
        gone = {each.removesuffix(".service") for each in stopped}
        await restart_services(copy, [each for each in names if each not in gone])


def _reversed(suspect: Suspect) -> Suspect:
    change, *below = [StateChange(each.item, each.after, each.before) for each in suspect.changes]
    return Suspect(change=change, below=tuple(below))


def _was_stopped(change: StateChange) -> bool:
    after = change.after.attributes if change.after is not None else {}
    return change.item.kind == "service" and after.get("active") == "inactive"
