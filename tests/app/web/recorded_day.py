"""A day of incidents, written with the events that the watch writes: for pages and screenshots."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from hermes.core.events import Event
from hermes.core.events.approvals import (
    ActionAnnounced,
    ApprovalRequested,
    ApprovalSettled,
    GrantGiven,
)
from hermes.core.events.incidents import (
    ChangeBegan,
    IncidentAcknowledged,
    IncidentChecked,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentHint,
    IncidentOpened,
    IncidentVerified,
    LayerInvestigated,
    PhaseEntered,
    Severity,
)
from hermes.core.events.operations import HealthChecked
from hermes.core.events.runs import ModelAnswered, RunStarted
from hermes.core.events.tools import ToolDecided, ToolFinished, ToolRequested, ToolStarted
from hermes.core.messages import Risk, ToolCall, ToolResult, Usage

OPEN_INCIDENT = "inc-20260306-031200-9f21c4"
WAITING, ANNOUNCED, IRREVERSIBLE = "ask-4f2a1c", "ask-77b0d2", "ask-c01d5e"
HASH = "9c41e2d07b5a8f36" * 4
COMMAND = "systemctl restart pgbouncer"
PAST: tuple[tuple[str, Severity, str, str], ...] = (
    ("web: certificate of shop.example.org expires in 3 days", "P2", "web", "certificate-expiring"),
    ("queue: 14,210 messages wait, workers idle", "P1", "queue", "workers-stuck"),
    ("db: disk of prod-db at 94 %", "P2", "db", "disk-full-runaway-log"),
    ("cache: redis restarted 4 times in 10 minutes", "P1", "cache", "redis-out-of-memory"),
    ("backup: last backup of orders is 30 hours old", "P3", "backup", "backup-overdue"),
)


def recorded_day(now: datetime | None = None) -> Iterator[Event]:
    """One open incident with waiting questions, five that are over, and quiet rounds of checks."""
    now = now or datetime.now(UTC)
    for number, (title, severity, service, skill) in enumerate(PAST):
        yield from past_incident(
            now - timedelta(minutes=70 * (number + 1)), number, title, severity, service, skill
        )
    yield from open_incident(now - timedelta(minutes=4))
    yield from questions(now)
    yield ModelAnswered(run=OPEN_INCIDENT, at=now, model="m", usage=Usage(41_000, 2_300, 0, 0.42))
    yield HealthChecked(
        run="watch",
        at=now - timedelta(seconds=40),
        ok=False,
        checks=23,
        failing=("shop-checkout",),
        unknown=("replica-lag",),
    )


def past_incident(
    at: datetime, number: int, title: str, severity: Severity, service: str, skill: str
) -> Iterator[Event]:
    id = f"inc-20260305-{number:06}-a1b2c{number}"
    yield RunStarted(run=id, at=at, origin="incident", task=title, model="none")
    yield IncidentOpened(
        run=id,
        at=at,
        incident=id,
        title=title,
        severity=severity,
        service=service,
        reason="one service of three answers slowly",
        fingerprint=f"f{number}",
        seen_before=number % 3,
    )
    yield PhaseEntered(run=id, at=at + timedelta(seconds=2), incident=id, phase="reflex")
    fixed = at + timedelta(seconds=9 + 20 * number)
    yield from change(
        id, fixed - timedelta(seconds=3), f"c{number}", f"systemctl restart {service}", skill
    )
    yield IncidentChecked(run=id, at=fixed, incident=id, check=f"{service} answers", ok=True)
    yield IncidentVerified(
        run=id,
        at=fixed,
        incident=id,
        ok=True,
        seconds=2.1,
        attempt=1,
        checks=(f"{service} answers",),
    )
    yield PhaseEntered(run=id, at=fixed, incident=id, phase="learn")
    yield IncidentClosed(
        run=id,
        at=fixed + timedelta(seconds=4),
        incident=id,
        outcome="resolved",
        answered_by="playbook",
        by=skill,
    )


def change(run: str, at: datetime, call: str, command: str, by: str) -> Iterator[Event]:
    yield ChangeBegan(
        run=run,
        at=at,
        incident=run,
        call_id=call,
        command=command,
        undo="none needed: a restart",
        attempt=1,
        by=by,
    )
    yield from action(run, at, call, command, "ok", Risk.CHANGE)


def action(
    run: str, at: datetime, call: str, command: str, output: str, risk: Risk = Risk.READ
) -> Iterator[Event]:
    yield ToolRequested(
        run=run,
        at=at,
        call=ToolCall(id=call, name="terminal", arguments={"command": command}),
        command=command,
        risk=risk,
    )
    rule = "reads" if risk is Risk.READ else "trusted-playbooks"
    yield ToolDecided(run=run, at=at, call_id=call, verdict="allow", rule=rule)
    yield ToolStarted(run=run, at=at, call_id=call, risk=risk)
    yield ToolFinished(
        run=run, at=at + timedelta(seconds=1), result=ToolResult(call_id=call, content=output)
    )


def open_incident(at: datetime) -> Iterator[Event]:
    id = OPEN_INCIDENT
    yield RunStarted(run=id, at=at, origin="incident", task="shop", model="m")
    yield IncidentOpened(
        run=id,
        at=at,
        incident=id,
        title="shop: checkout slow, p95 4.8 s",
        severity="P1",
        service="shop",
        reason="checkout of all customers, p95 twelve times the usual",
        fingerprint="shop-checkout",
        seen_before=2,
        since=at - timedelta(seconds=35),
    )
    yield PhaseEntered(run=id, at=at + timedelta(seconds=3), incident=id, phase="assess")
    yield PhaseEntered(run=id, at=at + timedelta(seconds=20), incident=id, phase="investigate")
    yield from action(
        id,
        at + timedelta(seconds=31),
        "e1",
        "psql -h pgbouncer -c 'SHOW POOLS'",
        " database | active | waiting | servers\n shop     |     20 |      84 |      20",
    )
    yield from action(
        id,
        at + timedelta(seconds=40),
        "e2",
        "journalctl -u pgbouncer -n 20 --no-pager",
        "query_wait_timeout: 84 clients wait for a server connection",
    )
    yield IncidentChecked(
        run=id,
        at=at + timedelta(seconds=42),
        incident=id,
        check="checkout answers within 1 s",
        ok=False,
        when="before",
        detail="4.8 s",
    )
    for layer, status in (("database", "done"), ("network", "done"), ("host", "working")):
        yield LayerInvestigated(
            run=id,
            at=at + timedelta(seconds=60),
            incident=id,
            layer=layer,
            status=status,
            ruled_out=("packet loss",),
        )  # type: ignore[arg-type]
    yield IncidentDiagnosed(
        run=id,
        at=at + timedelta(seconds=95),
        incident=id,
        component="pgbouncer",
        mechanism="pool exhausted",
        value="20/20",
        evidence=tuple(range(1, 5000)),
        ruled_out=("packet loss between shop and db", "slow disk of prod-db", "lock waits"),
        gaps=("who holds the idle transactions",),
        confidence=0.86,
    )
    yield IncidentAcknowledged(run=id, at=at + timedelta(seconds=110), incident=id, by="bob")
    yield IncidentHint(
        run=id,
        at=at + timedelta(seconds=130),
        incident=id,
        person="bob",
        text="The pool was 50 until the move last week.",
    )
    yield PhaseEntered(
        run=id, at=at + timedelta(seconds=150), incident=id, phase="remediate", attempt=1
    )


def questions(now: datetime) -> Iterator[Event]:
    yield ApprovalRequested(
        run=OPEN_INCIDENT,
        at=now - timedelta(seconds=40),
        approval=WAITING,
        call_id="q1",
        tool="terminal",
        shown=COMMAND,
        effects=("service-change",),
        rule="prod-writes",
        reason="Changes on production wait for a person",
        undo="systemctl start pgbouncer",
        hash=HASH,
        count=1,
        until=now + timedelta(minutes=8, seconds=12),
        place="prod-db in /srv",
        tested="passed on a copy of the host in 14 s",
    )
    yield ApprovalRequested(
        run=OPEN_INCIDENT,
        at=now - timedelta(seconds=35),
        approval=IRREVERSIBLE,
        call_id="q2",
        tool="terminal",
        shown="find /var/lib/postgresql/14/main/pg_log -mtime +14 -print0 \\\n  | xargs -0 rm --",
        effects=("delete", "irreversible"),
        rule="deletes-ask",
        reason="What cannot be undone waits for two people",
        hash=HASH[::-1],
        count=2,
        approvers=("alice", "bob", "carol"),
        until=now + timedelta(minutes=20),
        place="prod-db in /srv",
        requester="hermes",
    )
    yield ActionAnnounced(
        run=OPEN_INCIDENT,
        at=now - timedelta(seconds=4),
        approval=ANNOUNCED,
        call_id="q3",
        shown="systemctl reload nginx",
        effects=("service-change",),
        rule="announce-reloads",
        seconds=600.0,
        undo="none needed: a reload",
        place="web-1",
    )
    old = now - timedelta(minutes=30)
    yield ApprovalRequested(
        run="inc-20260305-000001-a1b2c1",
        at=old,
        approval="ask-0d11aa",
        call_id="q0",
        tool="terminal",
        shown="supervisorctl restart workers:*",
        effects=("service-change",),
        rule="prod-writes",
        hash=HASH,
        until=old + timedelta(minutes=10),
        place="queue-1",
    )
    yield ApprovalSettled(
        run="inc-20260305-000001-a1b2c1",
        at=old + timedelta(seconds=48),
        approval="ask-0d11aa",
        outcome="approved",
        by=("bob",),
        via="slack",
    )
    yield GrantGiven(
        run="inc-20260305-000001-a1b2c1",
        at=old + timedelta(seconds=48),
        grant="grant-20260306-031500-4f2a1c",
        action=HASH,
        by=("bob",),
        scope="session",
        uses=0,
        valid_for=7200.0,
        rule="prod-writes",
        shown="supervisorctl restart workers:*",
    )
