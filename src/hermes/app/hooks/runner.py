"""Runs the hooks of a home: reads the journal from where each hook was, and runs its handler.

A hook is run at least once for each event. What it was run for is in the journal, so after a crash
it continues where it was, with the same numbers; two processes do not run the same hook.
"""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup

from hermes.app.hooks.webhooks import event_webhooks, webhook_events
from hermes.app.policy import LazyPolicy, home_path
from hermes.app.run_locks import RunLocked, RunLockError, RunLocks, lock_run, unlock_run
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.actions import Action, Approval, Decision
from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events import Event
from hermes.core.events.operations import (
    HOOKS_FOLDER,
    HOOKS_RUN,
    HookCursorMoved,
    HookEnded,
    HookOutcome,
)
from hermes.core.messages import ToolCall
from hermes.core.protocols import Journal, JournalRecord, ToolContext
from hermes.environments.local import LocalEnvironment
from hermes.gateway.hook_events import (
    HookEvent,
    HookEventReader,
    kinds_of,
)
from hermes.gateway.hook_files import (
    TRUST_KINDS,
    Hook,
    HookTrust,
    list_hooks,
    read_hook,
)
from hermes.memory.artifacts import FileArtifacts
from hermes.settings.load import LoadedSettings
from hermes.tools.executor import Executor
from hermes.tools.run_hook import RUN_HOOK_TOOL, HookCall

REFRESH_S = 15.0
"""Seconds between two looks for new hooks, changed files, and hooks of a process that ended."""
MAX_AT_ONCE = 4
MAX_WAITING = 256
"""Events that were read and wait for their hooks; then reading pauses."""
CURSOR_EVERY = 200
"""Runs of hooks between two events that say how far all have come."""
MAX_KEPT_OUTPUT_CHARS = 2_000
DEFAULT_PATH, DEFAULT_LANGUAGE = "/usr/local/bin:/usr/bin:/bin", "C.UTF-8"
_OUTCOMES: Mapping[str, HookOutcome] = {"ok": "ran", "error": "failed", "denied": "denied"}


async def read_trust(journal: Journal) -> HookTrust:
    trust = HookTrust()
    async for recorded in journal.read(kinds=TRUST_KINDS):
        trust.apply(recorded.seq, recorded.event)
    return trust


@dataclass
class HookProgress:
    """The position in the journal that one hook has reached."""

    hook: Hook
    by: str
    """Who trusts it."""
    finished: set[int] = field(default_factory=set)
    """Numbers above `scanned` that are done."""
    scanned: int = 0
    """Events up to this number were read; those it wants and that are not done wait."""
    waiting: set[int] = field(default_factory=set)
    known: bool = True
    """False when nothing says where it begins."""

    def cursor(self) -> int:
        return min(self.waiting) - 1 if self.waiting else self.scanned

    def take(self, event: HookEvent) -> bool:
        """Return whether it is to be run for this event, which waits from now on."""
        known = event.number <= self.scanned or event.number in self.finished | self.waiting
        if known or not self.hook.wants(event.name):
            return False
        self.waiting.add(event.number)
        return True

    def finish(self, number: int) -> None:
        self.waiting.discard(number)
        self.finished.add(number)

    def scan_to(self, number: int) -> None:
        """Record that every event up to this number was read."""
        self.scanned = max(self.scanned, number)
        self.finished = {each for each in self.finished if each > self.scanned}


async def read_progress(journal: Journal, hook: Hook, trust: HookTrust) -> HookProgress:
    """Where the process before this one stopped; at first, at the event that trusts the hook."""
    record = trust.record(hook.name)
    begin, known = record.since, record.since > 0
    async for recorded in journal.read(after=record.since, kinds=("hook.cursor",)):
        if isinstance(recorded.event, HookCursorMoved):
            cursors = dict(recorded.event.cursors)
            known = known or hook.name in cursors
            begin = max(begin, cursors.get(hook.name, 0))
    finished = {
        recorded.event.number
        async for recorded in journal.read(after=begin, kinds=("hook.ended",))
        if isinstance(recorded.event, HookEnded) and recorded.event.hook == hook.name
    }
    return HookProgress(hook, record.by, finished, scanned=begin, known=known)


