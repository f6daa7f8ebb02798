"""A home with some months of work in its journal: what the pages of the dashboard show."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from hermes.core.events import Event
from hermes.core.events.experiments import DrillEnded
from hermes.core.events.incidents import (
    ChangeBegan,
    IncidentAcknowledged,
    IncidentClosed,
    IncidentOpened,
    IncidentVerified,
)
from hermes.core.events.jobs import (
    SCHEDULE_RUN,
    JobAdded,
    JobDue,
    JobEnded,
    JobSchedule,
    JobSpec,
    JobStarted,
)
from hermes.core.events.memory import FactNoted
from hermes.core.events.operations import HealthChecked, MaintenanceAdded, NotificationSent
from hermes.core.events.runs import ModelAnswered, RunStarted
from hermes.core.events.skills import PlaybookEnded, SkillChanged, SkillMeasured, SkillUsed
from hermes.core.events.tools import ToolDecided, ToolFinished, ToolRequested, ToolStarted
from hermes.core.messages import Risk, ToolCall, ToolResult, Usage

PROBES_TEXT = """\
probes:
  - {name: disk-root, kind: disk, what: /, limit: 90}
  - {name: nginx-http, kind: http, what: "http://127.0.0.1/", service: nginx}
  - {name: nginx-port, kind: port, what: "127.0.0.1:80", service: nginx}
  - {name: shop-http, kind: http, what: "http://127.0.0.1:8000/", service: shop}
  - {name: postgres-port, kind: port, what: "127.0.0.1:5432", service: postgres}
  - {name: redis-port, kind: port, what: "127.0.0.1:6379", service: redis}
"""
CONFIG_TEXT = """\
_config_version: 1
sre:
  triage:
    group:
      depends_on: {nginx: [shop], shop: [postgres, redis]}
"""
FAULTS = {
    "pool": ("shop: checkout slow", "shop", "pool-exhausted", "P1"),
    "disk": ("disk of / is 96 % full", "postgres", "disk-full", "P2"),
    "cert": ("certificate of shop.example expires", "nginx", "", "P3"),
    "queue": ("orders: 4,000 jobs wait in the queue", "orders", "worker-stuck", "P2"),
    "memory": ("redis: used memory at its limit", "redis", "redis-out-of-memory", "P2"),
}
WEEKS_OFF = {"cert": (2, 3, 5, 7, 8, 9, 11), "queue": (1, 4, 6, 10), "memory": (3, 4, 8, 12)}
"""Weeks ago in which a fault did not happen."""
SKILL_TEXT = """\
---
name: pool-exhausted
description: The connection pool of a service is used up; restart the pooler, keep its clients.
---
# Pool exhausted

