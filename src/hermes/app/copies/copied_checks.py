"""Runs the checks of an incident in a copy of its host."""

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from hermes.core.errors import ToolError
from hermes.core.protocols import CommandResult
from hermes.declared.experiments.copied_checks import CheckReading, ExpectedReadings
from hermes.environments.copies import HostCopy
from hermes.sre.cause import FailingCase
from hermes.sre.checks import CheckResult, ProbeChecks

_BAD_ANSWERS = re.compile(r"answers for (/\S*) were bad")
_ANSWERED = re.compile(r"\b(?:GET|HEAD) (/[\w./~%?=&+-]*)")
REQUESTS_TIMEOUT_S = 10.0
MAX_REQUESTS, REQUESTS_AT_ONCE = 40, 8
"""Of one service."""


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


async def run_on_copy(
    case: FailingCase, checks: ProbeChecks, copy: HostCopy, names: Sequence[str]
) -> Sequence[CheckReading]:
    """Requests that failed on the host are repeated: a copy has no users."""
    if requests := repeated_requests(case, checks, names):
        await copy.run(requests, timeout_s=REQUESTS_TIMEOUT_S)
    on_copy = checks.in_environment(CopyEnvironment(copy, case.details.incident), names)
    return [reading_on_copy(each, case) for each in await on_copy()]


def reading_on_copy(result: CheckResult, case: FailingCase) -> CheckReading:
    """All services of a copy have just started, some before what they need: that one was started
    again and runs now is no failure there, unless it is what fails on the host."""
    started_again = result.counter and result.check in case.passing
    return _reading(replace(result, ok=True) if started_again else result)


def expected_readings(case: FailingCase) -> ExpectedReadings:
    return ExpectedReadings(
        failing=tuple(_reading(each) for each in case.failing), passing=tuple(case.passing)
    )


def _reading(result: CheckResult) -> CheckReading:
    return CheckReading(
        name=result.check, ok=result.ok, unknown=result.unknown, detail=result.detail
    )


def users_requests(logs: Mapping[int, str]) -> str:
    """A script with the last requests that services answered; `logs`: by their ports."""
    lines = []
    for port, text in logs.items():
        paths = _ANSWERED.findall(text)[-MAX_REQUESTS:]
        asked = [
            f"curl -s -o /dev/null --max-time 2 {shlex.quote(f'http://127.0.0.1:{port}{path}')} &"
            for path in paths
        ]
        for first in range(0, len(asked), REQUESTS_AT_ONCE):
            lines += [*asked[first : first + REQUESTS_AT_ONCE], "wait"]
    return "\n".join(lines)


def repeated_requests(case: FailingCase, checks: ProbeChecks, names: Sequence[str]) -> str:
    """A script with the requests that users made and that were answered badly."""
    lines = []
    for each in case.failing:
        if each.check not in names:
            continue
        paths = _BAD_ANSWERS.findall(each.detail)
        ports = [
            port
            for probe in checks.probes
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
