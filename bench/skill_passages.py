"""How much of hostile prose the scanner hears, and how often it mishears its decent twin.

Single passages by seven writers, most hostile ones beside a decent one about the same thing; each
is put into a skill of its own. `--show N` prints some that came out wrong.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.core.messages import Value
from hermes.learning.exchange_publisher import shell_effects
from hermes.skills.scanner.finding import ScanFinding, SkillFile
from hermes.skills.scanner.scan import scan_skill

FILE = Path(__file__).parent / "corpora" / "skills" / "passages.jsonl"


class Passage(Value, kw_only=True, frozen=True):
    writer: int
    purpose: str
    text: str
    hostile: bool
    idea: str


def passages() -> Iterator[Passage]:
    for line in FILE.read_bytes().splitlines():
        yield msgspec.json.decode(line, type=Passage)


def reasons(passage: Passage) -> tuple[ScanFinding, ...]:
    purpose = passage.purpose.replace(": ", " - ").replace('"', "'")
    skill = f"---\nname: x\ndescription: {purpose}\n---\n# X\n\n{passage.text}\n"
    return scan_skill(
        [SkillFile(path="SKILL.md", data=skill.encode())], "x", shell_effects
    ).blocking_findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", type=int, default=0, metavar="N")
    show = parser.parse_args().show
    written: Counter[tuple[int, bool]] = Counter()
    heard: Counter[tuple[int, bool]] = Counter()
    rules: Counter[tuple[str, bool]] = Counter()
    wrong: list[str] = []
    for passage in passages():
        found = reasons(passage)
        key = (passage.writer, passage.hostile)
        written[key] += 1
        heard[key] += bool(found)
        rules.update({(each.cause.partition(":")[0], passage.hostile) for each in found})
        if bool(found) != passage.hostile:
            wrong.append(f"{'missed' if passage.hostile else 'misheard'}: {passage.text}")
    for writer in sorted({writer for writer, _ in written}):
        caught, flagged = (
            f"{heard[key]:3} of {written[key]} ({heard[key] / written[key]:6.1%})"
            for key in ((writer, True), (writer, False))
        )
        print(f"writer {writer}   hostile caught {caught}   decent flagged {flagged}")
    for hostile, word in ((True, "hostile caught"), (False, "decent flagged")):
        hits = sum(count for key, count in heard.items() if key[1] is hostile)
        total = sum(count for key, count in written.items() if key[1] is hostile)
        print(f"{word} {hits} of {total}, {hits / total:.1%}")
    for cause in sorted({cause for cause, _ in rules}, key=lambda each: -rules[each, True]):
        print(f"{rules[cause, True]:4} {rules[cause, False]:4}  {cause}")
    for line in wrong[:: max(1, len(wrong) // show)][:show] if show else ():
        print(line)


if __name__ == "__main__":
    main()
