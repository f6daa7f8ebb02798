"""Writes the commands that revert a proved cause on the host, each with its undo."""

import re
import shlex
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from hermes.core.errors import ToolError
from hermes.core.protocols import Environment
from hermes.declared.collectors.readers import RunCommand
from hermes.declared.experiments.copy_changes import service_steps
from hermes.declared.experiments.host_programs import HostPrograms
from hermes.declared.experiments.put_back import reverted_changes
from hermes.declared.experiments.rehearsal import RehearsedRevert
from hermes.declared.experiments.root_cause import RootCause
from hermes.declared.experiments.suspects import Suspect, service_reversal
from hermes.declared.experiments.trial import Revert
from hermes.declared.revert import RELOAD_UNITS, RevertPlan, join_undos, order_changes, plan_revert
from hermes.declared.state import StateChange
from hermes.declared.store import StateStore
from hermes.sre.cause import CauseFixStep, CauseResult
from hermes.sre.undo import UNDO_FOLDER

_DATA_FOLDERS = re.compile(r"/data/|^/var/(lib|spool|mail|backups)/|/queue")
_SETTINGS_FILE = re.compile(r"\.(?:conf|cnf|cfg|ini|ya?ml|toml)$")
"""PostgreSQL has its settings beside its data."""


class CauseRevert:
    """Reverts a cause in one attempt at an incident.

    A change that a person or an unknown author made less than `respect_s` seconds ago is reverted
    only after approval.
    """

    def __init__(
        self,
        environment: Environment,
        run: RunCommand,
        store: StateStore,
        folder: str,
        respect_s: float,
    ) -> None:
        self._environment, self._run, self._store = environment, run, store
        self._folder, self._respect_s = f"{UNDO_FOLDER}/{folder}", respect_s

    async def steps(
        self,
        causes: Sequence[Revert],
        authors: Sequence[str],
        rehearsed: RehearsedRevert,
        programs: HostPrograms,
    ) -> tuple[tuple[CauseFixStep, ...], str]:
        """Empty, with the reason, where the revert is left to people."""
        if not rehearsed.works:
            return (), f"its revert did not take effect on a running copy: {rehearsed.why}"
        if data := [each.label for each in causes if _is_data(each)]:
            return (), f"reverting it would remove data: {', '.join(data[:3])}"
        steps: list[CauseFixStep] = []
        services: list[CauseFixStep] = []
        """After all files: a service reads them when it starts."""
        clearing: list[CauseFixStep] = []
        """What frees space, while nothing fills it."""
        plans: list[RevertPlan] = []
        for cause, author in zip(causes, authors, strict=True):
            for change in order_changes(reverted_changes(cause, self._store)):
                recent_by = self._recent_author(change, author)
                if change.item.kind == "service":
                    services += [
                        CauseFixStep(command=command, undo=undo, recent_by=recent_by)
                        for command, undo in service_steps(change, programs)
                    ]
                    continue
                plan = plan_revert(change, self._store, self._folder, is_live=True)
                if plan.impossible:
                    return (), plan.impossible
                plans.append(plan)
                (clearing if cause.suspect.is_growth else steps).extend(
                    CauseFixStep(command=each.command, undo=each.undo, recent_by=recent_by)
                    for each in plan.steps
                )
        await self._stage(plans)
        files = [each for each in steps if each.command != RELOAD_UNITS]
        if len(files) < len(steps):  # once, after all files
            files.append(CauseFixStep(command=RELOAD_UNITS, undo=RELOAD_UNITS))
        started = {
            each.name
            for cause in causes
            if "start" in service_reversal(cause.suspect.change)
            if (each := programs.named(cause.suspect.change.item.key)) is not None
        }
        if clearing:
            clearing = [*_stop_steps(rehearsed, programs), *clearing]
        return join_steps(
            [*files, *clearing, *services, *activation_steps(rehearsed, started, files)]
        ), ""

    async def _stage(self, plans: Sequence[RevertPlan]) -> None:
        """Put the contents from before into our own folder, which only root can read."""
        quoted = shlex.quote(self._folder)
        code, output = await self._run(f"umask 077; mkdir -p {quoted}", b"")
        if code:
            raise ToolError(f"{self._folder} could not be made: {output[-200:]!r}")
        for path, digest in {p: d for plan in plans for p, d in plan.staged.items()}.items():
            content = self._store.content(digest)
            assert content is not None  # otherwise the plan is impossible
            await self._environment.write(path, content)

    def _recent_author(self, change: StateChange, author: str) -> str:
        """Return who has to be respected; empty for old changes and for those of Hermes."""
        if author.startswith("hermes "):
            return ""
        window = timedelta(seconds=self._respect_s)
        recent = change.at is None or datetime.now(UTC) - change.at < window
        return author if recent else ""


