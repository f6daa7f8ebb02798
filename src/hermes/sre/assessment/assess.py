"""Is anything wrong at all? A judgement from looks at the whole host, before anybody acts.

It says that all is well only on positive grounds: a check whose own limit makes no sense while
everything it speaks of is well, or trouble in the log that stopped and stays away while the work
goes on. To see nothing is not enough: many faults are silent.
"""

from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
from msgspec.structs import replace

from hermes.core.messages import ToolCall, Value
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import ExecuteCall, parse_terminal_result
from hermes.skills.playbook.parameters import AlertFacts
from hermes.sre.assessment.all_clear import AllClearReason, find_all_clear_reason, may_be_all_clear
from hermes.sre.assessment.host_state import (
    HostObservation,
    HostState,
    ScriptName,
    parse_host_state,
    parse_log_summaries,
    parse_monitors,
    read_script,
)
from hermes.sre.assessment.symptoms import (
    find_recent_symptoms,
    find_returned_trouble,
    find_symptoms,
)

AssessmentVerdict = Literal["no-incident", "recovered", "wrong", "unknown"]
WaitUntilAlone = Callable[[], Awaitable[None]]
HOLD_S = 3.0
"""Seconds for which trouble that is over has to stay away."""
MAX_ROUNDS = 2
SCRIPT_TIMEOUT_S = 15.0


class Assessment(Value, kw_only=True, frozen=True):
    verdict: AssessmentVerdict
    evidence: tuple[str, ...] = ()
    """Ids of the calls that show it."""
    reasons: tuple[str, ...] = ()
    component: str = ""
    """What rang without need, or what had failed for a while."""
    mechanism: str = ""
    value: str = ""

    @property
    def all_clear(self) -> bool:
        return self.verdict in ("no-incident", "recovered")


async def assess_host(
    facts: AlertFacts,
    execute: ExecuteCall,
    *,
    hold: float = HOLD_S,
    alone: WaitUntilAlone | None = None,
) -> Assessment:
    """Changes nothing. The sicker the host, the sooner it answers.

    `alone` is waited for before it is watched whether all stays well: what others do there could
    pass for work that goes on, or for trouble.
    """
    looks = _HostObserver(execute)
    before = await looks.observe()
    if not before.state.units:
        why = before.state.unchecked or "the look at this host was refused or did not end in time"
        return looks.assessment("unknown", f"the services could not be listed: {why}")
    if found := find_symptoms(facts, before):
        return looks.assessment("wrong", *found)
    if not may_be_all_clear(facts, before):
        return looks.undecided_assessment(find_recent_symptoms(facts, before))
    if alone is not None:
        await alone()
        before = await looks.observe(before)
    for _ in range(MAX_ROUNDS):
        await anyio.sleep(hold)
        now = await looks.observe(before, logs="words")
        if found := find_symptoms(facts, now):
            return looks.assessment("wrong", *found)
        grounds = None if find_recent_symptoms(facts, now) else find_all_clear_reason(facts, now)
        if grounds and not find_returned_trouble(before, now, grounds):
            return looks.all_clear_assessment(grounds)
        before = now
    return looks.undecided_assessment(find_recent_symptoms(facts, before))


async def observe_host(execute: ExecuteCall) -> HostObservation:
    """One look at the units, the resources and the logs."""
    return await _HostObserver(execute).observe(HostObservation(state=HostState()))


class _HostObserver:
    def __init__(self, execute: ExecuteCall) -> None:
        self._execute = execute
        self._calls: list[str] = []

    async def observe(
        self, before: HostObservation | None = None, logs: Literal["logs", "words"] = "logs"
    ) -> HostObservation:
        """Side by side: together they take as long as the longest."""
        names: list[ScriptName] = [logs, "state", *(() if before else ("checks",))]
        said: dict[ScriptName, str] = {}

        async def one(name: ScriptName) -> None:
            said[name] = await self._run_script(read_script(name))

        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(one, name)
        return HostObservation(
            state=parse_host_state(said["state"]),
            logs=parse_log_summaries(said[logs]),
            checks=before.checks if before else tuple(parse_monitors(said["checks"])),
        )

    async def _run_script(self, command: str) -> str:
        """What it prints; nothing when it was refused or did not end."""
        given = {"command": command, "timeout": SCRIPT_TIMEOUT_S}
        call = ToolCall(new_id("assess"), "terminal", given)
        result = parse_terminal_result(await self._execute(call), command, 0.0)
        if result.status != "ok" or result.timed_out:
            return ""
        self._calls.append(call.id)
        return result.output

    def assessment(self, verdict: AssessmentVerdict, *reasons: str) -> Assessment:
        return Assessment(verdict=verdict, evidence=tuple(self._calls), reasons=reasons)

    def undecided_assessment(self, doubts: list[str]) -> Assessment:
        if doubts:
            return self.assessment("wrong", *doubts)
        return self.assessment(
            "unknown", "nothing is seen to be wrong, and nothing explains the alert"
        )

    def all_clear_assessment(self, grounds: AllClearReason) -> Assessment:
        return replace(
            self.assessment(grounds.verdict, *grounds.reasons),
            component=grounds.component,
            mechanism=grounds.mechanism,
            value=grounds.value,
        )
