"""Is anything wrong at all? A judgement from looks at the whole host, before anybody acts.

It says that all is well only on positive grounds: a check whose own limit makes no sense while
everything it speaks of is well, or trouble in the log that stopped and stays away while the work
goes on. To see nothing is not enough: many faults are silent.
"""

from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
from msgspec.structs import replace

from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, Value
from hermes.skills.playbook.ending import ended
from hermes.skills.playbook.facts import Facts
from hermes.skills.playbook.setting import Execute
from hermes.sre.assessing.grounds import Grounds, grounds_for, may_be_well
from hermes.sre.assessing.symptoms import came_back, fading, symptoms
from hermes.sre.assessing.whole_host import (
    Name,
    Seen,
    State,
    look_at,
    read_checks,
    read_logs,
    read_state,
)

Verdict = Literal["no-incident", "recovered", "wrong", "unknown"]
Alone = Callable[[], Awaitable[None]]
HOLD = 3.0
"""Seconds for which trouble that is over has to stay away."""
ROUNDS = 2
TIMEOUT = 15.0


class Assessment(Value, kw_only=True, frozen=True):
    verdict: Verdict
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


async def assess(
    facts: Facts, execute: Execute, *, hold: float = HOLD, alone: Alone | None = None
) -> Assessment:
    """Changes nothing. The sicker the host, the sooner it answers.

    `alone` is waited for before it is watched whether all stays well: what others do there could
    pass for work that goes on, or for trouble.
    """
    looks = _Looks(execute)
    before = await looks.all()
    if not before.state.units:
        why = before.state.unchecked or "the look at this host was refused or did not end in time"
        return looks.says("unknown", f"the services could not be listed: {why}")
    if found := symptoms(facts, before):
        return looks.says("wrong", *found)
    if not may_be_well(facts, before):
        return looks.undecided(fading(facts, before))
    if alone is not None:
        await alone()
        before = await looks.all(before)
    for _ in range(ROUNDS):
        await anyio.sleep(hold)
        now = await looks.all(before, logs="words")
        if found := symptoms(facts, now):
            return looks.says("wrong", *found)
        grounds = None if fading(facts, now) else grounds_for(facts, now)
        if grounds and not came_back(before, now, grounds):
            return looks.clears(grounds)
        before = now
    return looks.undecided(fading(facts, before))


async def look(execute: Execute) -> Seen:
    """One look at the units, the resources and the logs."""
    return await _Looks(execute).all(Seen(state=State()))


class _Looks:
    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._calls: list[str] = []

    async def all(
        self, before: Seen | None = None, logs: Literal["logs", "words"] = "logs"
    ) -> Seen:
        """Side by side: together they take as long as the longest."""
        names: list[Name] = [logs, "state", *(() if before else ("checks",))]
        said: dict[Name, str] = {}

        async def one(name: Name) -> None:
            said[name] = await self._at(look_at(name))

        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(one, name)
        return Seen(
            state=read_state(said["state"]),
            logs=read_logs(said[logs]),
            checks=before.checks if before else tuple(read_checks(said["checks"])),
        )

    async def _at(self, command: str) -> str:
        """What it prints; nothing when it was refused or did not end."""
        given = {"command": command, "timeout": TIMEOUT}
        call = ToolCall(new_id("assess"), "terminal", given)
        result = ended(await self._execute(call), command, 0.0)
        if result.status != "ok" or result.timed_out:
            return ""
        self._calls.append(call.id)
        return result.output

    def says(self, verdict: Verdict, *reasons: str) -> Assessment:
        return Assessment(verdict=verdict, evidence=tuple(self._calls), reasons=reasons)

    def undecided(self, doubts: list[str]) -> Assessment:
        if doubts:
            return self.says("wrong", *doubts)
        return self.says("unknown", "nothing is seen to be wrong, and nothing explains the alert")

    def clears(self, grounds: Grounds) -> Assessment:
        return replace(
            self.says(grounds.verdict, *grounds.reasons),
            component=grounds.component,
            mechanism=grounds.mechanism,
            value=grounds.value,
        )
