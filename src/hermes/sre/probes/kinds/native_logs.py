"""Reads logs of this host without a shell, by the same rules as the shell texts in `logs`."""

import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from hermes.sre.probes.kinds.logs import JOURNAL, LARGEST_LOOK_BYTES, TROUBLE
from hermes.sre.probes.kinds.native_services import Answer
from hermes.sre.probes.probe import UNKNOWN, Probe

LINE_LIMIT, LINES_LIMIT = 300, 5000
RECENT_S, RECENT_BYTES, RECENT_LINES = 15.0, 65_536, 200
_TROUBLE_WORDS = tuple(word.encode() for word in TROUBLE.split("|"))
"""Sought one by one: over megabytes a regular expression that ignores case takes seconds."""
_REQUEST = re.compile(r"(?:GET|POST|PUT|DELETE|PATCH|HEAD) ([^ ?]+)[^ ]*")
_STATUS = re.compile(r"[^0-9.]([1-5][0-9][0-9])(?:[^0-9.]|$)")


class _Place(NamedTuple):
    """How far a log was read: which file, how much of it, and when."""

    inode: int
    offset: int
    at: int


def is_file(probe: Probe) -> bool:
    return bool(probe.what) and not probe.what.startswith(JOURNAL)


def can_read(probe: Probe) -> bool:
    """A pattern of a person's is left to grep, whose regular expressions are others."""
    return is_file(probe) and probe.pattern in ("", TROUBLE)


def log(probe: Probe, before: str) -> Answer:
    path, now = probe.what, int(time.time())
    try:
        found = Path(path).stat()
    except OSError:
        return UNKNOWN, f"{path} cannot be read", None, ""
    if not os.access(path, os.R_OK):
        return UNKNOWN, f"{path} cannot be read", None, ""
    place = _place(before) or _Place(found.st_ino, found.st_size, now)
    count, last = 0, b""
    start = place.offset
    if place.inode != found.st_ino:
        if _inode(f"{path}.1") == place.inode:
            count, last = _trouble(f"{path}.1", place.offset)
        start = 0
    elif found.st_size < start:
        start = 0
    if found.st_size != start:
        more, newest = _trouble(path, start)
        count, last = count + more, newest or last
    keep = f"{found.st_ino}:{found.st_size}:{now}"
    if not count:
        return 0, f"0 new lines of {path} are about trouble", 0.0, keep
    rate = 60 * count / max(1, now - place.at)
    words = f"{rate:.1f} lines a minute of {path} are about trouble"
    if rate < (10.0 if probe.limit is None else probe.limit):
        return 0, words, round(rate, 1), keep
    return 1, f"{words}; {last.decode(errors='replace')}", round(rate, 1), keep


def _place(before: str) -> _Place | None:
    parts = before.split(":")
    if len(parts) != 3 or not all(each.isdigit() for each in parts):
        return None
    return _Place(*map(int, parts))


def _inode(path: str) -> int:
    try:
        return Path(path).stat().st_ino
    except OSError:
        return 0


def _trouble(path: str, start: int) -> tuple[int, bytes]:
    """How many lines are about trouble, and the last of them; of too much the end is read."""
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - LARGEST_LOOK_BYTES))
            data = file.read(LARGEST_LOOK_BYTES)
    except OSError:
        return 0, b""
    lowered = data.lower()
    words = [word for word in _TROUBLE_WORDS if word in lowered]
    if not words:
        return 0, b""
    lines = zip(data.split(b"\n"), lowered.split(b"\n"), strict=True)
    found = [line for line, low in lines if any(word in low for word in words)][:LINES_LIMIT]
    return len(found), found[-1][:LINE_LIMIT]


def answers(probe: Probe, before: str) -> Answer:
    path = Path(probe.what)
    try:
        age = time.time() - path.stat().st_mtime
        if age > RECENT_S + 1:
            return 0, "nobody asked lately", None, ""
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - RECENT_BYTES))
            lines = file.read(RECENT_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return UNKNOWN, f"{path} cannot be read", None, ""
    return _judged(lines[-RECENT_LINES:])


def _judged(lines: list[str]) -> Answer:
    runs, said, count = Counter[str](), dict[str, str](), 0
    for line in lines:
        request = _REQUEST.search(line[:500])
        status = _STATUS.search(line[:500], request.end()) if request else None
        if request is None or status is None:
            continue
        count += 1
        page, number = request[1], int(status[1])
        if number >= 500 or number == 429:
            runs[page] += 1
            said[page] = status[1]
        else:
            runs[page] = 0
    bad = [page for page, times in runs.items() if times >= 2]
    words = [
        f"the last {runs[page]} answers for {page[:80]} were bad: {said[page]}" for page in bad
    ]
    words.append(f"{len(bad)} paths of {count} recent answers fail")
    return int(bool(bad)), "; ".join(words), float(len(bad)), ""
