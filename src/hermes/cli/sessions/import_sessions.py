"""`hermes sessions import`: conversations that were held elsewhere."""

from typing import IO

import anyio
import click

from hermes.app.journal_search import MAX_VECTORS_IN_PASSING, JournalSearch
from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.lazy import CommandWithExamples
from hermes.cli.output import echo, json_option, note, print_json, progress_bar
from hermes.cli.sessions.search import open_search
from hermes.core.errors import HermesError
from hermes.memory.journal.session_import import SessionImportResult
from hermes.settings.load import LoadedSettings

MAX_LINES_EMBEDDED_ON_IMPORT = 10_000
"""Lines that are embedded as part of an import: some minutes of work at most."""


@click.command(
    "import",
    cls=CommandWithExamples,
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
    loaded = load_settings(ctx)
    done = anyio.run(_import_lines, loaded, lines, strict)
    if not no_index:
        with open_search(loaded) as past:
            if not no_embed:
                _embed_lines(past)
    if as_json:
        print_json(done)
    else:
        _print_import(done)
    return exit_codes.FAILED if done.rejected else exit_codes.OK


def _embed_lines(past: JournalSearch) -> None:
    from hermes.memory.embedding.embedder import missing_packages

    if missing_packages():
        return
    with progress_bar("embedding", min_total=MAX_VECTORS_IN_PASSING) as progress:
        left = anyio.run(lambda: past.embed(progress, max_lines=MAX_LINES_EMBEDDED_ON_IMPORT))
    if left:
        note(f"{left:,} lines have no vector yet; `hermes sessions embed` makes them")


async def _import_lines(
    loaded: LoadedSettings, lines: IO[bytes], strict: bool
) -> SessionImportResult:
    from hermes.app.secret_redactor import SecretRedactor
    from hermes.memory.journal.session_import import import_lines
    from hermes.memory.store import open_journal

    with progress_bar("importing") as progress:
        async with open_journal(loaded.store) as journal:
            try:
                return await import_lines(
                    journal,
                    lines,
                    strict=strict,
                    clean=SecretRedactor(loaded).clean_event,
                    progress=lambda done: progress(done, done),
                )
            except OSError as error:
                raise HermesError(f"cannot read {lines.name}: {error.strerror}") from error


def _print_import(done: SessionImportResult) -> None:
    for mistake in done.mistakes:
        note(mistake)
    if done.rejected > len(done.mistakes):
        note(f"… and {done.rejected - len(done.mistakes):,} more lines that are no messages")
    if done.long:
        note(f"{done.long:,} texts are so long that only their beginning and end can be found")
    echo(
        f"{done.added:,} messages imported into {done.sessions:,} sessions; "
        f"{done.known:,} were here already, {done.rejected:,} rejected"
    )
