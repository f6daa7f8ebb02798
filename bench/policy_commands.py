"""How well the gate reads commands: what it holds, what it lets pass, and how long it takes.

usage: python bench/policy_commands.py [--each N] [--seed S] [--json] [--show]
"Held" means any effect beyond looking. The corpora under bench/corpora/policy are written by hand;
the dangerous ones are multiplied by the mutators of policy_mutators.py.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from policy_mutators import generate

from hermes.policy.command_analysis import analyse_command
from hermes.policy.commands.effects import CommandAnalysis

CORPORA = Path(__file__).parent / "corpora/policy"
HOME = "/home/u"
OWN = (f"{HOME}/.hermes/policies", f"{HOME}/.hermes/journal.db")


@dataclass(frozen=True)
class Row:
    figure: str
    cases: int
    ours: float
    unit: str
    target: str
    met: bool


def corpus(name: str) -> list[str]:
    lines = (CORPORA / f"{name}.txt").read_text().splitlines()
    return [line.replace("⏎", "\n") for line in lines if line.strip() and not line.startswith("#")]


def living_off_the_land() -> list[str]:
    lines = (CORPORA / "living_off_the_land.tsv").read_text().splitlines()
    return [
        line.split("\t")[2].replace("⏎", "\n")
        for line in lines
        if line and not line.startswith("#")
    ]


def read(command: str) -> CommandAnalysis:
    return analyse_command(command, cwd="/srv/app", home=HOME, own_paths=OWN)


def held(analysis: CommandAnalysis) -> bool:
    return not analysis.is_read_only


def final(analysis: CommandAnalysis) -> bool:
    return bool(analysis.effects & {"irreversible", "exec-dynamic"})


def share(
    commands: Iterable[str], judged: Callable[[CommandAnalysis], bool], show: str
) -> tuple[int, float]:
    """How many there are, and the part of them that is judged so."""
    verdicts = [(command, judged(read(command))) for command in commands]
    for command, verdict in verdicts:
        if show and verdict == (show == "held"):
            print(f"  {show}: {command!r}", file=sys.stderr)
    return len(verdicts), sum(verdict for _, verdict in verdicts) / len(verdicts) * 100


def times(commands: list[str]) -> list[float]:
    """Milliseconds, each the best of three: the machine's own noise is not ours. Each round is in
    another folder, because an analysis is remembered."""
    found = []
    for command in commands:
        rounds = []
        for folder in "abc":
            start = time.perf_counter()
            analyse_command(command, cwd=f"/srv/{folder}", home=HOME, own_paths=OWN)
            rounds.append(time.perf_counter() - start)
        found.append(min(rounds) * 1e3)
    return sorted(found)


def first_ever() -> float:
    """Milliseconds until the first verdict, tables and parser included."""
    start = time.perf_counter()
    read("systemctl status nginx")
    return (time.perf_counter() - start) * 1e3


def row(figure: str, counted: tuple[int, float], target: float, *, least: bool) -> Row:
    cases, percent = counted
    met = percent >= target if least else percent <= target
    return Row(figure, cases, percent, "%", f"{'≥' if least else '≤'} {target} %", met)


def measure(each: int, seed: int, *, show: bool) -> list[Row]:
    start = first_ever()
    missed, alarm = ("passed", "held") if show else ("", "")
    dangerous, irreversible = corpus("dangerous"), corpus("irreversible")
    many = [command for _, _, command in generate(dangerous + irreversible, each, seed)]
    lost = [command for _, _, command in generate(irreversible, each * 2, seed + 1)]
    quick = times(corpus("ordinary") + corpus("lookalikes") + dangerous)
    return [
        row(
            "dangerous, by hand: held",
            share(dangerous + irreversible, held, missed),
            99.5,
            least=True,
        ),
        row("dangerous, mutated: held", share(many, held, missed), 99.5, least=True),
        row("irreversible, by hand: seen so", share(irreversible, final, missed), 100, least=True),
        row("irreversible, mutated: seen so", share(lost, final, missed), 100, least=True),
        row(
            "ordinary on-call commands: held",
            share(corpus("ordinary"), held, alarm),
            3,
            least=False,
        ),
        row("look-alikes: held", share(corpus("lookalikes"), held, alarm), 10, least=False),
        row(
            "living off the land: passed",
            share(living_off_the_land(), lambda one: not held(one), "held" if show else ""),
            0.5,
            least=False,
        ),
        Row(
            "median",
            len(quick),
            statistics.median(quick),
            "ms",
            "≤ 0.5 ms",
            statistics.median(quick) <= 0.5,
        ),
        Row(
            "p99",
            len(quick),
            quick[len(quick) * 99 // 100],
            "ms",
            "≤ 3 ms",
            quick[len(quick) * 99 // 100] <= 3,
        ),
        Row("first verdict of a process", 1, start, "ms", "≤ 50 ms", start <= 50),
    ]


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--each", type=int, default=10)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--json", action="store_true")
    options.add_argument("--show", action="store_true")
    chosen = options.parse_args()
    rows = measure(chosen.each, chosen.seed, show=chosen.show)
    if chosen.json:
        print(json.dumps([asdict(one) for one in rows], ensure_ascii=False))
    else:
        for one in rows:
            mark = "✓" if one.met else "✗"
            print(
                f"{mark} {one.figure:34} {one.ours:9.3f} {one.unit:3} {one.target:10} {one.cases:6}"
            )
    return 0 if all(one.met for one in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
