"""`hermes sessions import`: conversations that were held elsewhere."""

from typing import IO

import anyio
import click

from hermes.app.recall import FEW, Past
from hermes.cli import exits
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say
from hermes.cli.progress import bar
from hermes.cli.sessions_search import opened
from hermes.core.errors import HermesError
from hermes.memory.importing import Imported
from hermes.settings.load import Loaded

AT_ONCE = 10_000
"""Lines that are embedded as part of an import: some minutes of work at most."""


@click.command(
    "import",
    cls=Examples,
    examples="""
hermes sessions import --jsonl talks.jsonl
zcat talks.jsonl.gz | hermes sessions import --jsonl - --strict
""",
)
@click.option("--jsonl", "lines", type=click.File("rb"), required=True, help="A file; - is stdin.")
@click.option("--strict", is_flag=True, help="Stop at the first line that is no message.")
@click.option("--no-index", is_flag=True, help="Leave the indexing to the first search.")
@click.option("--no-embed", is_flag=True, help="Make no vectors: recall finds by words alone.")
@json_option
@click.pass_context
def import_(
    ctx: click.Context,
    lines: IO[bytes],
    strict: bool,
    no_index: bool,
    no_embed: bool,
    as_json: bool,
) -> int:
    """Take in one message a line: `id`, `session`, `speaker`, `text`, `at`.

    A message is known by its session and its id: what is here already is not taken in again, so
    an import that was cut off is started again as it was. A line that is no message is rejected,
    counted and named; exit code 1 then. Where the extra `embeddings` is installed, up to 10,000
    lines get their vectors at once; `hermes sessions embed` makes the rest.
    """
    loaded = settings_for(ctx)
    done = anyio.run(_import, loaded, lines, strict)
    if not no_index:
        with opened(loaded) as past:
            if not no_embed:
                _embed(past)
    if as_json:
        emit_json(done)
    else:
        _tell(done)
    return exits.FAILED if done.rejected else exits.OK


def _embed(past: Past) -> None:
    from hermes.memory.embedding.opening import missing

    if missing():
        return
    with bar("embedding", least=FEW) as progress:
        left = anyio.run(lambda: past.embed(progress, most=AT_ONCE))
    if left:
        note(f"{left:,} lines have no vector yet; `hermes sessions embed` makes them")


async def _import(loaded: Loaded, lines: IO[bytes], strict: bool) -> Imported:
    from hermes.app.veil import Veil
    from hermes.memory.importing import import_lines
    from hermes.memory.opening import open_journal

    with bar("importing") as progress:
        async with open_journal(loaded.store) as journal:
            try:
                return await import_lines(
                    journal,
                    lines,
                    strict=strict,
                    clean=Veil(loaded).event,
                    progress=lambda done: progress(done, done),
                )
            except OSError as error:
                raise HermesError(f"cannot read {lines.name}: {error.strerror}") from error


def _tell(done: Imported) -> None:
    for mistake in done.mistakes:
        note(mistake)
    if done.rejected > len(done.mistakes):
        note(f"… and {done.rejected - len(done.mistakes):,} more lines that are no messages")
    if done.long:
        note(f"{done.long:,} texts are so long that only their beginning and end can be found")
    say(
        f"{done.added:,} messages imported into {done.sessions:,} sessions; "
        f"{done.known:,} were here already, {done.rejected:,} rejected"
    )
