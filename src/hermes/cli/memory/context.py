"""Opens the journal and the facts of a home for the `hermes memory` commands."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import click

from hermes.app.facts import FactContext, open_facts
from hermes.cli.context import load_settings, require_journal
from hermes.cli.output import note
from hermes.learning.session_memory import FACTS_FILE
from hermes.memory.store import open_journal

FactResult = TypeVar("FactResult")


def with_facts(
    ctx: click.Context,
    work: Callable[[FactContext], Awaitable[FactResult]],
    *,
    create: bool = False,
) -> FactResult:
    """Raises `HermesError` without a journal, unless `create` is set."""
    loaded = load_settings(ctx)
    if not create:
        require_journal(loaded)

    async def run() -> FactResult:
        timeout_s = loaded.settings.store.patience
        async with (
            open_journal(loaded.store, timeout_s=timeout_s) as journal,
            open_facts(loaded, journal) as context,
        ):
            if context.recorder.facts.rebuilt:
                note(f"{loaded.home / FACTS_FILE} was damaged and was rebuilt from the journal")
            return await work(context)

    return anyio.run(run)
