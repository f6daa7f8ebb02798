"""`hermes state list`, `show`, `diff`, `record` and `delete`."""

from collections import Counter

import anyio
import click

from hermes.app.changes.states import (
    lower_priority,
    open_host_states,
    open_state_store,
    record_state,
    used_cpu_seconds,
)
from hermes.app.secret_redactor import SecretRedactor
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_fields, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean
from hermes.cli.states.changes import kind_option
from hermes.core.errors import HermesError
from hermes.declared.diff import describe_change, hide_value
from hermes.declared.recording import RecordedRound
from hermes.declared.state import (
    UNCOMPARED_ATTRIBUTES,
    Item,
    ItemId,
    State,
    StateChange,
    change_verb_text,
    compare,
)
from hermes.declared.store import StateStore
from hermes.settings.load import LoadedSettings

NO_STATES = "no state was recorded; the watch records them, and so does: hermes state record"


@cli_command("""
hermes state list
hermes state list --json
""")
def list_(ctx: click.Context, as_json: bool) -> None:
    """List the recorded states, the newest first; damaged ones with the reason."""
    store = open_state_store(load_settings(ctx))
    states = list(store.stored_states())
    damaged = store.damaged_content()
    if as_json:
        print_json({"states": states, "damaged_content": damaged})
        return
    rows = [
        (
            each.id,
            each.source,
            each.host,
            format_time(each.at) if each.at else None,
            f"{each.items:,}",
            f"damaged: {each.damaged}" if each.damaged else "",
        )
        for each in states
    ]
    print_table(("id", "source", "host", "when", "items", ""), rows, empty=NO_STATES)
    for name in damaged:
        note(f"content/{name} is damaged: the content in it is missing")


@cli_command("""
hermes state show 000012
hermes state show 000012 --kind file --key /etc/nginx
""")
@click.argument("id")
@kind_option
@click.option("--key", default="", metavar="TEXT", help="Only items whose key contains it.")
def show(ctx: click.Context, id: str, kind: str | None, key: str, as_json: bool) -> None:
    """Show what a state consists of: counts by kind, or with --kind or --key the items."""
    state = open_state_store(load_settings(ctx)).load(id)
    items = [
        (item_id, item)
        for item_id, item in sorted(state.items.items())
        if (not kind or item_id.kind == kind) and key in item_id.key
    ]
    if as_json:
        print_json({**_state_data(state), "items": [_item_data(*each) for each in items]})
        return
    if kind or key:
        rows = [(item_id.kind, item_id.key, _attributes_text(item)) for item_id, item in items]
        print_table(("kind", "key", "attributes"), rows, empty="no such items")
        return
    counts = Counter(item_id.kind for item_id in state.items)
    print_fields({**_state_data(state), **{name: f"{count:,}" for name, count in counts.items()}})


@cli_command("""
hermes state diff                   from the last known good state to now
hermes state diff 000012            from that state to now
hermes state diff 000012 000015
""")
@click.argument("before", required=False, default="")
@click.argument("after", required=False, default="")
@kind_option
@click.option("--content", is_flag=True, help="With the differing lines, without secrets.")
def diff(
    ctx: click.Context, before: str, after: str, kind: str | None, content: bool, as_json: bool
) -> None:
    """Show what differs between two states. Without AFTER the host is read now."""
    loaded = load_settings(ctx)
    store, old, new = anyio.run(_two_states, loaded, before, after)
    redact = SecretRedactor(loaded)
    changes = [each for each in compare(old, new) if not kind or each.item.kind == kind]
    if as_json:
        print_json([_difference_data(each, store, redact, content=content) for each in changes])
        return
    rows = [
        (
            str(each.item),
            change_verb_text(each.item.kind, each.verb),
            each.differing if each.verb == "changed" else "",
            _when(each),
        )
        for each in changes
    ]
    print_table(("what", "change", "differing", "when"), rows, empty="nothing differs")
    if content:
        for each in changes:
            echo(clean(f"\n{each.item}\n{describe_change(each, store, redact)}"))


async def _two_states(
    loaded: LoadedSettings, before: str, after: str
) -> tuple[StateStore, State, State]:
    async with open_host_states(loaded) as states:
        store = states.store
        old = store.load(before) if before else store.latest(states.host)
        if old is None:
            raise HermesError(
                "there is no known good state yet; while the host is fine, record one with: "
                "hermes state record --known-good"
            )
        if after:
            return store, old, store.load(after)
        live = store.latest(states.host, "live") or old
        return store, old, await states.collect(live)


@cli_command("""
hermes state record
hermes state record --known-good
""")
@click.option("--known-good", is_flag=True, help="The host is fine: a state to compare with.")
@click.option("--for-watch", is_flag=True, hidden=True)
def record(ctx: click.Context, known_good: bool, for_watch: bool, as_json: bool) -> None:
    """Record the state of the host now, and the changes since the last time."""
    loaded = load_settings(ctx)
    if for_watch:
        lower_priority()
    found = anyio.run(_record, loaded, known_good, for_watch)
    if for_watch:
        echo(f"{used_cpu_seconds():.2f} {'known' if found.has_known_good else 'none'}")
        return
    if as_json:
        print_json(
            {
                "host": found.host,
                "state": found.state,
                "known_good": found.known_good,
                "items": found.items,
                "changes": [each.id for each in found.changes],
                "left_out": found.left_out,
                "seconds": found.seconds,
            }
        )
        return
    state = found.known_good or found.state or "unchanged"
    changes = f"{len(found.changes)} changes since the last time"
    echo(clean(f"{found.host}: {state}, {found.items:,} items, {changes}, {found.seconds:.1f} s"))
    for each in found.left_out[:10]:
        note(f"left out: {each}")


async def _record(loaded: LoadedSettings, known_good: bool, for_watch: bool) -> RecordedRound:
    try:
        return await record_state(loaded, known_good=known_good, if_healthy=for_watch)
    except OSError as error:
        raise HermesError(f"the state could not be saved: {error}") from error


@cli_command("""
hermes state delete 000012-4f2a
""")
@click.argument("id")
def delete(ctx: click.Context, id: str, as_json: bool) -> None:
    """Delete the state with this whole ID. Content that nothing else refers to goes later."""
    open_state_store(load_settings(ctx)).delete(id)
    if as_json:
        print_json({"deleted": id})
    else:
        echo(f"{id}: deleted")


def _state_data(state: State) -> dict[str, object]:
    return {
        "host": state.host,
        "source": state.source,
        "at": state.at.isoformat(),
        "left_out": state.left_out,
    }


def _item_data(item_id: ItemId, item: Item) -> dict[str, object]:
    return {"kind": item_id.kind, "key": item_id.key, "attributes": _shown_attributes(item)}


def _shown_attributes(item: Item) -> dict[str, str]:
    return {
        name: hide_value(name, value)
        for name, value in item.attributes.items()
        if name not in UNCOMPARED_ATTRIBUTES
    }


def _attributes_text(item: Item) -> str:
    return ", ".join(f"{name} {value}" for name, value in _shown_attributes(item).items())


def _when(change: StateChange) -> str | None:
    return format_time(change.at) if change.at else None


def _difference_data(
    change: StateChange, store: StateStore, redact: SecretRedactor, *, content: bool
) -> dict[str, object]:
    data: dict[str, object] = {
        "kind": change.item.kind,
        "key": change.item.key,
        "verb": change.verb,
        "differing": change.differing,
        "happened": change.at.isoformat() if change.at else None,
    }
    if content:
        data["diff"] = describe_change(change, store, redact)
    return data
