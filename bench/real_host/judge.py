"""Compares what the product said with what the bench knows: what is untrue, duplicate or lost."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from real_host.faults import NAMES, Outage
from real_host.scene import Played, Record, View, names, tells_recovery
from real_host.watch import Notice

DURATION_SLACK_S = 10.0
SINCE_SLACK_S = 5.0
STALE_S = 45.0  # how long after a check failed an incident about it may still be opened
TIMEOUT_CODE = 124  # of a command that had not answered within a minute
LOG_RATE_S = 120.0  # a rate of lines a minute stays bad for so long
BUSY_SHARE = 0.5  # of a span in which work waited for a processor: the machine was busy
UNITS = {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 0.001}

# Which checks of the bench tell whether a service really was in trouble.
RELATED = {
    "nginx": ("nginx", "tls", "items", "cart", "shop-api"),
    "redis": ("redis",),
    "postgres": ("postgres",),
    "shop-api": ("shop-api", "items", "cart"),
}
RELATED["python"] = RELATED["shop-api"]
RELATED["redis-server"] = RELATED["redis"]
MODEL_CLAIM = re.compile(r"\bby a model\b|\ba model (?:found|fixed|answered|diagnosed)\b", re.I)
CAUSE_LINE = re.compile(r"^root cause: (.+)$", re.M | re.I)
CAUSE_CHAPTER = re.compile(r"^## Root cause\n+(.+)$", re.M)
NO_CAUSE = re.compile(
    r"not found|unknown|not known|none was found|no root cause|not established", re.I
)
ONGOING = re.compile(r"so far|ongoing|still|not over", re.I)


@dataclass(frozen=True)
class Finding:
    """One thing that was not as it must be."""

    host: str
    fault: str  # untrue, duplicate, lost, contradiction, ended
    text: str


def judge(played: Played) -> list[Finding]:
    """Everything that is wrong with what one watch said and kept."""
    found: list[tuple[str, str]] = []
    for check in (
        claims_of_recovery,
        claims_of_models,
        claims_of_causes,
        claims_of_time,
        durations,
        incidents_without_cause,
        health_views,
        open_lists,
        counts,
        duplicates,
        losses,
        proofs,
    ):
        found += list(check(played))
    return [Finding(played.plan.name, fault, text) for fault, text in dict.fromkeys(found)]


Found = Iterator[tuple[str, str]]


def claims_of_recovery(played: Played) -> Found:
    """Nothing is resolved or recovered while the bench's own checks of it still fail."""
    for notice in played.notices:
        if not tells_recovery(notice):
            continue
        for record in played.records:
            end = record.fine or float("inf")
            active = record.caused < notice.arrived < end - 2
            if stated_recovery(notice) < record.caused:
                continue  # it speaks of an earlier outage, and says when that ended
            if (
                active
                and notice.incident in record.incidents
                and still_fails(played, record, notice)
            ):
                yield "untrue", f"{notice.title!r} while {record.outage.name} still failed"


def stated_recovery(notice: Notice) -> float:
    match = re.search(r"^recovered: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC", notice.text, re.M)
    if match is None:
        return float("inf")
    return datetime.fromisoformat(match.group(1) + "+00:00").timestamp()


def still_fails(played: Played, record: Record, notice: Notice) -> bool:
    """Only an incident about this very service is judged; one may cover several."""
    about_it = any(names(record.outage, text) for text in (notice.title, notice.text))
    checks = [check for check in record.checks if speaks_of(notice, check)]
    return about_it and any(played.observer.fails_at(check, notice.arrived) for check in checks)


def speaks_of(notice: Notice, check: str) -> bool:
    """A full disk is not the same as what its service answers: the disk itself must be named."""
    if not check.startswith("disk:"):
        return True
    path = check.removeprefix("disk:")
    return path in notice.words or f"disk{path.replace('/', '-')}" in notice.words


def texts(played: Played) -> Iterator[tuple[str, str]]:
    for notice in played.notices:
        yield f"notification {notice.about}", notice.words
    for name, report in played.reports.items():
        yield f"report of {name[-6:]}", report


def claims_of_models(played: Played) -> Found:
    for where, text in texts(played):
        if match := MODEL_CLAIM.search(text):
            yield "untrue", f"{where} says {match.group(0)!r}; there is no model"
    for name, show in played.shows.items():
        if show and "model" in str(show.get("answered_by", "")):
            yield "untrue", f"show of {name[-6:]} says that a model answered; there is none"


def claims_of_causes(played: Played) -> Found:
    """A root cause may be named only where one was found, or a change has ended the problem."""
    for name, show in played.shows.items():
        diagnosis = (show or {}).get("diagnosis") or {}
        if diagnosis.get("verdict", "fix" if diagnosis else "escalate") != "escalate":
            yield from late_changes(played, name, show or {})
            continue
        for notice in played.notices:
            line = CAUSE_LINE.search(notice.text) if notice.incident == name else None
            if line and not NO_CAUSE.search(line.group(1)):
                yield (
                    "untrue",
                    f"notification {notice.about}: root cause {line.group(1)!r}, none was found",
                )
        line = CAUSE_CHAPTER.search(played.reports.get(name, ""))
        if line and not NO_CAUSE.search(line.group(1)):
            yield "untrue", f"report: root cause {line.group(1)!r}, none was found"


