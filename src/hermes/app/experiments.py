"""Finds root causes by experiment: joins states, copies and the checks of an incident."""

import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self, TypeGuard

from hermes.app.application import Application
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.errors import ToolError
from hermes.core.events.experiments import ExperimentRan
from hermes.core.protocols import CommandResult, Environment
from hermes.declared.collectors.collect import collect_state
from hermes.declared.experiments.copied_checks import CheckReading, ExpectedReadings
from hermes.declared.experiments.copy_trial import CopySetup, CopyTrial
from hermes.declared.experiments.host_programs import HostPrograms, read_host_programs
from hermes.declared.experiments.put_back import CannotRevertError, text_parts_of
from hermes.declared.experiments.rehearsal import RehearsedRevert, rehearse_revert
from hermes.declared.experiments.revert_steps import RevertPlan, plan_revert
from hermes.declared.experiments.root_cause import ExperimentLimits, RootCause, find_root_cause
from hermes.declared.experiments.suspects import ServiceContext, Suspect, rank_suspects
from hermes.declared.experiments.text_parts import render_diff, revert_parts
from hermes.declared.experiments.trial import Experiment, Revert
from hermes.declared.state import State, compare
from hermes.declared.store import StateStore
from hermes.environments.copies import Copyable, HostCopy
from hermes.sre.cause import CauseResult, FailingCase, RevertStep
from hermes.sre.checks import CheckResult, ProbeChecks
from hermes.sre.undo import UNDO_FOLDER

COMMAND_TIMEOUT_S = 60.0
MAX_NAMED_IN_EVENT = 12
RESPECT_PEOPLE_S = 4 * 3600.0
UNKNOWN_AUTHOR = "an unknown author"
_BAD_ANSWERS = re.compile(r"answers for (/\S*) were bad")
_DATA_FOLDERS = re.compile(r"/data/|^/var/(lib|spool|mail|backups)/|/queue")
ERROR_LINES_SCRIPT = "journalctl -u {unit} -n 40 -o cat -q --no-pager 2>/dev/null | tail -c 6000"


class CopyEnvironment:
    """A copy of a host as an `Environment`, for the checks of an incident."""

    name, isolated = "copy", True

    def __init__(self, copy: HostCopy, target: str) -> None:
        self._copy, self.target = copy, target

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        began = time.monotonic()
        script = f"cd {shlex.quote(cwd)} && {command}" if cwd else command
        ran = await self._copy.run(script, timeout_s=timeout, stdin=stdin)
        return CommandResult(
            exit_code=ran.code,
            output=ran.output,
            timed_out=ran.timed_out,
            seconds=time.monotonic() - began,
        )

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        raise ToolError("files of a copy are read with commands")

    async def write(self, path: str, data: bytes) -> None:
        raise ToolError("files of a copy are written with commands")


def open_cause_finder(
    application: Application, store: StateStore, host: str = ""
) -> "ExperimentFinder":
    """For the environment of the application; `host`: its name in the states."""
    return ExperimentFinder(
        application.agent_dependencies.environment,
        store,
        host or os.uname().nodename,
        redact=SecretRedactor(application.loaded),
    )


class ExperimentFinder:
    """A `CauseFinder` for one host. `author`: who made a change, where it is known."""

    def __init__(
        self,
        environment: Environment,
        store: StateStore,
        host: str,
        *,
        redact: Callable[[str], str],
        author: Callable[[Suspect], str] = lambda suspect: "",
        respect_s: float = RESPECT_PEOPLE_S,
        limits: ExperimentLimits | None = None,
    ) -> None:
        self.environment, self.store, self.host = environment, store, host
        self.redact, self.author, self.respect_s = redact, author, respect_s
        self.limits = limits or ExperimentLimits()

    async def find(self, case: FailingCase) -> CauseResult:
        return await _FinderWork(self, case).run()


