"""`hermes memory share`: which facts others may hear of."""

import click

from hermes.app.approving import user_name
from hermes.cli.facts import RUN, Desk, at_desk
from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, say
from hermes.core.errors import HermesError
from hermes.memory.facts.fact import Fact, Scope
from hermes.memory.facts.sharing import scoped


@click.command(
    cls=Examples, examples="hermes memory share 1a2b3c\nhermes memory share 1a2b3c --stop"
)
@click.argument("fact")
@click.option("--stop", is_flag=True, help="Keep it to this home again; others are told.")
@json_option
@click.pass_context
def share(ctx: click.Context, fact: str, stop: bool, as_json: bool) -> None:
    """Let the team hear of FACT: it goes into your next index (`hermes skills publish --facts`).

    Of a fact that came from somebody else, others hear that you confirm it. One that is no longer
    shared, was forgotten or has ended is retracted there.
    """

    async def write(desk: Desk) -> Fact:
        found = await desk.find(fact)
        if found.state != "current":
            raise HermesError(f"{found.id} is {found.state}: only what holds can be shared")
        if found.trust == "quarantined":
            raise HermesError(f"{found.id} is in quarantine: it reads like an order, not a fact")
        return await rescope(desk, found, "own" if stop else "team")

    found = at_desk(ctx, write)
    if as_json:
        emit_json(found)
    elif stop:
        say(f"{found.id} stays in this home; publish again, so that others retract it")
    else:
        say(f"{found.id} is for the team; `hermes skills publish FOLDER --facts` tells them")


async def rescope(desk: Desk, fact: Fact, scope: Scope) -> Fact:
    if fact.scope != scope:
        await desk.bus.publish(scoped(fact, scope, run=RUN, actor=user_name()))
        await desk.keeper.facts.catch_up()
    return await desk.keeper.facts.get(fact.id) or fact