class HookStarter:
    """Runs one hook for one event through executor and policy, with almost no variables."""

    def __init__(
        self, loaded: LoadedSettings, bus: Bus, environment: LocalEnvironment, policy: LazyPolicy
    ) -> None:
        self._bus, self._environment, self._policy = bus, environment, policy
        self._variables = hook_variables(loaded)
        self._redactor = SecretRedactor(loaded)
        self._artifacts = FileArtifacts(loaded.home / "artifacts")

    async def start(self, hook: Hook, event: HookEvent, by: str) -> HookEnded:
        """`by` trusts the hook: that is the answer where the policy asks."""

        async def approve(action: Action, decision: Decision) -> Approval:
            return Approval(approved=True, by=by)

        began = time.monotonic()
        given = {"hook": hook.name, "event": event.name, "number": event.number}
        tool = HookCall(
            hook.handler,
            event.name,
            msgspec.json.encode(given | {"context": event.context}),
            folder=hook.folder,
            variables=self._variables,
            timeout_s=hook.timeout_s,
        )
        executor = Executor(
            {RUN_HOOK_TOOL: tool}, self._policy, approve, self._bus, redact=self._redactor
        )
        context = ToolContext(
            run=HOOKS_RUN,
            environment=self._environment,
            publish=self._bus.publish,
            call=lambda call: executor.execute(call, context),
            artifacts=self._artifacts,
            origin="hook",
            actor=by,
        )
        call = ToolCall(f"hook-{hook.name}-{event.number}", RUN_HOOK_TOOL, given)
        result = await executor.execute(call, context)
        ran = tool.result
        outcome = _OUTCOMES[result.status]
        detail = result.content if ran is None else ""
        if ran is not None and (ran.timed_out or ran.exit_code):
            outcome = "timed-out" if ran.timed_out else "failed"
            limit = f"ended after {hook.timeout_s:g} s"
            detail = limit if ran.timed_out else f"exit code {ran.exit_code}"
        output = ran.output[-MAX_KEPT_OUTPUT_CHARS:] if ran is not None else ""
        return HookEnded(
            run=HOOKS_RUN,
            hook=hook.name,
            event=event.name,
            number=event.number,
            outcome=outcome,
            seconds=round(time.monotonic() - began, 3),
            detail=detail[:500],
            output=self._redactor(output),
        )


def open_hook_environment(loaded: LoadedSettings) -> LocalEnvironment:
    """Hooks run on the machine of Hermes, wherever the agent works."""
    return LocalEnvironment(loaded.home, hook_variables(loaded))


def open_hook_policy(loaded: LoadedSettings) -> LazyPolicy:
    return LazyPolicy(loaded, loaded.home / HOOKS_FOLDER, isolated=False)


def hook_variables(loaded: LoadedSettings) -> dict[str, str]:
    return {
        "PATH": loaded.secrets.get("PATH") or DEFAULT_PATH,
        "HOME": home_path(loaded),
        "LANG": loaded.secrets.get("LANG") or DEFAULT_LANGUAGE,
    }


