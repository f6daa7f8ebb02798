"""`hermes hooks`: programs of the operator that run when something happens."""

import anyio
import click

from hermes.app.hooks.trust import (
    HookState,
    read_hook_log,
    read_hook_states,
    trust_hook,
    try_hook,
    untrust_hook,
)
from hermes.app.secret_redactor import SecretRedactor
from hermes.cli import exit_codes
from hermes.cli.context import load_settings, query_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.bus import Bus
from hermes.core.events.operations import HookEnded, HookTrusted
from hermes.gateway.hook_events import event_name_problem
from hermes.memory.store import JournalStore, open_journal, store_exists
from hermes.settings.load import LoadedSettings

DEFAULT_LOG_LINES = 20


@cli_command("hermes hooks list --json")
def list_(ctx: click.Context, as_json: bool = False) -> None:
    """List the hooks: their events, whether they run, and why one does not."""
    states = hook_states(load_settings(ctx))
    if as_json:
        print_json([_state_data(each) for each in states])
        return
    print_table(
        ("hook", "events", "state", "description"),
        [
            (
                each.hook.name,
                ", ".join(each.hook.events),
                clean(state_text(each)),
                clip(clean(each.hook.description), 50),
            )
            for each in states
        ],
        empty="no hook; one is a folder hooks/NAME of the home with HOOK.yaml and handler.py",
    )


def hook_states(loaded: LoadedSettings) -> list[HookState]:
    if store_exists(loaded.store):
        return query_journal(loaded, lambda journal: read_hook_states(loaded, journal))
    return anyio.run(read_hook_states, loaded, None)


def state_text(state: HookState) -> str:
    return state.objection or (f"trusted by {state.by}" if state.by else "trusted")


def _state_data(state: HookState) -> dict[str, object]:
    hook = state.hook
    return {
        "name": hook.name,
        "description": hook.description,
        "events": list(hook.events),
        "timeout_s": hook.timeout_s,
        "order": hook.order,
        "handler": hook.handler,
        "digest": hook.digest,
        "trusted": not state.objection,
        "by": state.by,
        "reason": state.objection,
    }


@cli_command("hermes hooks trust page-me")
@click.argument("name")
def trust(ctx: click.Context, name: str, as_json: bool) -> None:
    """Let the hook NAME run for every event from now on, as its files are now.

    Read them first: they run as your user, without a question. Any change of a file takes the
    trust away. Its files must belong to you, and nobody else may be able to change them.
    """
    loaded = load_settings(ctx)

    async def record() -> HookTrusted:
        async with open_journal(loaded.store) as journal:
            return await trust_hook(loaded, journal, name)

    event = anyio.run(record)
    if as_json:
        print_json({"name": event.hook, "digest": event.digest, "by": event.by})
    else:
        echo(clean(f"{event.hook}: trusted as {event.digest[:12]}"))


@cli_command("hermes hooks untrust page-me")
@click.argument("name")
def untrust(ctx: click.Context, name: str, as_json: bool) -> None:
    """Let the hook NAME run no longer."""
    loaded = load_settings(ctx)
    event = query_journal(loaded, lambda journal: untrust_hook(loaded, journal, name))
    if as_json:
        print_json({"name": event.hook, "trusted": False, "by": event.by})
    else:
        echo(clean(f"{event.hook}: not trusted any more"))


@cli_command("""
hermes hooks test page-me
hermes hooks test page-me --event incident:opened
""")
@click.argument("name")
@click.option("--event", default="", metavar="NAME", help="Default: its first event.")
def test(ctx: click.Context, name: str, event: str, as_json: bool) -> int:
    """Run the hook NAME now with an example that says `"test": true`, trusted or not.

    Exit codes: 0 it ran, 1 it failed, took too long or was denied, 3 there is no such hook.
    """
    loaded = load_settings(ctx)
    if event and (problem := event_name_problem(event)):
        raise click.BadParameter(problem)

    async def run() -> HookEnded:
        async with open_journal(loaded.store) as journal:
            bus = Bus(journal, clean=SecretRedactor(loaded).clean_event)
            return await try_hook(loaded, bus, name, event)

    ended = anyio.run(run)
    if as_json:
        print_json(_log_data(ended))
    else:
        if ended.output:
            echo(clean(ended.output.rstrip("\n")))
        note(clean(_log_text(ended)))
    return exit_codes.OK if ended.outcome == "ran" else exit_codes.FAILED


@cli_command("""
hermes hooks log
hermes hooks log page-me -n 100 --json
""")
@click.argument("name", default="")
@click.option("-n", "lines", default=DEFAULT_LOG_LINES, show_default=True, help="How many.")
def log(ctx: click.Context, name: str, lines: int, as_json: bool) -> None:
    """Show what the hooks, or the hook NAME, were run for, the latest last."""
    loaded = load_settings(ctx)

    async def read(journal: JournalStore) -> list[HookEnded]:
        return await read_hook_log(journal, name)

    found = query_journal(loaded, read) if store_exists(loaded.store) else []
    shown = found[-max(lines, 0) :] if lines else []
    if as_json:
        print_json([_log_data(each) for each in shown])
        return
    print_table(
        ("at", "hook", "event", "number", "result"),
        [
            (format_time(each.at), each.hook, each.event, each.number, clean(_log_text(each)))
            for each in shown
        ],
        empty="no hook was run yet",
    )


def _log_text(ended: HookEnded) -> str:
    detail = f": {clip(ended.detail, 120)}" if ended.detail else ""
    return f"{ended.outcome} in {ended.seconds:.1f} s{detail}"


def _log_data(ended: HookEnded) -> dict[str, object]:
    return {
        "at": ended.at.isoformat(),
        "hook": ended.hook,
        "event": ended.event,
        "number": ended.number,
        "outcome": ended.outcome,
        "seconds": ended.seconds,
        "detail": ended.detail,
        "output": ended.output,
    }
