"""`hermes memory list`, `show`, `history` and `audit`."""

from datetime import UTC, datetime
from typing import Any, get_args

import click
import msgspec

from hermes.app.facts import NO_FACT_LIMIT, FactContext
from hermes.cli import exit_codes
from hermes.cli.lazy import cli_command
from hermes.cli.memory.context import with_facts
from hermes.cli.output import echo, note, print_fields, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.events.memory import (
    FactConfirmed,
    FactEnded,
    FactForgotten,
    FactNoted,
    FactsShown,
    FactTrust,
    MemoryKind,
    NoteChanged,
)
from hermes.core.protocols import JournalRecord
from hermes.memory.facts.audit import SOURCE_KINDS, FactProblem, audit_facts, event_text
from hermes.memory.facts.fact import Fact, FactQuery, FactState

NO_FACTS = "there are no facts yet; they are extracted when a session ends"
HISTORY_EVENTS = (
    "memory.noted", "memory.confirmed", "memory.ended", "memory.forgotten", "memory.shown",
    "note.changed",
)  # fmt: skip


@cli_command("""
hermes memory list --about nginx --json
hermes memory --json
""")
@click.option("--kind", "memory", type=click.Choice(get_args(MemoryKind)), help="Only this kind.")
@click.option(
    "--trust", type=click.Choice(get_args(FactTrust)), help="Only facts of this trust level."
)
@click.option("--about", default="", help="Only about this service, host or file.")
@click.option("--relation", default="", help="Only this relation, such as depends-on.")
@click.option("--run", default="", help="Only what was noted in this run.")
@click.option("--team", is_flag=True, help="Only facts that are shared with the team.")
@click.option(
    "--state",
    type=click.Choice([*get_args(FactState), "all"]),
    default="current",
    show_default=True,
)
@click.option("--limit", default=50, show_default=True, help="How many.")
def list_(
    ctx: click.Context, /, state: str, limit: int, team: bool, as_json: bool, **given: Any
) -> None:
    """List facts, the latest confirmed first."""
    wanted = FactQuery(
        state=None if state == "all" else msgspec.convert(state, FactState),
        limit=NO_FACT_LIMIT if team else limit,
        **given,
    )

    async def query(context: FactContext) -> list[Fact]:
        found = list(await context.recorder.facts.find(wanted))
        shared = [each for each in found if each.scope == "team"]
        return (shared[:limit] if limit >= 0 else shared) if team else found

    found = with_facts(ctx, query)
    if as_json:
        print_json([fact_data(fact) for fact in found])
        return
    narrowed = team or state != "current" or any(given.values())
    print_table(
        ("fact", "kind", "trust", "seen", "last", "what"),
        [
            (
                fact.id,
                fact.memory,
                fact.trust if fact.state == "current" else fact.state,
                fact.confirmations + 1,
                f"{fact.last_confirmed.astimezone():%Y-%m-%d}",
                clip(fact.text, 80),
            )
            for fact in found
        ],
        empty="no fact matches" if narrowed else NO_FACTS,
    )


@cli_command("hermes memory show 1a2b3c")
@click.argument("fact")
def show(ctx: click.Context, fact: str, as_json: bool) -> None:
    """Show FACT: its text, validity, trust, and source events."""

    async def query(context: FactContext) -> tuple[Fact, list[JournalRecord]]:
        found = await context.find_fact(fact)
        wanted = set(found.sources)
        if not wanted:
            return found, []
        events = context.journal.read(after=min(wanted) - 1, kinds=SOURCE_KINDS)
        return found, [recorded async for recorded in events if recorded.seq in wanted]

    found, sources = with_facts(ctx, query)
    if as_json:
        texts = [{"seq": s.seq, "run": s.event.run, "text": event_text(s.event)} for s in sources]
        print_json({**fact_data(found), "source_texts": texts})
        return
    echo(clean(found.text) or "(forgotten)", bold=True)
    print_fields(_fact_fields(found))
    for source in sources:
        echo()
        at = format_time(source.event.at)
        opened = f"hermes sessions show {source.event.run} --at {source.seq}"
        echo(f"event {source.seq} · {at} · {opened}", dim=True)
        echo(clean(clip(event_text(source.event), 600)))


