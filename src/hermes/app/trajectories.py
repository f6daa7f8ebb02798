"""Runs of a home as examples: read from its journal, cleaned of secrets, tools described."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.app.equipment import equip
from hermes.app.veil import Veil
from hermes.core.errors import HermesError
from hermes.core.events.runs import RunStarted
from hermes.core.messages import ToolSpec
from hermes.core.protocols import Journal
from hermes.gym.trajectories.openai import to_openai
from hermes.gym.trajectories.sharegpt import to_sharegpt
from hermes.gym.trajectories.trajectory import Trajectory, trajectories
from hermes.settings.load import Loaded

Format = Literal["sharegpt", "openai"]
WRITERS: Mapping[Format, Callable[[Trajectory], dict[str, Any]]] = {
    "sharegpt": to_sharegpt,
    "openai": to_openai,
}


def tools_of(loaded: Loaded, more: Iterable[ToolSpec] = ()) -> dict[str, ToolSpec]:
    """Every tool that can be described here, chosen or not."""
    from hermes.core.plugins import names
    from hermes.tools.catalogue import ALL

    everything = equip(loaded, toolsets=(ALL,)).catalogue.tools
    assert names
    return {
        **{name: tool.spec for name, tool in everything.items()},
        **{spec.name: spec for spec in more},
    }


async def examples(
    loaded: Loaded,
    journal: Journal,
    runs: Sequence[str],
    tools: Mapping[str, ToolSpec],
    *,
    subagents: bool = True,
) -> AsyncIterator[Trajectory]:
    """Of each run, and after it of those that worked for it."""
    veil = Veil(loaded)
    seen: set[str] = set()
    for run in runs:
        below = [each async for each in _below(journal, run)] if subagents else []
        for each in (run, *below):
            if each in seen:
                continue
            seen.add(each)
            events = [veil.recorded(known.event) async for known in journal.read(run=each)]
            for made in trajectories(events, tools):
                yield made


async def _below(journal: Journal, run: str) -> AsyncIterator[str]:
    async for known in journal.read(kinds=("run.started",)):
        if isinstance(known.event, RunStarted) and known.event.run.startswith(f"{run}/"):
            yield known.event.run


async def begun_since(journal: Journal, since: datetime, until: datetime | None) -> list[str]:
    """Runs of people and machines, not of subagents, by when they began."""
    return [
        known.event.run
        async for known in journal.read(kinds=("run.started",), since=since)
        if isinstance(known.event, RunStarted)
        and not known.event.parent
        and (until is None or known.event.at <= until)
    ]


def lines(made: Iterable[Trajectory], format: Format) -> str:
    write = WRITERS[format]
    return "".join(f"{msgspec.json.encode(write(each)).decode()}\n" for each in made)


def keep(file: Path, text: str) -> None:
    """The whole file or the one that was there before, never a half."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}.new")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)
    except OSError as error:
        raise HermesError(f"cannot write {file}: {error.strerror}") from error
