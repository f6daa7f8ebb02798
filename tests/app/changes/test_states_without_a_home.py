"""States of incidents on a home that cannot be written: the work goes on without them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.app.changes.incident_states import IncidentStates, keep_failing_state
from hermes.app.incidents.lessons import LessonWriter
from hermes.core.events.base import BaseEvent
from hermes.core.events.experiments import IncidentStateKept
from hermes.core.incident import IncidentDetails
from hermes.declared.state import State
from hermes.declared.store import StateStore
from hermes.environments.local import LocalEnvironment
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.checks import CheckResult

pytestmark = pytest.mark.anyio
CASE = IncidentDetails(incident="incident-1", run="incident-1", title="web: no answer")
LIVE = State(host="box", at=datetime.now(UTC))


async def no_checks() -> Sequence[CheckResult]:
    return ()


@pytest.mark.parametrize("writable", [True, False])
async def test_no_state_is_kept_where_the_home_cannot_be_written(
    tmp_path: Path, writable: bool
) -> None:
    if not writable:
        (tmp_path / "states" / ".lock").mkdir(parents=True)  # permissions do not stop root
    store = StateStore(tmp_path / "states")
    failing = keep_failing_state(store, LIVE, CASE, (), no_checks)
    assert (failing is not None) is writable

    async def publish(*events: BaseEvent) -> Sequence[int]:
        return ()

    async def collect(known: State | None) -> State:
        return LIVE

    journal, environment = InMemoryJournal(), LocalEnvironment(tmp_path, {})
    states = IncidentStates(environment, store, "box", journal, publish, collect=collect)
    assert (await states.keep_recovered(CASE) is not None) is writable
    if not writable:
        event = IncidentStateKept(run=CASE.run, incident=CASE.incident, moment="failing", state="1")
        await journal.append(event)
        assert await LessonWriter(states, redact=str).write(CASE) is None
