"""The changes of one attempt: each is written down with its way back before it runs."""

import shlex
from itertools import count

from hermes.core.actions import Action, Decision
from hermes.core.events.incidents import ChangeBegan, ChangesUndone
from hermes.core.ids import new_id
from hermes.core.messages import ToolCall
from hermes.policy.commands.values import PLAIN
from hermes.policy.ways_back import WaysBack
from hermes.skills.playbook.ending import ended
from hermes.sre.by_the_book import ByTheBook
from hermes.sre.case import Case
from hermes.sre.ground import Ground
from hermes.sre.incident import Change, Incident
from hermes.sre.snapshot import KEPT, plan, units_in
from hermes.tools.executor import Executor

TOOL = "terminal"
PATIENCE = 60.0
UNSURE = "it was cut off while it was being taken back: nobody knows whether it was"


class Changes:
    """`playbook`: its steps are the changes and bring their ways back; else whatever does more than
    look is one, and what it touches is kept first."""

    def __init__(self, ground: Ground, case: Case, attempt: int, *, playbook: str = "") -> None:
        self._ground, self._case, self._attempt = ground, case, attempt
        self._playbook = playbook
        self._ways_back: dict[str, str] = {}
        self._numbers = count(1)
        self.made = 0

    @property
    def executor(self) -> Executor:
        watched = self._ground.executor.watched(self._before)
        if not self._playbook:
            return watched
        return watched.under(WaysBack(ByTheBook(watched.policy), self._ways_back))

    async def announce(self, call_id: str, command: str, undo: str) -> None:
        """A playbook's next step, with the way back that its author wrote."""
        self._ways_back[call_id] = undo

    async def _before(self, action: Action, decision: Decision) -> None:
        call = action.call
        if self._playbook and call.id not in self._ways_back:
            return
        if not self._playbook and decision.effects and set(decision.effects) <= PLAIN:
            return
        undo = self._ways_back[call.id] if self._playbook else await self._keep(action)
        command = action.command or str(call.arguments.get("command", "")) or call.name
        await self._ground.gate.commit()
        self.made += 1
        await self._ground.bus.publish(
            ChangeBegan(
                run=self._case.run,
                incident=self._case.incident,
                call_id=call.id,
                command=command,
                undo=undo,
                attempt=self._attempt,
                by=self._playbook or action.run,
            )
        )

    async def _keep(self, action: Action) -> str:
        planned = plan(action)
        if not planned.paths:
            return planned.plain_way
        number = f"{self._attempt}-{next(self._numbers)}"
        folder = shlex.quote(f"{KEPT}/{self._case.incident}/{number}")
        call = ToolCall(
            new_id("keep"), TOOL, {"command": planned.keep(folder), "timeout": PATIENCE}
        )
        result = await self._ground.road(self._case.run)(call)
        end = ended(result, "", 0.0)
        return planned.way_back(folder, end.output) if end.code == 0 else planned.plain_way


async def take_back(ground: Ground, incident: Incident, reason: str) -> tuple[str, ...]:
    """Undo what stands, the last first; what could not be taken back, in words.

    One that fails does not keep the others. One that had begun when we were killed is not begun
    again: it is told to people instead.
    """
    standing = [change for change in incident.standing if not change.taken_back]
    begun = await _begun(ground, incident.case.run)
    left = []
    for change in reversed(standing):
        why = await _take_back(ground, incident.case, change, begun)
        if why:
            left.append(f"{change.command[:200]}: {why}")
        undone = () if why else (change.call_id,)
        failed = (change.call_id,) if why else ()
        await ground.bus.publish(
            ChangesUndone(
                run=incident.case.run,
                incident=incident.case.incident,
                calls=undone,
                failed=failed,
                reason=why or reason,
            )
        )
    await _settle(ground, incident.case, [change.command for change in standing], begun)
    return tuple(left)


async def _take_back(ground: Ground, case: Case, change: Change, begun: set[str]) -> str:
    """Why it still stands; empty when it is taken back, or left nothing behind."""
    id = f"undo-{change.call_id}"
    if id in begun:
        return UNSURE
    if not change.undo.strip():
        return "" if units_in([change.command]) else "there is no way back"
    return await _do(ground, case, id, change.undo)


async def _settle(ground: Ground, case: Case, commands: list[str], begun: set[str]) -> None:
    """Services that were started with the change read once more what stands there now."""
    for unit in units_in(commands):
        id = f"settle-{unit}-{case.incident}-{len(commands)}"
        if id not in begun:
            await _do(ground, case, id, f"systemctl restart {shlex.quote(unit)}")


async def _do(ground: Ground, case: Case, id: str, command: str) -> str:
    """A way back was written down before the change: it is nobody's words but ours."""
    call = ToolCall(id, TOOL, {"command": command, "timeout": PATIENCE})
    executor = ground.executor.under(ByTheBook(ground.executor.policy))
    end = ended(await ground.road(case.run, executor)(call), command, 0.0)
    if end.status != "ok":
        return end.output[:200]
    if end.timed_out:
        return "it did not end in time"
    return "" if end.code == 0 else f"it ended with exit code {end.code}"


async def _begun(ground: Ground, run: str) -> set[str]:
    found = set()
    async for recorded in ground.bus.journal.read(run=run, kinds=("tool.started",)):
        found.add(str(getattr(recorded.event, "call_id", "")))
    return found
