"""Implements the commands for hooks: list them, trust one, try one, read the log."""

from anyio import to_thread

from hermes.app.hooks.runner import HookStarter, open_hook_environment, open_hook_policy, read_trust
from hermes.app.people import require_person
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.events.operations import (
    HOOKS_FOLDER,
    HOOKS_RUN,
    HookEnded,
    HookTrusted,
    HookUntrusted,
)
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.gateway.hook_events import HookEvent
from hermes.gateway.hook_files import Hook, HookTrust, list_hooks
from hermes.plumbing.problems import suggest_name
from hermes.settings.load import LoadedSettings


class HookState(Value, kw_only=True, frozen=True):
    """A hook for people: what it is, and whether it runs."""

    hook: Hook
    by: str = ""
    """Who trusts it, or took the trust away."""
    objection: str = ""
    """Why it does not run; empty when it does."""


async def read_hook_states(loaded: LoadedSettings, journal: Journal | None) -> list[HookState]:
    """Return every hook of the home, and why one does not run."""
    trust = HookTrust() if journal is None else await read_trust(journal)
    return [
        HookState(hook=hook, by=trust.record(hook.name).by, objection=trust.objection(hook))
        for hook in await to_thread.run_sync(list_hooks, loaded.home)
    ]


def find_hook(loaded: LoadedSettings, name: str) -> Hook:
    """Raises `SettingsError` for a hook that is not there, or cannot be run."""
    hooks = {hook.name: hook for hook in list_hooks(loaded.home)}
    if name not in hooks:
        known = suggest_name(name, hooks) or f"put one into {loaded.home / HOOKS_FOLDER}/NAME"
        raise SettingsError(f"there is no hook {name!r}; {known}")
    if hooks[name].problem:
        raise SettingsError(f"the hook {name} cannot be run: {hooks[name].problem}")
    return hooks[name]


async def trust_hook(loaded: LoadedSettings, journal: Journal, name: str) -> HookTrusted:
    """Let it run for every event from now on. Raises `SettingsError` and `PolicyDenied`."""
    by = await require_person(loaded, journal)
    hook = find_hook(loaded, name)
    event = HookTrusted(run=HOOKS_RUN, hook=name, digest=hook.digest, by=by)
    if (await read_trust(journal)).objection(hook):  # else it is trusted, and stays where it is
        await journal.append(event)
    return event


async def untrust_hook(loaded: LoadedSettings, journal: Journal, name: str) -> HookUntrusted:
    """Raises `SettingsError` when it is not trusted."""
    by = await require_person(loaded, journal)
    if not (await read_trust(journal)).record(name).digest:
        raise SettingsError(f"the hook {name!r} is not trusted; `hermes hooks list` shows all")
    event = HookUntrusted(run=HOOKS_RUN, hook=name, by=by)
    await journal.append(event)
    return event


async def try_hook(loaded: LoadedSettings, bus: Bus, name: str, event: str) -> HookEnded:
    """Run it once, with an example; trusted or not, because a person asks for it."""
    by = await require_person(loaded, bus.journal)
    hook = find_hook(loaded, name)
    chosen = event or next((each for each in hook.events if not each.endswith("*")), "test")
    example = HookEvent(name=chosen, number=0, run=HOOKS_RUN, context={"number": 0, "test": True})
    async with open_hook_environment(loaded) as environment:
        starter = HookStarter(loaded, bus, environment, open_hook_policy(loaded))
        ended = await starter.start(hook, example, by)
    await bus.publish(ended)
    return ended


async def read_hook_log(journal: Journal, name: str = "") -> list[HookEnded]:
    """Return what hooks were run for, the oldest first."""
    return [
        recorded.event
        async for recorded in journal.read(kinds=("hook.ended",))
        if isinstance(recorded.event, HookEnded) and name in ("", recorded.event.hook)
    ]
