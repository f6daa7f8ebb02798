"""`hermes memory add`, `share`, `forget`, `learn`, `export` and `import`."""

import platform
import sys
from collections import Counter
from pathlib import Path
from typing import IO, get_args

import click
import msgspec

from hermes.agent.run_summary import build_summary_event
from hermes.app.facts import MEMORY_RUN, NO_FACT_LIMIT, FactContext
from hermes.app.people import user_name
from hermes.cli.context import MAX_LISTED_RUNS, find_run
from hermes.cli.lazy import cli_command
from hermes.cli.memory.context import with_facts
from hermes.cli.output import confirm, echo, print_json, progress_bar, write_file
from hermes.cli.render.terminal_text import clean
from hermes.core.errors import HermesError
from hermes.core.events.memory import FactConfirmed, FactEnded, MemoryKind
from hermes.core.foreign_text import strip_hidden_characters
from hermes.learning.session_memory import worth_learning
from hermes.memory.facts import entities
from hermes.memory.facts.deduplication import FactEvent
from hermes.memory.facts.fact import MAX_FACT_CHARS, Fact, FactCandidate, FactQuery, FactScope
from hermes.memory.facts.recorder import noted_facts
from hermes.memory.facts.sharing import export_facts, read_exported_facts, scope_change
from hermes.memory.facts.statements import statement_key


@cli_command("""
hermes memory share 1a2b3c
hermes memory share 1a2b3c --stop
""")
@click.argument("fact")
@click.option("--stop", is_flag=True, help="Stop sharing it; others retract it.")
def share(ctx: click.Context, fact: str, stop: bool, as_json: bool) -> None:
    """Share FACT with the team: it goes into your next index (`hermes skills publish --facts`).

    A fact that came from another publisher is published as confirmed by you. A fact that is no
    longer shared, was forgotten or has ended is retracted there.
    """

    async def write(context: FactContext) -> Fact:
        found = await context.find_fact(fact)
        if found.state != "current":
            raise HermesError(f"{found.id} is {found.state}: only current facts can be shared")
        if found.trust == "quarantined":
            raise HermesError(
                f"{found.id} is in quarantine: it looks like an instruction, not a fact"
            )
        return await change_fact_scope(context, found, "own" if stop else "team")

    found = with_facts(ctx, write)
    if as_json:
        print_json(found)
    elif stop:
        echo(f"{found.id} is no longer shared; publish again, so that others retract it")
    else:
        echo(
            f"{found.id} is shared with the team at the next `hermes skills publish FOLDER --facts`"
        )


async def change_fact_scope(context: FactContext, fact: Fact, scope: FactScope) -> Fact:
    if fact.scope != scope:
        await context.bus.publish(scope_change(fact, scope, run=MEMORY_RUN, actor=user_name()))
        await context.recorder.facts.catch_up()
    return await context.recorder.facts.get(fact.id) or fact


@cli_command("""
hermes memory add "orders writes to db-7" --about orders
hermes memory add --team "deploys stop on Fridays at 14:00"
""")
@click.argument("text")
@click.option(
    "--kind", type=click.Choice(get_args(MemoryKind)), default="semantic", show_default=True
)
@click.option("--about", multiple=True, help="A service, host or file; may be repeated.")
@click.option("--team", is_flag=True, help="Share it with the team: it goes into your index.")
def add(
    ctx: click.Context, text: str, kind: str, about: tuple[str, ...], team: bool, as_json: bool
) -> None:
    """Note TEXT as a fact, with your name as its source.

    It confirms a fact with the same content, and ends one that contradicts it ("the port is 1",
    "the port is 2"). With --team it is published by `hermes skills publish FOLDER --facts`.
    """
    words = " ".join(strip_hidden_characters(text).split())
    if not words or len(words) > MAX_FACT_CHARS:
        raise HermesError(f"a fact has 1 to {MAX_FACT_CHARS:,} characters, this has {len(words):,}")
    fact = FactCandidate(
        memory=msgspec.convert(kind, MemoryKind),
        text=words,
        about=about or entities.entities_in(words),
        key=statement_key(words),
        trust="person",
        actor=user_name(),
        scope="team" if team else "own",
    )

    async def write(context: FactContext) -> tuple[list[FactEvent], Fact | None]:
        events = await context.recorder.record(MEMORY_RUN, [fact])
        await context.recorder.facts.catch_up()
        kept = await context.recorder.facts.get(events[0].fact if events else fact.id)
        if kept is not None and team and kept.scope != "team":  # it was known, and is now shared
            kept = await change_fact_scope(context, kept, "team")
        return events, kept

    events, kept = with_facts(ctx, write, create=True)
    if as_json:
        print_json(kept)
        return
    known = any(isinstance(event, FactConfirmed) for event in events)
    shared = ", for the team" if team else ""
    status = "was known and is confirmed" if known else "noted"
    echo(f"{kept.id if kept else fact.id} {status}{shared}")
    for event in events:
        if isinstance(event, FactEnded):
            echo(f"{event.fact} contradicts it and has ended; hermes memory show {event.fact}")


