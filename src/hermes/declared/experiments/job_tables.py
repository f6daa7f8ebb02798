"""Finds the scheduled jobs that come or go with a changed table of cron.

A job that a changed table started may still run on the host and hold what a service needs, and a
job that is missing since has not done its work. A copy of the host has run neither.
"""

import re
import shlex
from collections.abc import Sequence

from hermes.core.messages import Value
from hermes.declared.experiments.host_programs import ScheduledJob, is_job_table, parse_job_table
from hermes.declared.experiments.put_back import CannotRevertError, ReadContent, find_targets
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import Revert

JOB_POLLS, JOB_POLL_S = 15, 0.1
"""How long a copy waits for a job to end: one that serves something never does."""
_REDIRECTION = re.compile(r"\s*(?:\d|&)?>{1,2}\s*(?:&\d|[^\s&|;<>]+)")
_SHELL_SYNTAX = re.compile(r"[;&|$`()<>{}*?~\\]")
_PATTERN_SYNTAX = re.compile(r"([][().*+?{}|^$\\])")


class TableJobs(Value, frozen=True, kw_only=True):
    """Only jobs that are not in the table before as well as after its change."""

    in_force: tuple[ScheduledJob, ...] = ()
    gone: tuple[ScheduledJob, ...] = ()
    """Those of the changed table that are no longer in it."""


def find_table_jobs(
    suspects: Sequence[Suspect], reverted: Sequence[Revert], read: ReadContent
) -> TableJobs:
    """For a host on which these changes are reverted."""
    by_key = {each.suspect.key: each for each in reverted}
    in_force: list[ScheduledJob] = []
    gone: list[ScheduledJob] = []
    for suspect in suspects:
        if not is_job_table(suspect.change.item.key) or suspect.change.item.kind != "file":
            continue
        before = _read_jobs(suspect, Revert(suspect=suspect), read)
        after = _read_jobs(suspect, None, read)
        now = _read_jobs(suspect, by_key.get(suspect.key), read)
        in_force += [each for each in now if each not in before or each not in after]
        gone += [each for each in after if each not in now]
    return TableJobs(in_force=tuple(in_force), gone=tuple(gone))


def _read_jobs(
    suspect: Suspect, revert: Revert | None, read: ReadContent
) -> tuple[ScheduledJob, ...]:
    path, after = suspect.change.item.key, suspect.change.after
    content = read(after.digest) if after is not None and after.digest else None
    if revert is not None:
        try:
            content = find_targets(revert, read)[0].content
        except CannotRevertError:
            return ()
    return tuple(parse_job_table(path, (content or b"").decode("utf-8", "replace")))


def start_script(job: ScheduledJob) -> str:
    """Runs it in the background, and waits a moment for its end."""
    rounds = " ".join(map(str, range(JOB_POLLS)))
    return (
        f"setsid sh -c {shlex.quote(job.shell_command)} </dev/null >/dev/null 2>&1 & job=$!;"
        f' for i in {rounds}; do kill -0 "$job" 2>/dev/null || break; sleep {JOB_POLL_S}; done'
    )


def end_command(job: ScheduledJob) -> str:
    """Ends the processes that run its program; empty for a command that is more than one."""
    command = _REDIRECTION.sub("", job.command).strip()
    if not command.startswith("/") or _SHELL_SYNTAX.search(command):
        return ""
    try:
        words = " ".join(shlex.split(command))
    except ValueError:
        return ""
    pattern = shlex.quote(_PATTERN_SYNTAX.sub(r"\\\1", words))
    return f"{{ pkill -f -x -- {pattern} || true; }}"
