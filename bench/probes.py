"""The probes: what a round costs, how soon trouble is told, how long a host takes to look over.

`python bench/probes.py` prints one JSON row for each figure. CPU is that of all processes of a
round; wall times stand beside the load of the machine, which they depend on.
"""

import json
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

import anyio
from anyio.abc import SocketAttribute

from hermes.core.bus import Bus
from hermes.core.protocols import Environment
from hermes.environments.boxes.box import Box
from hermes.environments.local import LocalEnvironment
from hermes.gym.box.environment import host_environment
from hermes.gym.episodes.episode import build_host_plan
from hermes.gym.scenario import installed_scenarios, load_scenario
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.probes.admission import mark_admitted
from hermes.sre.probes.discovery import discover_probes
from hermes.sre.probes.probe import Probe, ProbeKind
from hermes.sre.probes.probe_runner import run_probes
from hermes.sre.probes.scheduler import ProbeScheduler

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ROUND_CPU, MEMORY, LATE, BOX = 400.0, 10.0, 2.0, 0.5
ROUNDS, SIMPLE = 10, "config-typo-after-edit"


def row(figure: str, value: float, unit: str, limit: float, **more: object) -> None:
    print(json.dumps({"figure": figure, "value": round(value, 3), "unit": unit, "limit": limit,
                      "held": value <= limit, "load": round(os.getloadavg()[0], 1),
                      **more}), flush=True)  # fmt: skip


def fifty(folder: Path, port: int) -> list[Probe]:
    """As on a host with a dozen services: ports, logs, disks, and a few of the rest."""
    log = folder / "app.log"
    log.write_text("INFO all is well\n" * 1000)
    kinds: tuple[ProbeKind, ...] = ("cpu", "load", "memory", "zombies")
    host = [Probe(name=kind, kind=kind, limit=1000) for kind in kinds]
    disks = [Probe(name=f"disk{n}", kind="disk", what="/") for n in range(6)]
    ports = [Probe(name=f"port{n}", kind="port", what=str(port)) for n in range(15)]
    logs = [Probe(name=f"log{n}", kind="log", what=str(log)) for n in range(10)]
    text = "test -e /etc/hostname"
    own = [mark_admitted(Probe(name=f"own{n}", kind="command", what=text)) for n in range(15)]
    return [*host, *disks, *ports, *logs, *own]


def cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


async def rounds(here: Environment, probes: list[Probe]) -> None:
    keep: dict[str, str] = {}
    costs, walls = [], []
    for _ in range(ROUNDS):
        began, used = time.perf_counter(), cpu()
        found = await run_probes(here, probes, keep)
        walls.append(time.perf_counter() - began)
        costs.append((cpu() - used) * 1000)
        keep = {name: each.keep for name, each in found.items()}
        assert not any(each.code for each in found.values())
    cost = statistics.median(costs[1:])
    wall = round(statistics.median(walls), 3)
    row("a round of 50 probes, CPU", cost, "ms", ROUND_CPU, wall_s=wall, probes=len(probes))


async def detection(here: Environment, folder: Path) -> None:
    """From the moment something breaks to the alert in the journal, less the interval."""
    flag, late = folder / "broken", []
    probe = Probe(name="flag", kind="command", what=f"! test -e {flag}", interval=2.0, fails=2)
    bus = Bus(InMemoryJournal())
    patrol = ProbeScheduler([mark_admitted(probe)], here, bus, home=folder / "home")
    async with anyio.create_task_group() as group:
        group.start_soon(patrol.run)
        last = 0
        for number in range(6):
            await anyio.sleep(0.3 * number)
            began = time.perf_counter()
            flag.touch() if number % 2 == 0 else flag.unlink()
            await bus.journal.changed(last)
            last = await bus.journal.last()
            late.append(time.perf_counter() - began - probe.interval)
        group.cancel_scope.cancel()
    row("alert after an interval, latest of 6", max(late), "s", LATE)


async def looked_over() -> None:
    plans = [
        build_host_plan(host)
        for host in load_scenario(installed_scenarios()[SIMPLE]).draw_spec(1).hosts
    ]
    async with Box(plans) as box, host_environment(box) as here:
        found, took = await discover_probes(here), []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            found = await discover_probes(here)
            took.append(time.perf_counter() - began)
    value = statistics.median(took)
    row("a box looked over, median", value, "s", BOX, probes=len(found.probes), best=min(took))


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)
        async with LocalEnvironment(folder, {"PATH": PATH, "HOME": name}) as here:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            await rounds(here, fifty(folder, port))
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            row("memory that rounds add", grown, "MB", MEMORY)
            await detection(here, folder)
            began = time.perf_counter()
            found = await discover_probes(here)
            took = time.perf_counter() - began
            row("this host looked over", took, "s", 3.0, probes=len(found.probes))
        await listener.aclose()
    await looked_over()


if __name__ == "__main__":
    anyio.run(main)
