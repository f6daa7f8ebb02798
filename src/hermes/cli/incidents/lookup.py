"""Finds the incident somebody means; offers ids to the shell that completes words."""

from typing import TYPE_CHECKING

import click

from hermes.cli.context import command_line_overrides, query_journal
from hermes.core.errors import HermesError
from hermes.core.events.incidents import IncidentOpened
from hermes.core.protocols import Journal
from hermes.memory.store import JournalStore, store_exists
from hermes.settings.load import load
from hermes.sre.reports.report_data import list_opened

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

MAX_COMPLETIONS = 20
LATEST_WORDS = ("last", "latest")


async def find_incident(journal: Journal, wanted: str) -> IncidentOpened:
    """By id, its beginning or end; `last` is the newest that is no drill."""
    known = [event for _, event in await list_opened(journal)]
    if wanted in LATEST_WORDS:
        real = [event for event in known if event.run == event.incident]
        if not real:
            raise HermesError("there is no incident yet; `hermes incident open TEXT` makes one")
        return real[-1]
    for fits in (_matches_exactly, _matches_partly):
        found = [event for event in known if wanted and fits(event, wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(event.incident for event in found[:5])
            raise HermesError(f"{wanted!r} may be {names}; say more of it")
    raise HermesError(f"there is no incident {wanted!r}; `hermes incident list` shows them")


def _matches_exactly(event: IncidentOpened, wanted: str) -> bool:
    return wanted in (event.incident, event.run)


def _matches_partly(event: IncidentOpened, wanted: str) -> bool:
    return event.incident.startswith(wanted) or event.incident.endswith(wanted)


def complete_incident_id(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """The newest ids. A shell that completes a word must never see an error."""
    from click.shell_completion import CompletionItem

    async def ask(journal: JournalStore) -> list[IncidentOpened]:
        return [event for _, event in await list_opened(journal) if event.run == event.incident]

    try:
        loaded = load(overrides=command_line_overrides(ctx))
        known = query_journal(loaded, ask)[-MAX_COMPLETIONS:] if store_exists(loaded.store) else []
    except HermesError:
        known = []
    items = [CompletionItem("last", help="the newest")] if "last".startswith(incomplete) else []
    return items + [
        CompletionItem(event.incident, help=event.title[:60])
        for event in reversed(known)
        if event.incident.startswith(incomplete)
    ]
