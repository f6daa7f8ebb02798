"""Of a large journal only what is about the incident is read, and all of that."""

import pytest
from recorded_incident import RUN, IncidentRecorder, resolved

from hermes.core.events.incidents import AlertRaised, ChangeBegan, IncidentOpened
from hermes.core.events.runs import MessageAdded, RunStarted
from hermes.core.events.tools import ToolDecided, ToolFinished, ToolRequested, ToolStarted
from hermes.core.messages import Message, Risk, ToolCall, ToolResult
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.reports.actions import list_actions, list_refused_actions
from hermes.sre.reports.report_data import (
    list_incidents,
    read_earlier_incidents,
    read_incident_records,
)

pytestmark = pytest.mark.anyio


async def test_subagents_and_the_alerts_of_the_watch_belong_to_an_incident() -> None:
    journal = InMemoryJournal()
    alert = AlertRaised(run="watch", fingerprint="f", title="t")
    (number,) = await journal.append(alert)
    await journal.append(AlertRaised(run="watch", fingerprint="other", title="t"))
    recorder = IncidentRecorder()
    recorder.opened(alerts=(number,))
    await recorder.save(journal)
    inner, outer = f"{RUN}/network/more", "incident-2"
    await journal.append(
        RunStarted(run=inner, origin="subagent", parent=f"{RUN}/network"),
        MessageAdded(run=inner, message=Message(role="user", text="look")),
        RunStarted(run=outer, origin="incident"),
        RunStarted(run=f"{RUN}0/x", origin="incident"),
    )
    records = await read_incident_records(journal, RUN)
    assert {each.event.run for each in records} == {"watch", RUN, inner}
    assert [each.seq for each in records] == sorted(each.seq for each in records)
    assert sum(each.event.run == "watch" for each in records) == 1


async def test_a_drill_is_not_counted_as_having_come_back() -> None:
    journal = InMemoryJournal()
    await resolved().save(journal)
    drilled = IncidentOpened(
        run="run-1", incident="incident-drill", title="t", severity="P1", fingerprint="disk:web-1"
    )
    await journal.append(drilled)
    found = await read_earlier_incidents(journal, await read_incident_records(journal, RUN))
    assert [event.incident for event in found] == [RUN]
    assert [each.details.incident for each in await list_incidents(journal)] == [RUN]
    assert len(await list_incidents(journal, drills=True)) == 2


def test_agents_whose_models_use_the_same_call_ids_are_told_apart() -> None:
    agents = {"network": "systemctl restart web", "disk": "df -h"}
    runs = {f"{RUN}/{name}": command for name, command in agents.items()}
    events = [
        *(ToolRequested(run=run, call=call(command)) for run, command in runs.items()),
        ChangeBegan(run=RUN, incident=RUN, call_id="1", command="x", by=f"{RUN}/network"),
        *(ToolStarted(run=run, call_id="1", risk=Risk.CHANGE) for run in runs),
        *(ToolFinished(run=run, result=ToolResult(call_id="1", content=run)) for run in runs),
        ToolRequested(run=f"{RUN}/logs", call=call("rm -rf /")),
        ToolDecided(run=f"{RUN}/logs", call_id="1", verdict="deny", rule="wipe"),
    ]
    records = [JournalRecord(number, event) for number, event in enumerate(events, 1)]
    found = [(each.command, each.output, each.changed) for each in list_actions(records)]
    assert found == [
        ("systemctl restart web", f"{RUN}/network", True),
        ("df -h", f"{RUN}/disk", False),
    ]
    assert [each.command for each in list_refused_actions(records)] == ["rm -rf /"]


def call(command: str) -> ToolCall:
    return ToolCall("1", "terminal", {"command": command})
