"""Real services on real hosts without systemd, broken in real ways; what `hermes watch` says of it.

usage: python bench/real_host.py [--quick] [--only KIND|OUTAGE|HOST] [--hosts 4] [--seed 0] [--json]
  [--without-state] [--respect-people] [--without-kills] [--manager docker]

nginx, redis, PostgreSQL and a small HTTP API run under supervisord or as plain daemons, each host
in namespaces of its own (root is needed; nothing touches the real host). With `--manager docker`
the hosts of supervisord run them in containers, in the network of the host. The watch runs with the
default policy and without a model, and is killed with -9 about a hundred times. It has a known good
state with the contents of secret files (declared.secret_files), and a rule that announces the
revert of recent changes of people; both can be withheld. What
people stopped on purpose is such a change too; playbooks leave it stopped. The bench breaks
things, ends each outage itself when the product has not, and compares everything that the product
says with its own checks.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from real_host.host_pool import HostPool
from real_host.judge import Finding, judge
from real_host.outages import BY_NAME
from real_host.plans import BLIND, PLANS, QUICK, Plan, Terms
from real_host.scene import DETECTION_LIMIT_S, RECOVERY_LIMIT_S, Played, Record
from real_host.services import MANAGERS, prepare

NEEDED = (
    "nginx",
    "redis-server",
    "psql",
    "nft",
    "openssl",
    "unshare",
    "nsenter",
    "setpriv",
    "tini",
)
LEGEND = """\
* the watch was killed meanwhile. Seconds from the outage until: the bench's own check saw it, any
service that it harms was named, it was found, it was named; recovery: seconds from the moment all
was fine. waited: how long of this the watch was ready to run and had no processor (the load of the
machine, not its fault; it is not taken off). load: the highest average / the share of time in
which something waited for a processor
"""
WORST = ("untrue", "duplicate", "lost", "contradiction", "ended")


def choose(arguments: argparse.Namespace) -> list[Plan]:
    """The plans that are wanted, less the scenes that are not."""
    plans = QUICK if arguments.quick else (*PLANS, *BLIND)
    terms = Terms(state=not arguments.without_state, respect_people=arguments.respect_people)
    only, chosen = arguments.only, []
    if arguments.manager:  # the same outages as under supervisord
        plans = tuple(
            replace(each, manager=arguments.manager)
            for each in plans
            if each.manager == "supervisord"
        )
    for plan in (each.under(terms, kills=not arguments.without_kills) for each in plans):
        kinds = {name: BY_NAME[name].kind for scene in plan.scenes for name in scene.outages}
        scenes = tuple(
            scene
            for scene in plan.scenes
            if not only
            or set(only.split(",")) & {plan.name, plan.manager}
            or any(set(only.split(",")) & {name, kinds[name]} for name in scene.outages)
        )
        if scenes:
            chosen.append(replace(plan, scenes=scenes))
    return chosen


def row_of(record: Record) -> dict[str, Any]:
    return {
        "host": record.plan.name,
        "manager": record.plan.manager,
        "kills": record.plan.kills,
        "together": record.partners,
        "outage": record.outage.name,
        "kind": record.outage.kind,
        "anything_said_s": record.notice_s,
        "detected_s": record.detection_s,
        "named_s": record.naming_s,
        "bench_saw_it_s": round(record.seen - record.caused, 1) if record.seen else None,
        "recovery_s": record.recovery_s,
        "outage_s": round(record.fine - record.caused, 1) if record.fine else None,
        "author": record.outage.author,
        "healed_before_the_bench": record.healed_early,
        "resolved_by": record.healed_by,
        "collateral": record.collateral,
        "cpu_pressure": round(record.pressure, 2),
        "load": round(record.load, 1),
        "watch_waited_s": round(record.waited_s, 1),
        "invalid": record.invalid,
    }


def resolution_of(rows: list[dict[str, Any]]) -> dict[str, str]:
    """How many outages ended after a change of the product and before the bench ended them."""
    found = {}
    for author in ("", "blind"):
        for manager in MANAGERS:
            some = [r for r in rows if (r["author"], r["manager"]) == (author, manager)]
            resolved = sum(r["healed_before_the_bench"] and bool(r["resolved_by"]) for r in some)
            found[f"{author} {manager}".strip()] = f"{resolved} of {len(some)}"
    return found


def kinds_of(rows: list[dict[str, Any]]) -> dict[str, str]:
    """For each kind of outage: how many were resolved by the product."""
    found = {}
    for kind in sorted({row["kind"] for row in rows}):
        some = [row for row in rows if row["kind"] == kind]
        resolved = [r for r in some if r["healed_before_the_bench"] and r["resolved_by"]]
        found[kind] = f"{len(resolved)} of {len(some)}"
    return found


def totals_of(
    rows: list[dict[str, Any]], played: list[Played], findings: list[Finding]
) -> dict[str, Any]:
    valid = [row for row in rows if not row["invalid"]]

    def within(key: str, limit: float, *, less_waiting: bool = False) -> int:
        found = [row for row in valid if row[key] is not None]
        waited = "watch_waited_s"
        return sum(row[key] - (row[waited] if less_waiting else 0) <= limit for row in found)

    faults = Counter(finding.fault for finding in findings)
    changes = [
        f"{one.plan.name}: {change.get('command') or change}"
        for one in played
        for show in one.shows.values()
        for change in (show or {}).get("changes", [])
    ]
    return {
        "outages": len(valid),
        "kinds": len({row["kind"] for row in valid}),
        "not_broken_by_the_bench": len(rows) - len(valid),
        "detected_within_30_s": within("detected_s", DETECTION_LIMIT_S),
        "named_within_30_s": within("named_s", DETECTION_LIMIT_S),
        "named_within_30_s_less_waiting": within("named_s", DETECTION_LIMIT_S, less_waiting=True),
        "recovery_reported_within_60_s": within("recovery_s", RECOVERY_LIMIT_S),
        "resolved_by_playbooks_and_experiments": resolution_of(valid),
        "resolved_by_kind": kinds_of(valid),
        "collateral": [
            f"{r['host']} {r['outage']}: {r['collateral']}" for r in rows if r["collateral"]
        ],
        "kills": sum(one.kills for one in played),
        **{fault: faults[fault] for fault in WORST},
        "audit_verify": dict(Counter(str(one.audit_code) for one in played)),
        "journal_verify": dict(Counter(str(one.journal_code) for one in played)),
        "changes_made": changes,
    }


def cell(value: Any) -> str:
    return "-" if value is None else f"{value}"


def print_table(rows: list[dict[str, Any]]) -> None:
    form = "{:<7}{:<13}{:<27}{:<24}{:>5}{:>6}{:>6}{:>6}{:>6}{:>9}{:>7}{:>10}"
    heads = ("host", "manager", "outage", "kind", "with", "bench", "any", "found", "named")
    print(form.format(*heads, "recovery", "waited", "load") + "  resolved by")
    for row in rows:
        manager = row["manager"] + ("*" if row["kills"] else "")
        times = ("bench_saw_it_s", "anything_said_s", "detected_s", "named_s", "recovery_s")
        times += ("watch_waited_s",)
        cells = [row["host"], manager, row["outage"], row["kind"], row["together"]]
        cells += [cell(row[key]) for key in times]
        line = form.format(*cells, f"{row['load']:.0f}/{row['cpu_pressure']:.0%}")
        line += f"  {row['resolved_by']}" if row["healed_before_the_bench"] else ""
        print(f"{line}  NOT COUNTED: {row['invalid']}" if row["invalid"] else line)
    print(LEGEND)


def print_findings(findings: list[Finding]) -> None:
    for finding in findings:
        print(f"{finding.host} {finding.fault}: {finding.text}")


def succeeded(totals: dict[str, Any]) -> bool:
    wanted = ("detected_within_30_s", "named_within_30_s", "recovery_reported_within_60_s")
    complete = all(totals[key] == totals["outages"] for key in wanted)
    return complete and not totals["hosts_not_played"] and not any(totals[fault] for fault in WORST)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="5 outages, less than two minutes")
    parser.add_argument("--only", help="kinds, outages, hosts or managers, with commas between")
    parser.add_argument("--manager", choices=MANAGERS, help="instead of supervisord; no others")
    parser.add_argument("--without-state", action="store_true", help="without a known good state")
    parser.add_argument(
        "--respect-people", action="store_true", help="without the rule for reverts"
    )
    parser.add_argument("--without-kills", action="store_true", help="the watch is left alone")
    parser.add_argument("--hosts", type=int, default=4, help="hosts at the same time")
    parser.add_argument("--seed", type=int, default=0, help="for the moments of the kills")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--keep", type=Path, help="a folder for everything that was said")
    arguments = parser.parse_args()
    missing = [program for program in NEEDED if not shutil.which(program)]
    if os.geteuid() or missing:
        print(f"this needs root and these programs: {' '.join(missing or NEEDED)}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a partial table, not none
    began = time.time()
    folder = Path(tempfile.mkdtemp(prefix="real-host-"))
    sys.stdout, out = (sys.stderr, sys.stdout) if arguments.json else (sys.stdout, sys.stdout)
    try:
        prepare(folder / "shared")
        ended = partial(keep, folder, arguments.keep)
        pool = HostPool(choose(arguments), folder, arguments.hosts, arguments.seed, ended)
        played = pool.play()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not cost the table
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout = out
    rows = [row_of(record) for one in played for record in one.records]
    findings = [finding for one in played for finding in judge(one)]
    totals = totals_of(rows, played, findings) | {
        "hosts_not_played": pool.failed,
        "seconds": round(time.time() - began),
    }
    if arguments.json:
        print(
            json.dumps(
                {"outages": rows, "findings": [vars(f) for f in findings], "totals": totals},
                indent=2,
            )
        )
    else:
        print_table(rows)
        print_findings(findings)
        for key, value in totals.items():
            print(f"{key.replace('_', ' '):<32} {value}")
    return not succeeded(totals)


def keep(folder: Path, target: Path | None, one: Played) -> None:
    """What the watch of a host said, for one who looks into a finding; written as it ends."""
    if target:
        target.mkdir(parents=True, exist_ok=True)
        name = one.plan.name
        shutil.copy(folder / f"{name}.watch", target / f"{name}.watch.log")
        shutil.copy(folder / f"{name}.journal", target / f"{name}.journal.jsonl")
        said = {
            "notices": [vars(notice) for notice in one.notices],
            "incidents": one.incidents,
            "shows": one.shows,
            "reports": one.reports,
            "stats": one.stats,
            "starts": one.starts,
            "outages": [
                row_of(r) | {"caused": r.caused, "ended": r.ended, "fine": r.fine}
                for r in one.records
            ],
            "checks": {
                check: [(round(s.ended, 1), s.problem) for s in samples if s.problem]
                for check, samples in one.observer.samples.items()
            },
            "views": [
                {
                    "at": v.at,
                    "until": v.until,
                    "during": v.during,
                    "open": v.open_incidents,
                    "health": v.health,
                }
                for v in one.views
            ],
        }
        (target / f"{name}.json").write_text(json.dumps(said, indent=1))


if __name__ == "__main__":
    sys.exit(main())
