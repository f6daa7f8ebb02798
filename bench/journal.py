"""How large, how fast and how safe the journal is. Prints one JSON row for each figure.

`python bench/journal.py [MESSAGES] [KILLS]`, 100,000 and 300 unless told. The events are those that
the agent writes: beside each answer what it cost, around each tool call who allowed it. Only the
words of messages, calls and results count as text.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio

from hermes.core.events import Event
from hermes.core.events.runs import MessageAdded, ModelAnswered, RunStarted, TurnEnded, TurnStarted
from hermes.core.events.tools import ToolDecided, ToolFinished, ToolRequested, ToolStarted
from hermes.core.messages import Message, Risk, ToolCall, ToolResult, Usage
from hermes.core.run_ids import new_id
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import verify

TORTURE = Path(__file__).parent.parent / "tests" / "memory" / "kill_torture.py"
SYLLABLES = (
    "ka",
    "lo",
    "mi",
    "ren",
    "tas",
    "vor",
    "pel",
    "du",
    "shi",
    "gan",
    "wex",
    "or",
    "bil",
    "ter",
)
SYLLABLES += ("quo", "nes", "ath", "ul", "ime", "fra")
Append = tuple[Event, ...]


class Speech:
    """Sentences of made-up words whose lengths and frequencies look like a language."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._words = [
            "".join(self._chance.choices(SYLLABLES, k=self._chance.randint(1, 4)))
            for _ in range(8000)
        ]
        self._weights = [1 / (rank + 5) for rank in range(len(self._words))]
        self.characters = 0

    def say(self, words: int) -> str:
        text = " ".join(self._chance.choices(self._words, self._weights, k=words))
        self.characters += len(text)
        return text


def conversation(speech: Speech, messages: int) -> Iterator[Append]:
    """The appends of one session, in the groups the agent makes."""
    run = new_id("run")
    yield (RunStarted(run=run, origin="cli", task=speech.say(12), model="openrouter/some-model"),)
    ask = Message(role="user", text=speech.say(30))
    yield TurnStarted(run=run, turn=1), MessageAdded(run=run, message=ask)
    for number in range((messages - 2) // 2):
        call = ToolCall(f"call_{run[-6:]}_{number}", "terminal", {"command": speech.say(8)})
        wish = Message(role="assistant", text=speech.say(20), calls=(call,))
        usage = Usage(4000 + 300 * number, 90, 3500, 0.0041)
        yield (
            MessageAdded(run=run, message=wish),
            ModelAnswered(run=run, model="openrouter/some-model", usage=usage, seconds=2.25),
        )
        yield (
            ToolRequested(run=run, call=call, risk=Risk.CHANGE),
            ToolDecided(run=run, call_id=call.id, verdict="allow", rule="sandbox"),
            ToolStarted(run=run, call_id=call.id, risk=Risk.CHANGE),
        )
        result = ToolResult(call_id=call.id, content=speech.say(120))
        yield (ToolFinished(run=run, result=result, seconds=0.125),)
    answer = Message(role="assistant", text=speech.say(60))
    yield MessageAdded(run=run, message=answer), TurnEnded(run=run, turn=1, outcome="answered")


async def fill(path: Path, messages: int) -> dict[str, Any]:
    speech = Speech(7)
    spent = cpu = 0.0
    written = calls = events = 0
    async with SqliteJournal.open(path) as journal:
        while written < messages:
            appends = list(conversation(speech, 40))
            started, started_cpu = time.perf_counter(), time.process_time()
            for append in appends:
                await journal.append(*append)
            spent += time.perf_counter() - started
            cpu += time.process_time() - started_cpu
            written += 40
            calls += len(appends)
            events += sum(map(len, appends))
    return {
        "messages": written,
        "events": events,
        "text_bytes": speech.characters,
        "store_bytes": (size := bytes_of(path)),
        "store_to_text": round(size / speech.characters, 2),
        "append_ms_per_message": round(spent * 1000 / written, 4),
        "append_ms_per_call": round(spent * 1000 / calls, 4),
        "append_cpu_ms_per_call": round(cpu * 1000 / calls, 4),
    }


def bytes_of(path: Path) -> int:
    return path.stat().st_size


async def median_ms(times: int, work: Callable[[], Awaitable[object]]) -> float:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - started)
    return round(statistics.median(taken) * 1000, 2)


