"""`hermes changes list`, `show` and `revert`."""

import sys
from datetime import datetime

import anyio
import click
from msgspec.structs import replace

from hermes.app.changes.change_revert import RevertResult, revert_change
from hermes.app.changes.states import open_state_store
from hermes.app.people import user_name
from hermes.app.policy import deny_unattended
from hermes.app.secret_redactor import SecretRedactor
from hermes.cli import exit_codes
from hermes.cli.context import load_settings, query_journal, since_option
from hermes.cli.lazy import cli_command, cli_group
from hermes.cli.output import echo, note, print_fields, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean
from hermes.core.actions import Action, Approval, Decision
from hermes.core.events.changes import ChangeSeen
from hermes.declared.change_log import RecordedChange
from hermes.declared.diff import describe_change
from hermes.declared.recording import change_event
from hermes.declared.revert import plan_revert
from hermes.declared.state import ITEM_KINDS, change_verb_text
from hermes.declared.store import StateStore
from hermes.memory.store import JournalStore, store_exists
from hermes.settings.load import LoadedSettings

MAX_SHOWN = 200
UNKNOWN = "unknown"
NOTHING_SEEN = (
    "no change was seen; the watch records changes while it runs, and so does: hermes state record"
)
kind_option = click.option(
    "--kind", type=click.Choice(ITEM_KINDS), default=None, help="Only items of this kind."
)


CHANGE_COMMANDS = {
    "list": ("states.changes:list_", "What changed, when and by whom"),
    "show": ("states.changes:show", "One change with its diff, without secrets"),
    "revert": ("states.changes:revert", "Put one item back, under the policy, and verify it"),
}
unit_option = click.option(
    "--unit", default="", metavar="NAME", help="Only what this unit names or is."
)


@cli_group(
    CHANGE_COMMANDS,
    """
hermes changes                                    what the watch has seen, the latest first
hermes changes --since 1h --unit nginx.service
hermes changes --kind package --json
hermes changes show 4f2a1c
hermes changes revert 4f2a1c
""",
)
@since_option
@unit_option
@kind_option
def changes(
    ctx: click.Context, since: datetime | None, unit: str, kind: str | None, as_json: bool
) -> None:
    """What changed on the host: files, units, packages, settings. Without a command: list.

    The watch records changes while it runs. ID is the id of a change, or its beginning.

    Exit codes: 0 fine, 1 there is no such change, or it could not be reverted, 2 wrong usage,
    5 the host could not be read, 6 the store failed, 7 a rule or a person refused.
    """
    if ctx.invoked_subcommand is None:
        _print_changes(ctx, since, unit, kind, MAX_SHOWN, as_json=as_json)


