"""`hermes sessions import`: imports conversations from elsewhere."""

from typing import IO

import anyio
import click

from hermes.app.journal_search import MAX_VECTORS_IN_PASSING, JournalSearch
from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json, progress_bar
from hermes.cli.sessions.search import open_search
from hermes.core.errors import HermesError
from hermes.memory.journal.session_import import SessionImportResult
from hermes.settings.load import LoadedSettings

MAX_LINES_EMBEDDED_ON_IMPORT = 10_000
"""Takes a few minutes at most."""


@cli_command("""
hermes sessions import --jsonl talks.jsonl
zcat talks.jsonl.gz | hermes sessions import --jsonl - --strict
""")
@click.option("--jsonl", "lines", type=click.File("rb"), required=True, help="A file; - is stdin.")
@click.option("--strict", is_flag=True, help="Stop at the first invalid line.")
@click.option("--no-index", is_flag=True, help="Leave the indexing to the first search.")
@click.option("--no-embed", is_flag=True, help="Compute no vectors: recall finds only by words.")
def import_(
    ctx: click.Context,
    lines: IO[bytes],
    strict: bool,
    no_index: bool,
    no_embed: bool,
    as_json: bool,
) -> int:
    """Import one message per line: `id`, `session`, `speaker`, `text`, `at`.

    Session and id identify a message. Known messages are skipped, so that an interrupted import can
    be repeated. Invalid lines are rejected, counted and listed, and the exit code is 1. With the
    extra `embeddings`, up to 10,000 lines get their vectors at once; `hermes sessions embed`
    computes the rest.
    """
    loaded = load_settings(ctx)
    done = anyio.run(_import_lines, loaded, lines, strict)
    if not no_index:
        with open_search(loaded) as journal_search:
            if not no_embed:
                _embed_lines(journal_search)
    if as_json:
        print_json(done)
    else:
        _print_import(done)
    return exit_codes.FAILED if done.rejected else exit_codes.OK


def _embed_lines(journal_search: JournalSearch) -> None:
    from hermes.memory.embedding.embedder import missing_packages

    if missing_packages():
        return
    with progress_bar("embedding", min_total=MAX_VECTORS_IN_PASSING) as progress:
        left = anyio.run(
            lambda: journal_search.embed(progress, max_lines=MAX_LINES_EMBEDDED_ON_IMPORT)
        )
    if left:
        note(f"{left:,} lines have no vector yet; `hermes sessions embed` computes them")


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
        note(f"… and {done.rejected - len(done.mistakes):,} more invalid lines")
    if done.long:
        note(f"{done.long:,} texts are so long that only their beginning and end are indexed")
    echo(
        f"{done.added:,} messages imported into {done.sessions:,} sessions; "
        f"{done.known:,} were already here, {done.rejected:,} rejected"
    )