## When to use
Checkout is slow and `SHOW POOLS` has waiting clients.
"""
NIGHTLY_TASK = "Check the backups of last night and tell what is missing."


def seed_files(home: Path) -> None:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_text(CONFIG_TEXT)
    (home / "probes.yaml").write_text(PROBES_TEXT)
    folder = home / "skills" / "databases" / "pool-exhausted"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(SKILL_TEXT)


def history(now: datetime | None = None) -> list[Event]:
    """Events of some months, in order."""
    now = now or datetime.now(UTC)
    events: list[Event] = []
    for week in range(12, 0, -1):
        for name, (title, service, playbook, severity) in FAULTS.items():
            if week in WEEKS_OFF.get(name, ()):
                continue
            at = now - timedelta(days=7 * week - len(name), hours=len(title))
            by_skill = bool(playbook) and week < 9 - len(playbook) % 3
            seconds = (20.0 if by_skill else 700.0 + 90 * (week % 5)) + 9 * (week % 4) * len(name)
            key = f"incident-{name}-{week:02}"
            events += incident_events(key, title, service, severity, at, seconds,
                                      playbook=playbook if by_skill else "")  # fmt: skip
    open_at = now - timedelta(minutes=4)
    events += [
        ModelAnswered(
            run="r", at=now - timedelta(days=7 * week), model="m", usage=Usage(9, 9, 0, 0.5)
        )
        for week in range(12)
    ]
    events.append(opened("incident-open-1", *FAULTS["pool"][:2], "P1", open_at))
    events += [*_health(now), *_skills(now), *_jobs(now), *_facts(now), *_audit(now), *_drills(now)]
    window = MaintenanceAdded(
        run="watch", at=now, window="maintenance-1", target="redis", by="alice",
        begins=now - timedelta(minutes=5), until=now + timedelta(hours=1), reason="new disks",
    )  # fmt: skip
    return sorted([*events, window], key=lambda event: event.at)


def opened(key: str, title: str, service: str, severity: str, at: datetime) -> IncidentOpened:
    return IncidentOpened(
        run=key, at=at, incident=key, title=title, service=service, fingerprint=f"f-{title[:9]}",
        severity=msgspec.convert(severity, IncidentOpened.__annotations__["severity"]),
        since=at - timedelta(seconds=30),
    )  # fmt: skip


def incident_events(
    key: str, title: str, service: str, severity: str, at: datetime, seconds: float, *,
    playbook: str = "",
) -> list[Event]:  # fmt: skip
    begun, fixed = at + timedelta(seconds=5), at + timedelta(seconds=seconds)
    return [
        opened(key, title, service, severity, at),
        IncidentAcknowledged(run=key, at=begun, incident=key, by="alice"),
        ChangeBegan(run=key, at=begun, incident=key, call_id="c1", command="systemctl restart x",
                    attempt=1, by=playbook or f"{key}/remediator"),
        IncidentVerified(run=key, at=fixed, incident=key, ok=True, checks=("http",), attempt=1),
        IncidentClosed(run=key, at=fixed, incident=key, outcome="resolved",
                       answered_by="playbook" if playbook else "model"),
    ]  # fmt: skip


def _health(now: datetime) -> Sequence[Event]:
    rounds = [now - timedelta(minutes=5 * number, seconds=40) for number in range(24, -1, -1)]
    return [
        HealthChecked(run="watch", at=at, ok=number < 20, checks=8, seconds=1.2,
                      failing=("shop-http",) if number >= 20 else ())
        for number, at in enumerate(rounds)
    ]  # fmt: skip


def _skills(now: datetime) -> Sequence[Event]:
    name, digest = "pool-exhausted", "d1"
    at = [now - timedelta(days=days) for days in (60, 59, 40, 30, 20)]
    return [
        SkillChanged(run="skills", at=at[0], skill=name, digest=digest, state="draft",
                     reason="distilled from a verified run", by="hermes"),
        SkillMeasured(run="skills", at=at[1], skill=name, digest=digest, passed=True, solved_with=5,
                      solved_without=3, cases=("a#1", "a#2", "a#3", "b#1", "b#2"), ratio=0.2,
                      upper=0.4, measure="seconds"),
        SkillChanged(run="skills", at=at[1], skill=name, digest=digest, state="validated",
                     before="draft", reason="the evaluation passed", by="hermes"),
        *(SkillUsed(run=f"r{n}", at=at[n], skill=name, digest=digest, verified=True,
                    incident=f"incident-pool-{n:02}") for n in (2, 3, 4)),
        *(PlaybookEnded(run=f"r{n}", at=at[n], skill=name, outcome="applied", seconds=9.0)
          for n in (2, 3, 4)),
    ]  # fmt: skip


def _jobs(now: datetime) -> Sequence[Event]:
    schedule = JobSchedule(text="every weekday at 9", zone="Europe/Berlin", crons=("0 9 * * 1-5",))
    spec = JobSpec(name="backups", schedule=schedule, task=NIGHTLY_TASK, deliver="log")
    due = now - timedelta(hours=20)
    run = {"run": SCHEDULE_RUN, "job": "backups", "occurrence": "backups@1"}
    return [
        JobAdded(run=SCHEDULE_RUN, at=now - timedelta(days=9), spec=spec, by="alice"),
        JobDue(**run, at=due, due=due),
        JobStarted(**run, at=due, session="run-1", attempt=1),
        JobEnded(**run, at=due + timedelta(seconds=14), due=due, outcome="ran", seconds=14.0,
                 text="All 3 backups are there.", notice="notice-1"),
        NotificationSent(run=SCHEDULE_RUN, at=due + timedelta(seconds=15), notice="notice-1",
                         sink="log"),
    ]  # fmt: skip


def _facts(now: datetime) -> Sequence[Event]:
    day = now - timedelta(days=3)
    return [
        RunStarted(run="run-private", at=day, origin="chat", by="bob", audience="telegram:2"),
        FactNoted(run="run-private", at=day, fact="fact-secret000001", memory="semantic",
                  text="bob keeps the spare key of the vault zebra7", trust="person", actor="bob"),
        FactNoted(run="run-1", at=day, fact="fact-000000000001", memory="semantic",
                  text="orders writes to db-7", about=("orders", "db-7"), trust="person",
                  actor="alice"),
        FactNoted(run="run-1", at=day, fact="fact-000000000002", memory="semantic",
                  text="orders depends on postgres", about=("orders", "postgres"),
                  relation="depends-on", trust="system"),
        FactNoted(run="run-1", at=day, fact="fact-000000000003", memory="procedural",
                  text="after a failover, restart pgbouncer before the shop", trust="person",
                  about=("pgbouncer", "shop"), actor="bob", scope="team"),
        FactNoted(run="run-1", at=day - timedelta(days=8), fact="fact-000000000004",
                  memory="semantic", text="backups of postgres end before 04:10", trust="model",
                  about=("postgres",), relation="happens-at"),
    ]  # fmt: skip


def _audit(now: datetime) -> Sequence[Event]:
    commands = {"df -h": "allow", "systemctl restart pgbouncer": "ask", "rm -rf /srv": "deny"}
    events: list[Event] = [RunStarted(run="run-1", at=now - timedelta(hours=2), origin="cli")]
    for number, (command, verdict) in enumerate(commands.items()):
        at, id = now - timedelta(minutes=50 - number), f"call-{number}"
        call = ToolCall(id=id, name="terminal", arguments={"command": command})
        events += [
            ToolRequested(run="run-1", at=at, call=call, command=command, origin="cli"),
            ToolDecided(run="run-1", at=at, call_id=id, rule=f"rule-{verdict}",
                        verdict=msgspec.convert(verdict, ToolDecided.__annotations__["verdict"])),
        ]  # fmt: skip
        if verdict == "allow":
            result = ToolResult(call_id=id, content="ok")
            events += [
                ToolStarted(run="run-1", at=at, call_id=id, risk=Risk.READ),
                ToolFinished(run="run-1", at=at, result=result, seconds=0.1),
            ]
    return events


def _drills(now: datetime) -> Sequence[Event]:
    return [
        DrillEnded(
            run=f"run-drill-{number}", at=now - timedelta(days=9 - number), seed=number,
            scenario="config-typo-after-edit", agent="none", resolved=number > 1,
            reward=0.3 + number / 10, seconds=30.0 - number, tool_calls=9, model_calls=4,
            parts=(("resolution", 0.2), ("root_cause", number / 10), ("report", 0.1)),
        )
        for number in range(6)
    ]  # fmt: skip
