"""Random incidents, made of the event sequences that the product really writes.

Every service, playbook, model and person has a name that occurs nowhere else, so that a test can
find each mention of it in a text.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from hermes.core.events import Event
from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested, ApprovalSettled
from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    ChangeBegan,
    ChangesUndone,
    EscalationLine,
    IncidentAcknowledged,
    IncidentChecked,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentGraded,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    IncidentVerified,
    JoinedPart,
    LayerInvestigated,
    PhaseEntered,
)
from hermes.core.events.runs import ModelAnswered, ModelFailed, RunStarted
from hermes.core.events.skills import PlaybookEnded, PlaybookStarted, PlaybookStepped
from hermes.core.events.tools import ToolDecided, ToolFinished, ToolRequested, ToolStarted
from hermes.core.messages import Risk, ToolCall, ToolResult, Usage

BEGAN = datetime(2026, 3, 6, 12, 0, 0, tzinfo=UTC)
SERVICES = ("svc-alpha", "svc-beta", "svc-gamma", "svc-delta")
PLAYBOOKS = ("pb-one", "pb-two", "pb-three", "pb-four", "pb-five")
MODELS = ("mdl-small", "mdl-large")
PEOPLE = ("ann", "ben")
REASONS = ("no systemctl on this host", "timed out after 10 s", "no journalctl on this host")
MEASURED = "97 percent in use"
SHELL_CODE, PURPOSE = "umask 077; printf x | base64 -d > /srv/a", "put back file /srv/a for it"
SEVERITIES = ("P0", "P1", "P2", "P3")


class Life:
    """Writes the events of one incident. `number` is that of the last event before it."""

    def __init__(self, draw: Callable[..., Any], name: str, began: datetime, number: int) -> None:
        self.draw, self.run, self.now, self.number = draw, name, began, number
        self.events: list[Event] = []
        self.attempt = self.calls = 0
        self.services: list[str] = []

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def chance(self) -> bool:
        return bool(self.draw(st.booleans()))

    def write(self, kind: type[Any], **fields: Any) -> int:
        """The number of the event."""
        self.now += timedelta(seconds=self.draw(st.sampled_from((0.25, 1.0, 7.5, 90.0, 4000.0))))
        if "incident" in kind.__struct_fields__:
            fields = {"incident": self.run, **fields}
        self.events.append(kind(**{"run": self.run, "at": self.now, **fields}))
        return self.number + len(self.events)

    def service(self) -> str:
        name = str(self.one_of(*SERVICES))
        self.services.append(name)
        return name

    def look(self, run: str = "") -> int:
        """A command that only reads; the number of its result."""
        self.calls += 1
        id, run = f"call-{self.run}-{self.calls}", run or self.run
        self.write(ToolRequested, run=run, call=ToolCall(id, "terminal", {"command": "df -h /"}))
        self.write(ToolDecided, run=run, call_id=id, verdict="allow", rule="reads")
        self.write(ToolStarted, run=run, call_id=id, risk=Risk.READ)
        return self.write(ToolFinished, run=run, result=ToolResult(call_id=id, content="90%"))

    def change(self, by: str, run: str = "") -> str:
        """A command that changes something; the id of its call."""
        self.calls += 1
        id, run = f"call-{self.run}-{self.calls}", run or self.run
        command = f"touch /srv/{self.calls}"
        self._ask(id, run, command)
        self.write(
            ChangeBegan, call_id=id, command=command, undo="true", attempt=self.attempt, by=by
        )
        self.write(ToolRequested, run=run, call=ToolCall(id, "terminal", {"command": command}))
        self.write(ToolDecided, run=run, call_id=id, verdict="allow", rule="changes")
        self.write(ToolStarted, run=run, call_id=id, risk=Risk.CHANGE)
        if self.draw(st.integers(0, 5)):  # else it was cut off
            failed = "[exit 1 · 0.1 s]" if self.chance() else "done"
            self.write(ToolFinished, run=run, result=ToolResult(call_id=id, content=failed))
        return id

    def _ask(self, call: str, run: str, command: str) -> None:
        how = self.one_of("unasked", "asked", "announced")
        shown = f"{SHELL_CODE}; {command}"
        asked = {"run": run, "approval": f"ask-{call}", "call_id": call, "shown": shown,
                 "effects": ("write",), "purpose": self.one_of("", PURPOSE)}  # fmt: skip
        if how == "asked":
            self.write(ApprovalRequested, tool="terminal", **asked)
        elif how == "announced":
            self.write(ActionAnnounced, seconds=30.0, **asked)
        if how != "unasked":
            self.write(ApprovalSettled, run=run, approval=f"ask-{call}", outcome="approved")

    # How it comes up

    def open(self) -> None:
        raised = [self._raised(self.service()) for _ in range(self.draw(st.integers(1, 3)))]
        first = self.events[0]
        assert isinstance(first, AlertRaised)
        self.write(
            IncidentOpened,
            title=first.title,
            severity=self.one_of(*SEVERITIES),
            reason=self.one_of("", "the port does not answer"),
            service=dict(first.labels)["service"],
            fingerprint=first.fingerprint,
            alerts=tuple(raised),
            facts=(("text", first.text), ("service", dict(first.labels)["service"])),
            since=first.since,
        )

    def _raised(self, service: str) -> int:
        since = self.now - timedelta(seconds=30) if self.chance() else None
        return self.write(
            AlertRaised,
            run="watch",
            fingerprint=f"{service}/port",
            title=f"{service}: {self.one_of('nothing answers', MEASURED)}",
            text=f"{service} does not answer at port 80",
            source=self.one_of("probe", "prometheus", "person"),
            labels=(("service", service),),
            since=since,
        )

    def beside(self) -> None:
        """What monitors and people add while it is worked on."""
        for _ in range(self.draw(st.integers(0, 2))):
            what = self.one_of("join", "grade", "acknowledge", "killed")
            if what == "join":
                self._join()
            elif what == "grade":
                before = self.severity()
                after = self.one_of(*SEVERITIES)
                self.write(IncidentGraded, severity=after, before=before, reason="more is down")
            elif what == "acknowledge":
                self.write(IncidentAcknowledged, by=self.one_of(*PEOPLE))
            elif any(isinstance(event, PhaseEntered) for event in self.events):
                self.write(PhaseEntered, phase="assess", resumed=True, gap=90.0)

    def _join(self) -> None:
        service = self.service()
        self._raised(service)
        part = JoinedPart(fingerprint=f"{service}/port", name=service, title=f"{service} fails")
        self.write(
            AlertsJoined,
            count=self.draw(st.integers(1, 4)),
            fingerprints=(f"{service}/port",),
            titles=(f"{service}: nothing answers",),
            why="the same host",
            parts=(part,) if self.chance() else (),
        )

    def severity(self) -> str:
        graded = [e.severity for e in self.events if isinstance(e, IncidentOpened | IncidentGraded)]
        return graded[-1]

    # The work on it

    def work(self) -> None:
        """From the first look to the word of the commander."""
        self.write(PhaseEntered, phase="assess", attempt=self.attempt)
        self._checks("before")
        if self.draw(st.integers(0, 4)) == 0:
            self._all_clear()
            return
        self.beside()
        self._look_for_signatures()
        for _ in range(self.draw(st.integers(0, 2))):
            self.attempt += 1
            if self._attempt_holds():
                return
        self._escalate()

    def _checks(self, when: str) -> None:
        for name in ("port-80", "disk-root"):
            ok, unknown = self.one_of((True, False), (False, False), (False, True))
            detail = "could not be asked" if unknown else "" if ok else "no answer"
            self.write(IncidentChecked, check=name, ok=ok, detail=detail, when=when,
                       attempt=self.attempt, unknown=unknown)  # fmt: skip

    def _all_clear(self) -> None:
        verdict = self.one_of("no-incident", "recovered")
        evidence = (self.look(),) if self.chance() else ()
        self.write(
            IncidentDiagnosed,
            verdict=verdict,
            component="/etc/limit.conf",
            mechanism="the limit is too low" if evidence else "these checks pass without a change",
            evidence=evidence,
            confidence=0.9,
        )
        self._document(verdict, "playbook")

    def _look_for_signatures(self) -> None:
        self.write(PhaseEntered, phase="reflex", attempt=self.attempt)
        for _ in range(self.draw(st.integers(1, 2))):
            for skill in self.draw(st.lists(st.sampled_from(PLAYBOOKS), max_size=5, unique=True)):
                how = self.one_of("absent", "unchecked", "no parameter", "refused")
                fields = {
                    "absent": {"outcome": "declined", "step": "find", "detail": "no match"},
                    "unchecked": {
                        "outcome": "declined",
                        "step": "find",
                        "detail": "no match",
                        "unchecked": self.one_of(*REASONS),
                    },
                    "no parameter": {"outcome": "declined", "detail": "the alert names no unit"},
                    "refused": {"outcome": "refused", "step": "find", "detail": "not allowed"},
                }[how]
                self.write(PlaybookEnded, skill=skill, **fields)

    def _attempt_holds(self) -> bool:
        by_model = self.chance()
        if by_model and not self._models():
            return False
        calls = self._by_model() if by_model else self._by_playbook()
        self.write(PhaseEntered, phase="verify", attempt=self.attempt)
        self._checks("after")
        ok = self.chance()
        self.write(IncidentVerified, ok=ok, checks=("port-80: ok",), seconds=8.0,
                   attempt=self.attempt)  # fmt: skip
        if ok:
            self._document("resolved", "model" if by_model else "playbook")
            return True
        failed = tuple(call for call in calls if self.draw(st.integers(0, 3)) == 0)
        undone = tuple(call for call in calls if call not in failed)
        self.write(ChangesUndone, calls=undone, failed=failed, reason="it did not hold")
        return False

    def _by_playbook(self) -> list[str]:
        skill = str(self.one_of(*PLAYBOOKS))
        evidence = self.look()
        self.write(PlaybookStarted, skill=skill, digest="d")
        calls = [self.change(skill) for _ in range(self.draw(st.integers(1, 2)))]
        for call in calls:
            self.write(PlaybookStepped, skill=skill, step="set", call_id=call, ok=True, undo="true")
        self.write(PlaybookEnded, skill=skill, outcome="applied", steps=len(calls))
        self.write(
            IncidentDiagnosed,
            component="/etc/service.conf",
            mechanism="a wrong setting",
            evidence=(evidence,),
            confidence=0.8,
        )
        return calls

    def _models(self) -> bool:
        """Whether they named something to act on; a model that cannot be reached names nothing."""
        self.write(PhaseEntered, phase="investigate", attempt=self.attempt)
        reached = self.draw(st.integers(0, 3)) > 0
        model, evidence = str(self.one_of(*MODELS)), list[int]()
        for layer in ("data", "network"):
            agent = f"{self.run}/{layer}"
            self.write(LayerInvestigated, layer=layer, agent=agent, status="working")
            self.write(RunStarted, run=agent, origin="incident", task="look")
            if not reached:
                self.write(ModelFailed, run=agent, model=model, error="no route to host")
                gaps = (f"{layer} was not looked into: no route to host",)
                self.write(LayerInvestigated, layer=layer, agent=agent, status="failed", gaps=gaps)
                continue
            self._answered(agent, model)
            looks = (self.look(agent),) if self.chance() else ()
            evidence += looks
            self.write(
                LayerInvestigated,
                layer=layer,
                agent=agent,
                findings=("the disk is full",) if looks else (),
                evidence=looks if self.chance() else (),
                ruled_out=(f"excluded-by-{layer}",) if self.chance() else (),
            )
        verdict = "fix" if evidence and self.chance() else "escalate"
        self.write(
            IncidentDiagnosed,
            verdict=verdict,
            component=self.services[0] if verdict == "escalate" else "/var/log/a.log",
            mechanism="a log fills the disk" if evidence else "",
            evidence=tuple(evidence),
            gaps=("who wrote it",),
            ruled_out=("excluded-by-judge",) if reached and self.chance() else (),
            confidence=0.7,
        )
        return verdict == "fix"

    def _answered(self, run: str, model: str) -> None:
        self.write(ModelAnswered, run=run, model=model, usage=Usage(900, 100, 0, 0.001))

    def _by_model(self) -> list[str]:
        agent = f"{self.run}/remediator-{self.attempt}"
        self.write(PhaseEntered, phase="remediate", attempt=self.attempt)
        self.write(RunStarted, run=agent, origin="incident", task="fix")
        self._answered(agent, str(self.one_of(*MODELS)))
        return [self.change(agent, run=agent)]

    def _escalate(self) -> None:
        """What was supposed until then stays, with less confidence and the reason."""
        said = [e for e in self.events if isinstance(e, IncidentDiagnosed)]
        last = said[-1] if said else None
        seen = last.mechanism if last else self.one_of("", "the service is not running")
        self.write(
            IncidentDiagnosed,
            verdict="escalate",
            component=last.component if last else self.services[0],
            mechanism=seen,
            evidence=last.evidence if last else (self.look(),) if seen else (),
            gaps=("no playbook matched",),
            confidence=0.1,
            escalation=self._handed_over(),
        )
        self._document("escalated", self.one_of("nobody", "playbook", "model"))

    def _handed_over(self) -> tuple[EscalationLine, ...]:
        """Facts with the number of their result, and what refers to none."""
        found = [
            EscalationLine(about=about, text=f"{about}-fact-{n} 90%", evidence=(self.look(),))
            for about in ("process", "error", "port", "change")
            for n in range(self.draw(st.integers(0, 9)))
        ]
        plain = [EscalationLine(about=about, text=f"{about}-line") for about in ("command", "need")]
        return (*found, *(plain if self.chance() else ()))

    def _document(self, outcome: str, answered_by: str) -> None:
        self.write(PhaseEntered, phase="document", attempt=self.attempt)
        if self.draw(st.integers(0, 5)) == 0:
            return  # the watch was killed before it could close it
        self.write(
            IncidentClosed, outcome=outcome, answered_by=answered_by, reason="as the checks say"
        )

    # How it ends

    @property
    def status(self) -> str:
        found = "open"
        for event in self.events:
            if isinstance(event, IncidentClosed):
                found = event.outcome
            elif isinstance(event, IncidentRecovered):
                found = "recovered"
            elif isinstance(event, IncidentReopened):
                found = "open"
        return found

    def afterwards(self) -> None:
        """People, monitors and time."""
        what = self.one_of("nothing", "recovery", "close", "reopen", "join")
        if what == "recovery" and self.status == "escalated":
            self._recover()
        elif what == "close" and self.status in ("open", "escalated"):
            self.write(
                IncidentClosed,
                outcome=self.one_of("closed", "resolved", "no-incident", "recovered"),
                answered_by="person",
                by=self.one_of(*PEOPLE),
                reason="dealt with",
            )
        elif what == "reopen" and self.status != "open":
            self.write(IncidentReopened, by=self.one_of(*PEOPLE), reason="it is back")
            if self.chance():
                self.work()
        elif what == "join" and self.status == "escalated":
            self._join()

    def _recover(self) -> None:
        """With, or without, another service of it that does not work."""
        down = [self.service()] if self.chance() else []
        for service in down:
            self._raised(service)
        self.write(
            IncidentRecovered,
            recovered_at=self.now,
            how="the probe passes",
            observed=self.chance(),
            still_failing=tuple(down),
        )


@st.composite
def lives(draw: Callable[..., Any]) -> list[Life]:
    """One to three incidents of one journal, one after the other."""
    found: list[Life] = []
    number = 0
    for place in range(draw(st.integers(1, 3))):
        life = Life(draw, f"incident-2026030{place}-120000-aaaa0{place}",
                    BEGAN + timedelta(days=place), number)  # fmt: skip
        life.open()
        life.beside()
        if draw(st.integers(0, 5)):
            life.work()
        life.afterwards()
        number += len(life.events)
        found.append(life)
    return found


def events_of(lives: Sequence[Life]) -> list[Event]:
    return [event for life in lives for event in life.events]
