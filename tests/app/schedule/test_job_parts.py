"""What a job with a first command, results of others and a heartbeat gives to agent and monitor."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from hermes.app.run_locks import RunLocks
from hermes.app.schedule.runs import JobResult, JobRunner
from hermes.core.bus import Bus
from hermes.core.events.jobs import SCHEDULE_RUN, JobAdded, JobDue, JobEnded, JobSchedule, JobSpec
from hermes.core.jobs import Job, JobOccurrence, JobTable
from hermes.memory.store import open_journal
from hermes.settings.load import load

pytestmark = pytest.mark.anyio
SCHEDULE = JobSchedule(text="every day at 9", zone="UTC", crons=("0 9 * * *",))
DUE = datetime.now(UTC)


@contextmanager
def monitor() -> Iterator[tuple[str, list[str]]]:
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/alive", seen
        finally:
            server.shutdown()
            thread.join()


def opened(url: str) -> dict[str, str]:
    return {"tools.private_addresses": urlsplit(url).netloc}


async def write_on_a_full_disk(job: Job, row: JobOccurrence) -> JobResult:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def run_job(
    folder: Path, spec: JobSpec, answer: str | None = "all fine", **settings: str
) -> tuple[JobEnded, str]:
    """How it ended, and what the model was given. `answer`: None without a model."""
    script = folder / "script.jsonl"
    script.write_text(json.dumps({"text": answer}) + "\n")
    model = {"model.default": f"scripted:{script}"} if answer is not None else {}
    loaded = load(
        home=folder / "home",
        variables={"PATH": os.environ["PATH"], "HOME": str(folder)},
        overrides={**model, "memory.learn_with_model": "false", **settings},
    )
    locks = RunLocks(loaded.home / "locks")
    async with open_journal(loaded.store) as journal:
        bus = Bus(journal)
        other = JobSpec(name="errors", schedule=SCHEDULE, task="count the errors")
        ended: Any = {"run": SCHEDULE_RUN, "job": "errors", "occurrence": "errors@1", "due": DUE}
        await bus.publish(
            JobAdded(run=SCHEDULE_RUN, spec=other, by="alice"),
            JobEnded(**ended, outcome="ran", text="yesterday: 3 errors"),
            JobAdded(run=SCHEDULE_RUN, spec=spec, by="alice"),
            JobDue(run=SCHEDULE_RUN, job=spec.name, occurrence="check@1", due=DUE, by="alice"),
        )
        table = JobTable()
        await table.read(journal)
        job = table.jobs[spec.name]
        await JobRunner(loaded, bus, locks, table, {"audit": write_on_a_full_disk}).run(
            job, job.open[0]
        )
        locks.close()
        events = [each.event async for each in journal.read()]
    (found,) = (e for e in events if isinstance(e, JobEnded) and e.occurrence == "check@1")
    said = [
        json.dumps([each.message.text, [part.text for part in each.message.attached]])
        for each in events
        if each.kind == "message.added" and each.message.role == "user"  # type: ignore[union-attr]
    ]
    return found, "\n".join(said)


async def test_a_first_command_and_results_of_others_are_given_as_others_words(
    tmp_path: Path,
) -> None:
    spec = JobSpec(
        name="check",
        schedule=SCHEDULE,
        task="look at it",
        pre_step="echo from the first command",
        context_from=("errors", "no-such-job"),
    )
    ended, said = await run_job(tmp_path, spec)
    assert (ended.outcome, ended.text) == ("ran", "all fine")
    text, attached = json.loads(said)
    assert "first command" not in text and "3 errors" not in text
    assert [each.strip() for each in attached] == ["yesterday: 3 errors", "from the first command"]


async def test_a_first_command_that_fails_is_told_with_its_code(tmp_path: Path) -> None:
    pre_step = "ls /no/such/folder"
    spec = JobSpec(name="check", schedule=SCHEDULE, task="look at it", pre_step=pre_step)
    ended, said = await run_job(tmp_path, spec)
    assert ended.outcome == "ran"
    assert "[exit code 2]" in json.loads(said)[1][0]


async def test_the_heartbeat_is_requested_after_a_run_that_succeeded(tmp_path: Path) -> None:
    with monitor() as (url, seen):
        spec = JobSpec(name="check", schedule=SCHEDULE, command="true", heartbeat_url=url)
        ended, _ = await run_job(tmp_path, spec, **opened(url))
        assert (ended.outcome, seen) == ("ran", ["/alive"])


async def test_the_heartbeat_of_the_settings_is_also_for_jobs(tmp_path: Path) -> None:
    with monitor() as (url, seen):
        spec = JobSpec(name="check", schedule=SCHEDULE, command="true", heartbeat_url=f"{url}/2")
        await run_job(tmp_path, spec, **{"schedule.heartbeat_url": url})
        assert seen == ["/alive/2"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"])
async def test_a_private_address_that_no_setting_names_is_told_nothing(
    tmp_path: Path, host: str
) -> None:
    with monitor() as (url, seen):
        away = url.replace("127.0.0.1", host)
        spec = JobSpec(name="check", schedule=SCHEDULE, command="true", heartbeat_url=away)
        ended, _ = await run_job(tmp_path, spec)
        assert (ended.outcome, seen) == ("ran", [])


async def test_no_heartbeat_after_a_failure(tmp_path: Path) -> None:
    with monitor() as (url, seen):
        spec = JobSpec(name="check", schedule=SCHEDULE, command="false", heartbeat_url=url)
        ended, _ = await run_job(tmp_path, spec, **opened(url))
        assert (ended.outcome, ended.reason, seen) == ("failed", "exit code 1", [])


async def test_a_monitor_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    with monitor() as (url, _):
        pass
    spec = JobSpec(name="check", schedule=SCHEDULE, command="true", heartbeat_url=url)
    ended, _ = await run_job(tmp_path, spec, **opened(url))
    assert ended.outcome == "ran"


async def test_without_a_capable_model_a_command_runs(tmp_path: Path) -> None:
    spec = JobSpec(name="check", schedule=SCHEDULE, command="echo from the command")
    ended, _ = await run_job(tmp_path, spec, answer=None)
    assert (ended.outcome, ended.text.strip()) == ("ran", "from the command")


async def test_without_a_capable_model_a_task_is_answered_by_checks_or_not_at_all(
    tmp_path: Path,
) -> None:
    spec = JobSpec(name="check", schedule=SCHEDULE, task="Write a poem about the moon")
    ended, _ = await run_job(tmp_path, spec, answer=None)
    assert "without a capable model" in ended.text


async def test_a_full_disk_fails_a_built_in_job_and_ends_nothing_else(tmp_path: Path) -> None:
    spec = JobSpec(name="check", schedule=SCHEDULE, builtin="audit")
    ended, _ = await run_job(tmp_path, spec)
    assert (ended.outcome, ended.reason) == ("failed", "[Errno 28] No space left on device")
