"""Runs what is due: instructions by the agent, commands through the gate, built-in jobs.

The result is recorded together with the notification that delivers it; whether that arrives is the
business of the outbox. A run that a crash cut off is taken up where it was.
"""

import os
import platform
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio
import msgspec

from hermes.agent.conversation import Conversation
from hermes.agent.dependencies import execute_for_run
from hermes.app.application import Application, open_application
from hermes.app.jobs import heartbeat_guard
from hermes.app.people import load_people
from hermes.app.run_locks import RunLocked, RunLocks, lock_run, unlock_run
from hermes.core.bus import Bus
from hermes.core.channels import Address
from hermes.core.errors import HermesError, StoreError, innermost_error
from hermes.core.events import Event
from hermes.core.events.jobs import (
    SCHEDULE_RUN,
    JobEnded,
    JobOutcome,
    JobSkipped,
    JobSpec,
    JobStarted,
)
from hermes.core.events.operations import NotificationQueued
from hermes.core.events.runs import RunStarted
from hermes.core.jobs import Job, JobOccurrence, JobTable
from hermes.core.messages import AttachedText, Value
from hermes.core.protocols import Journal
from hermes.core.run_ids import new_id
from hermes.gateway.sinks import send_heartbeat
from hermes.scheduler.clock import start_occurrence
from hermes.scheduler.due import late_limit_s
from hermes.settings.load import LoadedSettings
from hermes.skills.playbook.commands import run_command

MAX_ATTEMPTS = 3
"""How often one run is taken up after crashes before it is given up."""
MAX_RESULT_CHARS = 20_000
MAX_CONTEXT_CHARS = 8_000
NOTHING_TO_REPORT = "NOTHING TO REPORT"
PRE_STEP_SHARE = 0.5
"""The share of its time limit that the first command of a job may use."""
UNKNOWN_EFFECT = (
    "Hermes ended while it ran; it is not known how far it came, and it is not repeated"
)


class JobResult(Value, kw_only=True, frozen=True):
    outcome: JobOutcome = "ran"
    text: str = ""
    reason: str = ""


BuiltInJob = Callable[[Job, JobOccurrence], Awaitable[JobResult]]