def start_of_ended(
    cause: RootCause, services: Sequence[str], programs: HostPrograms, changed: Sequence[Suspect]
) -> CauseResult | None:
    """The start of services that have ended, where they work on an unchanged copy, in which they
    were started. Not where a change concerns one of them: that may be why somebody ended it."""
    tries = [each.result for each in cause.experiments if each.purpose == "reproduce"]
    if cause.status != "not-reproduced" or not tries or tries[-1].outcome != "passes":
        return None
    found = (programs.named(name) for name in services)
    ended = [each for each in found if each is not None and each.state == "failed"]
    ended = [each for each in ended if each.command("start") and each.command("stop")]
    names = {each.name for each in ended}
    concerned = programs.services_of([path for each in changed for path in each.paths])
    if not ended or names & {each.name for each in concerned}:
        return None
    listed = ", ".join(each.name for each in ended)
    return CauseResult(
        status="proved",
        component=ended[0].name,
        mechanism=f"{listed} has ended and nothing has started it again; why it ended is not known."
        " Started on an unchanged copy of the host, it works",
        steps=join_steps(
            [CauseFixStep(command=e.command("start"), undo=e.command("stop")) for e in ended]
        ),
        units=tuple(each.name for each in ended),
        causes=tuple(f"service {each.name}" for each in ended),
        suspects=cause.suspects,
        experiments=len(cause.experiments),
        rehearsal_s=tries[-1].seconds,
    )


def activation_steps(
    rehearsed: RehearsedRevert, started: Collection[str], files: Sequence[CauseFixStep]
) -> list[CauseFixStep]:
    """`started`: services that another step starts. With files from before they are restarted all
    the same: one that was down when the host was read may run again by now, with the wrong ones."""
    return [
        CauseFixStep(command=each.command, undo=each.undo)
        for each in rehearsed.activations
        if each.kind != "restart" or each.target not in started or files
    ]


def _stop_steps(rehearsed: RehearsedRevert, programs: HostPrograms) -> list[CauseFixStep]:
    """Return the steps that stop the services which are restarted afterwards."""
    targets = [each.target for each in rehearsed.activations if each.kind == "restart"]
    services = [each for name in targets if (each := programs.named(name))]
    return [
        CauseFixStep(command=each.command("stop"), undo=each.command("start")) for each in services
    ]


def join_steps(steps: Sequence[CauseFixStep]) -> tuple[CauseFixStep, ...]:
    """Join the steps into one command, so that people are asked or notified once. A file that was
    moved away can only be moved back if the step succeeded: it stays a step of its own."""
    joined: list[CauseFixStep] = []
    for step in steps:
        last = joined[-1] if joined else None
        if last is None or any(each.command.startswith("mv ") for each in (last, step)):
            joined.append(step)
            continue
        joined[-1] = CauseFixStep(
            command=f"{last.command} && {{ {step.command}; }}",
            undo=join_undos((last.undo, step.undo)),
            recent_by=last.recent_by or step.recent_by,
        )
    return tuple(joined)


def _is_data(cause: Revert) -> bool:
    """Return whether it is data that a service stored, which is not overwritten or removed without
    people. A single new file, such as a record that the service cannot read, is only moved
    aside."""
    change = cause.suspect.change
    if change.verb == "added" and not cause.suspect.below:
        return False
    content = "content" in change.differing or change.verb != "changed"
    key = change.item.key
    return content and bool(_DATA_FOLDERS.search(key)) and not _SETTINGS_FILE.search(key)
