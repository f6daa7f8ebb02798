"""Whether a host shows what a playbook is for: its probes, in their order. They only look.

Playbooks may look side by side; what more than one of them wants to see is looked at once.
"""

import re
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import anyio

from hermes.core.ids import new_id
from hermes.core.messages import Value
from hermes.skills.playbook.ending import Ended, unmet
from hermes.skills.playbook.facts import Facts, captured, look_up
from hermes.skills.playbook.hand import Done, Hand, Outcome, Stop, done, hindered, hindrance
from hermes.skills.playbook.schema import KEPT, Check, Playbook, Probe
from hermes.skills.playbook.template import fill

UNDO = "/var/tmp/hermes-undo"
_UNCHECKED = re.compile(r"^unchecked=(.{1,160})$", re.MULTILINE)
_ABSENT = re.compile(
    r"^(?:\S+: (?:line \d+|\d+): )?([\w.-]+): (?:command )?not found$", re.MULTILINE
)


class Found(Value, kw_only=True, frozen=True):
    """What the probes saw: the signature, or where and why it is not there."""

    values: dict[str, str] = {}
    done: tuple[Done, ...] = ()
    missing: Outcome | None = None
    """How the playbook ends without having begun; None when its signature is there."""
    step: str = ""
    detail: str = ""
    unchecked: str = ""
    """Why the signature could not be looked for, or not completely; empty when it was."""
    lacking: bool = False
    """The host lacks a program that the look needs: looking again shows no more."""
    at: float = 0.0
    """By the monotonic clock: what was seen long ago may no longer be so."""
    seconds: float = 0.0


class Look(NamedTuple):
    result: Ended
    fresh: bool
    """Nobody had asked for it before."""


class Looks:
    """What was seen, shared until something is changed."""

    def __init__(self) -> None:
        self._seen: dict[str, Ended] = {}
        self._under_way: dict[str, anyio.Event] = {}

    async def at(self, command: str, run: Callable[[], Awaitable[Ended]]) -> Look:
        while command not in self._seen:
            if (other := self._under_way.get(command)) is not None:
                await other.wait()
                continue  # if that one was called off, this is the one who looks
            over = self._under_way[command] = anyio.Event()
            try:
                self._seen[command] = result = await run()
                return Look(result, True)
            finally:
                del self._under_way[command]
                over.set()
        return Look(self._seen[command], False)


async def find(playbook: Playbook, facts: Facts, hand: Hand, looks: Looks) -> Found:
    began = time.monotonic()
    values: dict[str, str] = {}
    seen: list[Done] = []
    missing: Outcome | None = None
    step = detail = unchecked = ""
    try:
        values |= _given(playbook, facts)
        for probe in playbook.signature.probes:
            result = await _probe(probe, fill(probe.command, values), hand, looks, seen)
            more, why = captured(playbook.parameters, probe.name, result.output, values)
            values |= more
            if why:
                raise Stop("declined", probe.name, why)
        for check in playbook.verify:
            if check.symptom:
                await _symptom(check, fill(check.command, values), hand, looks, seen)
    except Stop as stop:
        missing, step, detail = stop.outcome, stop.step, str(stop)
        unchecked = _unchecked(stop, seen)
    return Found(
        values=values,
        done=tuple(seen),
        missing=missing,
        step=step,
        detail=detail,
        unchecked=unchecked,
        lacking=missing is not None and bool(seen) and bool(_lacking(seen[-1].output)),
        at=time.monotonic(),
        seconds=time.monotonic() - began,
    )


def _unchecked(stop: Stop, seen: list[Done]) -> str:
    """Why the look that ended it was not complete; empty when it was."""
    if seen and (lacking := _lacking(seen[-1].output)):
        return lacking
    last = seen[-1].output if seen else ""
    if program := _ABSENT.search(last):
        return f"no {program[1]} on this host"
    looked = bool(stop.step) and stop.outcome == "declined" and not stop.hindered
    return "" if looked else str(stop)


def _lacking(output: str) -> str:
    """A probe that lacks a program says so with a line `unchecked=REASON`."""
    said = _UNCHECKED.search(output)
    return said[1].strip() if said else ""


def _given(playbook: Playbook, facts: Facts) -> dict[str, str]:
    # Of this run alone: what another run kept must not be what this one brings back.
    values = {KEPT: f"{UNDO}/{new_id('run')}"}
    for name, parameter in playbook.parameters.items():
        if parameter.source != "alert" and name not in facts.given:
            continue
        value, why = look_up(name, parameter, facts)
        if value is None:
            raise Stop("declined", "", why)
        values[name] = value
    return values


async def _symptom(check: Check, command: str, hand: Hand, looks: Looks, seen: list[Done]) -> None:
    """A check that holds before anything was done could prove nothing afterwards."""
    result, fresh = await looks.at(command, lambda: hand.run(check.name, command, check.timeout))
    denied = result.status != "ok"
    holds = not denied and not result.timed_out and not unmet(result, check.expect)
    why = hindrance(result) if denied else "the symptom is not there" if holds else ""
    if fresh:
        await hand.stepped(check.name, "probe", result, not why, why)
    seen.append(done(check.name, "probe", result, ok=not why))
    if why:
        raise Stop(hindered(result, "declined"), check.name, why)


async def _probe(probe: Probe, command: str, hand: Hand, looks: Looks, seen: list[Done]) -> Ended:
    result, fresh = await looks.at(command, lambda: hand.run(probe.name, command, probe.timeout))
    # What follows would look with the same program: on a host without it, one look is enough.
    late = hindrance(result) or _lacking(result.output)
    why = late or unmet(result, probe.expect)
    if fresh:
        await hand.stepped(probe.name, "probe", result, not why, why)
    seen.append(done(probe.name, "probe", result, ok=not why))
    if why:
        raise Stop(hindered(result, "declined"), probe.name, why, hindered=bool(late))
    return result
