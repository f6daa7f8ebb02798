"""The stored form of what is learned: skills, their proof, their playbooks."""

from datetime import UTC, datetime

from hermes.core.events import Event
from hermes.core.events.skills import (
    CompilerReported,
    PlaybookEnded,
    PlaybookStarted,
    PlaybookStepped,
    SkillChanged,
    SkillMeasured,
    SkillShown,
    SkillsReviewed,
    SkillUsed,
)

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

PINNED_SKILLS: list[tuple[Event, str]] = [
    (
        SkillChanged(
            run="r",
            at=AT,
            skill="s",
            digest="d",
            state="validated",
            before="draft",
            parents=("p",),
            evidence=("e",),
            reason="why",
            by="me",
            candidate=True,
        ),
        '{"kind":"skill.changed",HEAD,"skill":"s","digest":"d","state":"validated",'
        '"before":"draft","parents":["p"],"evidence":["e"],"reason":"why","by":"me",'
        '"candidate":true}',
    ),
    (
        CompilerReported(run="r", at=AT, skill="s", speaker="Core", text="t"),
        '{"kind":"compiler.said",HEAD,"skill":"s","speaker":"Core","text":"t"}',
    ),
    (
        SkillMeasured(
            run="r",
            at=AT,
            skill="s",
            digest="d",
            passed=True,
            cases=("c",),
            solved_with=2,
            solved_without=1,
            ratio=0.5,
            upper=0.75,
            measure="turns",
            harmed=("h",),
            reasons=("w",),
        ),
        '{"kind":"skill.measured",HEAD,"skill":"s","digest":"d","passed":true,"cases":["c"],'
        '"solved_with":2,"solved_without":1,"ratio":0.5,"upper":0.75,"measure":"turns",'
        '"harmed":["h"],"reasons":["w"]}',
    ),
    (
        SkillUsed(run="r", at=AT, skill="s", digest="d", verified=False, incident="i", detail="t"),
        '{"kind":"skill.used",HEAD,"skill":"s","digest":"d","verified":false,"incident":"i",'
        '"detail":"t"}',
    ),
    (
        SkillsReviewed(
            run="r", at=AT, why="w", runs=("x",), changed="s", accepted=True, detail="t"
        ),
        '{"kind":"skill.reviewed",HEAD,"why":"w","runs":["x"],"changed":"s","accepted":true,'
        '"detail":"t"}',
    ),
    (
        PlaybookStarted(run="r", at=AT, skill="s", digest="d", parameters=(("a", "b"),), dry=True),
        '{"kind":"playbook.started",HEAD,"skill":"s","digest":"d","parameters":[["a","b"]],'
        '"dry":true}',
    ),
    (
        PlaybookStepped(
            run="r",
            at=AT,
            skill="s",
            step="x",
            call_id="c1",
            ok=True,
            detail="t",
            undo="u",
            phase="probe",
            seconds=0.5,
        ),
        '{"kind":"playbook.stepped",HEAD,"skill":"s","step":"x","call_id":"c1","ok":true,'
        '"detail":"t","undo":"u","phase":"probe","seconds":0.5}',
    ),
    (
        PlaybookEnded(
            run="r",
            at=AT,
            skill="s",
            outcome="unmet",
            step="x",
            detail="t",
            seconds=1.5,
            steps=2,
            not_undone=("y",),
            dry=True,
        ),
        '{"kind":"playbook.ended",HEAD,"skill":"s","outcome":"unmet","step":"x","detail":"t",'
        '"seconds":1.5,"steps":2,"not_undone":["y"],"dry":true}',
    ),
    (
        SkillShown(run="r", at=AT, skill="s", how="matched"),
        '{"kind":"skill.shown",HEAD,"skill":"s","how":"matched"}',
    ),
]
