"""`hermes memory export`, `import` and `learn`."""

import platform
import sys
from collections import Counter
from pathlib import Path
from typing import IO

import click

from hermes.agent.run_summary import build_summary_event
from hermes.cli.context import MAX_LISTED_RUNS, find_run
from hermes.cli.lazy import cli_command
from hermes.cli.memory.context import MEMORY_RUN, NO_FACT_LIMIT, FactContext, with_facts
from hermes.cli.output import echo, print_json, progress_bar
from hermes.core.errors import HermesError
from hermes.learning.session_memory import worth_learning
from hermes.memory.facts.fact import FactQuery
from hermes.memory.facts.recorder import noted_facts
from hermes.memory.facts.sharing import export_facts, read_exported_facts


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
    try:
        output.write_bytes(b"".join(lines))
    except OSError as error:
        raise HermesError(f"cannot write {output}: {error.strerror}") from error
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