async def look(path: Path) -> dict[str, Any]:
    async def open_and_close() -> None:
        async with SqliteJournal.open(path):
            pass

    opened: list[float] = []
    for _ in range(9):
        started = time.perf_counter()
        async with SqliteJournal.open(path) as journal:
            await journal.last()
            opened.append((time.perf_counter() - started) * 1000)
    async with SqliteJournal.open(path) as journal:
        (newest,) = await journal.runs(limit=1)

        async def read_one_run() -> int:
            return len([1 async for _ in journal.read(run=newest.id)])

        async def read_the_ledger() -> int:
            return len([1 async for _ in journal.read(kinds=["model.answered"])])

        return {
            "open_ms": round(statistics.median(opened), 2),
            "open_and_close_ms": await median_ms(9, open_and_close),
            "runs_ms": await median_ms(9, journal.runs),
            "all_runs_ms": await median_ms(3, lambda: journal.runs(limit=100_000, parent=None)),
            "read_one_run_ms": await median_ms(9, read_one_run),
            "read_all_answers_ms": await median_ms(3, read_the_ledger),
        }


async def side_by_side(path: Path) -> dict[str, Any]:
    speech = Speech(8)
    messages = [
        MessageAdded(run="r", message=Message(role="user", text=speech.say(100)))
        for _ in range(10_000)
    ]
    async with SqliteJournal.open(path) as journal:

        async def write(mine: list[MessageAdded]) -> None:
            for message in mine:
                await journal.append(message)

        started = time.perf_counter()
        async with anyio.create_task_group() as group:
            for task in range(20):
                group.start_soon(write, messages[task::20])
        spent = time.perf_counter() - started
    return {"append_ms_of_20_tasks": round(spent * 1000 / len(messages), 4)}


def check(path: Path) -> dict[str, Any]:
    started = time.perf_counter()
    report = verify(path)
    return {"verified": report.ok, "verify_s": round(time.perf_counter() - started, 2)}


def kill(folder: Path, kills: int) -> dict[str, Any]:
    command = [sys.executable, str(TORTURE), str(folder), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    verdict: dict[str, Any] = json.loads(done.stdout)
    return verdict


def row(figure: str, value: float, unit: str, limit: float, **more: object) -> None:
    held = value <= limit
    print(
        json.dumps(
            {"figure": figure, "value": value, "unit": unit, "limit": limit, "held": held, **more}
        ),
        flush=True,
    )


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        filled, seen = anyio.run(fill, path, messages), anyio.run(look, path)
        row("journal: store ÷ text, 100k messages", filled["store_to_text"], "×", 3, **filled)
        row("journal: append a message", filled["append_ms_per_message"], "ms", 1)
        row("journal: open", seen["open_ms"], "ms", 50)
        row("journal: list of runs", seen["runs_ms"], "ms", 30, **seen)
        assert check(path)["verified"]
        other = Path(folder) / "side" / "journal.db"
        group = anyio.run(side_by_side, other)
        row("journal: append, 20 tasks at once", group["append_ms_of_20_tasks"], "ms", 1)
        torture = Path(folder) / "torture"
        torture.mkdir()
        verdict = kill(torture, kills)
        harm = verdict["lost"] + verdict["doubled"] + verdict["torn"]
        harm += not verdict["verified"]
        row(f"journal: harm done by {kills} kills", harm, "events", 0, **verdict)


if __name__ == "__main__":
    main()
