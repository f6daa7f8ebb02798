"""Probes logs of this host without a shell, by the same rules as the commands in `logs`."""

import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from hermes.sre.probes.kinds.logs import ERROR_PATTERN, JOURNAL_PREFIX, MAX_READ_BYTES
from hermes.sre.probes.kinds.native_services import NativeAnswer
from hermes.sre.probes.probe import UNKNOWN_EXIT_CODE, Probe

MAX_LINE_BYTES, MAX_LINES = 300, 5000
MAX_LOG_AGE_S, MAX_RECENT_BYTES, MAX_RECENT_LINES = 15.0, 65_536, 200
_ERROR_WORDS = tuple(word.encode() for word in ERROR_PATTERN.split("|"))
"""Searched one by one: a case-insensitive regular expression takes seconds for megabytes."""
_REQUEST = re.compile(r"(?:GET|POST|PUT|DELETE|PATCH|HEAD) ([^ ?]+)[^ ]*")
_STATUS = re.compile(r"[^0-9.]([1-5][0-9][0-9])(?:[^0-9.]|$)")


class _LogPosition(NamedTuple):
    """How far a log was read: which file, how much of it, and when."""

    inode: int
    offset: int
    at: int


def is_log_file(probe: Probe) -> bool:
    return bool(probe.what) and not probe.what.startswith(JOURNAL_PREFIX)


def can_read_log(probe: Probe) -> bool:
    """Other patterns are left to grep, whose regular expressions differ."""
    return is_log_file(probe) and probe.pattern in ("", ERROR_PATTERN)


def probe_log(probe: Probe, before: str) -> NativeAnswer:
    path, now = probe.what, int(time.time())
    try:
        found = Path(path).stat()
    except OSError:
        return UNKNOWN_EXIT_CODE, f"{path} cannot be read", None, ""
    if not os.access(path, os.R_OK):
        return UNKNOWN_EXIT_CODE, f"{path} cannot be read", None, ""
    position = _parse_position(before) or _LogPosition(found.st_ino, found.st_size, now)
    count, last = 0, b""
    start = position.offset
    if position.inode != found.st_ino:
        if _inode(f"{path}.1") == position.inode:
            count, last = _find_error_lines(f"{path}.1", position.offset)
        start = 0
    elif found.st_size < start:
        start = 0
    if found.st_size != start:
        more, newest = _find_error_lines(path, start)
        count, last = count + more, newest or last
    keep = f"{found.st_ino}:{found.st_size}:{now}"
    if not count:
        return 0, f"0 new lines of {path} report errors", 0.0, keep
    rate = 60 * count / max(1, now - position.at)
    words = f"{rate:.1f} lines a minute of {path} report errors"
    if rate < (10.0 if probe.limit is None else probe.limit):
        return 0, words, round(rate, 1), keep
    return 1, f"{words}; {last.decode(errors='replace')}", round(rate, 1), keep


def _parse_position(before: str) -> _LogPosition | None:
    parts = before.split(":")
    if len(parts) != 3 or not all(each.isdigit() for each in parts):
        return None
    return _LogPosition(*map(int, parts))


def _inode(path: str) -> int:
    try:
        return Path(path).stat().st_ino
    except OSError:
        return 0


def _find_error_lines(path: str, start: int) -> tuple[int, bytes]:
    """The number of lines with errors, and the last of them; reads only the end of a large log."""
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - MAX_READ_BYTES))
            data = file.read(MAX_READ_BYTES)
    except OSError:
        return 0, b""
    lowered = data.lower()
    words = [word for word in _ERROR_WORDS if word in lowered]
    if not words:
        return 0, b""
    lines = zip(data.split(b"\n"), lowered.split(b"\n"), strict=True)
    found = [line for line, low in lines if any(word in low for word in words)][:MAX_LINES]
    return len(found), found[-1][:MAX_LINE_BYTES]


def probe_answers(probe: Probe, before: str) -> NativeAnswer:
    path = Path(probe.what)
    try:
        age = time.time() - path.stat().st_mtime
        if age > MAX_LOG_AGE_S + 1:
            return 0, "no recent requests", None, ""
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - MAX_RECENT_BYTES))
            lines = file.read(MAX_RECENT_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return UNKNOWN_EXIT_CODE, f"{path} cannot be read", None, ""
    return _judge_answers(lines[-MAX_RECENT_LINES:])


def _judge_answers(lines: list[str]) -> NativeAnswer:
    runs, statuses, count = Counter[str](), dict[str, str](), 0
    for line in lines:
        request = _REQUEST.search(line[:500])
        status = _STATUS.search(line[:500], request.end()) if request else None
        if request is None or status is None:
            continue
        count += 1
        page, number = request[1], int(status[1])
        if number >= 500 or number == 429:
            runs[page] += 1
            statuses[page] = status[1]
        else:
            runs[page] = 0
    bad = [page for page, times in runs.items() if times >= 2]
    words = [
        f"the last {runs[page]} answers for {page[:80]} were bad: {statuses[page]}" for page in bad
    ]
    words.append(f"{len(bad)} paths of {count} recent answers fail")
    return int(bool(bad)), "; ".join(words), float(len(bad)), ""
