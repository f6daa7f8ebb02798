"""What chats cost: memory over many turns, how soon a chat reacts, and an idle gateway.

`python bench/chats.py turns [--chats 500] [--turns 10000]` runs a gateway in this process. People
write through a channel in memory, the model is a server on this host that answers at once, and each
turn calls a tool. The time is not virtual: the journal works in threads and writes wall-clock time,
so a clock that jumps would cut off its work. What a day does is forced instead: a session is closed
after `--idle-close` seconds and opened from the journal for the next message of its chat, as it is
when a chat writes 20 times a day.

`python bench/chats.py latency [--messages 40] [--presses 10]` drives a gateway by the real library
against the strict stand-in of Telegram: from a message to typing, which comes after the journal has
the message, and from a press to the time that the approved command prints.

`python bench/chats.py idle [--seconds 60]` starts all channels against their stand-ins, as a
gateway and as `hermes up`, and shows memory and CPU; then what is imported and connected where
other channels, or none, are configured.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from idle_channels import measure_idle
from idle_watch import MemorySample, children

from hermes.app import open_application
from hermes.app.channels.gateway import keep_gateway, open_gateway_parts, serve_channel
from hermes.core.channels import Address, InboundMessage
from hermes.gateway.chat_transport import ChatTransport
from hermes.gateway.manifest import ChannelLimits
from hermes.gateway.settings import TelegramSettings
from hermes.plumbing.long_running import limit_heap
from hermes.settings.load import LoadedSettings, load

BENCH = Path(__file__).resolve().parent
TESTS = BENCH.parent / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "app" / "chats")]

from chat_setup import runs, says  # noqa: E402 - the path is set above

from standins.telegram import PERSON, TOKEN, TelegramStandin  # noqa: E402

MAX_GROWTH_MB, MAX_MORE_DESCRIPTORS = 20.0, 20
MAX_TYPING_S, MAX_START_S = 0.3, 1.0
AT_ONCE = 8
WARM_UP_TURNS = 50


# Memory over many turns.


class CountingChannel:
    """A chat platform in memory that keeps nothing of what was sent."""

    name = "telegram"
    typing_interval_s = 4.0

    def __init__(self) -> None:
        self.answered = 0
        self._send, self._receive = anyio.create_memory_object_stream[Any](AT_ONCE)
        self.places, self.sent = anyio.Semaphore(AT_ONCE), anyio.Event()

    async def __aenter__(self) -> "CountingChannel":
        return self

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def write(self, number: int, person: int) -> None:
        await self.places.acquire()
        message = InboundMessage(
            key=str(number),
            address=Address(self.name, str(person)),
            sender=str(person),
            text=f"How is the backup of host {number}?",
            reference=str(number),
            direct=True,
        )
        await self._send.send(message)

    async def listen(self) -> AsyncIterator[Any]:
        async for message in self._receive:
            yield message

    async def send(self, message: Any) -> str:
        self.answered += 1
        self.places.release()
        self.sent.set()
        self.sent = anyio.Event()
        return str(message.key)

    async def show_typing(self, to: object) -> None: ...


@contextmanager
def instant_model() -> Iterator[dict[str, str]]:
    """Settings for a model that calls one tool in each turn and then answers."""
    argv = [sys.executable, str(BENCH / "server.py"), "--turns", "1", "--tool", "read_file"]
    argv += ["--arguments", '{"path": "note"}', "--final", "The backup is well."]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        port = child.stdout.readline().strip()
        try:
            yield {
                "model.default": "bench:bench",
                "model.providers.bench.base_url": f"http://127.0.0.1:{port}/v1",
                "model.providers.bench.dialect": "openai",
                "model.providers.bench.key_variable": "none",
            }
        finally:
            child.terminate()


def resident_mb() -> float:
    """Memory of this process. Not only what it shares with no other: how much of a library that is
    depends on the other processes of the machine."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def helper_processes() -> tuple[int, float]:
    """The processes that sessions use, without the model, and their memory in MB."""
    found = [int(pid) for pid in children(os.getpid())]
    found = [pid for pid in found if b"server.py" not in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return len(found), sum(MemorySample(pid).unshared for pid in found)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def take_turns(folder: Path, chosen: argparse.Namespace, model: Mapping[str, str]) -> bool:
    (folder / "note").write_text("all backups are well")
    loaded = load(
        home=folder / "home",
        variables={"PATH": os.environ["PATH"]},
        overrides={
            **model,
            "memory.learn_with_model": "false",
            "channels.talk.cwd": str(folder),
            "channels.talk.busy": "queue",
            "channels.talk.max_messages_per_minute": "100000",
        },
    )
    channel, people = CountingChannel(), tuple(range(1, chosen.chats + 1))
    began, first = time.monotonic(), (0.0, 0)
    async with open_application(loaded, origin="chat", directory=folder) as application:
        parts = open_gateway_parts(application)
        parts.context.idle_close_s = chosen.idle_close
        transport = ChatTransport(channel, ChannelLimits(), folder=folder / "outbox")
        async with anyio.create_task_group() as group, parts.outbox.serving(transport):
            await group.start(parts.outbox.run)
            await group.start(parts.chats.run)
            settings = TelegramSettings(allowed_users=people)
            group.start_soon(serve_channel, parts, channel, settings)
            for number in range(chosen.turns):
                # The warm-up is the traffic of few chats, so that state of each chat is counted.
                chats = 5 if number < WARM_UP_TURNS else chosen.chats
                await channel.write(number, people[number % chats])
                if number + 1 == WARM_UP_TURNS:
                    await settle(channel, number + 1, chosen.idle_close)
                    first = resident_mb() + helper_processes()[1], descriptors()
                elif (number + 1) % max(chosen.turns // 10, 1) == 0:
                    show_turns(number + 1, began, first)
            await settle(channel, chosen.turns, chosen.idle_close)
            growth, more = show_turns(chosen.turns, began, first)
            turns = [1 async for _ in application.journal.read(kinds=("turn.ended",))]
            assert len(turns) == chosen.turns, f"{len(turns)} turns in the journal"
            group.cancel_scope.cancel()
    print(
        f"{chosen.chats} chats, {chosen.turns} turns, idle sessions closed: {growth:+.1f} MB (at "
        f"most {MAX_GROWTH_MB:g}), {more:+d} descriptors (at most {MAX_MORE_DESCRIPTORS})"
    )
    return growth <= MAX_GROWTH_MB and more <= MAX_MORE_DESCRIPTORS


async def settle(channel: CountingChannel, turns: int, idle_close_s: float) -> None:
    """Until all are answered and the sessions are closed."""
    while channel.answered < turns:
        await channel.sent.wait()
    await anyio.sleep(2 * idle_close_s)


def show_turns(turns: int, began: float, first: tuple[float, int]) -> tuple[float, int]:
    """The growth in MB, with the processes of sessions, and in descriptors."""
    now, opened = resident_mb(), descriptors()
    helpers, helpers_mb = helper_processes()
    growth, more = now + helpers_mb - first[0], opened - first[1]
    print(
        f"  {turns:6} turns, {time.monotonic() - began:5.0f} s: {now:.1f} MB and {helpers} helpers "
        f"with {helpers_mb:.1f} MB ({growth:+.1f}), {opened} descriptors ({more:+d}), "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return growth, more


def measure_turns(chosen: argparse.Namespace) -> bool:
    limit_heap()
    with tempfile.TemporaryDirectory() as folder, instant_model() as model:
        return anyio.run(take_turns, Path(folder), chosen, model)


# How soon a chat reacts.


def telegram_settings(folder: Path, url: str, replies: list[dict[str, Any]]) -> LoadedSettings:
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    (home / "config.yaml").write_text(f"people: {{alice: {{telegram: {PERSON['id']}}}}}\n")
    script = folder / "script.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return load(
        home=home,
        variables={"PATH": os.environ["PATH"], "TELEGRAM_BOT_TOKEN": TOKEN},
        overrides={
            "model.default": f"scripted:{script}",
            "memory.learn_with_model": "false",
            "channels.talk.cwd": str(work),
            "channels.talk.max_messages_per_minute": "100000",
            "channels.telegram.base_url": url,
        },
    )


class TimedTelegram(TelegramStandin):
    """It notes the first typing indicator that it receives."""

    typed_at = 0.0

    async def _sendChatAction(self, *args: Any, **more: Any) -> bool:  # noqa: N802
        self.typed_at = self.typed_at or time.time()
        self.changed()
        return await super()._sendChatAction(*args, **more)

    def _keep(self, *args: Any, **more: Any) -> dict[str, Any]:
        self.changed()
        return super()._keep(*args, **more)

    async def until_shown(self, text: str) -> Any:
        while not (found := [each for each in self.shown() if text in each.text]):
            await self.wait_for_change()
        return found[0]


async def measure_reactions(folder: Path, messages: int, presses: int) -> bool:
    replies = [says(f"answer {number}.") for number in range(messages)]
    for number in range(presses):
        replies += [runs(f"$NONE true; date +%s.%N > at-{number}"), says(f"done {number}.")]
    platform = TimedTelegram()
    typing, started = list[float](), list[float]()
    async with platform.serving(), anyio.create_task_group() as group:
        loaded = telegram_settings(folder, platform.url, replies)
        group.start_soon(keep_gateway, loaded, "", lambda text: None)
        await platform.receiving()
        for number in range(messages):
            platform.typed_at, sent = 0.0, time.time()
            await platform.write(f"message {number}")
            await platform.until_shown(f"answer {number}.")
            typing.append(platform.typed_at - sent)
        for number in range(presses):
            await platform.write(f"do {number}")
            question = await platform.until_shown(f"at-{number}")
            while not question.buttons:  # the line of progress shows the command as well
                await platform.wait_for_change()
                question = next(
                    (
                        each
                        for each in platform.shown()
                        if f"at-{number}" in each.text and each.buttons
                    ),
                    question,
                )
            data = next(data for row in question.buttons for _, data in row if "once:" in data)
            sent = time.time()
            await platform.press(question.reference, data)
            await platform.until_shown(f"done {number}.")
            started.append(float((folder / "work" / f"at-{number}").read_text()) - sent)
        group.cancel_scope.cancel()
    first, *later = typing
    print(f"load {os.getloadavg()[0]:.1f}; the stand-in runs in the same process")
    print(f"  first message of the process to typing: {first:.3f} s")
    held = show_times("message to typing", later, MAX_TYPING_S)
    return show_times("press to the start of its command", started, MAX_START_S) and held


def show_times(what: str, seconds: list[float], limit_s: float) -> bool:
    p95 = statistics.quantiles(seconds, n=20, method="inclusive")[-1]
    print(
        f"  {what}, {len(seconds)} times: median {statistics.median(seconds):.3f} s, "
        f"p95 {p95:.3f} s, longest {max(seconds):.3f} s (at most {limit_s:g})"
    )
    return p95 <= limit_s


def measure_latency(chosen: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(measure_reactions, Path(folder), chosen.messages, chosen.presses)


def measure_idle_channels(chosen: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(measure_idle, Path(folder), chosen.seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True)
    turns = commands.add_parser("turns", help="memory over many turns")
    turns.add_argument("--chats", type=int, default=500)
    turns.add_argument("--turns", type=int, default=10_000)
    turns.add_argument("--idle-close", type=float, default=10.0)
    turns.set_defaults(measure=measure_turns)
    latency = commands.add_parser("latency", help="how soon a chat reacts")
    latency.add_argument("--messages", type=int, default=40)
    latency.add_argument("--presses", type=int, default=10)
    latency.set_defaults(measure=measure_latency)
    idle = commands.add_parser("idle", help="an idle gateway")
    idle.add_argument("--seconds", type=float, default=60.0)
    idle.set_defaults(measure=measure_idle_channels)
    chosen = parser.parse_args()
    return 0 if chosen.measure(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
