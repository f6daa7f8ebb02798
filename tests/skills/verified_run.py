"""A verified incident as the journal tells it, made by hand."""

from collections.abc import Sequence

from hermes.core.events import Event
from hermes.core.events.incidents import (
    AlertRaised,
    ChangeBegan,
    IncidentDiagnosed,
    IncidentVerified,
)
from hermes.core.events.tools import ToolDecided, ToolFinished, ToolRequested
from hermes.core.messages import Risk, ToolCall, ToolResult
from hermes.core.protocols import JournalRecord
from hermes.skills.distill.verified_run import READ_ONLY_EFFECTS

RUN = "run-1"
Command = tuple[str, str, int, tuple[str, ...]]
LOOK, WRITE, RESTART = ("read",), ("write",), ("service-change",)
LOG = "2026-01-01 10:00:00 FATAL /etc/orders/app.ini: bad number 'x9' for pool"
COMMANDS: list[Command] = [
    ("journalctl -u orders -n 50 -o cat", LOG, 0, LOOK),
    ("cat /etc/orders/app.ini.good", "pool = 24", 0, LOOK),
    ("touch /srv/i-was-here", "", 0, WRITE),
    ("sed -i 's/^pool = .*/pool = 24/' /etc/orders/app.ini", "", 0, WRITE),
    ("systemctl restart orders", "", 0, RESTART),
    ("systemctl is-active orders", "active", 0, LOOK),
]


def a_run(
    commands: Sequence[Command] = COMMANDS,
    *,
    ok: bool = True,
    tool: str = "terminal",
    undo: str = "",
) -> list[JournalRecord]:
    events: list[Event] = [
        AlertRaised(
            run=RUN,
            fingerprint="f",
            title="orders is down on web-3",
            text="no answer from web-3:8443",
            labels=(("instance", "web-3:8443"), ("service", "orders")),
        )
    ]
    for number, (command, output, code, effects) in enumerate(commands):
        call = ToolCall(f"c{number}", tool, {"command": command})
        told = f"{output}\n[exit {code} · 0.1 s]" if code else output
        events += [
            ToolRequested(run=RUN, call=call, risk=Risk.CHANGE),
            ToolDecided(run=RUN, call_id=call.id, verdict="allow", rule="r", effects=effects),
            ToolFinished(run=RUN, result=ToolResult(call_id=call.id, content=told)),
        ]
    if undo:
        events += [
            ChangeBegan(
                run=RUN,
                incident="i",
                call_id=f"c{number}",
                command=command,
                undo=undo if number == 3 else "",
            )
            for number, (command, _, _, effects) in enumerate(commands)
            if not set(effects) <= READ_ONLY_EFFECTS
        ]
    events += [
        IncidentDiagnosed(
            run=RUN,
            incident="i",
            mechanism="a bad number in the settings",
            value="x9",
            evidence=(4,),
        ),
        IncidentVerified(run=RUN, incident="i", ok=ok, checks=("it answers",)),
    ]
    return [JournalRecord(number, event) for number, event in enumerate(events, 1)]
