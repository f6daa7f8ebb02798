"""The scanner of foreign skills, and the digest of a bundle.

usage: python bench/skill_scanner.py [--show] [--sandbox] [--folder DIR]
`--folder` measures skills that lie in DIR/hostile and DIR/benign, by reading alone and with the
sandbox, and names every one that came out wrong. Without it, benign ones that are stopped and
hostile ones that are not, by reading alone; --sandbox also runs the scripts of those that
reading let through. The corpora `*_blind*.txt` were written after the scanner and measured before
it was changed; docs/how-to/exchange.md says what came out then.
"""

import argparse
import random
import time
from pathlib import Path

import anyio
from msgspec.structs import replace
from skill_corpus import HERE, made, read_corpus

from hermes.environments.sandbox import SandboxEnvironment
from hermes.learning.exchange_publisher import shell_effects
from hermes.skills.exchange.bundle import compute_files_digest
from hermes.skills.scanner.finding import SkillFile, read_skill_files
from hermes.skills.scanner.scan import scan_skill
from hermes.skills.scanner.trial import run_trial

Corpus = dict[str, tuple[str, list[SkillFile]]]


def stopped(corpus: Corpus, *, sandbox: bool) -> dict[str, str]:
    """By name: what stopped it first."""
    found: dict[str, str] = {}
    for name, (_, entries) in corpus.items():
        reasons = [str(each) for each in scan_skill(entries, name, shell_effects).blocking_findings]
        if not reasons and sandbox:
            tried = anyio.run(run_trial, entries, lambda given: SandboxEnvironment(None, given))
            reasons = [str(each) for each in tried if each.blocks]
        if reasons:
            found[name] = reasons[0]
    return found


def measure_folder(folder: Path) -> None:
    for kind in ("hostile", "benign"):
        corpus: Corpus = {
            str(file.parent.relative_to(folder / kind)): (kind, read_skill_files(file.parent))
            for file in sorted((folder / kind).rglob("SKILL.md"))
            if not any((above / "SKILL.md").exists() for above in file.parent.parents)
        }
        word = "stopped" if kind == "hostile" else "blocked"
        for sandbox in (False, True):
            started = time.perf_counter()
            found = stopped(corpus, sandbox=sandbox)
            each = 1000 * (time.perf_counter() - started) / max(1, len(corpus))
            share = 100 * len(found) / max(1, len(corpus))
            way = "reading and sandbox" if sandbox else "reading alone"
            print(
                f"{kind} {word} by {way}: {len(found)} of {len(corpus)}, {share:.1f} %, "
                f"{each:.0f} ms each"
            )
            odd = {n: "" for n in corpus if n not in found} if kind == "hostile" else found
            print("".join(f"    {name}  {why}\n" for name, why in odd.items()), end="")


def unchanged_digests(changes: int = 10_000) -> int:
    chance = random.Random(10)
    start = [
        SkillFile(path=f"f{n}", data=chance.randbytes(40), executable=n % 2 == 0) for n in range(6)
    ]
    known, same = compute_files_digest(start), 0
    for _ in range(changes):
        at, way = chance.randrange(6), chance.randrange(4)
        one, files = start[at], list(start)
        if way == 0:
            files[at] = replace(one, path=one.path + chance.choice("abc/"))
        elif way == 1:
            files[at] = replace(one, executable=not one.executable)
        elif way == 2:
            spot = chance.randrange(40)
            flipped = bytes([one.data[spot] ^ 1 << chance.randrange(8)])
            files[at] = replace(one, data=one.data[:spot] + flipped + one.data[spot + 1 :])
        else:
            other = (at + 1 + chance.randrange(5)) % 6
            files[at] = replace(one, data=start[other].data)
            files[other] = replace(start[other], data=one.data)
        same += compute_files_digest(files) == known
    return same


def _corpora() -> list[Path]:
    """Those of one hand beside each other, in the order in which they were written."""

    def hand(file: Path) -> int:
        _, blind, number = file.stem.partition("_blind")
        return int(number.strip("_") or 1) if blind else 0

    return sorted(HERE.glob("*.txt"), key=lambda file: (hand(file), file.stem))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--sandbox", action="store_true")
    parser.add_argument("--folder", type=Path, help="a folder with hostile/ and benign/ in it")
    options = parser.parse_args()
    if options.folder is not None:
        measure_folder(options.folder)
        return
    sets = {file.stem.replace("_", " "): read_corpus(file.name) for file in _corpora()}
    sets["hostile archives"] = made()
    for title, corpus in sets.items():
        started = time.perf_counter()
        found = stopped(corpus, sandbox=options.sandbox)
        each = 1000 * (time.perf_counter() - started) / len(corpus)
        share = 100 * len(found) / len(corpus)
        counted = f"{len(found):3} of {len(corpus):3} stopped, {share:5.1f} %"
        print(f"{title:18} {counted}, {each:.0f} ms each")
        if options.show:
            odd = found if title.startswith("benign") else {n: "" for n in corpus if n not in found}
            print("".join(f"    {name}  {why}\n" for name, why in odd.items()), end="")
    print(f"{'digest':18} {unchanged_digests()} of 10,000 random changes left it as it was")


if __name__ == "__main__":
    main()
