"""What on a host is plainly not well, in words; and whether trouble that was over came back."""

from collections.abc import Iterator

from hermes.skills.playbook.facts import Facts
from hermes.sre.assessing.grounds import Grounds, complains, subject_of
from hermes.sre.assessing.whole_host import Log, Seen, Unit

SETTLED = 60
"""Seconds after which one restart is a thing of the past."""
LONG = 900
"""The same for several."""
ENOUGH = 3
"""Good lines after the last bad one before it counts as the last."""
STEADY = 20
"""The same where right and wrong answers have taken turns."""
LITTLE_MEMORY = 8
GROWTH = 1.05


def symptoms(facts: Facts, seen: Seen) -> list[str]:
    subject = subject_of(facts, seen)
    return [
        *_of_units(seen, subject),
        *(f"{where} is full" for where in seen.state.full),
        *(f"{file} is no longer valid" for file in seen.state.expired),
        *_of_resources(seen),
        *(why for log in _speaking(seen, subject) for why in _failing(log)),
    ]


def fading(facts: Facts, seen: Seen) -> list[str]:
    """What was not well a moment ago, and may be over."""
    subject = subject_of(facts, seen)
    return [why for log in _speaking(seen, subject) for why in _failed(log)]


def came_back(before: Seen, now: Seen, grounds: Grounds) -> list[str]:
    """Why it is not over after all; empty when it is."""
    found = []
    for name, log in now.logs.items():
        old = before.logs.get(name, Log(unit=name))
        if name != grounds.monitor and (log.bad > old.bad or log.errors > old.errors):
            found.append(f"{name} failed again")
    old_units = {unit.name: unit for unit in before.state.units}
    for unit in now.state.units:
        old_unit = old_units.get(unit.name)
        if old_unit and unit.restarts > old_unit.restarts:
            found.append(f"{unit.name} was restarted again")
        if old_unit and old_unit.rss and unit.rss > old_unit.rss * GROWTH:
            found.append(f"{unit.name} grows")
    works = now.logs.get(grounds.works)
    old_works = before.logs.get(grounds.works)
    if (
        grounds.works
        and works
        and old_works
        and works.asked + works.lines <= (old_works.asked + old_works.lines)
    ):
        found.append(f"{grounds.works} has done nothing since, so nothing shows that it works")
    return found


def _of_units(seen: Seen, subject: str) -> Iterator[str]:
    for unit in seen.state.units:
        if unit.active in ("failed", "activating", "deactivating") and not _old(unit, subject):
            yield f"{unit.name} is {unit.active}"
        elif unit.name == subject and unit.active == "inactive":
            yield f"{unit.name} is not running"
        elif unit.restarts and unit.up < (SETTLED if unit.restarts == 1 else LONG):
            yield f"{unit.name} was restarted {unit.restarts} times"


def _old(unit: Unit, subject: str) -> bool:
    """Given up on, and not what the alert is about."""
    return unit.active == "failed" and unit.restarts == 0 and unit.name != subject


def _of_resources(seen: Seen) -> Iterator[str]:
    if seen.state.memory is not None and seen.state.memory < LITTLE_MEMORY:
        yield f"{seen.state.memory} % of the memory is left"
    for pid in seen.state.busy:
        yield f"process {pid} is busy all the time"


def _speaking(seen: Seen, subject: str) -> Iterator[Log]:
    """Logs whose errors mean something: not those of monitors, nor of what was given up on."""
    given_up = {unit.name for unit in seen.state.units if _old(unit, subject)}
    for log in seen.logs.values():
        if log.unit not in given_up and not complains(log, seen):
            yield log


def _failing(log: Log) -> Iterator[str]:
    for path, runs in log.runs.items():
        if runs[-1][0] == "F":
            yield f"{log.unit} answers {path} with an error"


def _failed(log: Log) -> Iterator[str]:
    for path, runs in log.runs.items():
        failed = [count for kind, count in runs if kind == "F"]
        if failed and runs[-1][1] < (ENOUGH if len(failed) == 1 else STEADY):
            yield f"{log.unit} answered {path} with an error a moment ago"
    if log.errors and log.after < ENOUGH:
        yield f"{log.unit} says: {log.said[-1][:160] if log.said else 'errors'}"
