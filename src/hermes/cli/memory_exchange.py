"""`hermes memory export|import`: facts between homes."""

import platform
import sys
from collections import Counter
from pathlib import Path
from typing import IO

import click

from hermes.cli.facts import EVERY, RUN, Desk, at_desk
from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, say
from hermes.core.errors import HermesError
from hermes.memory.facts.exchange import export_lines, read_lines
from hermes.memory.facts.fact import Fact
from hermes.memory.facts.store import Wanted


@click.command(cls=Examples, examples="hermes memory export > facts.jsonl")
@click.option("--all", "everything", is_flag=True, help="Also those that have ended.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file; else stdout.")
@click.pass_context
def export(ctx: click.Context, everything: bool, output: Path | None) -> None:
    """Write facts, one JSON object a line. Secrets are taken out on the way."""

    async def ask(desk: Desk) -> list[bytes]:
        found = await desk.keeper.facts.find(Wanted(state=None, limit=EVERY))
        kept = [fact for fact in found if _wanted(fact, everything)]
        lines = export_lines(reversed(kept), platform.node() or "elsewhere")
        return [desk.redact(line.decode()).encode() for line in lines]

    lines = at_desk(ctx, ask)
    if output is None:
        sys.stdout.write(b"".join(lines).decode())
        return
    try:
        output.write_bytes(b"".join(lines))
    except OSError as error:
        raise HermesError(f"cannot write {output}: {error.strerror}") from error
    say(f"{len(lines)} facts written to {output}")


def _wanted(fact: Fact, everything: bool) -> bool:
    return fact.state == "current" or (everything and fact.state == "ended")


@click.command("import", cls=Examples, examples="hermes memory import facts.jsonl --origin web-2")
@click.argument("file", type=click.File("rb"))
@click.option("--origin", default="", help="Where they come from, if the lines do not say.")
@json_option
@click.pass_context
def import_(ctx: click.Context, file: IO[bytes], origin: str, as_json: bool) -> None:
    """Read facts of another home from FILE (- is stdin).

    They keep their origin and are trusted less: they never end a fact of yours, and one that you
    forgot stays forgotten. Reading the same file twice changes nothing.
    """
    named = Path(str(getattr(file, "name", ""))).stem.strip("<>-")
    candidates = list(read_lines(file, origin or named or "import"))

    async def write(desk: Desk) -> dict[str, int]:
        events = await desk.keeper.keep(RUN, candidates)
        return dict(Counter(event.kind.removeprefix("memory.") for event in events))

    done = {"read": len(candidates), **at_desk(ctx, write, make=True)}
    if as_json:
        emit_json(done)
    else:
        say(", ".join(f"{count} {what}" for what, count in done.items()))