class JobRunner:
    """Runs due jobs; the clock calls its method `run`. `loaded` are the settings that jobs run
    under."""

    def __init__(
        self,
        loaded: LoadedSettings,
        bus: Bus,
        run_locks: RunLocks,
        table: JobTable,
        built_in: Mapping[str, BuiltInJob],
    ) -> None:
        self._loaded, self._bus, self._run_locks = loaded, bus, run_locks
        self._table, self._built_in = table, built_in
        self._slots = anyio.CapacityLimiter(max(1, loaded.settings.schedule.at_once))
        self._holder = f"{platform.node()}:{os.getpid()}:{new_id('holder')}"

    async def run(self, job: Job, row: JobOccurrence) -> None:
        if job.spec.builtin:
            await self._run_built_in(job, row)
            return
        async with self._slots:
            lock = f"job-{row.id}"
            try:
                await lock_run(lock, self._run_locks, self._bus.journal)
            except RunLocked:  # another process works on it
                return
            try:
                await self._run_locked(job, row)
            finally:
                await unlock_run(lock, self._run_locks, self._bus.journal)

    async def _run_built_in(self, job: Job, row: JobOccurrence) -> None:
        began, work = time.monotonic(), self._built_in.get(job.spec.builtin)
        if work is None:
            result = JobResult(outcome="failed", reason="this process cannot run it")
        else:
            result = await self._limited(job.spec, lambda: work(job, row))
        await self._end(job, row, result, began)

    async def _run_locked(self, job: Job, row: JobOccurrence) -> None:
        began = time.monotonic()
        late_s = (datetime.now(UTC) - row.due).total_seconds()
        if row.started is None and late_s > late_limit_s(job.spec, row.due) and not row.by:
            await self._bus.publish(
                JobSkipped(
                    run=SCHEDULE_RUN,
                    job=job.name,
                    occurrence=row.id,
                    due=row.due,
                    reason="Hermes ended before it began, and came back too late",
                )
            )
            return
        if row.started is not None and row.started.attempt >= MAX_ATTEMPTS:
            reason = f"Hermes ended {row.started.attempt} times while it ran"
            await self._end(job, row, JobResult(outcome="failed", reason=reason), began)
            return
        session = row.started.session if row.started is not None else new_id("run")
        started = await start_occurrence(self._bus, row, holder=self._holder, session=session)
        if started is None:  # another scheduler was first
            return
        await self._end(job, row, await self._work(job, row, started), began)

    async def _work(self, job: Job, row: JobOccurrence, started: JobStarted) -> JobResult:
        spec = job.spec
        if spec.command and started.attempt > 1:
            return JobResult(outcome="unknown", reason=UNKNOWN_EFFECT)
        try:
            answerable = await self._can_be_answered(spec)
            async with open_application(
                _job_settings(self._loaded, spec, wait=answerable),
                origin="cron",
                model=spec.model,
                toolsets=self._toolsets(spec),
                directory=Path(spec.directory) if spec.directory else self._loaded.home,
            ) as application:
                run = AgentJobRun(application, job, row, started.session, self._table)
                work = run.run_command if spec.command else run.run_task
                result = await self._limited(spec, work)
                if result.outcome == "timed-out":
                    result = msgspec.structs.replace(result, text=await run.partial_answer())
                return result
        except HermesError as error:
            return JobResult(outcome="failed", reason=str(error))

    def _toolsets(self, spec: JobSpec) -> Sequence[str]:
        """A command needs the terminal also where the model is too small for tools."""
        needs_terminal = spec.command or spec.pre_step
        usual = self._loaded.settings.tools.toolsets if needs_terminal else ()
        return spec.toolsets or usual

    async def _can_be_answered(self, spec: JobSpec) -> bool:
        """Return whether a person with a name is in the channel that the results go to."""
        channel = Address.parse(spec.deliver).channel
        people = await load_people(self._loaded, self._bus.journal)
        return any(channel in person.ids for person in people)

    async def _limited(self, spec: JobSpec, work: Callable[[], Awaitable[JobResult]]) -> JobResult:
        limit = spec.limits.seconds or self._loaded.settings.schedule.time_limit
        try:
            with anyio.fail_after(limit):
                return await work()
        except TimeoutError:
            return JobResult(outcome="timed-out", reason=f"cancelled after {limit:g} s")
        except (HermesError, OSError) as error:  # a full disk must not end the watch
            return JobResult(outcome="failed", reason=str(error))
        except BaseExceptionGroup as group:
            cause = innermost_error(group)
            if not isinstance(cause, HermesError | OSError):
                raise
            return JobResult(outcome="failed", reason=str(cause))

    async def _end(self, job: Job, row: JobOccurrence, result: JobResult, began: float) -> None:
        notice = result_notice(job, row, result)
        ended = JobEnded(
            run=SCHEDULE_RUN,
            job=job.name,
            occurrence=row.id,
            due=row.due,
            outcome=result.outcome,
            text=result.text[:MAX_RESULT_CHARS],
            reason=result.reason[:500],
            seconds=round(time.monotonic() - began, 3),
            notice=notice.notice if notice is not None else "",
        )
        events: list[Event] = [ended] if notice is None else [notice, ended]
        try:
            await self._bus.publish(*events)
        except StoreError:
            if not job.spec.builtin:
                raise
            self._table.apply(ended)  # checks go on while the journal cannot be written
        if job.spec.heartbeat_url and result.outcome in ("ran", "nothing"):
            await send_heartbeat(job.spec.heartbeat_url, heartbeat_guard(self._loaded))


