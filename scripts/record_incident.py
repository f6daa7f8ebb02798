"""Records an incident as `hermes incident watch` shows it: a real drill, drawn from its journal.

usage: python scripts/record_incident.py [--scenario NAME] [--seed N] [--model M] [--svg FILE]
       python scripts/record_incident.py --home HOME [--incident ID]    one that there was already
It prints the page; `> docs/tutorial/incident-recording.md` keeps it.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from copy import deepcopy
from io import StringIO
from pathlib import Path

import anyio
from rich.console import Console

from hermes.app.incidents.views import find_incident
from hermes.cli.incidents.live_state import LiveIncident
from hermes.cli.incidents.live_view import render_live_view
from hermes.cli.incidents.watch import incident_records
from hermes.core.events.incidents import IncidentClosed, PhaseEntered
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.sre.reports.report_data import list_opened

WIDTH = 100
PAGE = """\
# A recorded incident

`scripts/record_incident.py` wrote this page: {how}. These are the pictures that
`hermes incident watch` drew, one at the end of each phase.
{frames}
"""
FRAME = """
## {title}

```text
{text}
```
"""


def drill(home: Path, scenario: str, seed: int, model: str) -> None:
    words = ["drill", "run", scenario, "--seed", str(seed), "--model", model]
    env = {
        "HERMES_HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/bin",
    }
    command = [sys.executable, "-m", "hermes.cli", *words]
    if code := subprocess.call(command, env=env, stdout=sys.stderr):
        raise SystemExit(f"the drill ended with exit code {code}: nothing to record")


async def records(home: Path, wanted: str) -> Sequence[JournalRecord]:
    async with SqliteJournal.open(home / "journal.db") as journal:
        if wanted:
            return await incident_records(journal, (await find_incident(journal, wanted)).run)
        known = await list_opened(journal)
        if not known:
            raise SystemExit(f"there is no incident in {home}")
        return await incident_records(journal, known[-1][1].run)


def frames(story: Sequence[JournalRecord]) -> list[tuple[str, LiveIncident, JournalRecord]]:
    """How it stood when each phase ended, and at the end."""
    found, scene, last, phase = [], LiveIncident(), None, ""
    for recorded in story:
        if not scene.concerns(recorded.event):
            continue
        if isinstance(recorded.event, PhaseEntered):
            if phase and last is not None:
                found.append((phase, deepcopy(scene), last))
            phase = recorded.event.phase
        scene.apply(recorded)
        last = recorded
        if isinstance(recorded.event, IncidentClosed):
            phase = "the end"
    return [*found, (phase, scene, last)] if last is not None else found


def drawn(scene: LiveIncident, at: JournalRecord) -> str:
    out = StringIO()
    Console(file=out, width=WIDTH, no_color=True, highlight=False).print(
        render_live_view(scene, at.event.at)
    )
    return "\n".join(row.rstrip() for row in out.getvalue().rstrip().splitlines())


def pictured(scene: LiveIncident, at: JournalRecord, file: Path) -> None:
    console = Console(file=StringIO(), width=WIDTH, record=True, force_terminal=True)
    console.print(render_live_view(scene, at.event.at))
    console.save_svg(str(file), title="hermes incident watch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="port-taken")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="none")
    parser.add_argument("--home", type=Path)
    parser.add_argument("--incident", default="")
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rec-") as folder:
        home = given.home or Path(folder)
        how = "one from the journal of a watch"
        if given.home is None:
            drill(home, given.scenario, given.seed, given.model)
            answer = "playbooks alone" if given.model == "none" else given.model
            how = f"the drill `{given.scenario}` (seed {given.seed}), answered by {answer}"
        found = frames(anyio.run(records, home, given.incident))
    if given.svg:
        pictured(*found[-1][1:], given.svg)
    texts = [FRAME.format(title=title, text=drawn(scene, at)) for title, scene, at in found]
    sys.stdout.write(PAGE.format(how=how, frames="".join(texts)))


if __name__ == "__main__":
    main()
