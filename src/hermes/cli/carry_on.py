"""`hermes sessions carry-on`: runs that nobody watches go on after a crash, also by themselves."""

import subprocess
import sys
from collections.abc import Sequence

import anyio
import click

from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, say
from hermes.memory.opening import exists
from hermes.settings.load import Loaded

LOG = "unattended.log"


@click.command(
    "carry-on",
    cls=Examples,
    examples="hermes sessions carry-on     finish what a crash cut off (begun with --unattended)",
)
@json_option
@click.pass_context
def carry_on(ctx: click.Context, as_json: bool) -> None:
    """Finish unattended runs that were cut off.

    Nobody sits here: what a rule wants asked about waits for `hermes approvals` where the rule or
    policy.wait says so, and is refused otherwise. A run that another living process works on is
    left alone, and no command that may have changed something runs twice.
    """
    loaded = settings_for(ctx)
    carried = anyio.run(_carry_on, loaded, as_json) if exists(loaded.store) else []
    if as_json:
        emit_json(carried)
    elif not carried:
        say("nothing was cut off")


async def _carry_on(loaded: Loaded, quiet: bool) -> list[dict[str, str]]:
    from hermes.app.unattended import carry_on_unattended

    carried = []
    async for one in carry_on_unattended(loaded):
        carried.append({"run": one.run, "outcome": one.outcome})
        if not quiet:
            say(f"{one.run}: {one.outcome}")
    return carried


def carry_on_in_background(loaded: Loaded, waiting: Sequence[str]) -> list[str]:
    """Leave what was cut off to a process of its own; what a person should know of it."""
    if not waiting:
        return []
    with (loaded.home / LOG).open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "hermes.cli", "sessions", "carry-on"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return [f"cut off before, carried on in the background: {', '.join(waiting)} ({LOG})"]
