"""Records root cause analysis by experiment: a page with the live view, and a picture.

usage: python scripts/record_experiment.py [--home HOME]
It plays the third act of the demo (or reads the journal of HOME) and writes
docs/tutorial/experiment-recording.md and docs/explanation/experiment.svg.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

import anyio
from record_incident import drawn, frames, records

from hermes.core.events.experiments import ExperimentRan, ExperimentsEnded, ExperimentsStarted
from hermes.core.protocols import JournalRecord
from hermes.sre.reports.experiments import experiment_phase

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE_FILE = DOCS / "tutorial/experiment-recording.md"
PICTURE_FILE = DOCS / "explanation/experiment.svg"
PAGE = """\
# A recorded root cause

`scripts/record_experiment.py` wrote this page: the third act of `hermes demo`. A person made eight
edits in five files, and one of them broke a service. No playbook describes the fault, and no model
is used. These are the pictures that `hermes incident watch` drew, one at the end of each phase. How
it works: [root causes by experiment](../explanation/experiments.md).
{frames}
"""
FRAME = """
## {title}

```text
{text}
```
"""
LEFT, TOP, COLUMN, ROW = 118, 92, 118, 34
"""Pixels: margins, and the size of a cell."""
OUTCOMES = {"fails": ("✗ fails", "#c0392b"), "passes": ("✓ passes", "#1e8449")}
STYLE = (
    "text{font:13px sans-serif;fill:#222}.s{font-size:11px;fill:#555}.t{font-weight:bold}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.s{fill:#aaa}}"
)


def play_demo(home: Path) -> None:
    env = {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/bin"}
    words = ["demo", "--act", "3", "--plain", "--keep", str(home)]
    command = [sys.executable, "-m", "hermes.cli", *words]
    if code := subprocess.call(command, env=env, stdout=sys.stderr):
        raise SystemExit(f"the demo ended with exit code {code}: nothing to record")


def in_force(event: ExperimentRan, suspect: str) -> str:
    """What of this change is in force on the copy: all, nothing, or some lines."""
    kept = [each for each in event.kept if each.partition(" (line")[0] == suspect]
    gone = [each for each in event.reverted if each.partition(" (line")[0] == suspect]
    if event.purpose == "reproduce":
        return "all"
    if event.purpose == "keep-only":
        return "nothing" if not kept else kept[0][len(suspect) :].strip(" ()") or "all"
    if not gone:
        return "all"
    lines = gone[0][len(suspect) :].strip(" ()")
    return f"not {lines}" if lines else "nothing"


def draw(story: Sequence[JournalRecord]) -> str:
    """A row for each copy of the host, a column for each change."""
    events = [each.event for each in story]
    started = next(each for each in events if isinstance(each, ExperimentsStarted))
    ended = next(each for each in events if isinstance(each, ExperimentsEnded))
    rows = [each for each in events if isinstance(each, ExperimentRan)]
    width = LEFT + COLUMN * len(started.suspects) + 130
    height = TOP + ROW * len(rows) + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(ended.causes[0])} is the cause, by experiment</title>",
        f"<style>{STYLE}</style>",
        '<text x="10" y="22" class="t">Each row is a fresh copy of the host; filled: the change is'
        " in force there</text>",
    ]
    for column, suspect in enumerate(started.suspects):
        folder, _, name = suspect.removeprefix("file ").rpartition("/")
        x = LEFT + COLUMN * column + 6
        parts.append(f'<text x="{x}" y="60" class="s">{escape(folder)}/</text>')
        parts.append(f'<text x="{x}" y="76" class="t">{escape(name)}</text>')
    for number, event in enumerate(rows):
        parts += draw_row(event, started.suspects, TOP + ROW * number)
    cause = f"cause: {', '.join(ended.causes)}; changed by {ended.author}"
    seconds = f"{ended.experiments} experiments, {ended.seconds:.1f} s"
    parts.append(
        f'<text x="10" y="{height - 18}" class="t">{escape(cause)} ({seconds})</text></svg>'
    )
    return "\n".join([*parts, ""])


def draw_row(event: ExperimentRan, suspects: Sequence[str], top: int) -> list[str]:
    text, color = OUTCOMES.get(event.outcome, ("? unclear", "#b7950b"))
    middle = top + 20
    parts = [f'<text x="10" y="{middle}">{event.number}. {experiment_phase(event)}</text>']
    for column, suspect in enumerate(suspects):
        force, x = in_force(event, suspect), LEFT + COLUMN * column + 4
        fill = "none" if force == "nothing" else color
        opacity = ' fill-opacity="0.35"' if force not in ("all", "nothing") else ""
        parts.append(
            f'<rect x="{x}" y="{top + 3}" width="{COLUMN - 8}" height="{ROW - 8}" rx="4"'
            f' fill="{fill}"{opacity} stroke="{color}"/>'
        )
        if opacity:
            parts.append(f'<text x="{x + 8}" y="{middle}" class="s">{escape(force)}</text>')
    x = LEFT + COLUMN * len(suspects) + 10
    parts.append(
        f'<text x="{x}" y="{middle}" style="fill:{color}">{text}, {event.seconds:.1f} s</text>'
    )
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rec-") as folder:
        home = given.home or Path(folder)
        if given.home is None:
            play_demo(home)
        story = anyio.run(records, home, "")
    texts = [FRAME.format(title=title, text=drawn(scene, at)) for title, scene, at in frames(story)]
    PAGE_FILE.write_text(PAGE.format(frames="".join(texts)))
    PICTURE_FILE.write_text(draw(story))


if __name__ == "__main__":
    main()
