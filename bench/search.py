"""How fast and how large search and recall are. Prints one JSON row for each figure.

`python bench/search.py [MESSAGES]`, 100,000 unless told; from 1,000,000 on the limits are three
times as wide. Every message says `everywhere` in nine of ten cases, and two of a thousand tell of
`quartz` beside `marble`: a term in 90 % of the rows, and two terms.
"""

import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from journal import Speech, bytes_of, row

from hermes.app.journal.search import JournalSearch, index_path
from hermes.core.knowledge import SessionQuery
from hermes.memory.journal.session_import import import_lines
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.search.line_search import search_lines
from hermes.memory.search.session_search import SessionSearch
from hermes.settings.load import load

QUERIES = {
    "two terms": ("quartz marble", 5.0),
    "a term in 90 % of the rows": ("everywhere", 40.0),
    "a phrase": ('"quartz and marble"', 5.0),
    "a rare term among common ones": ("everywhere needle777", 5.0),
}
QUESTIONS = (
    "where did the quartz and the marble come from?",
    "what was said about needle777 everywhere?",
)
RECALL_MS = 60.0


class Talk:
    """Messages of about 570 characters, twenty a session, as lines of an import."""

    def __init__(self, messages: int) -> None:
        self.characters = 0
        self._messages = messages
        self._speech = Speech(11)
        self._chance = random.Random(12)
        self._pool = [self._speech.say(count) for count in (20, 20, 60, 120, 120) * 2000]

    def lines(self) -> Iterator[bytes]:
        for number in range(self._messages):
            # Two pieces out of ten thousand, put together: cheaper to make than words one by one.
            words = [self._chance.choice(self._pool), *self._extra(number)]
            text = " ".join(words)
            self.characters += len(text)
            line = {
                "id": f"m{number}",
                "session": f"s{number // 20}",
                "speaker": ("user", "assistant")[number % 2],
                "text": text,
                "at": 1_700_000_000 + 20 * number,
            }
            yield json.dumps(line).encode()

    def _extra(self, number: int) -> Iterator[str]:
        if number % 10:
            yield "everywhere"
        if number % 500 == 7:
            yield "the quartz and marble of it"
        if number % 7919 == 777:
            yield f"needle{number % 1000}"


async def fill(path: Path, talk: Talk) -> float:
    started = time.perf_counter()
    async with SqliteJournal.open(path) as journal:
        await import_lines(journal, talk.lines())
    return time.perf_counter() - started


def index(path: Path) -> float:
    past = SessionSearch(path, index_path(path))
    started = time.perf_counter()
    past.ask_blocking(lambda _: None)
    past.close()
    return time.perf_counter() - started


def median_ms(work: Callable[[], object], times: int = 15) -> float:
    work()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return round(statistics.median(taken) * 1000, 2)


def queries(path: Path, widened: float) -> None:
    past = SessionSearch(path, index_path(path))
    for name, (words, limit) in QUERIES.items():
        ask = partial(past.ask_blocking, partial(search_lines, wanted=SessionQuery(words=words)))
        hits = len(ask().hits)
        row(f"search: {name}", median_ms(ask), "ms", limit * widened, words=words, hits=hits)
    past.close()


async def recalls(home: Path) -> float:
    past = JournalSearch(load(home=home))
    taken: list[float] = []
    for number in range(16):
        started = time.perf_counter()
        await past.recall(QUESTIONS[number % len(QUESTIONS)])
        taken.append(time.perf_counter() - started)
    past.close()
    return round(statistics.median(taken[2:]) * 1000, 2)


async def opening(path: Path) -> float:
    started = time.perf_counter()
    async with SqliteJournal.open(path) as journal:
        await journal.last()
        spent = time.perf_counter() - started
    return round(spent * 1000, 2)


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    widened = 3.0 if messages >= 1_000_000 else 1.0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        path, talk = home / "journal.db", Talk(messages)
        importing = anyio.run(fill, path, talk)
        indexing = index(path)
        facts: dict[str, Any] = {
            "messages": messages,
            "text_bytes": talk.characters,
            "journal_bytes": bytes_of(path),
            "index_bytes": bytes_of(index_path(path)),
            "imported_per_s": round(messages / importing),
            "indexed_per_s": round(messages / indexing),
        }
        size = (facts["journal_bytes"] + facts["index_bytes"]) / talk.characters
        row(f"search: index and store ÷ text, {messages:,}", round(size, 2), "×", 3, **facts)
        row("import: a message", round(importing * 1000 / messages, 4), "ms", 0.1)
        row("search: open a home", anyio.run(opening, path), "ms", 100)
        queries(path, widened)
        row("recall: a question, text only", anyio.run(recalls, home), "ms", RECALL_MS * widened)


if __name__ == "__main__":
    main()
