"""Turns and jobs as `/metrics` counts them, from the journal."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.app.run_locks import RunLocks, lock_run, unlock_run
from hermes.app.web.activity import JournalActivity
from hermes.core.events.jobs import SCHEDULE_RUN, JobDue, JobEnded, JobStarted
from hermes.core.events.runs import TurnEnded, TurnStarted
from hermes.memory.store import open_journal
from hermes.settings.load import load

pytestmark = pytest.mark.anyio

NOW = datetime.now(UTC)


async def test_only_a_turn_whose_run_somebody_holds_is_running(tmp_path: Path) -> None:
    loaded = load(home=tmp_path, variables={})
    async with open_journal(loaded.store) as journal:
        activity, locks = JournalActivity(loaded, journal), RunLocks(tmp_path / "locks")
        await journal.append(TurnStarted(run="run-dead", turn=1), TurnStarted(run="run-1", turn=1))
        await lock_run("run-1", locks, journal)
        assert (await activity.gauges())["turns_running"] == 1
        await journal.append(TurnEnded(run="run-1", turn=1, outcome="answered"))
        assert (await activity.gauges())["turns_running"] == 0
        await unlock_run("run-1", locks, journal)
        locks.close()


async def test_jobs_are_due_then_running_then_over(tmp_path: Path) -> None:
    loaded = load(home=tmp_path, variables={})
    async with open_journal(loaded.store) as journal:
        activity = JournalActivity(loaded, journal)

        async def jobs() -> tuple[float, float]:
            found = await activity.gauges()
            return found["jobs_due"], found["jobs_running"]

        assert await jobs() == (0, 0)
        row = {"run": SCHEDULE_RUN, "job": "audit", "occurrence": "audit@1"}
        await journal.append(JobDue(**row, due=NOW, by="alice"))
        assert await jobs() == (1, 0)
        await journal.append(JobStarted(**row))
        assert await jobs() == (0, 1)
        await journal.append(JobEnded(**row, due=NOW, outcome="ran"))
        assert await jobs() == (0, 0)
