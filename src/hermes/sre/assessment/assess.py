"""Decides from observations of the whole host whether anything is wrong.

An all-clear needs a positive reason: a monitor whose limit is wrong while everything it measures is
fine, or a problem in the log that ended and does not return while requests are answered. That no
symptom is found is not enough: many faults are silent.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal

import anyio
from msgspec.structs import replace

from hermes.core.incident import AlertFacts
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import ExecuteCall, busy_timeout, run_command
from hermes.skills.playbook.parameters import fill_template
from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import PlainDaemon, list_units
from hermes.sre.assessment.host_state import (
    HostObservation,
    HostState,
    ScriptName,
    parse_host_state,
    parse_log_summaries,
    parse_monitors,
    read_script,
    with_units,
)
from hermes.sre.assessment.symptoms import (
    Assessment,
    find_all_clear_reason,
    find_recent_symptoms,
    find_returned_trouble,
    find_symptoms,
    may_be_all_clear,
)
from hermes.sre.checks import run_concurrently

WaitUntilAlone = Callable[[], Awaitable[None]]
HOLD_S = 3.0
"""Seconds for which a problem that is over must not return."""
MAX_ROUNDS = 2
SCRIPT_TIMEOUT_S = 15.0
NOT_EXPLAINED = "the units, disks, memory and logs of this host do not explain the alert"


async def assess_host(
    facts: AlertFacts,
    execute: ExecuteCall,
    *,
    hold: float = HOLD_S,
    wait_until_alone: WaitUntilAlone | None = None,
    daemons: Sequence[PlainDaemon] = (),
    root_commands: Sequence[str] = (),
) -> Assessment:
    """Changes nothing. Returns at once when a symptom is found. `root_commands`: see `list_units`.

    `wait_until_alone` is called before the host is watched for an all-clear: requests of our own
    checks would look like those of users.
    """
    observer = _HostObserver(execute, daemons, root_commands)
    before = await observer.observe()
    if not before.state.units:
        why = before.state.unchecked or "the call was refused or did not end in time"
        return observer.unknown(f"the services could not be listed: {why}")
    if found := find_symptoms(facts, before):
        return observer.wrong_or_unknown(found)
    if not may_be_all_clear(facts, before):
        return observer.wrong_or_unknown(find_recent_symptoms(facts, before))
    if wait_until_alone is not None:
        await wait_until_alone()
        before = await observer.observe(before)
    for _ in range(MAX_ROUNDS):
        await anyio.sleep(hold)
        now = await observer.observe(before, logs="words")
        if found := find_symptoms(facts, now):
            return observer.wrong_or_unknown(found)
        reason = None if find_recent_symptoms(facts, now) else find_all_clear_reason(facts, now)
        if reason and not find_returned_trouble(before, now, reason):
            return replace(reason, evidence=observer.calls)
        before = now
    return observer.wrong_or_unknown(find_recent_symptoms(facts, before))


async def observe_host(
    execute: ExecuteCall,
    daemons: Sequence[PlainDaemon] = (),
    root_commands: Sequence[str] = (),
) -> HostObservation:
    """Observe the units, the resources and the logs once."""
    observer = _HostObserver(execute, daemons, root_commands)
    return await observer.observe(HostObservation(state=HostState()))


class _HostObserver:
    def __init__(
        self, execute: ExecuteCall, daemons: Sequence[PlainDaemon], root_commands: Sequence[str]
    ) -> None:
        self._execute = execute
        self._daemons = daemons
        self._root_commands = root_commands
        self.calls: tuple[str, ...] = ()

    async def observe(
        self, before: HostObservation | None = None, logs: Literal["logs", "words"] = "logs"
    ) -> HostObservation:
        """Run the scripts concurrently."""
        listing = await list_units(self._run_script, self._daemons, self._root_commands)
        units = listing.units
        names: list[ScriptName] = [logs, "state", *(() if before else ("checks",))]
        supervisors = HostSupervisors(units, self._daemons, self._root_commands)
        scripts = [
            partial(
                self._run_script, fill_template(read_script(name), {}, supervisors, partial=True)
            )
            for name in names
        ]
        outputs = dict(zip(names, await run_concurrently(scripts), strict=True))
        return HostObservation(
            state=with_units(parse_host_state(outputs["state"]), listing),
            logs=parse_log_summaries(outputs[logs]),
            checks=before.checks if before else tuple(parse_monitors(outputs["checks"])),
        )

    async def _run_script(self, command: str) -> str:
        """The output; empty when the call was refused or timed out."""
        id = new_id("assess")
        result = await run_command(self._execute, command, busy_timeout(SCRIPT_TIMEOUT_S), id=id)
        if result.status != "ok" or result.timed_out:
            return ""
        self.calls += (id,)
        return result.output

    def wrong_or_unknown(self, symptoms: Sequence[str]) -> Assessment:
        if symptoms:
            return Assessment(verdict="wrong", evidence=self.calls, reasons=tuple(symptoms))
        return self.unknown(NOT_EXPLAINED)

    def unknown(self, why: str) -> Assessment:
        return Assessment(verdict="unknown", evidence=self.calls, reasons=(why,))