@cli_command("""
hermes memory forget 1a2b3c
hermes memory forget --about db-7
""")
@click.argument("facts", nargs=-1)
@click.option("--about", default="", help="All that is about this service, host or file.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(
    ctx: click.Context, facts: tuple[str, ...], about: str, yes: bool, as_json: bool
) -> None:
    """Forget FACTS: recall, search and lists leave them out, and rules do not note them again.

    The journal still contains their events. Deleting the session, and then `hermes journal
    compact`, removes the text from the disk.
    """
    if not facts and not about:
        raise click.UsageError("name the facts, or use --about")

    async def find(context: FactContext) -> list[Fact]:
        named = [await context.find_fact(fact) for fact in facts]
        if about:
            named += await context.recorder.facts.find(
                FactQuery(state=None, about=about, limit=NO_FACT_LIMIT)
            )
        return list({fact.id: fact for fact in named if not fact.forgotten}.values())

    found = with_facts(ctx, find)
    if not found:
        raise HermesError("there are no such facts; `hermes memory list` shows all")
    if not yes:
        for fact in found:
            echo(f"{fact.id}  {clean(fact.text)}")
        if not confirm(f"Forget {len(found)} fact(s)?"):
            return

    with_facts(ctx, lambda context: context.forget(found, person=user_name()))
    if as_json:
        print_json([fact.id for fact in found])
    else:
        echo(f"{len(found)} forgotten")


@cli_command("hermes memory export > facts.jsonl")
@click.option("--all", "everything", is_flag=True, help="Also ended facts.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file; else stdout.")
def export(ctx: click.Context, everything: bool, output: Path | None) -> None:
    """Write facts, one JSON object per line. Secrets are removed."""

    async def query(context: FactContext) -> list[bytes]:
        found = await context.recorder.facts.find(FactQuery(state=None, limit=NO_FACT_LIMIT))
        wanted = ("current", "ended") if everything else ("current",)
        kept = [fact for fact in found if fact.state in wanted]
        lines = export_facts(reversed(kept), platform.node() or "elsewhere")
        return [context.redact(line.decode()).encode() for line in lines]

    lines = with_facts(ctx, query)
    if output is None:
        sys.stdout.write(b"".join(lines).decode())
        return
    write_file(output, b"".join(lines))
    echo(f"{len(lines)} facts written to {output}")


@cli_command("hermes memory import facts.jsonl --origin web-2")
@click.argument("file", type=click.File("rb"))
@click.option("--origin", default="", help="Where they come from, if the lines do not say.")
def import_(ctx: click.Context, file: IO[bytes], origin: str, as_json: bool) -> None:
    """Read facts of another home from FILE (- is stdin).

    They keep their origin and are trusted less: they never end a fact of yours, and one that you
    forgot stays forgotten. Reading the same file twice changes nothing.
    """
    named = Path(str(getattr(file, "name", ""))).stem.strip("<>-")
    candidates = list(read_exported_facts(file, origin or named or "import"))

    async def write(context: FactContext) -> dict[str, int]:
        events = await context.recorder.record(MEMORY_RUN, candidates)
        return dict(Counter(event.kind.removeprefix("memory.") for event in events))

    done = {"read": len(candidates), **with_facts(ctx, write, create=True)}
    if as_json:
        print_json(done)
    else:
        echo(", ".join(f"{count} {what}" for what, count in done.items()))


@cli_command("""
hermes memory learn
hermes memory learn latest
""")
@click.argument("run", required=False)
def learn(ctx: click.Context, run: str | None, as_json: bool) -> None:
    """Extract facts by rules from RUN, or from every session that was not processed yet.

    Sessions are processed when they end; a crash, an import or an older version leaves some.
    Known facts are not noted twice.
    """

    async def work(context: FactContext) -> dict[str, int]:
        every = await context.journal.runs(limit=MAX_LISTED_RUNS, parent=None)
        runs = [await find_run(context.journal, run)] if run else list(reversed(every))
        learned: dict[str, int] = {}
        with progress_bar("learning", min_total=20) as show:
            for done, each in enumerate(runs, 1):
                count = await _learn_from_run(context, each.id, again=bool(run))
                if count is not None:
                    learned[each.id] = count
                show(done, len(runs))
        return learned

    learned = with_facts(ctx, work)
    if as_json:
        print_json(learned)
        return
    echo(f"{sum(learned.values())} new facts from {len(learned)} session(s)")


async def _learn_from_run(context: FactContext, run: str, *, again: bool) -> int | None:
    records = [recorded async for recorded in context.journal.read(run=run)]
    if not records or not (again or worth_learning(records)):
        return None
    found = await context.recorder.learn(run, records)
    summary = build_summary_event(run, records)
    if summary is not None and "/" not in run:
        await context.bus.publish(summary)
    return len(noted_facts(found))
