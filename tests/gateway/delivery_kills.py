"""Kills a process that delivers, at random moments, until so many kills are done."""

import json
import os
import random
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from hermes.core.events.operations import NotificationQueued, NotificationSent
from hermes.memory.journal.sqlite_journal import SqliteJournal
from notice_server import NoticeServer, door
from warm_interpreter import WarmInterpreter, warm_interpreter

PROCESS = Path(__file__).with_name("outbox_process.py")
MAX_ARRIVALS = 4
"""A process is killed after at most so many messages, and a random pause."""
MAX_PAUSE_S = 0.03
MAX_LOOKS = 5_000
BATCH = 12
REPEATED = "(repeated)"


@dataclass
class KillResult:
    kills: int = 0
    messages: int = 0
    arrived: int = 0
    repeated: int = 0
    problems: list[str] = field(default_factory=list)
    """Lost, doubled without a mark, or out of order."""


def batch_of(first: int, rng: random.Random) -> list[NotificationQueued]:
    """Notifications of two incidents for a webhook, and answers for three chats, some long."""
    found = []
    for number in range(first, first + BATCH):
        if number % 2:
            found.append(
                NotificationQueued(
                    run="watch", notice=f"n{number}", about="declared", title=f"title {number}",
                    incident=f"i{number % 4}", sinks=("webhook",),
                )
            )  # fmt: skip
            continue
        words = " ".join(f"word{each}" for each in range(rng.choice((2, 2, 25))))
        found.append(
            NotificationQueued(
                run="r", notice=f"n{number}", about="reply", title="", text=f"{number}: {words}",
                to=f"chat:{number % 3}",
            )
        )  # fmt: skip
    return found


async def kill_deliveries(folder: Path, kills: int, seed: int) -> KillResult:
    rng, result, path = random.Random(seed), KillResult(), folder / "journal.db"
    with door() as server, warm_interpreter(PROCESS) as python:
        while result.kills < kills:
            async with SqliteJournal.open(path) as journal:
                await journal.append(*batch_of(result.messages, rng))
            result.messages += BATCH
            await _kill_until_done(python, path, server, rng, result, kills)
        last = python.start(str(path), server.url)
        assert await anyio.to_thread.run_sync(last.wait) == 0
    async with SqliteJournal.open(path) as journal:
        sent = [record.event async for record in journal.read(kinds=("notice.sent",))]
        queued = [record.event async for record in journal.read(kinds=("notice.queued",))]
    _judge(result, list(_whole_messages(server)), queued, sent)
    return result


async def _kill_until_done(
    python: WarmInterpreter,
    path: Path,
    server: NoticeServer,
    rng: random.Random,
    result: KillResult,
    kills: int,
) -> None:
    while result.kills < kills:
        wanted = len(server.bodies) + rng.randint(0, MAX_ARRIVALS)
        process = python.start(str(path), server.url)
        for _ in range(MAX_LOOKS):
            if len(server.bodies) >= wanted:
                break
            await anyio.sleep(0.001)
        await anyio.sleep(rng.uniform(0, MAX_PAUSE_S))
        os.kill(process.pid, signal.SIGKILL)
        if process.wait() == 0:  # it had ended by itself: everything was delivered
            return
        result.kills += 1


def _whole_messages(server: NoticeServer) -> Iterator[dict[str, Any]]:
    """Without requests of which only a part arrived before the kill."""
    for body in server.bodies:
        with suppress(json.JSONDecodeError):
            yield json.loads(body)


def _judge(
    result: KillResult, said: list[dict[str, Any]], queued: list[Any], sent: list[Any]
) -> None:
    result.arrived = len(said)
    pieces: dict[str, Counter[str]] = defaultdict(Counter)
    marked, plain = Counter[str](), Counter[str]()
    first_at: dict[str, int] = {}
    for at, each in enumerate(said):
        notice, _, piece = each["id"].partition(":")
        pieces[notice][piece] += 1
        if not piece:
            (marked if REPEATED in each["title"] else plain)[notice] += 1
        first_at.setdefault(notice, at)
    result.repeated = sum(marked.values())
    order: dict[str, int] = {}
    for event in queued:
        assert isinstance(event, NotificationQueued)
        id, lane = event.notice, event.incident or event.to
        if id not in first_at:
            result.problems.append(f"{id} was lost")
            continue
        if plain[id] > 1:
            result.problems.append(f"{id} arrived {plain[id]} times without a mark")
        most = max(pieces[id].values())
        if most > plain[id] + marked[id]:
            result.problems.append(f"a piece of {id} was repeated without a mark")
        if first_at[id] < order.get(lane, -1):
            result.problems.append(f"{id} overtook another message of {lane}")
        order[lane] = first_at[id]
    done = Counter(event.notice for event in sent if isinstance(event, NotificationSent))
    result.problems += [f"{id} was sent {count} times" for id, count in done.items() if count > 1]
