"""Bundled playbooks alone against the gym: scenario × resolved, collateral, seconds.

usage: python bench/playbooks.py [--seeds N] [--held-out] [--show] [NAME ...]
"""

import argparse
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import anyio

from hermes.app.gate import Gate
from hermes.app.skills import open_library, reflex
from hermes.core.bus import Bus
from hermes.core.errors import HermesError
from hermes.core.events.skills import PlaybookStarted, PlaybookStepped
from hermes.core.protocols import ToolContext
from hermes.gym.box.place import place_in
from hermes.gym.episode import Void, open_episode
from hermes.gym.scenario import Scenario, find, known
from hermes.gym.stage import operator
from hermes.memory.artifacts import FileArtifacts
from hermes.memory.in_memory import InMemoryJournal
from hermes.settings.load import load
from hermes.skills.playbook.facts import Facts
from hermes.skills.playbook.reflex import Response
from hermes.tools.executor import Executor
from hermes.tools.terminal import terminal


@dataclass(frozen=True)
class Line:
    scenario: str
    seed: int
    resolved: bool
    damage: tuple[str, ...]
    acted: str
    seconds: float
    """From the alert on, with every look and check."""
    reflex: float
    """From the match, when the probes had confirmed it, to the last step."""
    said: str = ""


async def play(scenario: Scenario, seed: int, split: str, home: Path) -> Line:
    story = scenario.story(seed, split)  # type: ignore[arg-type]
    facts = Facts(title=story.alert.title, text=story.alert.text, labels=story.alert.labels)
    loaded = load(home=home)
    journal = InMemoryJournal()
    bus = Bus(journal)
    async with open_episode(scenario, story) as episode, place_in(episode.box) as place:
        gate = Gate(loaded, home, isolated=True)
        executor = Executor({"terminal": terminal}, gate, operator, bus)
        context = ToolContext(
            run="bench",
            environment=place,
            publish=bus.publish,
            call=lambda call: executor.execute(call, context),
            artifacts=FileArtifacts(home / "artifacts"),
            origin="gym",
        )
        await place.run("true")
        response = await reflex(open_library(loaded), facts, executor, context)
        outcome = await episode.judge()
    acted = ", ".join(each.skill for each in response.mended) or "-"
    if response.all_clear:
        acted = "all clear"
    wanted = story.answer in ("no-incident", "recovered")
    resolved = outcome.resolved and not outcome.damage and wanted == bool(response.all_clear)
    wrong = [f"{c.check}: {c.detail}" for c in (*outcome.symptoms, *outcome.cured) if not c.ok]
    said = f"{story.alert.title!r} {story.alert.labels}\n" + told(response) + f"\n   {wrong[:4]}"
    return Line(
        scenario.name,
        seed,
        resolved,
        outcome.damage,
        acted,
        response.seconds,
        between(journal),
        said,
    )


def between(journal: InMemoryJournal) -> float:
    matched = [event.at for event in journal.events if isinstance(event, PlaybookStarted)]
    steps = [e.at for e in journal.events if isinstance(e, PlaybookStepped) and e.phase == "step"]
    return (steps[-1] - matched[-1]).total_seconds() if matched and steps else 0.0


def told(response: Response) -> str:
    rows = []
    for played in response.tried:
        rows.append(f"   {played.outcome:9} {played.skill}: {played.step} {played.detail[:300]}")
        if played.outcome != "declined":
            rows += [
                f"      {d.phase} {d.name} ok={d.ok}: {d.output[-400:]!r}" for d in played.done
            ]
    return "\n".join(rows)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--show", action="store_true")
    asked = parser.parse_args()
    split = "held-out" if asked.held_out else "train"
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.names or known():
            for seed in range(asked.first, asked.first + asked.seeds):
                try:
                    scenario = find(name)
                    if scenario.missing():
                        print(f"{name:32} needs {', '.join(scenario.missing())}")
                        break
                    with anyio.fail_after(100):
                        line = await play(scenario, seed, split, Path(folder))
                except (Void, HermesError, TimeoutError) as error:
                    print(f"{name:32} {seed:3} void: {str(error)[:150]}")
                    continue
                lines.append(line)
                mark = "resolved" if line.resolved else "DAMAGE" if line.damage else "open"
                damage = "; ".join(line.damage)[:160]
                print(
                    f"{name:32} {seed:3} {mark:9} {line.reflex:5.2f} s of {line.seconds:5.2f}  "
                    f"{line.acted} {damage}"
                )
                if asked.show:
                    print(line.said)
    if lines:
        solved = sum(line.resolved for line in lines)
        harmed = sum(bool(line.damage) for line in lines)
        mended = [line for line in lines if line.resolved and line.acted != "-"]
        reflexes = [line.reflex for line in mended] or [0.0]
        whole = [line.seconds for line in mended] or [0.0]
        print(
            f"resolved {solved}/{len(lines)} = {solved / len(lines):.0%}, collateral {harmed}; "
            f"median {statistics.median(reflexes):.2f} s from match to last step, "
            f"{statistics.median(whole):.2f} s from alert to verified"
        )


if __name__ == "__main__":
    started = time.monotonic()
    anyio.run(main)
    print(f"{time.monotonic() - started:.1f} s in all")
