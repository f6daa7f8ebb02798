"""`hermes sessions search` and `reindex`: everything that was said and done, by its words."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import anyio
import click

from hermes.app.recall import Past
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say
from hermes.cli.progress import bar
from hermes.cli.render_safe import clean, clip
from hermes.cli.stored import existing_journal
from hermes.cli.when import SINCE, UNTIL
from hermes.core.recall import Hit, HitKind, Hits, Line, Search, Speaker
from hermes.memory.search.query import read_query
from hermes.settings.load import Loaded

KINDS = ("message", "call", "result", "summary", "fact", "title", "event")
MANY = 5_000
"""Events behind which an index is brought up to date with a progress bar."""


@click.command(
    cls=Examples,
    examples="""
hermes sessions search postgres connection pool
hermes sessions search '"connection refused" -redis' --since 14d
hermes sessions search "rm -rf"
hermes sessions search max_connections --kind result --service postgres
hermes sessions search 'deploy*' --session latest --json
""",
)
@click.argument("words", nargs=-1)
@click.option("--limit", default=10, show_default=True, help="How many hits.")
@click.option("--session", default="", metavar="RUN", help="Only this one, with its subagents.")
@click.option("--kind", type=click.Choice(KINDS), help="Only messages, tool calls, results…")
@click.option("--role", type=click.Choice(("user", "assistant", "tool")), help="Who said it.")
@click.option("--service", default="", metavar="NAME", help="Only where this name occurs too.")
@SINCE
@UNTIL
@json_option
@click.pass_context
def search(  # noqa: PLR0913 - one argument an option
    ctx: click.Context,
    words: tuple[str, ...],
    limit: int,
    session: str,
    kind: HitKind | None,
    role: Speaker | None,
    service: str,
    since: datetime | None,
    until: datetime | None,
    as_json: bool,
) -> None:
    """Find WORDS in all sessions: messages, tool calls, results, summaries, facts.

    All words must occur, in any of their forms; when too few lines hold all of them, lines that
    hold some follow. "a phrase", begin*, -without and this OR that are understood. Options such as
    -rf, -9 and --force, and everything in double quotes, are searched for as they stand.
    """
    if not words and not (session or kind or role or service):
        raise click.UsageError("which words? hermes sessions search connection refused")
    loaded = settings_for(ctx)
    wanted = Search(
        words=" ".join(words),
        limit=limit,
        session=_run(loaded, session),
        kind=kind,
        role=role,
        service=service,
        since=since,
        until=until,
    )
    with opened(loaded) as past:
        found = anyio.run(past.search, wanted)
    if excluded := [" ".join(term.words) for term in read_query(wanted.words).unwanted]:
        note(
            f"left out: lines with {', '.join(excluded)}; put it in double quotes to search for it"
        )
    if as_json:
        emit_json({"hits": found.hits, "relaxed": found.relaxed, "notices": found.notices})
        return
    _print(found)


@click.command(cls=Examples, examples="hermes sessions reindex")
@click.pass_context
def reindex(ctx: click.Context) -> None:
    """Throw the search index away and make it anew from the journal."""
    loaded = settings_for(ctx)
    existing_journal(loaded)
    past = Past(loaded)
    try:
        with bar("indexing") as progress:
            past.rebuild(progress)
    finally:
        past.close()
    for notice in past.notices:
        note(notice)
    say("the search index is made anew")


@click.command(cls=Examples, examples="hermes sessions embed")
@click.pass_context
def embed(ctx: click.Context) -> None:
    """Make a vector for every line that has none, so that recall also finds by meaning.

    Stop it at any time: what is made stays, and the next call goes on there.
    """
    with opened(settings_for(ctx)) as past, bar("embedding") as progress:
        anyio.run(past.embed, progress)
    say("every line has its vector")


@contextmanager
def opened(loaded: Loaded) -> Iterator[Past]:
    """The past, complete: what is not indexed yet is indexed first, with a bar if it is much."""
    existing_journal(loaded)
    past = Past(loaded)
    try:
        with bar("indexing", least=MANY) as progress:
            anyio.run(lambda: past.catch_up(progress=progress))
        yield past
        for notice in past.notices:
            note(notice)
    finally:
        past.close()


def _run(loaded: Loaded, session: str) -> str:
    """As it is, unless it is a word for a run: an imported session may have any name."""
    if session != "latest":
        return session
    from hermes.cli.stored import ask_journal, find_run

    return ask_journal(loaded, lambda journal: find_run(journal, session)).id


def _print(found: Hits) -> None:
    if not found.hits:
        note("nothing found")
        return
    for number, hit in enumerate(found.hits):
        if number:
            say()
        _print_hit(hit)
    if found.relaxed:
        note("too few lines hold all the words: some of these hold only a part of them")


def _print_hit(hit: Hit) -> None:
    line = hit.line
    who = " ".join(filter(None, (line.role, line.speaker)))
    head = f"{line.run} · {line.at.astimezone():%Y-%m-%d %H:%M} · {who} · {line.kind}"
    say(clean(head), dim=True)
    _beside(hit.before)
    say("  " + _highlighted(hit))
    _beside(hit.after)
    say(clean(f"  hermes sessions show {line.run} --at {line.seq}"), dim=True)


def _beside(line: Line | None) -> None:
    if line is not None:
        say(f"  {clip(clean(f'{line.role}: {line.text}'), 100)}", dim=True)


def _highlighted(hit: Hit) -> str:
    parts, at = [], 0
    for start, end in hit.marks:
        parts.append(clean(hit.snippet[at:start]))
        parts.append(click.style(clean(hit.snippet[start:end]), bold=True))
        at = end
    return "".join([*parts, clean(hit.snippet[at:])])
