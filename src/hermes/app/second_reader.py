"""Opens the model that reads foreign skills a second time, where the settings name one."""

from collections.abc import Sequence

from hermes.app.models import Models
from hermes.core.bus import Bus
from hermes.memory.opening import open_journal
from hermes.models.connections import Connections
from hermes.settings.load import Loaded
from hermes.skills.exchange.importing import SecondReader
from hermes.skills.scanner.finding import Entry, Finding
from hermes.skills.scanner.second_reader import read_again


def second_reader(loaded: Loaded) -> SecondReader | None:
    reference = loaded.settings.skills.second_reader
    if not reference:
        return None

    async def read(entries: Sequence[Entry]) -> list[Finding]:
        patience = loaded.settings.store.patience
        async with (
            open_journal(loaded.store, patience=patience) as journal,
            Connections() as connections,
        ):
            return await read_again(
                entries, Models(loaded, connections, Bus(journal)).open(reference)
            )

    return read