def late_changes(played: Played, name: str, show: dict[str, Any]) -> Found:
    """A change that began when all was fine has resolved nothing."""
    ended = [r.fine for r in played.records if name in r.incidents and r.fine]
    begun = [
        datetime.fromisoformat(each["at"]).timestamp()
        for each in show.get("changes", [])
        if each.get("changed")
    ]
    if show.get("outcome") == "resolved" and ended and begun and min(begun) > max(ended) + 1:
        yield "untrue", f"{name[-6:]} is called resolved by a change, which came after its end"


def claims_of_time(played: Played) -> Found:
    """`since` lies neither before the outage nor after its notification."""
    for notice in played.notices:
        match = re.search(r"^since: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC", notice.text, re.M)
        outages = [r for r in played.records if notice.incident in r.incidents]
        if not match or not outages:
            continue
        since = datetime.fromisoformat(match.group(1) + "+00:00").timestamp()
        if is_about_load(notice.title) and was_busy(played, since, notice.arrived):
            continue
        first = min(record.caused for record in played.records) - SINCE_SLACK_S
        if since < first or since > notice.arrived + 1:
            yield "untrue", f"{notice.title!r}: since {match.group(1)}, before anything was broken"


def durations(played: Played) -> Found:
    """The duration of an incident spans the outages that it is about."""
    for name, report in played.reports.items():
        match = re.search(r"^- Duration: (.+)$", report, re.M)
        show = played.shows.get(name)
        opened, recovered = event_time(show, "opened_at"), event_time(show, "recovered_at")
        if show and is_about_load(show["title"]) and was_busy(played, opened, recovered):
            continue
        outages = [
            r
            for r in played.records
            if name in r.incidents and r.fine and not r.invalid
            if not (recovered and recovered < r.caused)
        ]
        if not match or not outages or not opened or ONGOING.search(match.group(1)):
            continue
        claimed = seconds_of(match.group(1).partition(" (")[0])  # parts of it stand in brackets
        begin = min(r.caused for r in (*outages, *failed_at(played, opened)))
        last = recovered or opened + (claimed or 0.0)
        end = max(r.fine for r in (*outages, *continued_by(played, show, opened, last)))
        least = min(r.fine for r in outages) - opened - DURATION_SLACK_S
        most = end - begin + 60 + DURATION_SLACK_S
        if claimed is None or not least <= claimed <= most:
            yield (
                "untrue",
                f"report of {name[-6:]}: duration {match.group(1)}; "
                f"{'+'.join(r.outage.name for r in outages)} lasted {end - begin:.0f} s",
            )


def failed_at(played: Played, opened: float) -> list[Record]:
    """The outages during which an incident was opened, though it may have named only a later one.

    An incident that goes on into the next outage lasts since the one that opened it.
    """
    return [
        r for r in played.records if not r.invalid and r.fine and r.caused <= opened <= r.fine + 1
    ]


def continued_by(played: Played, show: Any, opened: float, last: float) -> list[Record]:
    """Later outages that harm the same service, which therefore never was fine for long."""
    checks = RELATED.get((show or {}).get("service") or "", tuple(played.observer.samples))
    return [
        r
        for r in played.records
        if not r.invalid and r.fine and r.caused < last and r.fine > opened
        if set(r.outage.checks) & set(checks)
    ]


def seconds_of(text: str) -> float | None:
    parts = re.findall(r"([\d.]+) ?(d|h|min|ms|s)\b", text)
    return sum(float(number) * UNITS[unit] for number, unit in parts) if parts else None


def event_time(show: Any, name: str) -> float:
    text = (show or {}).get(name)
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def incidents_without_cause(played: Played) -> Found:
    """An incident about a service needs a service that was in trouble."""
    first = min(played.starts, default=0.0)
    for show in filter(None, played.shows.values()):
        opened, service = event_time(show, "opened_at"), show.get("service") or ""
        if opened < first or is_about_load(show["title"]):
            continue
        related = RELATED.get(service, tuple(played.observer.samples))
        span = STALE_S if service in RELATED else LOG_RATE_S
        if not any(
            played.observer.failed_within(check, opened - span, opened + 5) for check in related
        ):
            yield (
                "untrue",
                f"incident {show['title']!r} about {service or 'no service'}: all was fine",
            )


def is_about_load(title: str) -> bool:
    return bool(re.search(r"processors? (?:are|is) busy|processes wait for|of the memory", title))


def was_busy(played: Played, begin: float, end: float) -> bool:
    """The hosts share the processors of the machine: what one of them says of these is measured."""
    return played.pressure.between(begin, end)[0] >= BUSY_SHARE


