"""Runs of a home as examples: read from its journal, cleaned of secrets, tools described."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import msgspec

from hermes.app.equipment import equip
from hermes.app.house import House
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


def tools_of(loaded: Loaded) -> dict[str, ToolSpec]:
    """Every tool that can be described here, whether or not it is chosen or in place."""
    from hermes.core.plugins import names
    from hermes.gym.conclude import make_conclude
    from hermes.memory.in_memory import InMemoryJournal
    from hermes.tools.toolsets import TOOLSETS

    settings = msgspec.structs.replace(
        loaded.settings, tools=msgspec.structs.replace(loaded.settings.tools, disabled=())
    )
    single = [name for name in names("tools") if name not in TOOLSETS]
    whole = msgspec.structs.replace(loaded, settings=settings)
    built = equip(whole, toolsets=("all", *single)).catalogue.tools
    described = {name: tool.spec for name, tool in built.items()}
    described["conclude"] = make_conclude(InMemoryJournal(), "").spec
    described["delegate"] = _delegate(loaded)
    return described


def _delegate(loaded: Loaded) -> ToolSpec:
    """The agent makes it for each conversation; to be described it needs no more than settings."""
    from hermes.agent.delegation import Open, delegate_tool
    from hermes.agent.means import Means

    means = SimpleNamespace(settings=loaded.settings.agent)
    return delegate_tool(cast(Means, means), cast(Open, None)).spec


async def examples(
    loaded: Loaded,
    journal: Journal,
    runs: Sequence[str],
    tools: Mapping[str, ToolSpec],
    *,
    subagents: bool = True,
    after: int = 0,
) -> AsyncIterator[Trajectory]:
    """Of each run, and after it of those that worked for it, which all began `after` an event."""
    veil = Veil(loaded)
    below = await _below(journal, set(runs), after) if subagents else {}
    seen: set[str] = set()
    for run in runs:
        for each in (run, *below.get(run, ())):
            if each in seen:
                continue
            seen.add(each)
            events = [veil.recorded(known.event) async for known in journal.read(run=each)]
            for made in trajectories(events, tools):
                yield made


async def _below(journal: Journal, runs: set[str], after: int) -> dict[str, list[str]]:
    """Subagents, and theirs, by the run in whose name they worked; found in one walk."""
    found: dict[str, list[str]] = {}
    async for known in journal.read(after=after, kinds=("run.started",)):
        whole, slash, _ = known.event.run.partition("/")
        if slash and whole in runs:
            found.setdefault(whole, []).append(known.event.run)
    return found


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


async def save_trajectories(house: House, run: str) -> None:
    """Into `trajectories/` of the working folder: a file for each conversation, always whole."""
    found = examples(house.loaded, house.journal, [run], tools_of(house.loaded))
    text = lines([each async for each in found], "sharegpt")
    keep(Path(house.directory) / "trajectories" / f"{run}.jsonl", text)