class AgentJobRun:
    """A run of one job in an application of its own."""

    def __init__(
        self,
        application: Application,
        job: Job,
        row: JobOccurrence,
        session: str,
        table: JobTable,
    ) -> None:
        self._application, self._job, self._session = application, job, session
        self._row, self._table = row, table

    async def run_task(self) -> JobResult:
        spec = self._job.spec
        if await _run_exists(self._application.journal, self._session):
            conversation = await self._application.resume(self._session)
            answer = await conversation.finish_open_turn()
            if answer is None and conversation.ended is None:
                answer = await self._say(conversation)
            elif answer is None:
                answer = _last_answer(conversation)
        else:
            conversation = await self._application.begin(
                spec.task, run=self._session, by=self._job.by
            )
            answer = await self._say(conversation)
        ended = conversation.ended
        if ended is not None and ended.outcome == "failed":
            return JobResult(outcome="failed", text=answer, reason=ended.reason)
        if spec.silent_when_nothing and answer.strip().rstrip(".").upper() == NOTHING_TO_REPORT:
            return JobResult(outcome="nothing", text=answer)
        return JobResult(text=answer, reason=ended.reason if ended is not None else "")

    async def _say(self, conversation: Conversation) -> str:
        attached = [*self._row.attached, *self._results_of_others()]
        if self._job.spec.pre_step:
            attached.append(await self._run_pre_step())
        text = task_text(self._job.spec)
        return await conversation.say(text, attached=attached, by=self._job.by)

    async def run_command(self) -> JobResult:
        spec = self._job.spec
        directory = self._application.directory
        await self._application.bus.publish(
            RunStarted(
                run=self._session,
                origin="cron",
                task=spec.command[:200],
                directory=directory,
                by=self._job.by,
            )
        )
        limit = spec.limits.seconds or self._application.loaded.settings.schedule.time_limit
        code, output = await self._run_terminal(spec.command, limit, "job")
        if code != 0:
            reason = "it was denied or could not be run" if code is None else f"exit code {code}"
            return JobResult(outcome="failed", text=output, reason=reason)
        silent = spec.silent_when_nothing and not output.strip()
        return JobResult(outcome="nothing" if silent else "ran", text=output)

    async def partial_answer(self) -> str:
        """Return what the agent had said when it was cut off."""
        if not await _run_exists(self._application.journal, self._session):
            return ""
        dependencies = self._application.agent_dependencies
        try:
            return _last_answer(await Conversation.resume(dependencies, self._session))
        except HermesError:
            return ""

    async def _run_pre_step(self) -> AttachedText:
        limit = PRE_STEP_SHARE * (
            self._job.spec.limits.seconds or self._application.loaded.settings.schedule.time_limit
        )
        code, output = await self._run_terminal(self._job.spec.pre_step, limit, "pre-step")
        text = output if code == 0 else f"{output}\n[exit code {code}]"
        return AttachedText("output", text[-MAX_CONTEXT_CHARS:], author=self._job.spec.pre_step)

    async def _run_terminal(self, command: str, limit_s: float, id: str) -> tuple[int | None, str]:
        dependencies = self._application.agent_dependencies
        execute = execute_for_run(
            dependencies, self._session, dependencies.executor, actor=self._job.by
        )
        self._application.policy.record_text(self._session, command, True)
        done = await run_command(execute, command, limit_s, id=new_id(id))
        return done.code, done.output

    def _results_of_others(self) -> Sequence[AttachedText]:
        found = []
        for name in self._job.spec.context_from:
            other = self._table.jobs.get(name)
            ended = other.last.ended if other is not None and other.last is not None else None
            if isinstance(ended, JobEnded) and ended.text:
                found.append(AttachedText("job", ended.text[-MAX_CONTEXT_CHARS:], author=name))
        return found


def task_text(spec: JobSpec) -> str:
    parts = [spec.task]
    if spec.skills:
        parts.append(f"First read these skills: {', '.join(spec.skills)}.")
    if spec.silent_when_nothing:
        parts.append(
            f"If there is nothing worth reporting, answer with exactly: {NOTHING_TO_REPORT}"
        )
    return "\n\n".join(parts)


def result_notice(job: Job, row: JobOccurrence, result: JobResult) -> NotificationQueued | None:
    """The message with the result; None when there is nothing to send."""
    if not job.spec.deliver or result.outcome == "nothing":
        return None
    title = f"⏰ {job.name}"
    if result.outcome != "ran":
        title += f": {result.outcome}, {result.reason}" if result.reason else f": {result.outcome}"
    return NotificationQueued(
        run=SCHEDULE_RUN,
        notice=f"job:{row.id}",
        about="result",
        title=title[:300],
        text=result.text or result.reason,
        to=job.spec.deliver,
    )


def _job_settings(loaded: LoadedSettings, spec: JobSpec, *, wait: bool) -> LoadedSettings:
    """Return the settings with the limits of the job. Questions wait only if a person can answer
    them."""
    limits = loaded.settings.agent.limits
    if spec.limits.tokens:
        limits = msgspec.structs.replace(limits, run_tokens=spec.limits.tokens)
    if spec.limits.usd:
        limits = msgspec.structs.replace(limits, run_usd=spec.limits.usd)
    return loaded.with_sections(
        agent=msgspec.structs.replace(loaded.settings.agent, limits=limits),
        policy=msgspec.structs.replace(loaded.settings.policy, wait=wait),
    )


def _last_answer(conversation: Conversation) -> str:
    said = [each.text for each in conversation.messages if each.role == "assistant" and each.text]
    return said[-1] if said else ""


async def _run_exists(journal: Journal, run: str) -> bool:
    return bool([0 async for _ in journal.read(run=run, kinds=("run.started",))])
