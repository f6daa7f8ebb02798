"""One command of a playbook: run by the common road, judged by how it ended, and told."""

import time
from typing import Literal

import anyio

from hermes.core.events import Event
from hermes.core.events.skills import PlaybookStepped
from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, Value
from hermes.skills.playbook.ending import Ended, ended
from hermes.skills.playbook.setting import GRACE, Setting

Outcome = Literal["applied", "declined", "unmet", "refused", "undone", "failed"]
Phase = Literal["probe", "step", "verify", "undo"]
TOOL = "terminal"


class Done(Value, kw_only=True, frozen=True):
    """Something that was run, or would be."""

    name: str
    phase: Phase
    command: str
    undo: str = ""
    ok: bool = True
    output: str = ""
    call_id: str = ""


class Stop(Exception):
    """The first thing that is not as expected; the playbook goes no further."""

    def __init__(self, outcome: Outcome, step: str, detail: str, *, hindered: bool = False) -> None:
        super().__init__(detail)
        self.outcome: Outcome = outcome
        self.step = step
        self.hindered = hindered
        """The command did not run to its end, so its result shows nothing."""


class Hand:
    def __init__(self, skill: str, setting: Setting) -> None:
        self.skill = skill
        self._setting = setting

    async def run(
        self, name: str, command: str, timeout: float, *, id: str = "", grace: float = GRACE
    ) -> Ended:
        id = id or new_id(f"play-{name}")
        call = ToolCall(id, TOOL, {"command": command, "timeout": timeout})
        began = time.monotonic()
        with anyio.move_on_after(timeout + grace):
            result = await self._setting.execute(call)
            return ended(result, command, time.monotonic() - began)
        return Ended(call.id, command, "ok", None, "", timeout + grace, timed_out=True)

    async def tell(self, event: Event) -> None:
        await self._setting.publish(event)

    async def stepped(
        self, name: str, phase: Phase, result: Ended, ok: bool, detail: str, undo: str = ""
    ) -> None:
        await self.tell(
            PlaybookStepped(
                run=self._setting.run,
                skill=self.skill,
                step=name,
                call_id=result.call_id,
                ok=ok,
                detail=detail,
                undo=undo,
                phase=phase,
                seconds=round(result.seconds, 3),
            )
        )


def done(name: str, phase: Phase, result: Ended, *, ok: bool, undo: str = "") -> Done:
    return Done(
        name=name,
        phase=phase,
        command=result.command,
        undo=undo,
        ok=ok,
        output=result.output,
        call_id=result.call_id,
    )


def hindrance(result: Ended) -> str:
    """Why it did not run to its end, whatever it was expected to do."""
    if result.status == "denied":
        return f"not allowed: {result.output[:300]}"
    if result.status == "error":
        return f"it could not be run: {result.output[:300]}"
    return f"timed out after {result.seconds:.0f} s" if result.timed_out else ""


def hindered(result: Ended, otherwise: Outcome) -> Outcome:
    """What a command that was not as expected makes of the whole playbook."""
    known: dict[str, Outcome] = {"denied": "refused", "error": "failed"}
    return known.get(result.status, otherwise)