class _FinderWork:
    """The work on one incident."""

    def __init__(self, finder: ExperimentFinder, case: FailingCase) -> None:
        self._finder, self._case = finder, case
        self._environment, self._store = finder.environment, finder.store
        self._numbers: list[int] = []

    async def run(self) -> CauseResult:
        known = self._store.latest(self._finder.host)
        if known is None:
            why = "no known good state of this host is recorded (hermes state record)"
            return _impossible(why)
        if not isinstance(self._case.checks, ProbeChecks):
            return _impossible("its checks cannot be run on a copy")
        source: object = self._environment
        if not _is_copyable(source):
            kind = self._environment.name
            return _impossible(f"an environment of the kind {kind} cannot be copied")
        live = await collect_state(self._run_script, known=known, store=self._store)
        programs = await read_host_programs(self._run_script)
        services = self._failing_services(programs)
        suspects = await self._suspects(known, live, programs, services)
        setup = CopySetup(
            source=source,
            run_checks=self._checks_on_copy,
            expected=_expected(self._case),
            programs=programs,
            services=services,
            read=self._store.content,
            jobs=programs.jobs_of(suspects),
        )
        trial = CopyTrial(setup)
        cause = await find_root_cause(
            suspects, trial, limits=self._finder.limits, record=self._record
        )
        if cause.status != "proved":
            return CauseResult(
                status=cause.status,
                why=self._finder.redact(cause.why),
                suspects=cause.suspects,
                experiments=len(cause.experiments),
                evidence=tuple(self._numbers),
            )
        return await self._proved(cause, setup, trial)

    async def _run_script(self, script: str, stdin: bytes) -> tuple[int, bytes]:
        command = f"sh -c {shlex.quote(script)}"
        ran = await self._environment.run(command, timeout=COMMAND_TIMEOUT_S, stdin=stdin, cwd="/")
        return ran.exit_code, ran.output.encode()

    def _failing_services(self, programs: HostPrograms) -> list[str]:
        named = [each.service for each in self._case.failing] + [self._case.details.service]
        names = dict.fromkeys(each.removesuffix(".service") for each in named if each)
        return [name for name in names if programs.named(name) is not None]

    async def _suspects(
        self, known: State, live: State, programs: HostPrograms, services: Sequence[str]
    ) -> tuple[Suspect, ...]:
        own = [each for name in services if (each := programs.named(name))]
        errors = [
            (await self._run_script(ERROR_LINES_SCRIPT.format(unit=shlex.quote(name)), b""))[1]
            for name in services[:3]
        ]
        details = self._case.details
        context = ServiceContext(
            names=tuple(services),
            texts={
                "unit": "\n".join(each.unit_text for each in own),
                "settings": "\n".join(each.named_text for each in own),
                "error": b"\n".join(errors).decode("utf-8", "replace"),
                "alert": details.facts.combined_text,
            },
            first_failure_at=details.since or details.opened_at,
        )
        return rank_suspects(compare(known, live), context)

    async def _checks_on_copy(self, copy: HostCopy, names: Sequence[str]) -> Sequence[CheckReading]:
        """Requests that failed on the host are repeated: a copy has no users."""
        assert isinstance(self._case.checks, ProbeChecks)
        if requests := _repeated_requests(self._case, names):
            await copy.run(requests, timeout_s=10.0)
        checks = self._case.checks.on(CopyEnvironment(copy, self._environment.target), names)
        return [_reading(each) for each in await checks()]

    async def _record(self, experiment: Experiment) -> None:
        details = self._case.details
        numbers = await self._case.publish(
            ExperimentRan(
                run=details.run,
                incident=details.incident,
                number=experiment.number,
                purpose=experiment.purpose,
                reverted=experiment.reverted[:MAX_NAMED_IN_EVENT],
                reverted_count=len(experiment.reverted),
                kept=experiment.kept[:MAX_NAMED_IN_EVENT],
                outcome=experiment.result.outcome,
                detail=self._finder.redact(experiment.result.detail)[:300],
                seconds=round(experiment.result.seconds, 3),
            )
        )
        self._numbers += numbers

    async def _proved(self, cause: RootCause, setup: CopySetup, trial: CopyTrial) -> CauseResult:
        rehearsed = await rehearse_revert(setup, trial, cause.causes)
        diff = self._finder.redact(
            "\n".join(_diff_of(each, self._store.content) for each in cause.causes)
        )[:2000]
        first = cause.causes[0].suspect
        author = self._finder.author(first) or UNKNOWN_AUTHOR
        steps, why = await self._steps(cause.causes, rehearsed)
        units = [
            each.target for each in rehearsed.activations if each.kind in ("restart", "reload")
        ]
        return CauseResult(
            status="proved",
            why=why,
            component=first.change.item.key,
            mechanism=_mechanism(cause.causes, diff, author),
            value=_value(diff),
            author=author,
            changed_at=first.change.at,
            steps=steps,
            units=tuple(dict.fromkeys([*setup.services, *units])),
            causes=tuple(each.label for each in cause.causes),
            diff=diff,
            suspects=cause.suspects,
            experiments=len(cause.experiments),
            evidence=tuple(self._numbers),
        )

    async def _steps(
        self, causes: Sequence[Revert], rehearsed: RehearsedRevert
    ) -> tuple[tuple[RevertStep, ...], str]:
        """Empty, with the reason, where the revert is left to people."""
        if not rehearsed.works:
            return (), f"its revert did not take effect on a running copy: {rehearsed.why}"
        if data := [each.label for each in causes if _is_data(each)]:
            return (), f"reverting it would remove data: {', '.join(data[:3])}"
        folder = f"{UNDO_FOLDER}/{self._case.details.incident}/experiment-{self._case.attempt}"
        try:
            plan = plan_revert(causes, self._store.content, folder)
        except CannotRevertError as error:
            return (), str(error)
        await self._stage(plan)
        steps = [
            RevertStep(
                command=each.command, undo=each.undo, recent_by=self._recent_author(each.cause)
            )
            for each in plan.commands
        ]
        steps += [RevertStep(command=each.command, undo="true") for each in rehearsed.activations]
        return tuple(steps), ""

    async def _stage(self, plan: RevertPlan) -> None:
        """Put the contents from before and copies of the present files into our own folder."""
        code, output = await self._run_script(plan.keep, b"")
        if code:
            raise ToolError(f"the files could not be kept for an undo: {output[-200:]!r}")
        for path, content in plan.staged.items():
            await self._environment.write(path, content)

    def _recent_author(self, cause: Revert) -> str:
        """Who has to be respected; empty for old changes and for those of Hermes."""
        at = cause.suspect.change.at
        author = self._finder.author(cause.suspect) or UNKNOWN_AUTHOR
        if author == "hermes":
            return ""
        window = timedelta(seconds=self._finder.respect_s)
        return author if at is None or datetime.now(UTC) - at < window else ""


