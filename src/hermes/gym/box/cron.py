"""Cron of a box: the tables of /etc, a minute as long as the plan says."""

import os
import signal
import time

from hermes.gym.box.logbook import Logbook

TABLES = ("/etc/crontab", "/etc/cron.d", "/var/spool/cron/crontabs")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Job:
    def __init__(self, table: str, when: list[str], user: str, command: str) -> None:
        self.table = table
        self.when = when
        self.user = user
        self.command = command

    def due(self, moment: time.struct_time) -> bool:
        values = (
            moment.tm_min,
            moment.tm_hour,
            moment.tm_mday,
            moment.tm_mon,
            (moment.tm_wday + 1) % 7,
        )
        return all(_fits(field, value) for field, value in zip(self.when, values, strict=True))


def jobs() -> list[Job]:
    found = []
    for place in TABLES:
        paths = (
            [f"{place}/{name}" for name in sorted(_listed(place))]
            if os.path.isdir(place)  # noqa: PTH112 - pathlib is slow to import
            else [place]
        )
        for path in paths:
            try:
                with open(path, errors="replace") as file:  # noqa: PTH123 - pathlib is slow to import
                    text = file.read()
            except OSError:
                continue
            own = path.startswith(TABLES[2])
            found += _read(path, text, own=own)
    return found


def _read(path: str, text: str, *, own: bool) -> list[Job]:
    found = []
    for line in text.splitlines():
        words = line.split(None, 5 if own else 6)
        if (
            not words
            or words[0].startswith("#")
            or "=" in words[0]
            or len(words) < (6 if own else 7)
        ):
            continue
        user = os.path.basename(path) if own else words[5]  # noqa: PTH119
        found.append(Job(path, words[:5], user, words[-1]))
    return found


def launch(job: Job, log: Logbook) -> int:
    """The process that runs it; its output goes to the log of cron."""
    log.note("cron.service", "CRON[1]", f"({job.user}) CMD ({job.command})")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.close(reading)
            for target in (1, 2):
                os.dup2(writing, target)
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.chdir("/root")
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.execve(
                "/bin/sh",
                ["sh", "-c", job.command],
                {"PATH": PATH, "HOME": "/root", "LOGNAME": job.user},
            )
        finally:
            os._exit(127)
    os.close(writing)
    os.close(reading)  # as with most servers, nobody reads root's mail
    return pid


def _fits(field: str, value: int) -> bool:
    for part in field.split(","):
        span, _, step = part.partition("/")
        every = int(step or 1)
        if span == "*":
            if value % every == 0:
                return True
            continue
        low, dash, high = span.partition("-")
        if not low.isdigit():
            return False
        top = int(high) if dash else int(low)
        if int(low) <= value <= top and (value - int(low)) % every == 0:
            return True
    return False


def _listed(folder: str) -> list[str]:
    return [name for name in os.listdir(folder) if "." not in name]  # noqa: PTH208