def health_views(played: Played) -> Found:
    """`hermes health` neither hides an outage nor shows one that is over."""
    for view in played.views:
        if view.health is None and view.health_code == TIMEOUT_CODE:
            continue  # it has said nothing: the machine was too busy for it
        failing = " ".join(failing_probes(view))
        for record in view.records:
            truth = [
                played.observer.fails_at(check, moment)
                for check in record.outage.checks
                for moment in (view.at, view.until or view.at)
            ]
            if record.invalid or record.outage.services == ("home",):
                continue
            shown = any(re.search(probe_pattern(s), failing) for s in record.outage.services)
            if view.during and all(truth) and view.health_code == 0:
                yield "untrue", f"health ended with 0 while {record.outage.name} failed"
            elif view.during and all(truth) and not shown:
                yield (
                    "untrue",
                    f"health did not show {record.outage.name} (failing: {failing or '-'})",
                )


def failing_probes(view: View) -> list[str]:
    health = view.health if isinstance(view.health, dict) else {}
    rows = [row for row in health.get("probes", []) if row.get("ok") is not True]
    return [f"{row['probe']} {row.get('service', '')} {row.get('detail', '')}" for row in rows]


def probe_pattern(service: str) -> str:
    ports = {"nginx": "-80|-443|:80|:443", "shop-api": "-8000|:8000|shop"}
    return f"{NAMES[service][1]}|{ports.get(service, service)}"


def open_lists(played: Played) -> Found:
    """`incident list --open` contains everything that still fails.

    A home that cannot be written is no incident, it is said with the list on standard error.
    """
    for view in played.views:
        if not view.during:
            continue
        listed = view.open_incidents
        if not isinstance(listed, list):
            yield "untrue", "incident list --open --json gave no list during an outage"
            continue
        text = json.dumps(listed)
        for record in view.records:
            if record.outage.services == ("home",) and names(record.outage, view.warning):
                continue
            if record.invalid or not record.detected or record.detected.arrived > view.at:
                continue
            if not names(record.outage, text, weak=True):
                yield (
                    "untrue",
                    f"incident list --open lacks {record.outage.name}, which still failed",
                )


def counts(played: Played) -> Found:
    """List and statistics agree."""
    listed, stats = played.incidents, played.stats
    if not isinstance(listed, list) or not isinstance(stats, dict):
        yield "lost", "incident list or stats could not be read at the end"
        return
    if stats.get("incidents") != len(listed):
        yield (
            "contradiction",
            f"stats counts {stats.get('incidents')} incidents, list {len(listed)}",
        )
    severities = dict(Counter(row["severity"] for row in listed))
    if stats.get("severity") != severities:
        yield "contradiction", f"stats by severity {stats.get('severity')}, list {severities}"
    for row in listed:
        show = played.shows.get(row["incident"]) or {}
        for key in ("state", "severity", "service", "alerts", "opened_at", "mttr", "mtta"):
            if key in row and key in show and row[key] != show[key]:
                yield (
                    "contradiction",
                    f"{key} of an incident: list {row[key]!r}, show {show[key]!r}",
                )


def duplicates(played: Played) -> Found:
    """One outage of one service: one incident. One notification: once, or marked as repeated."""
    ids = Counter(notice.id for notice in played.notices if not notice.repeated)
    for key, count in ids.items():
        if count > 1:
            yield "duplicate", f"notification {key} came {count} times without being marked"
    said = Counter((n.incident, n.title, n.text) for n in played.notices if not n.repeated)
    for (name, title, _), count in said.items():
        if count > 1 and name:
            yield "duplicate", f"{title!r} of incident {name[-6:]} came {count} times"
    for record in played.records:
        opened = [
            show["service"]
            for show in filter(None, played.shows.values())
            if show.get("service")
            and record.caused <= event_time(show, "opened_at") <= (record.fine or 0) + 5
            and matches_service(record.outage, show["service"])
        ]
        for service, count in Counter(opened).items():
            if count > 1:
                yield "duplicate", f"{record.outage.name}: {count} incidents about {service}"


def matches_service(outage: Outage, service: str) -> bool:
    return any(re.search(NAMES[name][1], service) for name in outage.services)


def losses(played: Played) -> Found:
    """Each incident was told, each told incident is kept."""
    told = {notice.incident for notice in played.notices if notice.incident}
    kept = {row["incident"] for row in played.incidents or []}
    together = "\n".join(notice.text for notice in played.notices if not notice.incident)
    for name in sorted(kept - told):
        title = (played.shows.get(name) or {}).get("title") or ""
        if title and title[:60] in together:  # one of several in one notification
            continue
        yield "lost", f"no notification about the incident {title!r}"
    for name in sorted(told - kept):
        yield "lost", f"a notification names the incident {name}, which is not kept"


def proofs(played: Played) -> Found:
    """The journal can be verified, and the watch ended only when it was made to."""
    if played.audit_code == 6:
        yield "lost", "hermes audit verify ended with 6"
    if played.journal_code:
        yield "lost", f"hermes journal verify ended with {played.journal_code}"
    for death in played.deaths:
        yield "ended", death
    if played.problem:
        yield "bench", played.problem
