"""Stored forms of the events of jobs, pinned."""

from datetime import UTC, datetime

from hermes.core.events import Event
from hermes.core.events.jobs import (
    ClockJumped,
    JobAdded,
    JobChanged,
    JobDue,
    JobEnded,
    JobLimits,
    JobMissed,
    JobPaused,
    JobRemoved,
    JobResumed,
    JobSchedule,
    JobSkipped,
    JobSpec,
    JobStarted,
    ScheduleInterrupted,
)
from hermes.core.messages import AttachedText

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
SCHEDULE = JobSchedule(
    text="t", zone="UTC", crons=("0 9 * * *",), every_days=2, every_s=60.0, anchor=AT, at=AT
)
SPEC = JobSpec(
    name="n",
    schedule=SCHEDULE,
    task="t",
    command="c",
    builtin="b",
    deliver="d",
    model="m",
    toolsets=("a",),
    skills=("s",),
    directory="/d",
    limits=JobLimits(seconds=1.5, tokens=2, usd=0.5),
    overlap="queue",
    late_s=2.5,
    pre_step="p",
    context_from=("o",),
    silent_when_nothing=True,
    heartbeat_url="u",
)
SPEC_TEXT = (
    '{"name":"n","schedule":{"text":"t","zone":"UTC","crons":["0 9 * * *"],"every_days":2,"ev'
    'ery_s":60.0,"anchor":"2026-01-02T03:04:05.678901Z","at":"2026-01-02T03:04:05.678901Z"},"'
    'task":"t","command":"c","builtin":"b","deliver":"d","model":"m","toolsets":["a"],"skills'
    '":["s"],"directory":"/d","limits":{"seconds":1.5,"tokens":2,"usd":0.5},"overlap":"queue"'
    ',"late_s":2.5,"pre_step":"p","context_from":["o"],"silent_when_nothing":true,"heartbeat_'
    'url":"u"}'
)

PINNED_JOBS: list[tuple[Event, str]] = [
    (
        JobAdded(run="r", at=AT, spec=SPEC, by="b"),
        '{"kind":"job.added",HEAD,"spec":' + SPEC_TEXT + ',"by":"b"}',
    ),
    (
        JobChanged(run="r", at=AT, spec=SPEC, by="b"),
        '{"kind":"job.changed",HEAD,"spec":' + SPEC_TEXT + ',"by":"b"}',
    ),
    (
        JobPaused(run="r", at=AT, job="j", by="b", reason="w"),
        '{"kind":"job.paused",HEAD,"job":"j","by":"b","reason":"w"}',
    ),
    (JobResumed(run="r", at=AT, job="j", by="b"), '{"kind":"job.resumed",HEAD,"job":"j","by":"b"}'),
    (JobRemoved(run="r", at=AT, job="j", by="b"), '{"kind":"job.removed",HEAD,"job":"j","by":"b"}'),
    (
        JobDue(
            run="r",
            at=AT,
            job="j",
            occurrence="o",
            due=AT,
            by="b",
            attached=(AttachedText("webhook", "t", author="a"),),
        ),
        '{"kind":"job.due",HEAD,"job":"j","occurrence":"o","due":"2026-01-02T03:04:05.678'
        '901Z","by":"b","attached":[{"source":"webhook","text":"t","author":"a"}]}',
    ),
    (
        JobStarted(run="r", at=AT, job="j", occurrence="o", session="s", attempt=2, holder="h"),
        '{"kind":"job.started",HEAD,"job":"j","occurrence":"o","session":"s","attempt":2,'
        '"holder":"h"}',
    ),
    (
        JobEnded(
            run="r",
            at=AT,
            job="j",
            occurrence="o",
            due=AT,
            outcome="ran",
            text="t",
            reason="w",
            seconds=0.5,
            notice="n",
        ),
        '{"kind":"job.ended",HEAD,"job":"j","occurrence":"o","due":"2026-01-02T03:04:05.6'
        '78901Z","outcome":"ran","text":"t","reason":"w","seconds":0.5,"notice":"n"}',
    ),
    (
        JobSkipped(run="r", at=AT, job="j", occurrence="o", due=AT, reason="w"),
        '{"kind":"job.skipped",HEAD,"job":"j","occurrence":"o","due":"2026-01-02T03:04:05'
        '.678901Z","reason":"w"}',
    ),
    (
        JobMissed(run="r", at=AT, job="j", first=AT, last=AT, count=2, reason="w"),
        '{"kind":"job.missed",HEAD,"job":"j","first":"2026-01-02T03:04:05.678901Z","last"'
        ':"2026-01-02T03:04:05.678901Z","count":2,"reason":"w"}',
    ),
    (ClockJumped(run="r", at=AT, seconds=-1.5), '{"kind":"clock.jumped",HEAD,"seconds":-1.5}'),
    (
        ScheduleInterrupted(run="r", at=AT, jobs=("j",), count=2, since=AT, reason="w"),
        '{"kind":"schedule.interrupted",HEAD,"jobs":["j"],"count":2,'
        '"since":"2026-01-02T03:04:05.678901Z","reason":"w"}',
    ),
]
