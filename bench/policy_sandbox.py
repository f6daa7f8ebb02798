"""Proof that the mutated commands really do harm: a sample is run in a box, on a canary.

usage: python bench/policy_sandbox.py [--cases N] [--seed S]
Each case gets a fresh folder with a few files inside an empty file system, without a network. A
command whose canary is changed afterwards was real, and must be held. A mutation that changes
nothing proves nothing: it is counted, and the mutators that never bite are named.
"""

import argparse
import collections
import contextlib
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from policy_mutators import REAL, Mutator

from hermes.policy.command_analysis import analyse_command

BASES = [
    "rm -f /c/victim", "rm -rf /c/tree", "unlink /c/victim", "truncate -s 0 /c/victim",
    "mv /c/victim /c/gone", "find /c/tree -delete", "shred -u /c/victim", "cp /dev/null /c/victim",
    "dd if=/dev/null of=/c/victim", "touch /c/new", "mkdir /c/dir", "ln -s /etc/passwd /c/link",
    "chmod 777 /c/victim", "tee /c/victim", "sed -i d /c/victim", "rmdir /c/empty",
    "install -m 755 /dev/null /c/new", "rm -rf /c/tree/deep /c/victim", "gzip /c/victim",
    "tar -C /c -cf /c/new.tar tree", "sort -o /c/victim /dev/null", "split /c/victim /c/part",
]  # fmt: skip
BOX = (
    "bwrap --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/sbin /sbin"
    " --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp"
    " --ro-bind /etc/alternatives /etc/alternatives --unshare-all --new-session"
    " --die-with-parent --chdir /tmp --setenv HOME /tmp"
)


@dataclass(frozen=True)
class Case:
    base: str
    mutators: str
    command: str


def canary(folder: Path) -> None:
    (folder / "tree/deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "victim").write_text("alive\n")
    (folder / "tree/leaf").write_text("green\n")


def state(folder: Path) -> list[tuple[str, int, str]]:
    return sorted(
        (
            str(path.relative_to(folder)),
            path.lstat().st_mode,
            path.read_text("latin-1") if path.is_file() else "",
        )
        for path in folder.rglob("*")
    )


def bites(case: Case) -> bool:
    """Run it for real; True when the canary is not what it was."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        canary(folder)
        before = state(folder)
        box = [*BOX.split(), "--bind", name, "/c"]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*box, "/bin/bash", "-c", case.command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=10,
            )
        return state(folder) != before


def cases(count: int, seed: int) -> list[Case]:
    """Every mutator on some base first, then pairs at random."""
    chance = random.Random(seed)
    found = []
    for name, mutator in REAL.items():
        bases = [base for base in BASES if mutator(base) not in (None, base)]
        for base in chance.sample(bases, min(2, len(bases))):
            found.append(Case(base, name, mutator(base) or ""))
    while len(found) < count:
        base = chance.choice(BASES)
        (first, one), (second, two) = chance.sample(sorted(REAL.items()), 2)
        if command := _twice(base, one, two):
            found.append(Case(base, f"{first}, {second}", command))
    return found[:count]


def _twice(base: str, one: Mutator, two: Mutator) -> str | None:
    once = one(base)
    return two(once) if once else None


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--cases", type=int, default=400)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    tried = cases(chosen.cases, chosen.seed)
    real = [case for case in tried if bites(case)]
    missed = [
        case for case in real if analyse_command(case.command, cwd="/tmp", home="/tmp").is_read_only
    ]
    for case in missed:
        print(f"MISSED {case.mutators}: {case.command!r}")
    bitten = collections.Counter(case.mutators for case in real if ", " not in case.mutators)
    toothless = sorted(
        {case.mutators for case in tried if ", " not in case.mutators} - bitten.keys()
    )
    print(f"{len(tried)} run for real, {len(real)} changed the canary, {len(missed)} not held")
    print(f"without effect here (program missing, or no rights): {', '.join(toothless)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
