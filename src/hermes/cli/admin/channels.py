"""`hermes channels`: which chats and sinks there are, whether they work, and a test message."""

from datetime import UTC, datetime

import anyio
import click

from hermes.app.channels.delivery_test import TestedChannel, send_test_message
from hermes.app.channels.states import ChannelState, read_channel_states
from hermes.cli.context import load_settings, query_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_json, print_table
from hermes.cli.render.terminal_text import clean
from hermes.core.channels import Address
from hermes.memory.store import store_exists
from hermes.settings.load import LoadedSettings


@cli_command("hermes channels list --json")
def list_(ctx: click.Context, as_json: bool = False) -> None:
    """List chats and sinks: configured or not, served by which process, and what waits.

    A message for a channel that no running process serves is not lost: it waits here.
    """
    loaded = load_settings(ctx)
    states = channel_states(loaded)
    if as_json:
        print_json([_state_data(each) for each in states])
        return
    print_table(
        ("name", "kind", "status", "home chat", "waiting", ""),
        [
            (
                clean(each.name),
                each.kind,
                status_text(each),
                clean(each.home),
                str(each.waiting or ""),
                clean(each.detail),
            )
            for each in states
        ],
        empty="there are no channels",
    )


@cli_command("""
hermes channels test telegram
hermes channels test telegram:-100123
hermes channels test log
""")
@click.argument("channel", metavar="NAME[:CHAT]")
def test(ctx: click.Context, channel: str, as_json: bool) -> None:
    """Send a test message through a channel, to its home chat or to CHAT.

    Exit codes: 0 it was accepted, 1 it could not be sent, 3 the channel is not configured.
    """
    loaded = load_settings(ctx)
    result = anyio.run(send_test_message, loaded, Address.parse(channel))
    if as_json:
        print_json(_result_data(result))
        return
    where = f" in {result.to.chat}" if result.to.chat else ""
    reference = f" as message {result.reference}" if result.reference else ""
    echo(clean(f"{result.to.channel} accepted it{where}{reference}"))


def channel_states(loaded: LoadedSettings) -> list[ChannelState]:
    now = datetime.now(UTC)
    if not store_exists(loaded.store):
        return anyio.run(read_channel_states, loaded, None, now)
    return query_journal(loaded, lambda journal: read_channel_states(loaded, journal, now))


def status_text(state: ChannelState) -> str:
    if state.kind == "sink":
        return "configured"
    if state.status == "open":
        return "open, listens" if state.listens else "open, only sends"
    return {"idle": "configured"}.get(state.status, state.status)


def _state_data(state: ChannelState) -> dict[str, object]:
    return {name: getattr(state, name) for name in state.__struct_fields__}


def _result_data(result: TestedChannel) -> dict[str, object]:
    return {
        "channel": result.to.channel,
        "chat": result.to.chat,
        "reference": result.reference,
        "seconds": round(result.seconds, 3),
    }
