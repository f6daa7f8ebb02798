"""A real `hermes watch` on incident after incident, killed with -9 at random moments.

usage: python bench/incident_kills.py [--kills 200] [--seed 0]

Every incident must end resolved or escalated, and no step of a playbook may run twice for one
incident. The host is a folder: files say what is well, playbooks write each step into a ledger.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import anyio
import msgspec

from hermes.core.events.skills import SkillChanged
from hermes.core.incident import INCIDENT_KINDS, Incident
from hermes.memory.store import open_journal
from hermes.settings.load import load
from hermes.skills.format import compute_skill_digest
from hermes.sre.reports.report_data import list_incidents

SERVICES = ("api", "shop", "mail")
PLAYBOOK = """\
version: 1
summary: "{name} was switched off; it is switched on again"
signature:
  words: ["{name} fails"]
  alert: ["{name}"]
  probes:
    - name: look
      command: test ! -f {folder}/well-{name} && echo seen
steps:
  - name: note
    command: "echo {name}-note-$(cat {folder}/round-{name}) >> {folder}/ledger; sleep 0.1"
    undo: "true"
  - name: mend
    command: "echo {name}-mend-$(cat {folder}/round-{name}) >> {folder}/ledger; sleep 0.1{mends}"
    undo: "rm -f {folder}/well-{name}"
verify:
  - name: there
    command: "test -f {folder}/{proof}"
    within: 0.3
"""
PROBE = """\
  - name: {name}
    kind: command
    what: test -f {folder}/well-{name}
    service: {name}
    interval: 0.5
    fails: 1
"""
RULE = """\
apiVersion: hermes/v1
kind: ActionPolicy
metadata: {{name: the-host, description: What the playbooks of this bench may do}}
spec:
  match:
    any:
      - effects: [write, delete]
        changes: {{under: ["{folder}"]}}
  decide: {{effect: allow}}
"""


class Result(msgspec.Struct, kw_only=True):
    kills: int = 0
    incidents: int = 0
    outcomes: dict[str, int] = {}
    phases: dict[str, int] = {}
    """Where it was when it was killed."""
    repeated: list[str] = []
    unended: list[str] = []


def lay_out(home: Path, work: Path) -> None:
    """`mail` has a playbook that does not help: it must be taken back and escalated."""
    (home / "config.yaml").write_text(
        "sre:\n  attempts: 2\n  verify: {window: 0.3, patience: 0.5, every: 0.1}\n"
        "  triage: {group: {delay: 0.1}, flapping: {times: 100000}}\n"
    )
    (home / "policies").mkdir()
    (home / "policies" / "host.yaml").write_text(RULE.format(folder=work))
    probes = "".join(PROBE.format(name=name, folder=work) for name in SERVICES)
    (home / "probes.yaml").write_text(f"probes:\n{probes}")
    for name in SERVICES:
        (work / f"well-{name}").touch()
        folder = home / "skills" / f"{name}-on"
        folder.mkdir(parents=True)
        text = f"---\nname: {name}-on\ndescription: switches {name} on when it fails\n---\nDo.\n"
        (folder / "SKILL.md").write_text(text)
        mends = "" if name == "mail" else f"; touch {work}/well-{name}"
        proof = "round-mail" if name == "mail" else f"well-{name}"
        (folder / "playbook.yaml").write_text(
            PLAYBOOK.format(name=name, folder=work, mends=mends, proof=proof)
        )


async def trust(home: Path) -> None:
    loaded = load(home=home)
    async with open_journal(loaded.store) as journal:
        for name in SERVICES:
            folder = home / "skills" / f"{name}-on"
            digest = compute_skill_digest(folder)
            await journal.append(
                SkillChanged(run="bench", skill=f"{name}-on", digest=digest, state="trusted")
            )


async def known(home: Path) -> dict[str, Incident]:
    async with open_journal(load(home=home).store) as journal:
        found = await list_incidents(journal, kinds=INCIDENT_KINDS)
        return {each.details.incident: each for each in found}


def start(home: Path, work: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "hermes.cli", "watch", "--model", "none", "--no-listen"]
    return subprocess.Popen(
        command,
        cwd=work,
        env={"HERMES_HOME": str(home), "PATH": os.environ["PATH"], "HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def run(kills: int, seed: int, home: Path, work: Path) -> Result:
    dice, result, rounds = random.Random(seed), Result(), 0
    lay_out(home, work)
    anyio.run(trust, home)
    process = start(home, work)
    broken = ""
    try:
        while result.kills < kills:
            if not broken:
                broken = SERVICES[rounds % len(SERVICES)]
                (work / f"round-{broken}").write_text(str(rounds))
                (work / f"well-{broken}").unlink(missing_ok=True)
                rounds += 1
            opened(home)
            time.sleep(dice.uniform(0.0, 2.5))
            before = [each for each in anyio.run(known, home).values() if each.status == "open"]
            process.send_signal(signal.SIGKILL)
            process.wait()
            result.kills += 1
            phase = before[-1].phase if before and before[-1].phase else "none open"
            result.phases[phase] = result.phases.get(phase, 0) + 1
            process = start(home, work)
            if not any(each.status == "open" for each in anyio.run(known, home).values()):
                (work / f"well-{broken}").touch()
                broken = ""
        settle(home, result)
    finally:
        process.kill()
        process.wait()
    steps = Counter((work / "ledger").read_text().split()) if (work / "ledger").exists() else {}
    result.repeated = sorted(step for step, times in steps.items() if times > 1)
    return result


def opened(home: Path, patience: float = 8.0) -> list[Incident]:
    """Wait until something is worth being killed for."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if found := [each for each in anyio.run(known, home).values() if each.status == "open"]:
            return found
        time.sleep(0.05)
    return []


def settle(home: Path, result: Result, patience: float = 60.0) -> None:
    deadline, found = time.monotonic() + patience, anyio.run(known, home)
    while time.monotonic() < deadline:
        found = anyio.run(known, home)
        result.unended = [key for key, each in found.items() if each.status == "open"]
        if not result.unended:
            break
        time.sleep(0.5)
    result.incidents = len(found)
    result.outcomes = dict(Counter(each.status for each in found.values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder) / "home", Path(folder) / "work"
        home.mkdir()
        work.mkdir()
        result = run(asked.kills, asked.seed, home, work)
    print(msgspec.json.format(msgspec.json.encode(result), indent=2).decode())
    return 1 if result.repeated or result.unended or not result.incidents else 0


if __name__ == "__main__":
    raise SystemExit(main())