@cli_command("""
hermes changes list --since 1h
hermes changes list --unit nginx.service
hermes changes list --kind package --json
""")
@since_option
@unit_option
@kind_option
@click.option("--limit", default=MAX_SHOWN, show_default=True, help="The most changes to show.")
def list_(
    ctx: click.Context,
    since: datetime | None,
    unit: str,
    kind: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List what changed on the host, the latest first: what, when, who, and how that is known."""
    _print_changes(ctx, since, unit, kind, limit, as_json=as_json)


def _print_changes(
    ctx: click.Context,
    since: datetime | None,
    unit: str,
    kind: str | None,
    limit: int,
    *,
    as_json: bool,
) -> None:
    matching = [
        each
        for each in _read_events(load_settings(ctx), since)
        if (not kind or each.item_kind == kind) and (not unit or _is_of_unit(each, unit))
    ]
    events = matching[-max(limit, 1) :]
    if as_json:
        print_json([_event_data(each) for each in reversed(events)])
        return
    rows = [
        (
            each.change,
            format_time(each.happened or each.at),
            f"{each.item_kind} {each.key}",
            _change_text(each),
            each.author or UNKNOWN,
            each.evidence or each.unknown_because,
        )
        for each in reversed(events)
    ]
    empty = "no change matches" if unit or kind else NOTHING_SEEN
    print_table(("id", "when", "what", "change", "who", "how we know"), rows, empty=empty)
    if left := len(matching) - len(events):
        echo(
            f"{left} earlier changes are not shown; all: "
            f"hermes changes list --limit {len(matching)}"
        )
    if latest := _latest_state(open_state_store(load_settings(ctx))):
        note(
            f"the latest recorded state is of {format_time(latest)}; what changed"
            " since then: hermes state diff"
        )


def _latest_state(store: StateStore) -> datetime | None:
    return max((each.at for each in store.stored_states() if each.at), default=None)


@cli_command("""
hermes changes show 4f2a1c
hermes changes show 4f2a1c --json
""")
@click.argument("id")
def show(ctx: click.Context, id: str, as_json: bool) -> None:
    """Show a change with its diff. Values that look like secrets are not shown."""
    loaded = load_settings(ctx)
    store = open_state_store(loaded)
    recorded = store.changes.find(id)
    text = describe_change(recorded.change, store, SecretRedactor(loaded))
    plan = plan_revert(recorded.change, store, "STAGED")
    if as_json:
        steps = [{"command": step.command, "undo": step.undo} for step in plan.steps]
        revert = {"steps": steps, "impossible": plan.impossible}
        print_json({**_change_data(recorded), "diff": text, "revert": revert})
        return
    data = _change_data(recorded)
    data["revert"] = plan.impossible or f"hermes changes revert {recorded.id}"
    print_fields({name: value for name, value in data.items() if value})
    echo()
    echo(clean(text))


@cli_command("""
hermes changes revert 4f2a1c
""")
@click.argument("id")
def revert(ctx: click.Context, id: str, as_json: bool) -> None:
    """Put the item of the change ID back to what it was before.

    The policy decides about the commands, and may ask you. Afterwards the host is read again; if
    the item is not as it was, the commands are undone.
    """
    loaded = load_settings(ctx)
    approver = _ask_at_terminal if sys.stdin.isatty() and not as_json else deny_unattended
    result = anyio.run(revert_change, loaded, id, approver)
    if as_json:
        print_json(result)
    else:
        _print_result(result)
    if result.outcome == "denied":
        ctx.exit(exit_codes.DENIED)
    if result.outcome != "reverted":
        ctx.exit(exit_codes.FAILED)


def _print_result(result: RevertResult) -> None:
    for command in result.commands:
        echo(clean(f"$ {command}"))
    detail = f": {result.detail}" if result.detail else ""
    echo(clean(f"{result.change}: {result.outcome}{detail}"))


async def _ask_at_terminal(action: Action, decision: Decision) -> Approval:
    echo(clean(f"$ {action.command or action.call.arguments.get('command', '')}"))
    echo(clean(f"rule {decision.rule}: {decision.reason}"))
    approved = click.confirm("Run it?", default=False, err=True)
    return Approval(approved=approved, by=action.actor or user_name())


def _read_events(loaded: LoadedSettings, since: datetime | None) -> list[ChangeSeen]:
    """The oldest first; a change that was seen twice, after a crash, only once. Those of a round
    with more changes than events are in the log of changes alone."""
    logged = [
        replace(change_event(each), at=each.seen_at)
        for each in open_state_store(loaded).changes.all()
        if since is None or each.seen_at >= since
    ]
    published = _published_events(loaded, since)
    found = {(each.change, each.after): each for each in (*logged, *published)}
    return sorted(found.values(), key=lambda each: each.at)


def _published_events(loaded: LoadedSettings, since: datetime | None) -> list[ChangeSeen]:
    if not store_exists(loaded.store):
        return []

    async def read(journal: JournalStore) -> list[ChangeSeen]:
        found = [each.event async for each in journal.read(kinds=("change.seen",), since=since)]
        return [each for each in found if isinstance(each, ChangeSeen)]

    return query_journal(loaded, read)


def _is_of_unit(event: ChangeSeen, unit: str) -> bool:
    wanted = unit.removesuffix(".service")
    return any(each.removesuffix(".service") == wanted for each in event.units)


def _change_text(event: ChangeSeen) -> str:
    if event.verb == "changed":
        return f"changed {', '.join(event.differing)}".strip()
    return change_verb_text(event.item_kind, event.verb)


def _event_data(event: ChangeSeen) -> dict[str, object]:
    return {
        "change": event.change,
        "host": event.host,
        "kind": event.item_kind,
        "key": event.key,
        "verb": event.verb,
        "differing": event.differing,
        "happened": event.happened.isoformat() if event.happened else None,
        "after": event.after.isoformat() if event.after else None,
        "seen": event.at.isoformat(),
        "author": event.author or None,
        "evidence": event.evidence,
        "unknown_because": event.unknown_because,
        "units": event.units,
    }


def _change_data(recorded: RecordedChange) -> dict[str, object]:
    change, author = recorded.change, recorded.author
    return {
        "change": recorded.id,
        "host": recorded.host,
        "kind": change.item.kind,
        "key": change.item.key,
        "verb": change.verb,
        "differing": change.differing,
        "happened": change.at.isoformat() if change.at else "",
        "after": recorded.after.isoformat() if recorded.after else "",
        "seen": recorded.seen_at.isoformat(),
        "author": author.name or UNKNOWN,
        "evidence": author.evidence,
        "unknown_because": "" if author.name else author.unknown_because,
        "units": recorded.units,
    }
