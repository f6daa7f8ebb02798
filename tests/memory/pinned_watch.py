"""Stored forms of the events of a watch and its incidents, pinned."""

from datetime import UTC, datetime

from hermes.core.channels import Button
from hermes.core.events import Event
from hermes.core.events.changes import ChangeReverted, ChangeSeen, StateRecorded
from hermes.core.events.experiments import DrillEnded, IncidentStateKept, KeptReading, LessonLearned
from hermes.core.events.incidents import (
    AlertsJoined,
    AlertSuppressed,
    IncidentAcknowledged,
    IncidentChecked,
    IncidentGraded,
    IncidentHint,
    IncidentReopened,
    LayerInvestigated,
    PhaseEntered,
)
from hermes.core.events.operations import (
    ChannelClosed,
    ChannelOpened,
    GatewayStarted,
    HealthChecked,
    HealthMissed,
    HookCursorMoved,
    HookEnded,
    HookTrusted,
    HookUntrusted,
    JournalInterrupted,
    JournalResumed,
    MaintenanceAdded,
    MaintenanceEnded,
    NotificationAttempted,
    NotificationQueued,
    NotificationSent,
    ReserveReleased,
    ReserveRestored,
    WatchStarted,
    WatchStopped,
)

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

PINNED_WATCH: list[tuple[Event, str]] = [
    (
        AlertSuppressed(run="r", at=AT, fingerprint="f", title="t", why="w", stretch="s", up_to=2),
        '{"kind":"alert.suppressed",HEAD,"fingerprint":"f","title":"t","why":"w","stretch'
        '":"s","up_to":2}',
    ),
    (
        AlertsJoined(
            run="r",
            at=AT,
            incident="i",
            count=2,
            fingerprints=("f",),
            titles=("t",),
            why="w",
            up_to=2,
        ),
        '{"kind":"incident.joined",HEAD,"incident":"i","count":2,"fingerprints":["f"],"ti'
        'tles":["t"],"why":"w","up_to":2}',
    ),
    (
        IncidentGraded(
            run="r", at=AT, incident="i", severity="P0", before="P0", reason="r", by="b"
        ),
        '{"kind":"incident.graded",HEAD,"incident":"i","severity":"P0","before":"P0","rea'
        'son":"r","by":"b"}',
    ),
    (
        IncidentAcknowledged(run="r", at=AT, incident="i", by="b"),
        '{"kind":"incident.acknowledged",HEAD,"incident":"i","by":"b"}',
    ),
    (
        IncidentHint(run="r", at=AT, incident="i", person="p", text="t"),
        '{"kind":"incident.hint",HEAD,"incident":"i","person":"p","text":"t"}',
    ),
    (
        IncidentReopened(run="r", at=AT, incident="i", by="b", reason="r"),
        '{"kind":"incident.reopened",HEAD,"incident":"i","by":"b","reason":"r"}',
    ),
    (
        PhaseEntered(
            run="r",
            at=AT,
            incident="i",
            phase="assess",
            attempt=2,
            detail="d",
            resumed=True,
            gap=2.5,
        ),
        '{"kind":"incident.phase",HEAD,"incident":"i","phase":"assess","attempt":2,"detai'
        'l":"d","resumed":true,"gap":2.5}',
    ),
    (
        LayerInvestigated(
            run="r",
            at=AT,
            incident="i",
            layer="l",
            agent="a",
            status="done",
            findings=("f",),
            evidence=(2,),
            ruled_out=("r",),
            gaps=("g",),
        ),
        '{"kind":"incident.layer",HEAD,"incident":"i","layer":"l","agent":"a","findings":'
        '["f"],"evidence":[2],"ruled_out":["r"],"gaps":["g"]}',
    ),
    (
        IncidentChecked(
            run="r", at=AT, incident="i", check="c", ok=True, detail="d", when="after", attempt=2
        ),
        '{"kind":"incident.checked",HEAD,"incident":"i","check":"c","ok":true,"detail":"d'
        '","attempt":2}',
    ),
    (
        WatchStarted(run="r", at=AT, by="b", quiet=2.5, probes=2),
        '{"kind":"watch.started",HEAD,"by":"b","quiet":2.5,"probes":2}',
    ),
    (
        WatchStopped(run="r", at=AT, reason="r"),
        '{"kind":"watch.stopped",HEAD,"reason":"r"}',
    ),
    (
        HealthChecked(
            run="r", at=AT, ok=True, checks=2, failing=("f",), unknown=("u",), seconds=2.5, due=AT
        ),
        '{"kind":"health.checked",HEAD,"ok":true,"checks":2,"failing":["f"],"unknown":["u'
        '"],"seconds":2.5,"due":"2026-01-02T03:04:05.678901Z"}',
    ),
    (
        HealthMissed(run="r", at=AT, rounds=2, since=AT, why="w"),
        '{"kind":"health.missed",HEAD,"rounds":2,"since":"2026-01-02T03:04:05.678901Z","why":"w"}',
    ),
    (
        JournalInterrupted(run="r", at=AT, since=AT, reason="r"),
        '{"kind":"journal.interrupted",HEAD,"since":"2026-01-02T03:04:05.678901Z","reason":"r"}',
    ),
    (
        JournalResumed(run="r", at=AT, since=AT, held=2, dropped=3, again=4),
        '{"kind":"journal.resumed",HEAD,"since":"2026-01-02T03:04:05.678901Z","held":2,'
        '"dropped":3,"again":4}',
    ),
    (
        ReserveReleased(run="r", at=AT, left_bytes=2, size_bytes=3),
        '{"kind":"reserve.released",HEAD,"left_bytes":2,"size_bytes":3}',
    ),
    (
        ReserveRestored(run="r", at=AT, size_bytes=2),
        '{"kind":"reserve.restored",HEAD,"size_bytes":2}',
    ),
    (
        MaintenanceAdded(
            run="r", at=AT, window="w", target="t", begins=AT, until=AT, by="b", reason="r"
        ),
        '{"kind":"maintenance.added",HEAD,"window":"w","target":"t","begins":"2026-01-02T'
        '03:04:05.678901Z","until":"2026-01-02T03:04:05.678901Z","by":"b","reason":"r"}',
    ),
    (
        MaintenanceEnded(run="r", at=AT, window="w", by="b"),
        '{"kind":"maintenance.ended",HEAD,"window":"w","by":"b"}',
    ),
    (
        NotificationQueued(
            run="r",
            at=AT,
            notice="n",
            about="approval-needed",
            title="t",
            text="t",
            incident="i",
            severity="s",
            sinks=("s",),
        ),
        '{"kind":"notice.queued",HEAD,"notice":"n","about":"approval-needed","title":"t",'
        '"text":"t","incident":"i","severity":"s","sinks":["s"]}',
    ),
    (
        NotificationSent(run="r", at=AT, notice="n", sink="s", repeated=True, tries=2),
        '{"kind":"notice.sent",HEAD,"notice":"n","sink":"s","repeated":true,"tries":2}',
    ),
    (
        NotificationAttempted(run="r", at=AT, notice="n", sink="s", error="e", given_up=True),
        '{"kind":"notice.tried",HEAD,"notice":"n","sink":"s","error":"e","given_up":true}',
    ),
    (
        NotificationQueued(
            run="r",
            at=AT,
            notice="n",
            about="question",
            title="t",
            to="telegram:-1:2",
            approval="a",
            buttons=((Button("Once", "once:a"),),),
            edits="m",
            reply_to="7",
            files=("/f",),
        ),
        '{"kind":"notice.queued",HEAD,"notice":"n","about":"question","title":"t",'
        '"to":"telegram:-1:2","approval":"a","buttons":[[{"label":"Once","data":"once:a"}]],'
        '"edits":"m","reply_to":"7","files":["/f"]}',
    ),
    (
        NotificationSent(run="r", at=AT, notice="n", sink="s", reference="7", thread="s:1:2"),
        '{"kind":"notice.sent",HEAD,"notice":"n","sink":"s","reference":"7","thread":"s:1:2"}',
    ),
    (
        NotificationAttempted(
            run="r", at=AT, notice="n", sink="s", error="e", unsure=True, wait=3.0, pieces=2
        ),
        '{"kind":"notice.tried",HEAD,"notice":"n","sink":"s","error":"e","unsure":true,'
        '"wait":3.0,"pieces":2}',
    ),
    (
        ChannelOpened(run="r", at=AT, channel="slack", by="p", listens=True),
        '{"kind":"channel.opened",HEAD,"channel":"slack","by":"p","listens":true}',
    ),
    (
        ChannelClosed(run="r", at=AT, channel="slack", by="p", error="e", again_in=2.0),
        '{"kind":"channel.closed",HEAD,"channel":"slack","by":"p","error":"e","again_in":2.0}',
    ),
    (
        StateRecorded(
            run="r",
            at=AT,
            state="s",
            host="h",
            source="known-good",
            items=3,
            changes=1,
            left_out=("l",),
            seconds=0.5,
        ),
        '{"kind":"state.recorded",HEAD,"state":"s","host":"h","source":"known-good","items":3,'
        '"changes":1,"left_out":["l"],"seconds":0.5}',
    ),
    (
        ChangeSeen(
            run="r",
            at=AT,
            change="c",
            host="h",
            item_kind="file",
            key="k",
            verb="removed",
            differing=("mode",),
            happened=AT,
            after=AT,
            author="a",
            evidence="e",
            unknown_because="u",
            units=("n",),
        ),
        '{"kind":"change.seen",HEAD,"change":"c","host":"h","item_kind":"file","key":"k",'
        '"verb":"removed","differing":["mode"],"happened":"2026-01-02T03:04:05.678901Z",'
        '"after":"2026-01-02T03:04:05.678901Z","author":"a","evidence":"e",'
        '"unknown_because":"u","units":["n"]}',
    ),
    (
        ChangeReverted(run="r", at=AT, change="c", by="b", outcome="undone", detail="d"),
        '{"kind":"change.reverted",HEAD,"change":"c","by":"b","outcome":"undone","detail":"d"}',
    ),
    (
        IncidentStateKept(
            run="r",
            at=AT,
            incident="i",
            moment="recovered",
            state="s",
            known_good="k",
            host="h",
            service="n",
            readings=(KeptReading(check="c", ok=True, detail="d"),),
            probes=("p",),
        ),
        '{"kind":"incident.state",HEAD,"incident":"i","moment":"recovered","state":"s",'
        '"known_good":"k","host":"h","service":"n",'
        '"readings":[{"check":"c","ok":true,"detail":"d"}],"probes":["p"]}',
    ),
    (
        LessonLearned(
            run="r",
            at=AT,
            incident="i",
            status="not-proved",
            why="w",
            wrong=("a",),
            changed=("b",),
            diff="d",
            activated_by=("c",),
            recovered=("e",),
            skill="s",
            experiments=2,
            seconds=0.5,
        ),
        '{"kind":"lesson.learned",HEAD,"incident":"i","status":"not-proved","why":"w",'
        '"wrong":["a"],"changed":["b"],"diff":"d","activated_by":["c"],"recovered":["e"],'
        '"skill":"s","experiments":2,"seconds":0.5}',
    ),
    (
        GatewayStarted(run="r", at=AT, channels=("telegram",), by="4711@host"),
        '{"kind":"gateway.started",HEAD,"channels":["telegram"],"by":"4711@host"}',
    ),
    (
        HookTrusted(run="r", at=AT, hook="h", digest="d", by="ann"),
        '{"kind":"hook.trusted",HEAD,"hook":"h","digest":"d","by":"ann"}',
    ),
    (
        HookUntrusted(run="r", at=AT, hook="h", by="ann", reason="w"),
        '{"kind":"hook.untrusted",HEAD,"hook":"h","by":"ann","reason":"w"}',
    ),
    (
        HookEnded(
            run="r",
            at=AT,
            hook="h",
            event="job:due",
            number=7,
            outcome="failed",
            seconds=0.5,
            detail="exit code 1",
            output="o",
        ),
        '{"kind":"hook.ended",HEAD,"hook":"h","event":"job:due","number":7,"outcome":"failed",'
        '"seconds":0.5,"detail":"exit code 1","output":"o"}',
    ),
    (
        HookCursorMoved(run="r", at=AT, cursors=(("h", 7),)),
        '{"kind":"hook.cursor",HEAD,"cursors":[["h",7]]}',
    ),
    (
        DrillEnded(
            run="r",
            at=AT,
            scenario="s",
            seed=3,
            agent="a",
            resolved=True,
            reward=0.75,
            parts=(("speed", 0.25),),
            seconds=1.5,
            tool_calls=2,
            model_calls=1,
            tokens=9,
            answered_by="model",
            collateral=("c",),
            breaches=("b",),
            void="v",
        ),
        '{"kind":"drill.ended",HEAD,"scenario":"s","seed":3,"agent":"a","resolved":true,"'
        'reward":0.75,"parts":[["speed",0.25]],"seconds":1.5,"tool_calls":2,"model_calls"'
        ':1,"tokens":9,"answered_by":"model","collateral":["c"],"breaches":["b"],"void":"v"}',
    ),
]
