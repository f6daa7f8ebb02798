"""Facts before guesses: fixed looks at a host, side by side, each with the number of its event."""

import re
from collections.abc import Iterable, Sequence

import anyio

from hermes.agent.means import Means
from hermes.core.errors import HermesError
from hermes.core.events.tools import ToolFinished
from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, ToolResult, Value
from hermes.core.protocols import ToolContext
from hermes.policy.data_marks import as_data
from hermes.sre.agents.collectors import Collector
from hermes.sre.agents.settings import CrewSettings
from hermes.tools.executor import Executor

TOOL = "terminal"
GRACE = 2.0
"""Seconds for the place itself to end a command that ran out of time."""


NOTHING = re.compile(r"\A\s*\[(no output|exit \d+ · [\d.]+ s|[\d.]+ s)\]\s*\Z")


class Fact(Value, kw_only=True, frozen=True):
    layer: str
    name: str
    command: str
    output: str
    seq: int = 0
    """Of the event with its result: what evidence points at."""


async def collect(
    wanted: Sequence[Collector], means: Means, executor: Executor, run: str, settings: CrewSettings
) -> tuple[Fact, ...]:
    """In their order; one that is refused, fails or hangs leaves a gap and nothing else."""
    seats = anyio.Semaphore(max(1, settings.facts_at_once))
    found: dict[int, tuple[ToolCall, ToolResult]] = {}
    lost: list[HermesError] = []

    async def one(number: int, collector: Collector) -> None:
        patience = settings.facts_seconds
        given = {"command": collector.command, "timeout": patience}
        call = ToolCall(new_id("fact"), TOOL, given)
        async with seats:
            try:
                with anyio.move_on_after(patience + GRACE):
                    found[number] = call, await executor.execute(call, _context(means, run))
            except HermesError as error:  # of the store: raised bare, not as a group of one
                lost.append(error)

    async with anyio.create_task_group() as group:
        for number, collector in enumerate(wanted):
            group.start_soon(one, number, collector)
    if lost:
        raise lost[0]
    numbers = await _numbers(means, run)
    kept = [
        await _fact(wanted[at], *found[at], means, run, settings.shown_each, numbers)
        for at in sorted(found)
        if found[at][1].status == "ok"
    ]
    return tuple(fact for fact in kept if fact.output)


def shown(facts: Iterable[Fact], room: int, key: str) -> str:
    """As a model sees them, between marks: what has no room is left out, and named."""
    parts, missing = list[str](), list[str]()
    for fact in facts:
        told = f"#{fact.seq} {fact.name}\n$ {fact.command}\n"
        told += as_data(fact.output, fact.name, key)
        if len(told) > room:
            missing.append(f"#{fact.seq} {fact.name}")
            continue
        room -= len(told)
        parts.append(told)
    if missing:
        parts.append(f"No room here for: {', '.join(missing)}")
    return "\n\n".join(parts)


def cut(text: str, most: int) -> str:
    """Its head and its tail: lists tell most at their head, logs at their tail."""
    if len(text) <= most:
        return text
    head, tail = most // 2, most - most // 2
    return f"{text[:head]}\n[… {len(text) - most:,} characters left out …]\n{text[-tail:]}"


async def _fact(
    collector: Collector,
    call: ToolCall,
    result: ToolResult,
    means: Means,
    run: str,
    most: int,
    numbers: dict[str, int],
) -> Fact:
    text = NOTHING.sub("", result.content).rstrip()
    if len(text) > most:
        kept = result.artifact or await means.artifacts.save(run, call.id, text)
        text = f"{cut(text, most)}\n[the whole is {kept}]"
    return Fact(
        layer=collector.layer,
        name=collector.name,
        command=collector.command if len(collector.command) <= 120 else "(a fixed look)",
        output=text,
        seq=numbers.get(call.id, 0),
    )


async def _numbers(means: Means, run: str) -> dict[str, int]:
    return {
        recorded.event.result.call_id: recorded.seq
        async for recorded in means.bus.journal.read(run=run, kinds=("tool.finished",))
        if isinstance(recorded.event, ToolFinished)
    }


def _context(means: Means, run: str) -> ToolContext:
    async def call(inner: ToolCall) -> ToolResult:
        return ToolResult(call_id=inner.id, status="error", content="a look calls no other tool")

    return ToolContext(
        run, means.environment, means.bus.publish, call, means.artifacts, origin=means.origin
    )
