"""Observes when jobs of cron last ran: by the log lines of cron, else by the log of the job.

A job that fails to start writes no error anywhere: only its absence shows it.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from hermes.sre.probes.probe import Probe

CRON_LOGS = ("/var/log/cron.log", "/var/log/cron", "/var/log/syslog", "/var/log/messages")
MAX_FIRST_READ = 4 << 20
"""Bytes of a log of cron that are read at first; afterwards only what is new."""
SAME_RUN_S = 90.0
"""Writes to the log of a job that follow sooner are of one run. A job that runs each minute is told
by the log of cron alone."""
MAX_COMMANDS = 1_000
_COMMAND = re.compile(
    r"^(?:(?P<iso>\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?)"
    r"|(?P<short>[A-Z][a-z]{2} [ \d]\d [\d:]{8}))"
    r" .*\bCMD \((?P<command>.*)\)\s*$"
)


class JobRuns:
    """Remembers what was read of the logs, and the last run of each job."""

    def __init__(self, cron_logs: Iterable[str] = CRON_LOGS) -> None:
        self._logs = {path: 0 for path in cron_logs}
        """How far each log was read."""
        self._started: dict[str, float] = {}
        """By command: its last start, by cron."""
        self._written: dict[str, tuple[float, float]] = {}
        """By log of a job: the begin of the last run, and the last write."""

    def observe(self, probes: Iterable[Probe], at: float) -> Iterator[tuple[Probe, float]]:
        """Return each job of which a run is known, and the seconds since it."""
        jobs = [each for each in probes if each.kind == "cron"]
        if not jobs:
            return
        for path in self._logs:
            self._read_starts(path, at)
        for job in jobs:
            ran_at = self._last_start(job.what) or self._last_write(job.labels.get("log", ""))
            if ran_at is not None:
                yield job, max(0.0, at - ran_at)

    def _last_start(self, program: str) -> float | None:
        named = re.compile(rf"(?<![\w./-]){re.escape(program)}(?![\w./-])")
        found = (at for command, at in self._started.items() if named.search(command))
        return max(found, default=None)

    def _last_write(self, log: str) -> float | None:
        """When the last run began, by its log: a run may write for a while."""
        if not log:
            return None
        try:
            written_at = Path(log).stat().st_mtime
        except OSError:
            return None
        began_at, before = self._written.get(log, (written_at, written_at))
        if written_at - before >= SAME_RUN_S:
            began_at = written_at
        self._written[log] = (began_at, written_at)
        return began_at

    def _read_starts(self, path: str, now: float) -> None:
        with suppress(OSError), Path(path).open("rb") as file:
            size = file.seek(0, 2)
            read = self._logs[path]
            if read > size:  # it was rotated
                read = 0
            file.seek(read or max(0, size - MAX_FIRST_READ))
            begin = file.tell()
            whole, newline, _ = file.read().rpartition(b"\n")
            self._logs[path] = begin + len(whole) + len(newline)
            for line in whole.decode(errors="replace").splitlines():
                if (found := _COMMAND.match(line)) and (at := _time_of(found, now)) is not None:
                    command = found["command"]
                    self._started[command] = max(at, self._started.get(command, 0.0))
            while len(self._started) > MAX_COMMANDS:
                del self._started[min(self._started, key=lambda each: self._started[each])]


def _time_of(line: re.Match[str], now: float) -> float | None:
    """The time of a line; the old format lacks the year."""
    with suppress(ValueError, OverflowError):
        if line["iso"]:
            return datetime.fromisoformat(line["iso"]).timestamp()
        today = datetime.fromtimestamp(now).astimezone()
        at = datetime.strptime(f"{today.year} {line['short']}", "%Y %b %d %H:%M:%S").astimezone()
        if at - today > timedelta(days=1):
            at = at.replace(year=at.year - 1)
        return at.timestamp()
    return None
