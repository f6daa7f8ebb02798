"""Completes incident ids in the shell."""

from typing import TYPE_CHECKING

import click

from hermes.cli.context import command_line_overrides, query_journal
from hermes.core.errors import HermesError
from hermes.core.events.incidents import IncidentOpened
from hermes.memory.store import JournalStore, store_exists
from hermes.settings.load import load
from hermes.sre.reports.report_data import list_opened

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

MAX_COMPLETIONS = 20


def complete_incident_id(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Return the latest ids. Errors are ignored: completion must never fail."""
    from click.shell_completion import CompletionItem

    async def query(journal: JournalStore) -> list[IncidentOpened]:
        return [event for _, event in await list_opened(journal) if event.run == event.incident]

    try:
        loaded = load(overrides=command_line_overrides(ctx))
        known = (
            query_journal(loaded, query)[-MAX_COMPLETIONS:] if store_exists(loaded.store) else []
        )
    except HermesError:
        known = []
    items = [CompletionItem("last", help="the newest")] if "last".startswith(incomplete) else []
    return items + [
        CompletionItem(event.incident, help=event.title[:60])
        for event in reversed(known)
        if event.incident.startswith(incomplete)
    ]
