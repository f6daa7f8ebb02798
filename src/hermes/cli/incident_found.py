"""Finds the incident somebody means; offers ids to the shell that completes words."""

from typing import TYPE_CHECKING

import click

from hermes.cli.loading import overrides_of
from hermes.cli.stored import ask_journal
from hermes.core.errors import HermesError
from hermes.core.events.incidents import IncidentOpened
from hermes.core.protocols import Journal
from hermes.memory.opening import Store, exists
from hermes.settings.load import load
from hermes.sre.report.reading import opened

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

OFFERED = 20
LAST = ("last", "latest")


async def find(journal: Journal, wanted: str) -> IncidentOpened:
    """By id, its beginning or end; `last` is the newest that is no drill."""
    known = [event for _, event in await opened(journal)]
    if wanted in LAST:
        real = [event for event in known if event.run == event.incident]
        if not real:
            raise HermesError("there is no incident yet; `hermes incident open TEXT` makes one")
        return real[-1]
    for fits in (_exactly, _partly):
        found = [event for event in known if wanted and fits(event, wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(event.incident for event in found[:5])
            raise HermesError(f"{wanted!r} may be {names}; say more of it")
    raise HermesError(f"there is no incident {wanted!r}; `hermes incident list` shows them")


def _exactly(event: IncidentOpened, wanted: str) -> bool:
    return wanted in (event.incident, event.run)


def _partly(event: IncidentOpened, wanted: str) -> bool:
    return event.incident.startswith(wanted) or event.incident.endswith(wanted)


def offered(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """The newest ids. A shell that completes a word must never see an error."""
    from click.shell_completion import CompletionItem

    async def ask(journal: Store) -> list[IncidentOpened]:
        return [event for _, event in await opened(journal) if event.run == event.incident]

    try:
        loaded = load(overrides=overrides_of(ctx))
        known = ask_journal(loaded, ask)[-OFFERED:] if exists(loaded.store) else []
    except HermesError:
        known = []
    items = [CompletionItem("last", help="the newest")] if "last".startswith(incomplete) else []
    return items + [
        CompletionItem(event.incident, help=event.title[:60])
        for event in reversed(known)
        if event.incident.startswith(incomplete)
    ]
