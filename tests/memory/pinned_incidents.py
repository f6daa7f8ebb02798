"""Stored forms of the events of an incident, pinned."""

from datetime import UTC, datetime

from hermes.core.events import Event
from hermes.core.events.experiments import (
    ExperimentRan,
    ExperimentsEnded,
    ExperimentsStarted,
    FixTested,
)
from hermes.core.events.incidents import (
    AlertRaised,
    ChangeBegan,
    ChangesUndone,
    IncidentAssessed,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentOpened,
    IncidentRecovered,
    IncidentVerified,
    ReportWritten,
)

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

PINNED_INCIDENTS: list[tuple[Event, str]] = [
    (
        AlertRaised(
            run="r",
            at=AT,
            fingerprint="f",
            title="t",
            text="x",
            source="s",
            labels=(("a", "b"),),
            resolved=True,
        ),
        '{"kind":"alert.raised",HEAD,"fingerprint":"f","title":"t","text":"x","source":"s",'
        '"labels":[["a","b"]],"resolved":true}',
    ),
    (
        IncidentOpened(
            run="r",
            at=AT,
            incident="i",
            title="t",
            severity="P0",
            reason="why",
            service="s",
            fingerprint="f",
            seen_before=2,
        ),
        '{"kind":"incident.opened",HEAD,"incident":"i","title":"t","severity":"P0",'
        '"reason":"why","service":"s","fingerprint":"f","seen_before":2}',
    ),
    (
        IncidentRecovered(run="r", at=AT, incident="i", recovered_at=AT, how="its probe is fine"),
        '{"kind":"incident.recovered",HEAD,"incident":"i",'
        '"recovered_at":"2026-01-02T03:04:05.678901Z","how":"its probe is fine"}',
    ),
    (
        IncidentAssessed(
            run="r",
            at=AT,
            incident="i",
            verdict="wrong",
            reasons=("x",),
            calls=("c1",),
            component="c",
            mechanism="m",
            value="v",
        ),
        '{"kind":"incident.assessed",HEAD,"incident":"i","verdict":"wrong","reasons":["x"],'
        '"calls":["c1"],"component":"c","mechanism":"m","value":"v"}',
    ),
    (
        IncidentDiagnosed(
            run="r",
            at=AT,
            incident="i",
            verdict="recovered",
            component="c",
            mechanism="m",
            value="v",
            evidence=(3, 5),
            ruled_out=("x",),
            gaps=("y",),
            confidence=0.5,
        ),
        '{"kind":"incident.diagnosed",HEAD,"incident":"i","verdict":"recovered",'
        '"component":"c","mechanism":"m","value":"v","evidence":[3,5],"ruled_out":["x"],'
        '"gaps":["y"],"confidence":0.5}',
    ),
    (
        ChangeBegan(run="r", at=AT, incident="i", call_id="c1", command="ls", undo="u"),
        '{"kind":"change.began",HEAD,"incident":"i","call_id":"c1","command":"ls","undo":"u"}',
    ),
    (
        ChangesUndone(run="r", at=AT, incident="i", calls=("c1",), failed=("c2",), reason="why"),
        '{"kind":"changes.undone",HEAD,"incident":"i","calls":["c1"],"failed":["c2"],'
        '"reason":"why"}',
    ),
    (
        IncidentVerified(run="r", at=AT, incident="i", ok=True, checks=("a",), seconds=2.5),
        '{"kind":"incident.verified",HEAD,"incident":"i","ok":true,"checks":["a"],"seconds":2.5}',
    ),
    (
        ReportWritten(run="r", at=AT, incident="i", text="t", path="p"),
        '{"kind":"report.written",HEAD,"incident":"i","text":"t","path":"p"}',
    ),
    (
        IncidentClosed(
            run="r", at=AT, incident="i", outcome="escalated", answered_by="playbook", by="me"
        ),
        '{"kind":"incident.closed",HEAD,"incident":"i","outcome":"escalated",'
        '"answered_by":"playbook","by":"me"}',
    ),
    (
        ExperimentsStarted(
            run="r",
            at=AT,
            incident="i",
            suspects=("file /a",),
            reasons=("named by the alert",),
            suspect_count=9,
            checks=("http",),
        ),
        '{"kind":"experiment.started",HEAD,"incident":"i","suspects":["file /a"],'
        '"reasons":["named by the alert"],"suspect_count":9,"checks":["http"]}',
    ),
    (
        ExperimentRan(
            run="r",
            at=AT,
            incident="i",
            number=2,
            purpose="keep-only",
            reverted=("file /a",),
            reverted_count=9,
            kept=("file /b",),
            outcome="fails",
            detail="d",
            seconds=1.5,
        ),
        '{"kind":"experiment.ran",HEAD,"incident":"i","number":2,"purpose":"keep-only",'
        '"reverted":["file /a"],"reverted_count":9,"kept":["file /b"],"outcome":"fails",'
        '"detail":"d","seconds":1.5}',
    ),
    (
        FixTested(
            run="r",
            at=AT,
            incident="i",
            fix="f",
            by="model",
            outcome="helped",
            checks=("c",),
            detail="d",
            recovery_s=1.5,
            seconds=2.5,
        ),
        '{"kind":"fix.tested",HEAD,"incident":"i","fix":"f","by":"model","outcome":"helped",'
        '"checks":["c"],"detail":"d","recovery_s":1.5,"seconds":2.5}',
    ),
    (
        ExperimentsEnded(
            run="r",
            at=AT,
            incident="i",
            status="ruled-out",
            why="w",
            causes=("file /a",),
            diff="d",
            author="a",
            suspects=3,
            experiments=4,
            seconds=5.5,
        ),
        '{"kind":"experiment.ended",HEAD,"incident":"i","status":"ruled-out","why":"w",'
        '"causes":["file /a"],"diff":"d","author":"a","suspects":3,"experiments":4,'
        '"seconds":5.5}',
    ),
]
