"""Kills a gateway at random points of receiving, turns, sending and presses, until all is done."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from gateway_victim import victim_settings

from hermes.core.notifications import REPEATED_SUFFIX
from hermes.memory.store import open_journal, store_exists

MESSAGES = 6
KEYS = [str(number) for number in range(1, MESSAGES + 1)]
TURNS = [f"telegram:{key}" for key in KEYS]


def write_script(folder: Path, answered: int, *, press: bool) -> None:
    """The replies that are still to come: each message runs a command, then is answered."""
    replies: list[dict[str, Any]] = []
    for number in range(1, MESSAGES + 1):
        asks = "$UNKNOWN true; " if press else ""
        arguments = {"command": f"{asks}echo {number} >> world"}
        call = {"id": f"c{number}", "name": "terminal", "arguments": arguments}
        replies += [{"role": "assistant", "calls": [call]}, {"text": f"answer {number}"}]
    lines = [json.dumps(reply) + "\n" for reply in replies[answered:]]
    (folder / "script.jsonl").write_text("".join(lines))


async def read_events(folder: Path) -> list[Any]:
    loaded = victim_settings(folder)
    if not store_exists(loaded.store):
        return []
    async with open_journal(loaded.store, or_read_only=True) as journal:
        return [recorded.event async for recorded in journal.read()]


def answers(events: list[Any]) -> int:
    return sum(e.kind == "message.added" and e.message.role == "assistant" for e in events)


def is_finished(events: list[Any]) -> bool:
    handled = {key for event in events if event.kind == "chat.handled" for key in event.keys}
    sent = sum(event.kind == "notice.sent" for event in events)
    queued = sum(event.kind == "notice.queued" for event in events)
    return handled.issuperset(TURNS) and sent >= queued


def start_gateway(folder: Path, *, press: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(Path(__file__).parent / "gateway_victim.py"), str(folder)]
    options = ["--press"] if press else []
    with (folder / "output").open("ab") as output:
        return subprocess.Popen([*command, str(MESSAGES), *options], stdout=output, stderr=output)


async def run_until(folder: Path, enough: int | None, *, press: bool) -> None:
    """Start the gateway; kill it when the journal has so many events, or when it is done."""
    process = start_gateway(folder, press=press)
    try:
        with anyio.fail_after(120):
            while True:
                assert process.poll() is None, (folder / "output").read_text()
                events = await read_events(folder)
                if is_finished(events) or (enough is not None and len(events) >= enough):
                    return
                await anyio.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


async def kill_gateway(folder: Path, max_kills: int, seed: int, *, press: bool = False) -> int:
    """The number of kills. Raises `AssertionError` when something is lost or done twice.

    With `press` each command runs only after a person has pressed the button of its question.
    """
    draw, kills = random.Random(seed), 0
    while kills < max_kills and not is_finished(events := await read_events(folder)):
        write_script(folder, answers(events), press=press)
        await run_until(folder, len(events) + draw.randint(1, 14), press=press)
        kills += 1
    write_script(folder, answers(await read_events(folder)), press=press)
    await run_until(folder, None, press=press)
    events = await read_events(folder)
    check_nothing_lost(folder, events)
    if press:
        check_presses(folder, events)
    return kills


def check_nothing_lost(folder: Path, events: list[Any]) -> None:
    received = [event.message.key for event in events if event.kind == "chat.received"]
    turns = [e.message.key for e in events if e.kind == "message.added" and e.message.key]
    handled = [key for event in events if event.kind == "chat.handled" for key in event.keys]
    assert [key for key in received if key in KEYS] == KEYS
    assert len(set(received)) == len(received)
    assert turns == TURNS
    assert [key for key in handled if key in TURNS] == TURNS
    world = (folder / "world").read_text().split()
    assert len(world) == len(set(world))
    started = [event.call_id for event in events if event.kind == "tool.started"]
    assert len(started) == len(set(started))
    sent = [json.loads(line) for line in (folder / "sent.jsonl").read_text().splitlines()]
    first = [each for each in sent if REPEATED_SUFFIX.strip() not in each["text"]]
    # Killed before its first sending, a message is only ever sent as one that may be a repetition.
    assert len({each["key"] for each in first}) == len(first)
    replies = {e.notice for e in events if e.kind == "notice.queued" and e.notice[:6] == "reply-"}
    assert len(replies) == MESSAGES
    assert replies <= {each["key"] for each in sent}


def check_presses(folder: Path, events: list[Any]) -> None:
    """Each press settled one question, and no command ran without one."""
    pressed = {e.message.pressed for e in events if e.kind == "chat.received" if e.message.pressed}
    answered = [event.approval for event in events if event.kind == "approval.answered"]
    assert len(answered) == len(set(answered))
    assert set(answered) <= {press.partition(":")[2] for press in pressed}
    world = (folder / "world").read_text().split()
    assert len(world) <= len(answered)
