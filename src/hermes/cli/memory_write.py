"""`hermes memory add|forget`: what a person says about facts counts most."""

from typing import get_args

import click
import msgspec

from hermes.app.approving import user_name
from hermes.cli.facts import EVERY, RUN, Desk, at_desk
from hermes.cli.lazy import Examples
from hermes.cli.memory_share import rescope
from hermes.cli.output import confirm, emit_json, json_option, say
from hermes.cli.render_safe import clean
from hermes.core.errors import HermesError
from hermes.core.events.memory import FactConfirmed, FactEnded, FactForgotten, MemoryKind
from hermes.memory.facts import entities
from hermes.memory.facts.fact import LONGEST, Candidate, Fact
from hermes.memory.facts.hostile import visible
from hermes.memory.facts.sayings import slot
from hermes.memory.facts.settle import Settled
from hermes.memory.facts.store import Wanted


@click.command(
    cls=Examples,
    examples='hermes memory add "orders writes to db-7" --about orders\n'
    'hermes memory add --team "deploys stop on Fridays at 14:00"',
)
@click.argument("text")
@click.option(
    "--kind", type=click.Choice(get_args(MemoryKind)), default="semantic", show_default=True
)
@click.option("--about", multiple=True, help="A service, host or file; may be repeated.")
@click.option("--team", is_flag=True, help="Others may hear of it: it goes into your index.")
@json_option
@click.pass_context
def add(
    ctx: click.Context, text: str, kind: str, about: tuple[str, ...], team: bool, as_json: bool
) -> None:
    """Note TEXT as a fact that you vouch for.

    It confirms one that says the same, and ends one that says otherwise ("the port is 1", "the
    port is 2"). With --team it travels with `hermes skills publish FOLDER --facts`.
    """
    words = " ".join(visible(text).split())
    if not words or len(words) > LONGEST:
        raise HermesError(f"a fact has 1 to {LONGEST:,} characters, this has {len(words):,}")
    fact = Candidate(
        memory=msgspec.convert(kind, MemoryKind),
        text=words,
        about=about or entities.about(words),
        key=slot(words),
        trust="person",
        actor=user_name(),
        scope="team" if team else "own",
    )

    async def write(desk: Desk) -> tuple[list[Settled], Fact | None]:
        events = await desk.keeper.keep(RUN, [fact])
        await desk.keeper.facts.catch_up()
        kept = await desk.keeper.facts.get(events[0].fact if events else fact.id)
        if kept is not None and team and kept.scope != "team":  # it was known, and is shared now
            kept = await rescope(desk, kept, "team")
        return events, kept

    events, kept = at_desk(ctx, write, make=True)
    if as_json:
        emit_json(kept)
        return
    known = any(isinstance(event, FactConfirmed) for event in events)
    shared = ", for the team" if team else ""
    told = "was known and is confirmed" if known else "noted"
    say(f"{kept.id if kept else fact.id} {told}{shared}")
    for event in events:
        if isinstance(event, FactEnded):
            say(f"{event.fact} says otherwise and has ended; hermes memory show {event.fact}")


@click.command(
    cls=Examples, examples="hermes memory forget 1a2b3c\nhermes memory forget --about db-7"
)
@click.argument("facts", nargs=-1)
@click.option("--about", default="", help="All that is about this service, host or file.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_context
def forget(
    ctx: click.Context, facts: tuple[str, ...], about: str, yes: bool, as_json: bool
) -> None:
    """Forget FACTS: they leave recall, search and every list, and rules do not note them again.

    What the journal has of them stays in its chain; deleting the session it was said in, and
    `hermes journal compact`, take the words off the disk.
    """
    if not facts and not about:
        raise click.UsageError("which facts? name them, or say --about")

    async def look(desk: Desk) -> list[Fact]:
        named = [await desk.find(fact) for fact in facts]
        if about:
            named += await desk.keeper.facts.find(Wanted(state=None, about=about, limit=EVERY))
        return list({fact.id: fact for fact in named if not fact.forgotten}.values())

    found = at_desk(ctx, look)
    if not found:
        raise HermesError("there is nothing of that kind to forget; `hermes memory list` shows all")
    if not yes:
        for fact in found:
            say(f"{fact.id}  {clean(fact.text)}")
        if not confirm(f"Forget {len(found)} fact(s)?"):
            return

    async def write(desk: Desk) -> None:
        by = user_name()
        await desk.bus.publish(*(FactForgotten(run=RUN, fact=fact.id, by=by) for fact in found))
        await desk.keeper.facts.catch_up()

    at_desk(ctx, write)
    if as_json:
        emit_json([fact.id for fact in found])
    else:
        say(f"{len(found)} forgotten")
