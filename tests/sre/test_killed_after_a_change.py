"""A watch that was killed between a change and its verification verifies before it undoes."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from incident_host import FIX, Host, events

from hermes.core.events import Event
from hermes.core.events.incidents import ChangesUndone
from hermes.core.events.skills import PlaybookEnded
from hermes.core.events.tools import ToolFinished
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.commander import Commander

pytestmark = pytest.mark.anyio


class KilledError(BaseException):
    pass


class DyingJournal(InMemoryJournal):
    """Ends the process once, when a playbook would report its end, after all its steps."""

    killed = False

    async def append(self, *events: Event) -> Sequence[int]:
        ran = ("applied", "failed", "undone")
        ends = [e for e in events if isinstance(e, PlaybookEnded) and e.outcome in ran]
        if ends and not self.killed:
            self.killed = True
            raise KilledError
        return await super().append(*events)


async def killed_and_resumed(host: Host) -> str:
    case = await host.open_incident()
    with pytest.raises((KilledError, BaseExceptionGroup)):
        async with host.context() as context:
            await Commander(context, case).run()
    assert any(isinstance(each, ToolFinished) for each in host.journal.events)
    async with host.context() as context:
        return (await Commander(context, case).run()).outcome


async def test_what_healed_stays(tmp_path: Path) -> None:
    host = Host(tmp_path, DyingJournal())
    host.playbook("web", ("touch one", "rm one"), FIX)
    assert await killed_and_resumed(host) == "resolved"
    assert host.well()
    assert host.ledger == ["web-1", "web-2"]
    assert events(host, ChangesUndone) == []


async def test_what_did_not_heal_is_undone(tmp_path: Path) -> None:
    host = Host(tmp_path, DyingJournal())
    host.playbook("web", ("touch one", "rm one"), ("touch two", "rm two"))
    assert await killed_and_resumed(host) == "escalated"
    assert host.ledger == ["web-1", "web-2", "undo-web-2", "undo-web-1"]
