"""`hermes sessions search`, `import`, `reindex` and `embed`, and `hermes recall`."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import IO, Any

import anyio
import click
import msgspec

from hermes.app.journal.search import MAX_VECTORS_IN_PASSING, JournalSearch
from hermes.cli import exit_codes
from hermes.cli.context import load_settings, require_journal, since_option, until_option
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json, progress_bar
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.errors import HermesError
from hermes.core.knowledge import (
    RecalledLine,
    SearchHit,
    SearchHitKind,
    SearchResults,
    SessionQuery,
    SpeakerRole,
    TranscriptLine,
)
from hermes.memory.journal.session_import import SessionImportResult
from hermes.memory.search.query import parse_query
from hermes.settings.load import LoadedSettings

HIT_KINDS = ("message", "call", "result", "summary", "fact", "title", "event")
PROGRESS_BAR_MIN_EVENTS = 5_000
"""Missing events in the index from which a progress bar is shown."""


@cli_command("""
hermes sessions search postgres connection pool
hermes sessions search '"connection refused" -redis' --since 14d
hermes sessions search "rm -rf"
hermes sessions search max_connections --kind result --service postgres
hermes sessions search 'deploy*' --session latest --json
""")
@click.argument("words", nargs=-1)
@click.option("--limit", default=10, show_default=True, help="How many hits.")
@click.option("--session", default="", metavar="RUN", help="Only this one, with its subagents.")
@click.option("--kind", type=click.Choice(HIT_KINDS), help="Only messages, tool calls, results…")
@click.option(
    "--role", type=click.Choice(("user", "assistant", "tool")), help="Only of this speaker."
)
@click.option("--service", default="", metavar="NAME", help="Only where this name occurs too.")
@since_option
@until_option
def search(  # noqa: PLR0913 - one argument per option
    ctx: click.Context,
    words: tuple[str, ...],
    limit: int,
    session: str,
    kind: SearchHitKind | None,
    role: SpeakerRole | None,
    service: str,
    since: datetime | None,
    until: datetime | None,
    as_json: bool,
) -> None:
    """Find WORDS in all sessions: messages, tool calls, results, summaries, facts.

    All words must occur, in any of their forms; when too few lines contain all of them, lines with
    some of them follow. The syntax: "a phrase", begin*, -without, this OR that. Options such as
    -rf, -9 and --force, and everything in double quotes, are searched for literally.
    """
    if not words and not (session or kind or role or service):
        raise click.UsageError("words are missing: hermes sessions search connection refused")
    loaded = load_settings(ctx)
    wanted = SessionQuery(
        words=" ".join(words),
        limit=limit,
        session=_resolve_session(loaded, session),
        kind=kind,
        role=role,
        service=service,
        since=since,
        until=until,
    )
    with open_search(loaded) as journal_search:
        found = anyio.run(journal_search.search, wanted)
    if excluded := [" ".join(term.words) for term in parse_query(wanted.words).excluded]:
        note(
            f"left out: lines with {', '.join(excluded)}; put it in double quotes to search for it"
        )
    if as_json:
        print_json({"hits": found.hits, "relaxed": found.relaxed, "notices": found.notices})
        return
    _print_hits(found)


@cli_command("hermes sessions reindex")
def reindex(ctx: click.Context) -> None:
    """Delete the search index and rebuild it from the journal."""
    loaded = load_settings(ctx)
    require_journal(loaded)
    journal_search = JournalSearch(loaded)
    try:
        with progress_bar("indexing") as progress:
            journal_search.rebuild(progress)
    finally:
        journal_search.close()
    for notice in journal_search.notices:
        note(notice)
    echo("the search index is rebuilt")


@cli_command("hermes sessions embed")
def embed(ctx: click.Context) -> None:
    """Compute a vector for every line that has none, so that recall also finds by meaning.

    It can be stopped at any time; the next call continues there.
    """
    with open_search(load_settings(ctx)) as journal_search, progress_bar("embedding") as progress:
        anyio.run(journal_search.embed, progress)
    echo("every line has a vector")


@contextmanager
def open_search(loaded: LoadedSettings) -> Iterator[JournalSearch]:
    """Open the search after the index is brought up to date."""
    require_journal(loaded)
    journal_search = JournalSearch(loaded)
    try:
        with progress_bar("indexing", min_total=PROGRESS_BAR_MIN_EVENTS) as progress:
            anyio.run(lambda: journal_search.catch_up(progress=progress))
        yield journal_search
        for notice in journal_search.notices:
            note(notice)
    finally:
        journal_search.close()


def _resolve_session(loaded: LoadedSettings, session: str) -> str:
    """Resolve `latest`; other values stay, as an imported session may have any name."""
    if session != "latest":
        return session
    from hermes.cli.context import find_run, query_journal

    return query_journal(loaded, lambda journal: find_run(journal, session)).id


def _print_hits(found: SearchResults) -> None:
    if not found.hits:
        note("nothing found")
        return
    for number, hit in enumerate(found.hits):
        if number:
            echo()
        _print_hit(hit)
    if found.relaxed:
        note("too few lines contain all words: some of these contain only a part of them")


def _print_hit(hit: SearchHit) -> None:
    line = hit.line
    who = " ".join(filter(None, (line.role, line.speaker)))
    head = f"{line.run} · {format_time(line.at)} · {who} · {line.kind}"
    echo(clean(head), dim=True)
    _print_context_line(hit.before)
    echo("  " + _highlight_hit(hit))
    _print_context_line(hit.after)
    echo(clean(f"  hermes sessions show {line.run} --at {line.seq}"), dim=True)


def _print_context_line(line: TranscriptLine | None) -> None:
    if line is not None:
        echo(f"  {clip(clean(f'{line.role}: {line.text}'), 100)}", dim=True)


def _highlight_hit(hit: SearchHit) -> str:
    parts, at = [], 0
    for start, end in hit.marks:
        parts.append(clean(hit.snippet[at:start]))
        parts.append(click.style(clean(hit.snippet[start:end]), bold=True))
        at = end
    return "".join([*parts, clean(hit.snippet[at:])])


class RecallRequest(msgspec.Struct):
    query: str
    session: str | None = None
    limit: int | None = None


@cli_command("""
hermes recall "how did we fix the full disk on web-2?"
hermes recall "who edited nginx.conf by hand?" --session run-20260302-1405 --json
echo '{"query": "what depends on redis?"}' | hermes recall --jsonl - --limit 10 --json
""")
@click.argument("query", nargs=-1)
@click.option("--limit", default=10, show_default=True, help="How many passages.")
@click.option("--session", metavar="RUN", help="Only this one.")
@click.option(
    "--jsonl",
    "lines",
    type=click.File("rb"),
    help="One question per line: `query`, optional `session`; - is stdin. One answer per line.",
)
def recall(
    ctx: click.Context,
    query: tuple[str, ...],
    limit: int,
    session: str | None,
    lines: IO[bytes] | None,
    as_json: bool,
) -> int:
    """Find the passages of earlier sessions that answer QUERY, best first.

    With --jsonl each answer is one JSON object per line: `ids` are those of the source messages in
    order (the id of an imported message, else its number in the journal), `passages` contain the
    details. Without a match the lists are empty.
    """
    if lines is None and not query:
        raise click.UsageError('a question is missing: hermes recall "what fills the disk?"')
    with open_search(load_settings(ctx)) as journal_search:
        if lines is not None:
            return anyio.run(_answer_lines, journal_search, lines, limit, session)
        run_query = partial(journal_search.recall, " ".join(query), session=session, limit=limit)
        found = anyio.run(run_query)
    if as_json:
        print_json(_answer_data(found))
    else:
        _print_passages(found)
    return exit_codes.OK


async def _answer_lines(
    journal_search: JournalSearch, lines: IO[bytes], limit: int, session: str | None
) -> int:
    worst = exit_codes.OK
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            request = msgspec.json.decode(line, type=RecallRequest)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            worst = exit_codes.FAILED
            _write_answer({"error": f"line {number}: {error}"})
            continue
        scope = request.session if request.session is not None else session
        line_limit = limit if request.limit is None else request.limit
        found = await journal_search.recall(request.query, session=scope, limit=max(1, line_limit))
        _write_answer({"query": request.query, **_answer_data(found)})
    return worst


def _answer_data(found: Sequence[RecalledLine]) -> dict[str, Any]:
    return {
        "ids": [one.id for one in found],
        "passages": [
            {
                "id": one.id,
                "seq": one.line.seq,
                "session": one.line.run,
                "speaker": one.line.speaker,
                "at": one.line.at,
                "score": one.score,
                "why": one.why,
                "text": one.line.text,
            }
            for one in found
        ],
    }


def _write_answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()


def _print_passages(found: Sequence[RecalledLine]) -> None:
    if not found:
        note("no earlier session answers that")
    for number, one in enumerate(found):
        if number:
            echo()
        line = one.line
        echo(clean(f"{line.run} · {format_time(line.at)} · {line.speaker}"), dim=True)
        echo(f"  {clip(clean(line.text), 400)}")
        echo(clean(f"  {one.why} · hermes sessions show {line.run} --at {line.seq}"), dim=True)


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
