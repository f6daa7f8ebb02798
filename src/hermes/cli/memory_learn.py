"""`hermes memory learn`: facts from sessions that ended before anybody could learn from them."""

import click

from hermes.agent.summary import summarised
from hermes.app.remembering import worth_learning
from hermes.cli.facts import Desk, at_desk
from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, say
from hermes.cli.progress import bar
from hermes.cli.stored import EVERY, find_run
from hermes.memory.facts.keeping import noted


@click.command(cls=Examples, examples="hermes memory learn\nhermes memory learn latest")
@click.argument("run", required=False)
@json_option
@click.pass_context
def learn(ctx: click.Context, run: str | None, as_json: bool) -> None:
    """Learn by rule from RUN, or from every session that was not yet learned from.

    Sessions are learned from when they end; a crash, an import or an older version leaves some.
    What is known already is not noted twice.
    """

    async def work(desk: Desk) -> dict[str, int]:
        every = await desk.journal.runs(limit=EVERY, parent=None)
        runs = [await find_run(desk.journal, run)] if run else list(reversed(every))
        learned: dict[str, int] = {}
        with bar("learning", least=20) as show:
            for done, each in enumerate(runs, 1):
                count = await _learn(desk, each.id, again=bool(run))
                if count is not None:
                    learned[each.id] = count
                show(done, len(runs))
        return learned

    learned = at_desk(ctx, work)
    if as_json:
        emit_json(learned)
        return
    say(f"{sum(learned.values())} new facts from {len(learned)} session(s)")


async def _learn(desk: Desk, run: str, *, again: bool) -> int | None:
    records = [recorded async for recorded in desk.journal.read(run=run)]
    if not records or not (again or worth_learning(records)):
        return None
    found = await desk.keeper.learn(run, records)
    summary = summarised(run, records)
    if summary is not None and "/" not in run:
        await desk.bus.publish(summary)
    return len(noted(found))
