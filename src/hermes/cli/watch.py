"""`hermes watch`: on call, until it is ended."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from hermes.cli import exits
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import json_option, note, say
from hermes.cli.watch_discover import discovering
from hermes.settings.load import Loaded

if TYPE_CHECKING:
    from hermes.app.model_reach import ModelReach
    from hermes.app.watch import Watching

NONE = "none"


@click.command(
    cls=Examples,
    examples="""
hermes watch --discover                what there is to watch here
hermes watch --discover --write        and keep it in probes.yaml, to be edited
hermes watch                           on call, until Ctrl-C
hermes watch --once                    answer what is open now, then end
hermes watch --model none              no model: playbooks and checks only
""",
)
@click.option("--discover", is_flag=True, help="Look around, say what deserves a probe, and end.")
@click.option("--write", is_flag=True, help="With --discover: write it to probes.yaml.")
@click.option("--merge", is_flag=True, help="With --discover: add what is new to probes.yaml.")
@click.option("--yes", is_flag=True, help="With --discover: replace an edited file unasked.")
@click.option("--once", is_flag=True, help="End when nothing is open any more.")
@click.option(
    "--model", default="", help="A model; `none`: playbooks and checks only; else as set up."
)
@click.option("--no-listen", is_flag=True, help="Take no alerts over HTTP.")
@json_option
@click.pass_context
def watch(ctx: click.Context, /, as_json: bool, **options: object) -> int:
    """Notice what breaks, find out why, mend what the rules allow, prove it, write it down.

    Incidents that an earlier watch left open are gone on with. What needs a person waits for one:
    `hermes approvals list` in another terminal. `hermes incident watch` shows the work live.
    """
    if options["discover"] or options["write"] or options["merge"]:
        given = {name: options[name] for name in ("write", "merge", "yes")}
        return int(ctx.invoke(discovering, **given, as_json=as_json))
    loaded = settings_for(ctx)
    anyio.run(_watch, loaded, options, as_json)
    return exits.OK


async def _watch(loaded: Loaded, options: dict[str, object], as_json: bool) -> None:
    while await _watch_journal(loaded, options, as_json):
        note("the journal is another one than before: the watch takes it up anew")


async def _watch_journal(loaded: Loaded, options: dict[str, object], as_json: bool) -> bool:
    """True when the watch must begin anew on the journal as it is now."""
    from hermes.app.watch import watching

    model, rebuilt = str(options["model"]), False
    async with watching(
        loaded, model=model, folder=Path.cwd(), listen=not options["no_listen"], lines=not as_json
    ) as at:
        if not as_json:
            _greet(at)
        async with anyio.create_task_group() as group:
            if not as_json and at.reach is not None:
                group.start_soon(_say_whether_reached, at.reach)

            async def begin_anew() -> None:
                nonlocal rebuilt
                await at.until_rebuilt()
                rebuilt = True
                group.cancel_scope.cancel()

            group.start_soon(begin_anew)
            if as_json:
                group.start_soon(_stream, at.house.bus, await at.house.journal.last())
            if options["once"]:
                await at.watch.until_idle()
            else:
                await _signalled()
            group.cancel_scope.cancel()
    return rebuilt


async def _say_whether_reached(reach: "ModelReach") -> None:
    """Beside the watch: a server that does not answer must not delay the start."""
    if why := await reach.trouble():
        note(f"{reach.name}: {why}; until it answers, playbooks and checks only")


def _greet(at: "Watching") -> None:
    say(f"on call: {len(at.probes)} probes, {at.answers}")
    if at.found_now:
        note("no probes.yaml yet: these were found by a look around; `--discover --write`")
    for each in at.missing:
        note(f"expected and not running: {each}")
    for each in at.questions:
        note(f"a question: {each}")
    for each in at.refused:
        note(f"a probe is left out: {each}")
    if at.address:
        note(f"alerts are taken at {at.address}/alerts")


async def _signalled() -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            return


async def _stream(bus: object, after: int) -> None:
    from hermes.core.bus import Bus
    from hermes.core.events import encode
    from hermes.core.events.happening import Unknown

    assert isinstance(bus, Bus)
    async for recorded in bus.follow(after=after):
        if not isinstance(recorded.event, Unknown):
            click.echo(encode(recorded.event).decode())
