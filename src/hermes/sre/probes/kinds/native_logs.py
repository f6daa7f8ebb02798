"""Probes logs of this host without a shell, by the same rules as the commands in `logs`."""

import os
import re
import time
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from hermes.core.incident import NOT_REQUESTED
from hermes.sre.probes.kinds.logs import (
    ERROR_PATTERN,
    ERROR_WORDS,
    JOURNAL_PREFIX,
    MAX_READ_BYTES,
    NO_ERROR_PATTERN,
)
from hermes.sre.probes.kinds.native_services import NativeAnswer
from hermes.sre.probes.probe import UNKNOWN_EXIT_CODE, Probe

MAX_LINE_BYTES, MAX_LINES = 300, 5000
MAX_LOG_AGE_S, MAX_RECENT_BYTES, MAX_RECENT_LINES = 15.0, 65_536, 200
MIN_BAD_ANSWERS, MIN_FAILURE_S, FORGET_PAGE_S = 3, 10, 1800
OWN_AGENT = "hermes-probe"
"""By what our own requests are known in a log."""
MAX_FAILING_PAGES, MAX_PAGE_CHARS = 20, 200
_ERROR_WORDS = tuple(word.encode() for word in ERROR_WORDS)
"""Searched one by one: a case-insensitive regular expression takes seconds for megabytes."""
_NO_ERROR = re.compile(NO_ERROR_PATTERN.encode())
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
    hits = ((line, low) for line, low in lines if any(word in low for word in words))
    found = [line for line, low in islice(hits, MAX_LINES) if not _NO_ERROR.search(low)]
    return len(found), found[-1][:MAX_LINE_BYTES] if found else b""


def probe_answers(probe: Probe, before: str) -> NativeAnswer:
    """Without `before` the last lines are judged, afterwards only new ones: a page fails until it
    is answered well, or was not requested for a long time."""
    path, now = Path(probe.what), int(time.time())
    position, failures = _parse_failures(before)
    try:
        found = path.stat()
        if position is None and now - found.st_mtime > MAX_LOG_AGE_S + 1:
            lines = list[str]()
        else:
            lines = _read_requests(path, found, position)
    except OSError:
        return UNKNOWN_EXIT_CODE, f"{path} cannot be read", None, ""
    count = _count_answers(lines, failures, now)
    gone = [page for page, each in failures.items() if now - each.last_at > FORGET_PAGE_S]
    for page in gone:
        del failures[page]
    keep = _failures_text(_LogPosition(found.st_ino, found.st_size, now), failures)
    if position is None:
        bad = [page for page, each in failures.items() if each.times >= 2]
    else:
        bad = [page for page, each in failures.items() if each.lasts]
    words = [
        f"the last {failures[page].times} answers for {page[:80]} were bad: {failures[page].status}"
        for page in bad
    ]
    if position is None and not lines:
        words.append("no recent requests")
    else:
        words.append(f"{len(bad)} paths of {count} recent answers fail")
    words += [f"{NOT_REQUESTED} {page[:80]}: whether it works is not known" for page in gone]
    return int(bool(bad)), "; ".join(words), float(len(bad)) if lines else None, keep


def _read_requests(path: Path, found: os.stat_result, position: _LogPosition | None) -> list[str]:
    """The last lines, or those since a position; of a flood only its end."""
    most = MAX_RECENT_BYTES if position is None else MAX_READ_BYTES
    same = position is not None and position.inode == found.st_ino
    start = position.offset if position is not None and same else 0
    if found.st_size < start:
        start = 0
    with path.open("rb") as file:
        file.seek(max(start, file.seek(0, os.SEEK_END) - most))
        lines = file.read(most).decode(errors="replace").splitlines()
    return lines[-(MAX_RECENT_LINES if position is None else MAX_LINES) :]


class _PageFailure(NamedTuple):
    """The bad answers of one page since its last good one."""

    status: str
    times: int
    first_at: int
    last_at: int

    @property
    def lasts(self) -> bool:
        """One person who repeats a request that fails is no outage."""
        return self.times >= MIN_BAD_ANSWERS and self.last_at - self.first_at >= MIN_FAILURE_S


def _count_answers(lines: list[str], failures: dict[str, _PageFailure], now: int) -> int:
    """How many answers there are; `failures` is brought up to date."""
    count = 0
    for line in lines:
        request = _REQUEST.search(line[:500])
        status = _STATUS.search(line[:500], request.end()) if request else None
        if request is None or status is None:
            continue
        count += 1
        page, number = request[1][:MAX_PAGE_CHARS], int(status[1])
        if number >= 500 and OWN_AGENT in line:
            continue  # no user has seen it; the probe that asked says so itself
        if number < 500 and number != 429:
            failures.pop(page, None)
        elif page in failures or len(failures) < MAX_FAILING_PAGES:
            known = failures.get(page, _PageFailure(status[1], 0, now, now))
            failures[page] = _PageFailure(status[1], known.times + 1, known.first_at, now)
    return count


def _parse_failures(before: str) -> tuple[_LogPosition | None, dict[str, _PageFailure]]:
    position, *rest = before.split(" ")
    failures = {}
    for each in rest:
        page, status, *numbers = each.split("|")
        if len(numbers) == 3 and all(number.isdigit() for number in numbers):
            failures[page] = _PageFailure(status, *map(int, numbers))
    return _parse_position(position), failures


def _failures_text(position: _LogPosition, failures: dict[str, _PageFailure]) -> str:
    pages = (
        f"{page.replace('|', '')}|{'|'.join(map(str, each))}" for page, each in failures.items()
    )
    return " ".join((":".join(map(str, position)), *pages))
