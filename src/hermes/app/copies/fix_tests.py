"""Tests fixes on copies of a host: playbooks and proposals of an incident, and commands of models.

What changes inside a copy needs no approval; what comes back from it was decided before, and is
shown only where the text of the command tells all that it may read.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio

from hermes.app.copies.copied_checks import expected_readings, run_on_copy
from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.events.experiments import FixTested
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import CommandResult, Environment, Tool
from hermes.declared.collectors.readers import RunCommand, environment_runner
from hermes.declared.experiments.copy_setup import CopySetup, copied_service
from hermes.declared.experiments.fix_trial import (
    MAX_TEST_S,
    Fix,
    FixTestResult,
    FixTrial,
)
from hermes.declared.experiments.host_programs import (
    HostPrograms,
    named_paths,
    read_host_programs,
)
from hermes.declared.store import StateStore
from hermes.environments.copies import (
    CannotCopyError,
    CopyLimits,
    CopyService,
    HostCopy,
    can_be_copied,
)
from hermes.policy.command_analysis import analyse_command
from hermes.skills.playbook.commands import ExecuteCall
from hermes.sre.cause import FailingCase, FixCandidate
from hermes.sre.checks import ProbeChecks
from hermes.tools.terminal import make_try_on_copy, render_command_result

SPARE_TEST_S = 12.0
"""For a command of a model: the time of its test beside its own."""
START_S = 1.0
"""How long services of a copy have before a command runs beside them."""
MAX_CHANGED_SHOWN = 8
MAX_OUTPUT_CHARS = 4000
_NOISE = re.compile(r"^/(run|tmp|var/log|var/run|var/tmp|proc|sys|dev)(/|$)")
RecordTest = Callable[[str, FixTested], Awaitable[None]]


class CopyFixTester:
    """A `FixTester` for one host."""

    def __init__(
        self,
        environment: Environment,
        store: StateStore,
        *,
        redact: Callable[[str], str],
        run: RunCommand | None = None,
        limit_s: float = MAX_TEST_S,
    ) -> None:
        """`run`: in place of commands through the environment, where it is this machine.
        `limit_s`: of one test."""
        self._environment, self._store, self._redact = environment, store, redact
        self._limit_s = limit_s
        self._run = run or environment_runner(environment)

    @property
    def available(self) -> bool:
        return can_be_copied(self._environment)

    async def test(
        self, case: FailingCase, candidates: Sequence[FixCandidate]
    ) -> Sequence[FixTested]:
        setup = await self._setup(case)
        fixes = [Fix(each.name, partial(_apply_candidate, each)) for each in candidates]
        results = await FixTrial(setup, limit_s=self._limit_s).run(fixes)
        return [
            self._event(case, each.by, result)
            for each, result in zip(candidates, results, strict=True)
        ]

    def tool(self, case: FailingCase, record: RecordTest) -> Tool:
        return make_try_on_copy(partial(self._try_commands, case, record))

    async def _setup(self, case: FailingCase) -> CopySetup:
        """Raises `CannotCopyError`."""
        source: object = self._environment
        if not can_be_copied(source):
            raise CannotCopyError(f"{self._environment.name} cannot be copied")
        if not isinstance(case.checks, ProbeChecks):
            raise CannotCopyError("its checks cannot be run on a copy")
        programs = await read_host_programs(self._run, case.daemons)
        named = [each.service for each in case.failing] + [case.details.service]
        names = dict.fromkeys(each.removesuffix(".service") for each in named if each)
        return CopySetup(
            source=source,
            run_checks=partial(run_on_copy, case, case.checks),
            expected=expected_readings(case),
            programs=programs,
            services=[each.name for name in names if (each := programs.named(name))],
            store=self._store,
        )

    def _event(self, case: FailingCase, by: str, result: FixTestResult) -> FixTested:
        return FixTested(
            run=case.details.run,
            incident=case.details.incident,
            fix=self._redact(result.name)[:300],
            by=by,
            outcome=result.outcome,
            checks=result.passed or tuple(each.check for each in case.failing),
            detail=self._redact(result.detail)[:300],
            recovery_s=round(result.recovery_s, 3),
            seconds=round(result.seconds, 3),
        )

    async def _try_commands(
        self, case: FailingCase, record: RecordTest, commands: Sequence[str], timeout_s: float
    ) -> str:
        """Raises `ToolError`."""
        shown: dict[int, str] = {}

        async def apply(number: int, copy: HostCopy) -> str:
            code, shown[number] = await _run_shown(copy, commands[number], timeout_s)
            return f"exit code {code}" if code else ""

        fixes = [Fix(each, partial(apply, number)) for number, each in enumerate(commands)]
        try:
            setup = await self._setup(case)
            results = await FixTrial(setup, limit_s=timeout_s + self._limit_s).run(fixes)
        except (CannotCopyError, EnvironmentFailed) as error:
            raise ToolError(f"no test on a copy: {error}") from error
        texts = []
        for number, result in enumerate(results):
            event = self._event(case, "model", result)
            await record(commands[number], event)
            ran = shown.get(number, "[it was not run]")
            texts.append(f"{ran}\n[checks on the copy: {_outcome_words(event)}]")
        return _join_candidates(commands, texts)


def _outcome_words(event: FixTested) -> str:
    checks = ", ".join(event.checks)
    if event.outcome == "recovered":
        return f"{checks} failed before and passed {event.recovery_s:.1f} s after; others unchanged"
    if event.outcome == "helped":
        return f"{checks} failed before and passes now, but not all: {event.detail}"
    if event.outcome == "failed":
        return f"still failing: {event.detail}"
    if event.outcome == "not-reproduced":
        return f"the failure does not show on a copy, so nothing is proved: {event.detail}"
    return f"no clear result: {event.detail}"


async def _apply_candidate(candidate: FixCandidate, copy: HostCopy) -> str:
    return await candidate.apply(execute_on_copy(copy))


def execute_on_copy(copy: HostCopy) -> ExecuteCall:
    """Execute the commands of a playbook on the copy. No rule is asked, because nothing reaches the
    host."""

    async def execute(call: ToolCall) -> ToolResult:
        timeout = float(call.arguments.get("timeout", 30.0))
        ran = await copy.run(str(call.arguments["command"]), timeout_s=timeout)
        result = CommandResult(exit_code=ran.code, output=ran.output, timed_out=ran.timed_out)
        content = render_command_result(result, timeout)
        return ToolResult(call_id=call.id, status="ok", content=content)

    return execute


async def try_commands(environment: Environment, commands: Sequence[str], timeout_s: float) -> str:
    """Try each command on a copy of its own, all at once. Raises `ToolError`."""
    source: object = environment
    if not can_be_copied(source):
        raise ToolError(f"an environment of the kind {environment.name} cannot be copied")
    try:
        units = concerned_services(
            await read_host_programs(environment_runner(environment)), commands
        )
        texts = dict[int, str]()

        async def run(number: int) -> None:
            limits = CopyLimits(time_s=timeout_s + SPARE_TEST_S)
            copy = await source.copy(limits, units=units)
            try:
                if any(each.running for each in units):
                    await anyio.sleep(START_S)
                _, texts[number] = await _run_shown(copy, commands[number], timeout_s)
            finally:
                with anyio.CancelScope(shield=True):
                    await copy.close()

        async with anyio.create_task_group() as group:
            for number in range(len(commands)):
                group.start_soon(run, number)
    except* (CannotCopyError, EnvironmentFailed) as errors:
        raise ToolError(f"no copy of this host: {errors.exceptions[0]}") from errors
    return _join_candidates(commands, [texts[number] for number in range(len(commands))])


def concerned_services(programs: HostPrograms, commands: Sequence[str]) -> list[CopyService]:
    """Services that the commands name, by themselves or by a file of theirs."""
    text = "\n".join(commands)
    paths = named_paths(text)
    found = [
        each
        for each in programs.services
        if re.search(rf"(?<![\w-]){re.escape(each.name)}(?![\w-])", text)
        or any(each.reads(path) for path in paths)
    ]
    return [copied_service(each) for each in found]


async def _run_shown(copy: HostCopy, command: str, timeout_s: float) -> tuple[int, str]:
    """The exit code, and what may be shown of it."""
    before = set(copy.changed_paths())
    ran = await copy.run(command, timeout_s=timeout_s)
    changed = [path for path in copy.changed_paths() if path not in before]
    result = CommandResult(exit_code=ran.code, output=ran.output, timed_out=ran.timed_out)
    if why := analyse_command(command, cwd="/").unknown_reads:
        result = CommandResult(exit_code=min(ran.code, 1), output="", timed_out=ran.timed_out)
        text = f"{render_command_result(result, timeout_s)}\n[its output is withheld: {why}]"
    else:
        text = render_command_result(result, timeout_s)[-MAX_OUTPUT_CHARS:]
    paths = [path for path in changed if not _NOISE.match(path)]
    more = f" and {len(paths) - MAX_CHANGED_SHOWN} more" if len(paths) > MAX_CHANGED_SHOWN else ""
    names = ", ".join(paths[:MAX_CHANGED_SHOWN])
    return ran.code, f"{text}\n[changed on the copy: {names}{more}]" if names else text


def _join_candidates(commands: Sequence[str], texts: Sequence[str]) -> str:
    if len(commands) == 1:
        return texts[0]
    pairs = zip(commands, texts, strict=True)
    return "\n\n".join(
        f"{number}. {command.splitlines()[0][:120] if command.strip() else ''}\n{text}"
        for number, (command, text) in enumerate(pairs, 1)
    )