@cli_command("""
hermes memory history
hermes memory history 1a2b3c --json
""")
@click.argument("fact", required=False)
@click.option("--limit", default=50, show_default=True, help="How many, the newest last.")
def history(ctx: click.Context, fact: str | None, limit: int, as_json: bool) -> None:
    """Show the events of FACT, or of all facts and note files."""

    async def query(context: FactContext) -> list[JournalRecord]:
        id = (await context.find_fact(fact)).id if fact else ""
        events = context.journal.read(kinds=HISTORY_EVENTS)
        return [recorded async for recorded in events if not id or _concerns_fact(recorded, id)]

    found = with_facts(ctx, query)[-limit:]
    if as_json:
        print_json([{"seq": r.seq, **msgspec.to_builtins(r.event)} for r in found])
        return
    rows = [(r.seq, format_time(r.event.at), *_history_row(r.event)) for r in found]
    print_table(
        ("event", "at", "what", "fact", "by", "detail"), rows, empty="there are no events yet"
    )


def fact_data(fact: Fact) -> dict[str, Any]:
    """Every field, also those with default values."""
    return {**msgspec.structs.asdict(fact), "state": fact.state}


def _fact_fields(fact: Fact) -> dict[str, object]:
    return {
        "fact": fact.id,
        "kind": f"{fact.memory}, {fact.relation}" if fact.relation else fact.memory,
        "state": fact.state,
        "trust": f"{fact.trust}, noted by {fact.actor}" if fact.actor else fact.trust,
        "holds": f"from {_time_or_now(fact.valid_from)} to {_time_or_now(fact.valid_to)}",
        "seen": f"{fact.confirmations + 1} times, last {_time_or_now(fact.last_confirmed)}",
        "about": fact.about,
        "quote": fact.quote,
        "run": fact.run,
        "origin": fact.origin,
        "scope": fact.scope,
        "replaces": fact.supersedes,
        "replaced by": fact.ended_by,
        "shown": f"{fact.shown} times; then {fact.succeeded} turns answered, {fact.failed} failed",
    }


def _time_or_now(at: datetime | None) -> str:
    return "now" if at is None else format_time(at)


def _concerns_fact(recorded: JournalRecord, id: str) -> bool:
    event = recorded.event
    if isinstance(event, FactsShown):
        return id in event.facts
    return getattr(event, "fact", "") == id


def _history_row(event: object) -> tuple[str, str, str, str]:
    match event:
        case FactNoted():
            return "noted", event.fact, event.actor or event.trust, clip(event.text, 70)
        case FactConfirmed():
            sources = ", ".join(map(str, event.sources)) or "–"
            return "confirmed", event.fact, event.actor, f"by events {sources}"
        case FactEnded():
            return "ended", event.fact, event.actor, f"{event.reason} {event.by}".strip()
        case FactForgotten():
            return "forgotten", event.fact, event.by, ""
        case FactsShown():
            return "shown", ", ".join(event.facts), event.where, clip(event.query, 70)
        case NoteChanged():
            words = [*(f"+ {one}" for one in event.added), *(f"- {one}" for one in event.removed)]
            return "notes", event.file, event.by, clip("; ".join(words), 70)
    return "", "", "", ""


@cli_command("""
hermes memory audit
hermes memory audit --json --exit-code
""")
@click.option("--exit-code", is_flag=True, help="1 when something was found.")
def audit(ctx: click.Context, exit_code: bool, as_json: bool) -> int:
    """Find duplicates, contradictions, recall loops, unsupported quotes, secrets and old facts.

    A recall loop is a fact whose source is itself recalled text; a quote is unsupported when its
    source events do not contain it. Nothing is changed.
    """

    async def find(context: FactContext) -> list[FactProblem]:
        facts, now = context.recorder.facts, datetime.now(UTC)
        return await audit_facts(facts, context.journal, redact=context.redact, now=now)

    found = with_facts(ctx, find)
    if as_json:
        print_json(found)
    elif found:
        rows = [(one.problem, one.facts, clip(one.said, 90)) for one in found]
        print_table(("problem", "facts", "what"), rows)
    else:
        note("no problems found")
    return exit_codes.FAILED if found and exit_code else exit_codes.OK
