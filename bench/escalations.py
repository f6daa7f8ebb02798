"""Plays real outages on real hosts and prints the notification of each escalation.

usage: python bench/escalations.py [--only OUTAGE ...] [--hosts 2] [--truth FILE]

The hosts, services and outages are those of bench/real_host.py. The notifications are printed
as people receive them, numbered; what was really broken goes to another file, so that somebody who
does not know it can judge whether each notification is enough to choose the next command.
"""

import argparse
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from real_host.blind_outages import read_blind_outages
from real_host.host_pool import HostPool
from real_host.namespace import WATCH_HOME
from real_host.outages import BY_NAME
from real_host.plans import Plan, Scene, one
from real_host.scene import FINE_AGAIN_S, Played, Player, Record, names, opened_by_name
from real_host.services import prepare
from real_host.watch import CONFIG, Notice

ESCALATION_LIMIT_S = 240.0
SECOND_NOTICE_S = 45.0
"""One outage may raise several incidents; the one about the broken service may come later."""
RECOVERY_PAUSE_S = 12.0
SUPERVISORD = (
    *("nginx-stopped", "shop-api-bad-config", "redis-became-a-replica", "postgres-wrong-owner"),
    *("nginx-port-taken", "redis-read-only", "postgres-bad-config", "catalogue-deleted"),
    *("redis-firewalled", "shop-api-memory-limit", "shop-broken-release", "redis-killed-in-a-loop"),
)
DAEMONS = (
    *("redis-bad-config", "nginx-upstream-removed", "shop-password-rotated", "nginx-hangs"),
    *("postgres-stale-pid-file", "nginx-pages-unreadable", "redis-disk-full", "redis-password-set"),
    *("postgres-connections", "shop-api-descriptor-limit", "nginx-certificate-expired"),
    *("database-name-wrong",),
)
BLIND = tuple(each.name for each in read_blind_outages())
"""By an author who had not seen the playbooks."""
PLANS = (
    Plan("web-1", "supervisord", False, tuple(map(one, SUPERVISORD[::2]))),
    Plan("web-2", "daemons", False, tuple(map(one, DAEMONS[::2]))),
    Plan("web-3", "supervisord", False, tuple(map(one, SUPERVISORD[1::2]))),
    Plan("web-4", "daemons", False, tuple(map(one, DAEMONS[1::2]))),
    Plan("web-5", "supervisord", False, tuple(map(one, BLIND[::2]))),
    Plan("web-6", "daemons", False, tuple(map(one, BLIND[1::2]))),
)


class EscalationPlayer(Player):
    """Ends an outage once people were told of it. Playbooks are switched off: they would end some
    outages before that."""

    def _play_scenes(self) -> Played:
        config = self._stage.host.path(f"{WATCH_HOME}/config.yaml")
        config.write_text(CONFIG.replace("sre:\n", "sre:\n  reflex: false\n", 1))
        return super()._play_scenes()

    def _play_scene(self, scene: Scene) -> None:
        record = Record(self.plan, BY_NAME[scene.outages[0]], 1)
        self._observer.wait(tuple(self._observer.samples), False, time.time(), FINE_AGAIN_S)
        self._cause(record)
        deadline = time.time() + ESCALATION_LIMIT_S
        while time.time() < deadline:
            self._watch.revive()
            told = escalations(record, self._watch.notices)
            first = min((each.arrived for each in told), default=time.time())
            if any(names(record.outage, each.title) for each in told[:1]):
                break
            if told and time.time() > first + SECOND_NOTICE_S:
                break
            time.sleep(0.5)
        self._end(record)
        record.fine = time.time()
        WRITER.write(record, escalations(record, self._watch.notices))
        self._observer.wait(record.outage.checks, False, record.fine, FINE_AGAIN_S)
        time.sleep(RECOVERY_PAUSE_S)

    def _collect(self, played: Played) -> None:
        """Only the notifications are wanted."""
        self._watch.end()


def escalations(record: Record, notices: list[Notice]) -> list[Notice]:
    """Of one outage: those that name its service first."""
    end = record.fine or float("inf")
    told = [
        each
        for each in notices
        if each.about == "escalated"
        and int(record.caused) <= opened_by_name(each.incident)
        and record.caused <= each.arrived <= end
        and names(record.outage, each.words, weak=True)
    ]
    return sorted(told, key=lambda each: not names(record.outage, each.title))


class Writer:
    """Prints each notification as soon as it is there, and writes what was broken elsewhere."""

    def __init__(self) -> None:
        self.truth = Path("/dev/null")
        self.count = 0
        self._lock = threading.Lock()

    def write(self, record: Record, told: list[Notice]) -> None:
        if not told:
            print(f"not escalated: {record.outage.name}", file=sys.stderr, flush=True)
            return
        with self._lock, self.truth.open("a") as truth:
            self.count += 1
            truth.write(f"{self.count}. {record.outage.name} ({record.plan.manager})\n")
            print(f"===== {self.count} =====\n{told[0].title}\n{told[0].text}\n", flush=True)


WRITER = Writer()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[], help="outages")
    parser.add_argument("--hosts", type=int, default=2, help="hosts at the same time")
    parser.add_argument("--truth", type=Path, help="a file for what was really broken")
    arguments = parser.parse_args()
    plans = []
    for plan in PLANS:
        wanted = arguments.only or [scene.outages[0] for scene in plan.scenes]
        scenes = tuple(scene for scene in plan.scenes if scene.outages[0] in wanted)
        if scenes:
            plans.append(Plan(plan.name, plan.manager, plan.kills, scenes))
    WRITER.truth = arguments.truth or WRITER.truth
    folder = Path(tempfile.mkdtemp(prefix="escalations-"))
    try:
        prepare(folder / "shared")
        pool = HostPool(plans, folder, arguments.hosts, 0, lambda played: None, EscalationPlayer)
        pool.play()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if WRITER.count else 1


if __name__ == "__main__":
    sys.exit(main())
