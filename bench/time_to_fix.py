"""From detection to the fix applied: read from the journal of drills, or of a watch.

usage: python bench/time_to_fix.py HOME        e.g. after `hermes drill bench --agent none`
Counted from `incident.opened` to the end of the last change of the attempt that held.
"""

import statistics
import sys
from pathlib import Path

import anyio

from hermes.core.events.incidents import ChangeBegan, IncidentOpened, IncidentVerified
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.tools import ToolFinished
from hermes.memory.opening import open_journal
from hermes.settings.load import load

KINDS = (
    "incident.opened",
    "change.began",
    "incident.verified",
    "tool.finished",
    "model.answered",
)


async def measure(home: Path) -> dict[str, tuple[float, float, int]]:
    """By run: seconds to the first change begun, to the last one done, and model calls."""
    opened: dict[str, IncidentOpened] = {}
    changes: dict[str, list[ChangeBegan]] = {}
    ended: dict[str, ToolFinished] = {}
    held: dict[str, int] = {}
    calls: dict[str, int] = {}
    async with open_journal(load(home=home).store) as journal:
        async for recorded in journal.read(kinds=KINDS):
            event = recorded.event
            run = event.run.partition("/")[0]
            match event:
                case IncidentOpened():
                    opened[run] = event
                case ChangeBegan():
                    changes.setdefault(run, []).append(event)
                case ToolFinished():
                    ended[event.result.call_id] = event
                case IncidentVerified() if event.ok and event.by != "oracle":
                    held[run] = event.attempt
                case ModelAnswered():
                    calls[run] = calls.get(run, 0) + 1
    found = {}
    for run, attempt in held.items():
        made = [each for each in changes.get(run, []) if each.attempt <= attempt]
        done = [ended[each.call_id].at for each in made if each.call_id in ended]
        if run in opened and done:
            began = opened[run].at
            first = (made[0].at - began).total_seconds()
            found[run] = (first, (max(done) - began).total_seconds(), calls.get(run, 0))
    return found


def main() -> int:
    found = anyio.run(measure, Path(sys.argv[1]))
    if not found:
        print("no incident of this home was mended")
        return 1
    firsts, lasts, calls = zip(*found.values(), strict=True)
    print(f"{len(found)} incidents mended, {sum(calls)} model calls")
    print(f"first change after {statistics.median(firsts):.2f} s (median)")
    print(
        f"fix applied after {statistics.median(lasts):.2f} s (median), {max(lasts):.1f} s (longest)"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
