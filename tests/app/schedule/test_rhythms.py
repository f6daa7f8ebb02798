"""What the briefing and the review say: what happened, what is coming and how that is known."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermes.app.schedule.rhythms import report_jobs, save_audit
from hermes.app.schedule.runs import JobResult
from hermes.core.events import Event
from hermes.core.events.approvals import ApprovalAnswered, ApprovalRequested, ApprovalSettled
from hermes.core.events.incidents import IncidentClosed, IncidentOpened
from hermes.core.events.jobs import SCHEDULE_RUN, JobEnded, JobSchedule, JobSpec
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.skills import SkillChanged
from hermes.core.jobs import Job, JobOccurrence
from hermes.core.messages import Usage
from hermes.environments.local import LocalEnvironment
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.settings.load import LoadedSettings, load
from hermes.sre.reports.host_audit import DiskUse, HostAudit

pytestmark = pytest.mark.anyio
NOW = datetime.now(UTC)
GIB = 2**20


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedSettings:
    return load(home=tmp_path, variables={"PATH": os.environ["PATH"]})


@pytest.fixture
async def journal() -> AsyncIterator[InMemoryJournal]:
    yield InMemoryJournal()


async def say(loaded: LoadedSettings, journal: InMemoryJournal, name: str) -> JobResult:
    environment = LocalEnvironment(loaded.home, {"PATH": os.environ["PATH"]})
    work = report_jobs(loaded, journal, environment)[name]
    spec = JobSpec(name=name, builtin=name, schedule=JobSchedule(text="x", zone="UTC"))
    row = JobOccurrence(id=f"{name}@1", job=name, due=NOW)
    return await work(Job(spec=spec, added_at=NOW), row)


def incident(id: str, hours: float, minutes: float, seen: int = 0) -> list[Event]:
    at = NOW - timedelta(hours=hours)
    opened = IncidentOpened(
        run=id, incident=id, title=f"{id} is down", severity="P1", seen_before=seen, at=at
    )
    if not minutes:
        return [opened]
    closed = IncidentClosed(
        run=id,
        incident=id,
        outcome="resolved",
        answered_by="playbook",
        at=at + timedelta(minutes=minutes),
    )
    return [opened, closed]


def keep_audits(loaded: LoadedSettings, newest: datetime = NOW) -> None:
    """Three days of a disk of 100 GiB that grows by 4 GiB a day."""
    for hour in range(72):
        used = 52 + hour * 4 / 24 + (0.2, -0.2)[hour % 2]
        disk = DiskUse(mount="/srv", size_kib=100 * GIB, used_kib=int(used * GIB))
        at = newest - timedelta(hours=71 - hour)
        save_audit(loaded, HostAudit(at=at, host="web-1", disks=(disk,)))


@pytest.mark.parametrize("name", ["briefing", "review"])
async def test_nothing_to_say_is_told_to_nobody(
    loaded: LoadedSettings, journal: InMemoryJournal, name: str
) -> None:
    assert (await say(loaded, journal, name)).outcome == "nothing"


async def test_a_briefing_names_what_happened_and_what_comes(
    loaded: LoadedSettings, journal: InMemoryJournal
) -> None:
    keep_audits(loaded)
    await journal.append(*incident("shop", 5, 4, seen=2), *incident("mail", 1, 0))
    text = (await say(loaded, journal, "briefing")).text
    assert "2 incidents, 1 open" in text
    assert "P1 mail is down" in text
    assert "shop is down: the 3rd time" in text
    assert "/srv full in 9 days ± " in text
    assert "grows 4.0 GiB a day; a line through 72 values of 3.0 days" in text


async def test_an_old_audit_is_not_told_as_new(
    loaded: LoadedSettings, journal: InMemoryJournal
) -> None:
    keep_audits(loaded, NOW - timedelta(days=3))
    text = (await say(loaded, journal, "briefing")).text
    assert "the newest one is 3 d" in text


def asked(id: str, until: datetime) -> ApprovalRequested:
    return ApprovalRequested(
        run="r", approval=id, call_id=id, tool="terminal", shown=f"restart {id}", until=until
    )


async def test_only_questions_that_still_wait_are_owed_an_answer(
    loaded: LoadedSettings, journal: InMemoryJournal
) -> None:
    later = NOW + timedelta(hours=1)
    await journal.append(
        asked("answered", later),
        ApprovalAnswered(run="r", approval="answered", approved=True, by="alice"),
        asked("withdrawn", later),
        ApprovalSettled(run="r", approval="withdrawn", outcome="withdrawn"),
        asked("too-late", NOW - timedelta(minutes=1)),
    )
    assert (await say(loaded, journal, "briefing")).outcome == "nothing"
    await journal.append(asked("nginx", later))
    assert "1: restart nginx" in (await say(loaded, journal, "briefing")).text


async def test_a_job_that_fails_again_and_again_is_one_line(
    loaded: LoadedSettings, journal: InMemoryJournal
) -> None:
    for number in range(3):
        await journal.append(
            JobEnded(
                run=SCHEDULE_RUN,
                job="backup",
                occurrence=f"backup@{number}",
                due=NOW,
                outcome="failed",
                reason="exit code 2",
            )
        )
    text = (await say(loaded, journal, "briefing")).text
    assert text.count("backup") == 1
    assert "backup (3 times): exit code 2" in text


async def test_a_review_compares_the_week_with_the_one_before(
    loaded: LoadedSettings, journal: InMemoryJournal
) -> None:
    before = [event for each in range(3) for event in incident(f"old-{each}", 24 * 9, 30)]
    await journal.append(
        *before,
        *incident("shop", 30, 2, seen=4),
        SkillChanged(run="r", skill="restart-shop", digest="d", state="validated", before="draft"),
        SkillChanged(run="r", skill="worn-out", digest="d", state="retired", before="trusted"),
        ModelAnswered(run="r", model="m", usage=Usage(900, 100, cost_usd=0.42)),
    )
    text = (await say(loaded, journal, "review")).text
    assert "1, the week before 3" in text
    assert "shop is down: the 5th time" in text
    assert "restart-shop" in text and "worn-out" in text
    assert "$0.42, 1,000 tokens" in text
