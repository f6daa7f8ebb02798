"""`hermes memory list|show|history`: looking at facts."""

from datetime import datetime
from typing import Any, get_args

import click
import msgspec

from hermes.cli.facts import EVERY, Desk, at_desk
from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, fields, json_option, say, table
from hermes.cli.render_safe import clean, clip
from hermes.core.events.memory import (
    FactConfirmed,
    FactEnded,
    FactForgotten,
    FactNoted,
    FactsShown,
    MemoryKind,
    NoteChanged,
    Trust,
)
from hermes.core.protocols import Recorded
from hermes.memory.facts.audit import KINDS, text_of
from hermes.memory.facts.fact import Fact, State
from hermes.memory.facts.store import Wanted

TOLD = (
    "memory.noted", "memory.confirmed", "memory.ended", "memory.forgotten", "memory.shown",
    "note.changed",
)  # fmt: skip


@click.command(
    "list", cls=Examples, examples="hermes memory list --about nginx --json\nhermes memory --json"
)
@click.option("--kind", "memory", type=click.Choice(get_args(MemoryKind)), help="Only this kind.")
@click.option("--trust", type=click.Choice(get_args(Trust)), help="Only what these vouch for.")
@click.option("--about", default="", help="Only about this service, host or file.")
@click.option("--relation", default="", help="Only this relation, such as depends-on.")
@click.option("--run", default="", help="Only what was noted in this run.")
@click.option("--team", is_flag=True, help="Only what others may hear of.")
@click.option(
    "--state", type=click.Choice([*get_args(State), "all"]), default="current", show_default=True
)
@click.option("--limit", default=50, show_default=True, help="How many.")
@json_option
@click.pass_context
def list_(
    ctx: click.Context, /, state: str, limit: int, team: bool, as_json: bool, **given: Any
) -> None:
    """List facts, the latest confirmed first."""
    wanted = Wanted(
        state=None if state == "all" else msgspec.convert(state, State),
        limit=EVERY if team else limit,
        **given,
    )

    async def ask(desk: Desk) -> list[Fact]:
        found = list(await desk.keeper.facts.find(wanted))
        shared = [each for each in found if each.scope == "team"]
        return (shared[:limit] if limit >= 0 else shared) if team else found

    found = at_desk(ctx, ask)
    if as_json:
        emit_json([as_data(fact) for fact in found])
        return
    table(
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
        empty="nothing is known yet; sessions are learned from when they end",
    )


@click.command(cls=Examples, examples="hermes memory show 1a2b3c")
@click.argument("fact")
@json_option
@click.pass_context
def show(ctx: click.Context, fact: str, as_json: bool) -> None:
    """Show FACT: what it says, since when, who vouches for it, and the events it rests on."""

    async def ask(desk: Desk) -> tuple[Fact, list[Recorded]]:
        found = await desk.find(fact)
        wanted = set(found.sources)
        if not wanted:
            return found, []
        events = desk.journal.read(after=min(wanted) - 1, kinds=KINDS)
        return found, [recorded async for recorded in events if recorded.seq in wanted]

    found, sources = at_desk(ctx, ask)
    if as_json:
        told = [{"seq": s.seq, "run": s.event.run, "text": text_of(s.event)} for s in sources]
        emit_json({**as_data(found), "source_texts": told})
        return
    say(clean(found.text) or "(forgotten)", bold=True)
    fields(_rows(found))
    for source in sources:
        say()
        at = f"{source.event.at.astimezone():%Y-%m-%d %H:%M}"
        opened = f"hermes sessions show {source.event.run} --at {source.seq}"
        say(f"event {source.seq} · {at} · {opened}", dim=True)
        say(clean(clip(text_of(source.event), 600)))


@click.command(cls=Examples, examples="hermes memory history\nhermes memory history 1a2b3c --json")
@click.argument("fact", required=False)
@click.option("--limit", default=50, show_default=True, help="How many, the newest last.")
@json_option
@click.pass_context
def history(ctx: click.Context, fact: str | None, limit: int, as_json: bool) -> None:
    """Tell what became of FACT, or of all facts and note files, event by event."""

    async def ask(desk: Desk) -> list[Recorded]:
        id = (await desk.find(fact)).id if fact else ""
        events = desk.journal.read(kinds=TOLD)
        return [recorded async for recorded in events if not id or _concerns(recorded, id)]

    found = at_desk(ctx, ask)[-limit:]
    if as_json:
        emit_json([{"seq": r.seq, **msgspec.to_builtins(r.event)} for r in found])
        return
    rows = [(r.seq, f"{r.event.at.astimezone():%Y-%m-%d %H:%M}", *_told(r.event)) for r in found]
    table(("event", "at", "what", "fact", "by", "detail"), rows, empty="nothing happened yet")


def as_data(fact: Fact) -> dict[str, Any]:
    """Every field, also those that are as usual."""
    plain = {name: getattr(fact, name) for name in fact.__struct_fields__}
    return {**plain, "state": fact.state}


def _rows(fact: Fact) -> dict[str, object]:
    return {
        "fact": fact.id,
        "kind": f"{fact.memory}, {fact.relation}" if fact.relation else fact.memory,
        "state": fact.state,
        "trust": f"{fact.trust}, noted by {fact.actor}" if fact.actor else fact.trust,
        "holds": f"from {_when(fact.valid_from)} to {_when(fact.valid_to)}",
        "seen": f"{fact.confirmations + 1} times, last {_when(fact.last_confirmed)}",
        "about": fact.about,
        "quote": fact.quote,
        "run": fact.run,
        "origin": fact.origin,
        "scope": fact.scope,
        "replaces": fact.supersedes,
        "replaced by": fact.ended_by,
        "shown": f"{fact.shown} times; then {fact.succeeded} turns answered, {fact.failed} failed",
    }


def _when(at: datetime | None) -> str:
    return "now" if at is None else f"{at.astimezone():%Y-%m-%d %H:%M}"


def _concerns(recorded: Recorded, id: str) -> bool:
    event = recorded.event
    if isinstance(event, FactsShown):
        return id in event.facts
    return getattr(event, "fact", "") == id


def _told(event: object) -> tuple[str, str, str, str]:
    match event:
        case FactNoted():
            return "noted", event.fact, event.actor or event.trust, clip(event.text, 70)
        case FactConfirmed():
            return "confirmed", event.fact, event.actor, f"by events {_numbers(event.sources)}"
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


def _numbers(sources: tuple[int, ...]) -> str:
    return ", ".join(map(str, sources)) or "–"
