"""Looks at a whole host that change nothing, and what they print read into values.

The shell digests logs where they lie: a log of gigabytes costs as much as a short one.
"""

import re
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from hermes.core.messages import Value

LOOKS = Path(__file__).parent / "looks"
Name = Literal["state", "logs", "words", "checks"]


def look_at(name: Name) -> str:
    """The shell of a look. `words` is `logs` with what was said, and read only where it can lead to
    an all-clear: a run's own words are suspect after those of strangers."""
    if name == "words":
        return look_at("logs").replace("words=0", "words=1")
    return (LOOKS / f"{name}.sh").read_text(encoding="utf-8").strip()


class Unit(Value, kw_only=True, frozen=True):
    name: str
    active: str = ""
    restarts: int = 0
    pid: int = 0
    rss: int = 0
    up: int = 0


class Log(Value, kw_only=True, frozen=True):
    """What the end of one unit's log comes to."""

    unit: str
    lines: int = 0
    errors: int = 0
    after: int = 0
    """Good lines since the last bad one."""
    asked: int = 0
    bad: int = 0
    died: int = 0
    runs: dict[str, tuple[tuple[str, int], ...]] = {}
    """By path: S and F for answers that were right and not, run after run."""
    said: tuple[str, ...] = ()
    last: str = ""


class State(Value, kw_only=True, frozen=True):
    units: tuple[Unit, ...] = ()
    full: tuple[str, ...] = ()
    busy: tuple[int, ...] = ()
    expired: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    memory: int | None = None
    """Percent that is left."""
    disks: dict[str, int] = {}
    unchecked: str = ""
    """Why the services could not be listed; empty when they were."""


class Monitor(Value, kw_only=True, frozen=True):
    """A file of settings that has a limit in it."""

    unit: str
    file: str
    lines: tuple[str, ...] = ()


class Seen(Value, kw_only=True, frozen=True):
    """One look at all of it."""

    state: State
    logs: dict[str, Log] = {}
    checks: tuple[Monitor, ...] = ()


_FULL, _FULL_SHARED, _LITTLE = 90, 60, 1024
_UNCHECKED = re.compile(r"^unchecked=(.{1,160})", re.MULTILINE)
_KEYED = re.compile(r"([A-Za-z]+)=(\S*)")


def read_state(text: str) -> State:
    units, full, busy, expired, ports, disks = [], [], [], [], [], {}
    memory = None
    for line in text.splitlines():
        kind, _, rest = line.partition("=")
        found = dict(_KEYED.findall(line))
        if kind == "unit":
            units.append(_unit(rest.split()[0], found))
        elif kind in ("disk", "inodes"):
            used, free = _int(found.get("used")), _int(found.get("free", "9999999"))
            where = found[kind]
            limit = _FULL_SHARED if where == "/dev/shm" else _FULL
            if used >= limit or (kind == "disk" and free < _LITTLE):
                full.append(where)
            if kind == "disk":
                disks[where] = used
        elif kind == "busy":
            busy.append(_int(found["busy"]))
        elif kind == "expired":
            expired.append(rest)
        elif kind == "port":
            ports.append(_int(rest))
        elif kind == "memory":
            memory = _int(rest)
    return State(
        units=tuple(units),
        full=tuple(dict.fromkeys(full)),
        busy=tuple(busy),
        expired=tuple(expired),
        ports=tuple(ports),
        memory=memory,
        disks=disks,
        unchecked=why[1] if (why := _UNCHECKED.search(text)) else "",
    )


def read_logs(text: str) -> dict[str, Log]:
    """A unit's name stands alone on its line: beside the words of its log it would read as said."""
    found: dict[str, Log] = {}
    unit = ""
    for line in text.splitlines():
        kind, _, rest = line.partition("=")
        log = found.get(unit, Log(unit=unit))
        if kind == "log":
            unit = rest
            found[unit] = Log(unit=unit)
        elif kind == "count":
            counts = {name: _int(value) for name, value in _KEYED.findall(line)}
            counts["lines"] = counts.pop("count", 0)
            found[unit] = replace(log, **counts)
        elif kind == "runs":
            path, _, marks = rest.partition(" ")
            pairs = tuple((mark[0], _int(mark[2:])) for mark in marks.split() if mark[1:2] == ":")
            found[unit] = replace(log, runs={**log.runs, path: pairs} if pairs else log.runs)
        elif kind == "said":
            found[unit] = replace(log, said=(*log.said, rest))
        elif kind == "last":
            found[unit] = replace(log, last=rest)
    return found


def read_checks(text: str) -> list[Monitor]:
    found: list[Monitor] = []
    lines: list[str] = []
    unit = file = ""
    for line in [*text.splitlines(), "check= "]:
        if line.startswith("check="):
            if file:
                found.append(Monitor(unit=unit, file=file, lines=tuple(lines)))
            unit, _, file = line.removeprefix("check=").partition(" ")
            lines = []
        else:
            lines.append(line.strip())
    return found


def _unit(name: str, found: dict[str, str]) -> Unit:
    return Unit(
        name=name,
        active=found.get("ActiveState", ""),
        restarts=_int(found.get("NRestarts")),
        pid=_int(found.get("MainPID")),
        rss=_int(found.get("rss")),
        up=_int(found.get("up")),
    )


def _int(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
