"""The agent over many prompts: each in a house of its own, with tools drawn for it by chance."""

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from hermes.app.house import open_house
from hermes.app.trajectories import WRITERS, examples, tools_of
from hermes.core.errors import HermesError, SettingsError
from hermes.core.events.runs import TurnEnded
from hermes.gym.batch.dataset import Job
from hermes.gym.batch.running import Lines, Plan, Work
from hermes.gym.trajectories.trajectory import Trajectory, tool_counts
from hermes.settings.load import Loaded
from hermes.tools.distributions import draw, named
from hermes.tools.toolsets import with_own


def unattended(loaded: Loaded, plan: Plan) -> Loaded:
    """As the home says, without what one prompt would hand on to the next."""
    settings = loaded.settings
    agent = msgspec.structs.replace(settings.agent, context_files=False)
    if plan.max_iterations:
        agent = msgspec.structs.replace(agent, max_iterations=plan.max_iterations)
    memory = msgspec.structs.replace(settings.memory, notes=False, recall=False, learn=False)
    settings = msgspec.structs.replace(settings, agent=agent, memory=memory)
    return msgspec.structs.replace(loaded, settings=settings)


def check(loaded: Loaded, plan: Plan) -> None:
    """Everything that would fail for each prompt fails here once. Raises `SettingsError`."""
    named(plan.distribution, sets=with_own(loaded.settings.tools.sets))
    if plan.format not in WRITERS:
        raise SettingsError(f"there is no format {plan.format!r}; there are: {', '.join(WRITERS)}")
    if plan.run_name in ("", ".", "..") or "/" in plan.run_name:
        raise SettingsError(f"--run_name {plan.run_name!r} is to be the name of a folder")


def here(loaded: Loaded, plan: Plan, folder: Path) -> Work:
    """Work in this process: it waits for models most of the time, so one process is enough."""
    return partial(work, unattended(loaded, plan), plan, folder)


def on_ray(loaded: Loaded, plan: Plan, folder: Path) -> Work:
    """Work on a cluster whose machines have the same home. Raises `SettingsError`."""
    try:
        from hermes.gym.batch.on_ray import on_ray as place
    except ImportError as error:
        raise SettingsError("Ray is not installed here: pip install 'hermes[ray]'") from error
    settings = unattended(loaded, plan)

    def run(job: Job) -> tuple[Lines, str]:
        try:
            return anyio.run(work, settings, plan, folder, job), ""
        except HermesError as error:
            return [], str(error)

    placed = place(run)

    async def hand_over(job: Job) -> Lines:
        return await anyio.to_thread.run_sync(placed, job, abandon_on_cancel=True)

    return hand_over


async def work(loaded: Loaded, plan: Plan, folder: Path, job: Job) -> Lines:
    """One prompt, from an empty folder to its lines. Nobody is there to approve anything."""
    sets = with_own(loaded.settings.tools.sets)
    toolsets = draw(named(plan.distribution, sets=sets), job.key)
    place = (folder / "work" / job.key).absolute()
    try:
        shutil.rmtree(place, ignore_errors=True)  # what a killed try has left
        place.mkdir(parents=True)
        async with open_house(
            loaded, origin="batch", model=plan.model, toolsets=toolsets, directory=place
        ) as house:
            before = await house.journal.last()
            talk = await house.begin(job.prompt[:200])
            await talk.say(job.prompt)
            ended = talk.ended
            tools = tools_of(loaded)
            found = examples(loaded, house.journal, [talk.run], tools, after=before)
            made = [each async for each in found]
    except OSError as error:
        raise HermesError(f"{place}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if not made:
        raise HermesError("nobody answered")
    return [_line(each, job, plan, toolsets, ended) for each in made]


def _line(
    made: Trajectory, job: Job, plan: Plan, toolsets: tuple[str, ...], ended: TurnEnded | None
) -> Mapping[str, Any]:
    line = WRITERS["openai" if plan.format == "openai" else "sharegpt"](made)
    line["metadata"] |= {"dataset": job.extra, "run_name": plan.run_name}
    return {
        "prompt_index": job.index,
        **line,
        "partial": ended is None or ended.outcome != "answered",
        "api_calls": made.about.model_calls,
        "toolsets_used": list(toolsets),
        "tool_stats": tool_counts(made.messages),
    }