def _impossible(why: str) -> CauseResult:
    return CauseResult(status="impossible", why=why)


def _is_copyable(environment: object) -> TypeGuard[Copyable]:
    return callable(getattr(environment, "copy", None))


def _expected(case: FailingCase) -> ExpectedReadings:
    return ExpectedReadings(
        failing=tuple(_reading(each) for each in case.failing), passing=tuple(case.passing)
    )


def _reading(result: CheckResult) -> CheckReading:
    return CheckReading(
        name=result.check, ok=result.ok, unknown=result.unknown, detail=result.detail
    )


def _repeated_requests(case: FailingCase, names: Sequence[str]) -> str:
    """A script with the requests that users made and that were answered badly."""
    assert isinstance(case.checks, ProbeChecks)
    lines = []
    for each in case.failing:
        if each.check not in names:
            continue
        paths = _BAD_ANSWERS.findall(each.detail)
        ports = [
            port
            for probe in case.checks.probes
            if probe.service == each.service and probe.kind in ("http", "port")
            for port in re.findall(r":(\d{2,5})\b", probe.what)
        ]
        lines += [
            f"curl -s -o /dev/null --max-time 2 {shlex.quote(f'http://127.0.0.1:{port}{path}')} &"
            for port in dict.fromkeys(ports[:1])
            for path in paths[:5]
            for _ in range(2)
        ]
    return "\n".join([*lines, "wait"]) if lines else ""


def _is_data(cause: Revert) -> bool:
    """What a service stored is not removed or overwritten without people."""
    change = cause.suspect.change
    content = "content" in change.differing or change.verb != "changed"
    return content and bool(_DATA_FOLDERS.search(change.item.key))


def _diff_of(cause: Revert, read: Callable[[str], bytes | None]) -> str:
    change = cause.suspect.change
    path, before, after = change.item.key, change.before, change.after
    if change.item.kind != "file" or before is None or after is None:
        return f"{change.item.kind} {path} was {change.verb}"
    if before.digest == after.digest:
        names = [name for name in change.differing if name != "content"]
        old, new = (
            ", ".join(f"{name} {side.attributes.get(name, '')}" for name in names)
            for side in (before, after)
        )
        return f"{path}: -{old} +{new}"
    old_content, new_content = read(before.digest), read(after.digest)
    if old_content is None or new_content is None:
        return f"{path}: its content was changed"
    if cause.parts is not None:
        old_content = revert_parts(
            old_content, new_content, text_parts_of(change, read), cause.parts
        )
    return f"{path}:\n{render_diff(old_content, new_content, path)}"


def _mechanism(causes: Sequence[Revert], diff: str, author: str) -> str:
    first = causes[0].suspect.change
    when = f" at {first.at:%Y-%m-%d %H:%M:%S} UTC" if first.at is not None else ""
    lines = " ".join(diff.split())
    return f"changed by {author}{when}: {lines}"[:500]


def _value(diff: str) -> str:
    added = [line[1:].strip() for line in diff.splitlines() if line.startswith("+")]
    return added[0][:200] if added else ""
