"""`hermes changes revert`: puts one item back through the policy, and verifies it."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from hermes.agent.dependencies import execute_for_run
from hermes.app.application import Application, open_application
from hermes.app.changes.states import HostStates
from hermes.app.people import user_name
from hermes.core.actions import Approver
from hermes.core.errors import HermesError
from hermes.core.events.changes import ChangeReverted
from hermes.core.messages import Value
from hermes.core.run_ids import new_id
from hermes.declared.revert import RevertPlan, join_undos, plan_revert
from hermes.declared.state import Item, State, StateChange, items_differ
from hermes.declared.store import STAGING_FOLDER
from hermes.plumbing.files import write_atomically
from hermes.policy.undo import KnownUndoPolicy
from hermes.settings.load import LoadedSettings
from hermes.skills.playbook.commands import TerminalResult, incomplete_reason, run_command

ONLY_HERE = (
    "the content of files is put back only on the host on which Hermes runs; "
    "`hermes changes show` prints the difference"
)
STEP_TIMEOUT_S = 60.0
RunStep = Callable[[str, str, str], Awaitable[TerminalResult]]
"""Runs a command under the policy, with its id and its undo."""


class RevertResult(Value, frozen=True, kw_only=True):
    change: str
    outcome: Literal["reverted", "undone", "failed", "denied", "impossible"]
    detail: str = ""
    commands: tuple[str, ...] = ()


async def revert_change(loaded: LoadedSettings, id: str, approver: Approver) -> RevertResult:
    """Raises `HermesError` when there is no such change or the host cannot be read."""
    async with open_application(
        loaded, origin="cli", toolsets=("terminal",), approver=approver
    ) as application:
        states = HostStates(loaded, application.agent_dependencies.environment)
        recorded = states.store.changes.find(id)
        folder = str(loaded.home / STAGING_FOLDER)
        plan = plan_revert(recorded.change, states.store, folder)
        reason = plan.impossible or (ONLY_HERE if plan.staged and not states.is_local else "")
        if reason:
            return RevertResult(change=recorded.id, outcome="impossible", detail=reason)
        known = states.store.latest(states.host, "live")
        live = await states.collect(known)
        _check_still_there(plan.change, live)
        # The number of a rule may be another one by now.
        now = replace(recorded.change, after=live.items.get(recorded.change.item))
        plan = plan_revert(now, states.store, folder)
        try:
            _stage(plan, states)
            result = await _apply(application, plan, states, recorded.id)
        finally:
            _remove_staged(plan)
        await application.bus.publish(_event(result))
        return result


def _check_still_there(change: StateChange, live: State) -> None:
    now = live.items.get(change.item)
    if _is_like(now, change.before):
        raise HermesError(f"{change.item} is as it was before the change already")
    if not _is_like(now, change.after):
        raise HermesError(
            f"{change.item} has changed again since; see the latest change with: "
            "hermes state record && hermes changes"
        )


def _is_like(now: Item | None, wanted: Item | None) -> bool:
    if now is None or wanted is None:
        return now is wanted
    return not items_differ(now, wanted)


def _stage(plan: RevertPlan, states: HostStates) -> None:
    """Content is written where only its owner can read it."""
    for path, digest in plan.staged.items():
        content = states.store.content(digest)
        if content is None:
            raise HermesError(f"the content of {plan.change.item.key} is no longer in the store")
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(Path(path), content)


def _remove_staged(plan: RevertPlan) -> None:
    for path in plan.staged:
        with suppress(OSError):
            Path(path).unlink(missing_ok=True)


async def _apply(
    application: Application, plan: RevertPlan, states: HostStates, id: str
) -> RevertResult:
    run_step = _step_runner(application)
    command = " && ".join(step.command for step in plan.steps)
    undo = join_undos([step.undo for step in plan.steps])
    commands = tuple(step.command for step in plan.steps)
    done = await run_step(f"revert-{id}", command, undo)
    if done.status == "denied":
        return RevertResult(change=id, outcome="denied", detail=done.output, commands=commands)
    reason = incomplete_reason(done) or (done.output.strip()[-300:] if done.code else "")
    if not reason and not done.code:
        reason = await _why_not_reverted(plan, states)
        if not reason:
            return RevertResult(change=id, outcome="reverted", commands=commands)
    undone = await run_step(f"undo-{id}", undo, command)
    return RevertResult(
        change=id,
        outcome="undone" if undone.code == 0 else "failed",
        detail=reason or f"exit code {done.code}",
        commands=commands,
    )


async def _why_not_reverted(plan: RevertPlan, states: HostStates) -> str:
    live = await states.collect(states.store.latest(states.host, "live"))
    if _is_like(live.items.get(plan.change.item), plan.change.before):
        return ""
    return f"after the commands, {plan.change.item} is not as it was before the change"


def _step_runner(application: Application) -> RunStep:
    dependencies, run = application.agent_dependencies, new_id("revert")
    undo_by_call: dict[str, str] = {}
    executor = dependencies.executor.with_policy(
        KnownUndoPolicy(dependencies.executor.policy, undo_by_call)
    )
    execute = execute_for_run(dependencies, run, executor, actor=dependencies.by)

    async def run_step(id: str, command: str, undo: str) -> TerminalResult:
        undo_by_call[id] = undo
        return await run_command(execute, command, STEP_TIMEOUT_S, id=id)

    return run_step


def _event(result: RevertResult) -> ChangeReverted:
    return ChangeReverted(
        run=new_id("revert"),
        change=result.change,
        by=user_name(),
        outcome=result.outcome,
        detail=result.detail[:300],
    )
