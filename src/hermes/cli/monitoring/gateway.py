"""`hermes gateway`: conversations with people through the configured chat channels."""

import signal
from collections.abc import Mapping

import anyio
import click

from hermes.cli import exit_codes
from hermes.cli.context import load_settings, query_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import note, print_json, print_table
from hermes.cli.render.terminal_text import clean
from hermes.core.events.operations import ChannelClosed, ChannelOpened
from hermes.gateway.manifest import ConfiguredChannel
from hermes.memory.store import JournalStore, store_exists
from hermes.plumbing.files import is_locked
from hermes.plumbing.long_running import limit_heap, print_crashes
from hermes.settings.load import LoadedSettings


@cli_command("""
hermes gateway run                     until Ctrl-C
hermes gateway run --model none        answers from checks and the journal only
""")
@click.option("--model", default="", help="A model; default: as configured.")
def run(ctx: click.Context, model: str) -> int:
    """Talk with people through the chat channels that are configured.

    Turns that an earlier process left are finished first. A channel that another process receives
    from is left to it. SIGTERM lets running turns end; the rest is resumed by the next start.

    Exit codes: 0 ended by a signal, 3 no channel can be used.
    """
    loaded = load_settings(ctx)
    limit_heap()
    print_crashes()
    return exit_codes.OK if anyio.run(_run, loaded, model) else exit_codes.SETTINGS


async def _run(loaded: LoadedSettings, model: str) -> bool:
    """Return False when the gateway ended without a signal."""
    from hermes.app.channels.gateway import keep_gateway
    from hermes.app.service.manager_notification import ManagerNotification

    signalled = False
    async with anyio.create_task_group() as group:

        async def wait_for_signal() -> None:
            nonlocal signalled
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    signalled = True
                    group.cancel_scope.cancel()
                    return

        group.start_soon(wait_for_signal)
        ManagerNotification(loaded.secrets).send("READY=1")
        await keep_gateway(loaded, model, lambda text: note(clean(str(text))))
        group.cancel_scope.cancel()
    return signalled


@cli_command("hermes gateway status --json")
def status(ctx: click.Context, as_json: bool) -> int:
    """Show the configured channels, who receives from each, and why one does not work.

    Exit codes: 0 fine, 3 no channel is configured.
    """
    from hermes.gateway.manifest import configured_channels

    loaded = load_settings(ctx)
    channels = configured_channels(loaded.settings.channels, loaded.secrets.get)
    states = query_journal(loaded, _read_states) if store_exists(loaded.store) else {}
    rows = [_row(loaded, each, states.get(name)) for name, each in sorted(channels.items())]
    if as_json:
        print_json(rows)
    else:
        print_table(
            ("channel", "state", "process", "since"),
            [
                tuple(clean(str(row[key])) for key in ("channel", "state", "by", "since"))
                for row in rows
            ],
            empty="no chat channel is configured; `hermes channels list` shows what each needs",
        )
    return exit_codes.OK if channels else exit_codes.SETTINGS


async def _read_states(journal: JournalStore) -> Mapping[str, ChannelOpened | ChannelClosed]:
    states: dict[str, ChannelOpened | ChannelClosed] = {}
    async for recorded in journal.read(kinds=("channel.opened", "channel.closed")):
        event = recorded.event
        if isinstance(event, ChannelClosed) or (isinstance(event, ChannelOpened) and event.listens):
            states[event.channel] = event
    return states


def _row(
    loaded: LoadedSettings,
    configured: ConfiguredChannel,
    last: ChannelOpened | ChannelClosed | None,
) -> dict[str, str]:
    lock = loaded.home / "locks" / f"channel-{configured.name}.lock"
    state, by, since = "not running", "", ""
    if configured.missing:
        state = f"missing: {', '.join(configured.missing)}"
    elif isinstance(last, ChannelClosed) and last.error:
        state, by = f"failed: {last.error}", last.by
    elif is_locked(lock):
        state, by = "listening", last.by if last is not None else ""
    if last is not None:
        since = last.at.astimezone().isoformat(timespec="seconds")
    return {"channel": configured.name, "state": state, "by": by, "since": since}
