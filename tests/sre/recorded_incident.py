"""An incident as a journal has it, made of real events: for the tests of report and listing."""

from datetime import UTC, datetime, timedelta

from hermes.core.events import Event
from hermes.core.events.incidents import (
    AlertRaised,
    ChangeBegan,
    ChangesUndone,
    IncidentChecked,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentOpened,
    IncidentPhase,
    IncidentVerified,
    LayerInvestigated,
    PhaseEntered,
)
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.tools import ToolDecided, ToolFinished, ToolRequested, ToolStarted
from hermes.core.messages import Risk, ToolCall, ToolResult, Usage
from hermes.core.protocols import Journal

BEGAN = datetime(2026, 3, 6, 23, 58, 0, tzinfo=UTC)
RUN = "incident-20260306-235800-4f2a1c"


class IncidentRecorder:
    """Writes one event after the other; each takes a second."""

    def __init__(self, run: str = RUN, began: datetime = BEGAN) -> None:
        self.run = run
        self.now = began
        self.events: list[Event] = []

    def at(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def add(self, *events: Event) -> None:
        self.events += events

    def opened(self, title: str = "disk of web-1 is full", **more: object) -> None:
        fields: dict[str, object] = {
            "severity": "P1",
            "reason": "1 of 2 services answers with errors",
            "service": "web",
            "fingerprint": "disk:web-1",
            "since": self.now - timedelta(seconds=40),
        }
        alert = AlertRaised(
            run=self.run, at=self.at(), fingerprint="disk:web-1", title=title, source="probe"
        )
        self.add(alert)
        self.add(
            IncidentOpened(
                run=self.run,
                incident=self.run,
                at=self.at(),
                title=title,
                **(fields | more),  # type: ignore[arg-type]
            )
        )

    def phase(self, phase: IncidentPhase, **more: object) -> None:
        self.add(
            PhaseEntered(
                run=self.run,
                incident=self.run,
                at=self.at(),
                phase=phase,
                **more,  # type: ignore[arg-type]
            )
        )

    def ran(
        self, call: str, command: str, output: str = "done", *, undo: str | None = None,
        run: str = "", finish: bool = True, attempt: int = 0,
    ) -> int:  # fmt: skip
        """The number of the event that has its result, counted in this recorder."""
        run = run or self.run
        arguments = {"command": command}
        if undo is not None:
            self.add(
                ChangeBegan(
                    run=self.run, incident=self.run, at=self.at(), call_id=call,
                    command=command, undo=undo, attempt=attempt, by="disk-full",
                )
            )  # fmt: skip
        risk = Risk.READ if undo is None else Risk.CHANGE
        self.add(
            ToolRequested(run=run, at=self.at(), call=ToolCall(call, "terminal", arguments)),
            ToolDecided(run=run, at=self.at(), call_id=call, verdict="allow", rule="reading"),
            ToolStarted(run=run, at=self.at(), call_id=call, risk=risk),
        )
        if finish:
            result = ToolResult(call_id=call, content=output)
            self.add(ToolFinished(run=run, at=self.at(), result=result, seconds=0.1))
        return len(self.events)

    def denied(self, call: str, command: str, rule: str = "no-data-loss") -> None:
        asked = ToolCall(call, "terminal", {"command": command})
        self.add(
            ToolRequested(run=self.run, at=self.at(), call=asked),
            ToolDecided(
                run=self.run, at=self.at(), call_id=call, verdict="deny", rule=rule,
                reason="it deletes data",
            ),
        )  # fmt: skip

    def checked(self, check: str, *, ok: bool, when: str) -> None:
        self.add(
            IncidentChecked(
                run=self.run, incident=self.run, at=self.at(), check=check, ok=ok,
                detail="" if ok else "no answer", when=when,  # type: ignore[arg-type]
            )
        )  # fmt: skip

    def diagnosed(self, *evidence: int, **more: object) -> None:
        fields: dict[str, object] = {
            "component": "/var/log/web/debug.log",
            "mechanism": "a debug log fills the disk",
            "value": "level=DEBUG",
            "ruled_out": ("a leak of deleted files",),
            "gaps": ("who switched it on is not known",),
            "confidence": 0.9,
        }
        self.add(
            IncidentDiagnosed(
                run=self.run, incident=self.run, at=self.at(), evidence=evidence,
                **(fields | more),  # type: ignore[arg-type]
            )
        )  # fmt: skip

    def verified(self, *, ok: bool = True, **more: object) -> None:
        self.add(
            IncidentVerified(
                run=self.run, incident=self.run, at=self.at(), ok=ok, seconds=20.0,
                **more,  # type: ignore[arg-type]
            )
        )  # fmt: skip

    def closed(self, outcome: str = "resolved", by: str = "playbook", **more: object) -> None:
        self.add(
            IncidentClosed(
                run=self.run, incident=self.run, at=self.at(), outcome=outcome,  # type: ignore[arg-type]
                answered_by=by, **more,  # type: ignore[arg-type]
            )
        )  # fmt: skip

    async def save(self, journal: Journal) -> None:
        await journal.append(*self.events)


def resolved(run: str = RUN, began: datetime = BEGAN) -> IncidentRecorder:
    """A whole one: noticed, looked at by two, one attempt undone, the next one holds."""
    recorder = IncidentRecorder(run, began)
    recorder.opened()
    recorder.phase("assess")
    recorder.checked("web answers", ok=False, when="before")
    recorder.phase("investigate")
    seen = recorder.ran("c1", "df -h /var", "/dev/vda1 100% /var", run=f"{run}/data")
    layer = LayerInvestigated(
        run=run, incident=run, at=recorder.at(), layer="data", agent=f"{run}/data",
        findings=("the disk is full",), evidence=(seen,),
    )  # fmt: skip
    answer = ModelAnswered(
        run=f"{run}/data", at=recorder.at(), model="small-1", usage=Usage(900, 100, 0, 0.002)
    )
    recorder.add(layer, answer)
    recorder.diagnosed(seen)
    recorder.phase("remediate", attempt=1)
    recorder.ran("c2", "systemctl restart web", undo="systemctl start web", attempt=1)
    recorder.verified(ok=False, attempt=1, checks=("web answers: no answer",))
    recorder.add(
        ChangesUndone(
            run=run, incident=run, at=recorder.at(), calls=("c2",), reason="it did not help"
        )
    )
    recorder.denied("c3", "rm -rf /var/lib/postgresql/old data")
    recorder.phase("remediate", attempt=2)
    recorder.ran(
        "c4", "truncate -s 0 /var/log/web/debug.log", "[exit 0 · 0.1 s]",
        undo="cp /var/tmp/copy /var/log/web/debug.log", attempt=2,
    )  # fmt: skip
    recorder.phase("verify", attempt=2)
    recorder.checked("web answers", ok=True, when="after")
    recorder.checked("web answers", ok=True, when="trigger")
    recorder.verified(attempt=2, trigger="systemctl restart web")
    return recorder