class HookRunner:
    """`run` serves every trusted hook that no other process serves."""

    def __init__(self, loaded: LoadedSettings, bus: Bus, run_locks: RunLocks) -> None:
        self._loaded, self._bus, self._run_locks = loaded, bus, run_locks
        self._reader = HookEventReader(bus.journal)
        self._webhooks = {
            name: Hook(name=name, folder="", events=each.events)
            for name, each in event_webhooks(loaded).items()
        }
        self._active: dict[str, HookProgress] = {}
        self._lanes: dict[str, deque[tuple[HookEvent, list[HookProgress]]]] = {}
        self._slots = anyio.CapacityLimiter(MAX_AT_ONCE)
        self._read_ahead = anyio.Semaphore(MAX_WAITING)
        self._refreshed = float("-inf")
        self._ended = 0

    async def run(self) -> None:
        policy = open_hook_policy(self._loaded)
        async with (
            open_hook_environment(self._loaded) as environment,
            anyio.create_task_group() as group,
        ):
            starter = HookStarter(self._loaded, self._bus, environment, policy)
            while True:
                try:
                    await self._read_on(group, starter)
                except StoreError:  # the journal cannot be read now; nothing is lost
                    await anyio.sleep(REFRESH_S)

    async def _read_on(self, group: TaskGroup, starter: HookStarter) -> None:
        if anyio.current_time() - self._refreshed >= REFRESH_S:
            await self._refresh()
        journal, newest = self._bus.journal, await self._bus.journal.last()
        serving = list(self._active.values())
        if serving:
            kinds = {*TRUST_KINDS}.union(*(kinds_of(each.hook.events) for each in serving))
            after = min(each.scanned for each in serving)
            async for recorded in journal.read(after=after, kinds=sorted(kinds)):
                await self._dispatch(recorded, group, starter)
            for each in serving:
                each.scan_to(newest)
        left = self._refreshed + REFRESH_S - anyio.current_time()
        with anyio.move_on_after(max(left, 0.0)):
            await journal.changed(newest) if serving else await anyio.sleep(REFRESH_S)

    async def _refresh(self) -> None:
        """Serve what is trusted now, and give back what is not."""
        journal = self._bus.journal
        trust, hooks = await read_trust(journal), await to_thread.run_sync(self._list)
        usable = {hook.name: hook for hook in hooks if not trust.objection(hook)} | self._webhooks
        for name, progress in list(self._active.items()):
            if usable.get(name) != progress.hook:
                await self._drop(name)
        for name, hook in usable.items():
            if name not in self._active and await self._claim(name):
                progress = await read_progress(journal, hook, trust)
                if not progress.known:  # it begins now
                    progress.scan_to(await journal.last())
                    cursor = (name, progress.scanned)
                    await self._write(HookCursorMoved(run=HOOKS_RUN, cursors=(cursor,)))
                self._active[name] = progress
        self._refreshed = anyio.current_time()

    def _list(self) -> list[Hook]:
        return list_hooks(self._loaded.home)

    async def _claim(self, name: str) -> bool:
        try:
            await lock_run(f"hook-{name}", self._run_locks, self._bus.journal)
        except (RunLocked, RunLockError):
            return False
        return True

    async def _drop(self, name: str) -> None:
        del self._active[name]
        await unlock_run(f"hook-{name}", self._run_locks, self._bus.journal)

    async def _dispatch(
        self, recorded: JournalRecord, group: TaskGroup, starter: HookStarter
    ) -> None:
        if recorded.event.kind in TRUST_KINDS:
            self._refreshed = float("-inf")
            return
        event = await self._reader.read(recorded)
        if event is None:
            return
        takers = [each for each in self._active.values() if each.take(event)]
        if not takers:
            return
        await self._read_ahead.acquire()
        takers.sort(key=lambda each: (each.hook.order, each.hook.name))
        lane = self._lanes.setdefault(event.run, deque())
        lane.append((event, takers))
        if len(lane) == 1:
            group.start_soon(self._serve, event.run, starter)

    async def _serve(self, run: str, starter: HookStarter) -> None:
        """The events of one run, one after the other."""
        lane = self._lanes[run]
        while lane:
            event, takers = lane[0]
            for progress in takers:
                async with self._slots:
                    await self._fire(progress, event, starter)
            lane.popleft()
            self._read_ahead.release()
        del self._lanes[run]

    async def _fire(self, progress: HookProgress, event: HookEvent, starter: HookStarter) -> None:
        name = progress.hook.name
        if self._active.get(name) is not progress:  # not trusted any more
            return
        if name in self._webhooks:
            # One write: what is queued is delivered by the outbox, and never queued twice.
            await self._write(*webhook_events(name, event))
            await self._finish(progress, event)
            return
        now = await to_thread.run_sync(partial(read_hook, self._loaded.home, name))
        if now != progress.hook:
            await self._drop(name)
            return
        await self._write(await starter.start(progress.hook, event, progress.by))
        await self._finish(progress, event)

    async def _finish(self, progress: HookProgress, event: HookEvent) -> None:
        progress.finish(event.number)
        self._ended += 1
        if self._ended % CURSOR_EVERY == 0:
            cursors = tuple((each.hook.name, each.cursor()) for each in self._active.values())
            await self._write(HookCursorMoved(run=HOOKS_RUN, cursors=cursors))

    async def _write(self, *events: Event) -> None:
        """Write the events, and retry until it succeeds: without them the hook would run again."""
        while True:
            try:
                await self._bus.publish(*events)
                return
            except StoreError:
                await anyio.sleep(REFRESH_S)
