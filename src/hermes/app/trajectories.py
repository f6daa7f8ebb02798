"""Exports runs of a home as training examples, and runs batches of prompts."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import anyio
import anyio.to_thread
import msgspec

from hermes.app.application import Application, open_application
from hermes.app.secret_redactor import SecretRedactor
from hermes.app.tools.tooling import build_tooling
from hermes.core.errors import HermesError, SettingsError
from hermes.core.events.runs import RunStarted, TurnEnded
from hermes.core.messages import ToolSpec
from hermes.core.protocols import Journal
from hermes.gym.training.batch import BatchPlan, BatchPrompt, RunPrompt, TrajectoryLines
from hermes.gym.training.trajectory import Trajectory, build_trajectories, count_tool_calls
from hermes.gym.training.trajectory_formats import to_openai, to_sharegpt
from hermes.plumbing.files import PUBLIC_MODE, write_atomically
from hermes.settings.load import LoadedSettings
from hermes.tools.toolsets import (
    ToolsetDistribution,
    draw_toolsets,
    find_distribution,
    with_own_toolsets,
)

TrajectoryFormat = Literal["sharegpt", "openai"]
TRAJECTORY_WRITERS: Mapping[TrajectoryFormat, Callable[[Trajectory], dict[str, Any]]] = {
    "sharegpt": to_sharegpt,
    "openai": to_openai,
}


def describe_tools(loaded: LoadedSettings) -> dict[str, ToolSpec]:
    """Describe every tool that can be described here, whether or not it is chosen or available."""
    from hermes.core.plugins import plugin_names
    from hermes.gym.episodes.run_summary import make_conclude_tool
    from hermes.memory.journal.in_memory import InMemoryJournal
    from hermes.tools.toolsets import TOOLSETS

    single = [name for name in plugin_names("tools", loaded.home) if name not in TOOLSETS]
    tools = msgspec.structs.replace(loaded.settings.tools, disabled=())
    with_all = loaded.with_sections(tools=tools)
    built = build_tooling(with_all, toolsets=("all", *single)).catalogue.tools
    described = {name: tool.spec for name, tool in built.items()}
    described["conclude"] = make_conclude_tool(InMemoryJournal(), "").spec
    described["delegate"] = _delegate_spec(loaded)
    return described


def _delegate_spec(loaded: LoadedSettings) -> ToolSpec:
    """The agent makes it for each conversation; its description needs only settings."""
    from hermes.agent.delegation import OpenSubagent, delegate_tool
    from hermes.agent.dependencies import AgentDependencies

    dependencies = SimpleNamespace(settings=loaded.settings.agent)
    return delegate_tool(cast(AgentDependencies, dependencies), cast(OpenSubagent, None)).spec


async def read_examples(
    loaded: LoadedSettings,
    journal: Journal,
    runs: Sequence[str],
    tools: Mapping[str, ToolSpec],
    *,
    subagents: bool = True,
    after: int = 0,
) -> AsyncIterator[Trajectory]:
    """Examples of each run and then of its subagents, for runs that began after event `after`."""
    redactor = SecretRedactor(loaded)
    below = await _subagent_runs(journal, set(runs), after) if subagents else {}
    seen: set[str] = set()
    for run in runs:
        for each in (run, *below.get(run, ())):
            if each in seen:
                continue
            seen.add(each)
            events = [
                redactor.clean_recorded(known.event) async for known in journal.read(run=each)
            ]
            for trajectory in build_trajectories(events, tools):
                yield trajectory


async def _subagent_runs(journal: Journal, runs: set[str], after: int) -> dict[str, list[str]]:
    """Subagents, and their subagents, by the run that they worked for; found in one pass."""
    found: dict[str, list[str]] = {}
    async for known in journal.read(after=after, kinds=("run.started",)):
        parent, slash, _ = known.event.run.partition("/")
        if slash and parent in runs:
            found.setdefault(parent, []).append(known.event.run)
    return found


async def find_runs_begun(journal: Journal, since: datetime, until: datetime | None) -> list[str]:
    """Runs of people and machines, not of subagents, by the time at which they began."""
    return [
        known.event.run
        async for known in journal.read(kinds=("run.started",), since=since)
        if isinstance(known.event, RunStarted)
        and not known.event.parent
        and (until is None or known.event.at <= until)
    ]


def render_lines(trajectories: Iterable[Trajectory], format: TrajectoryFormat) -> str:
    write = TRAJECTORY_WRITERS[format]
    return "".join(f"{msgspec.json.encode(write(each)).decode()}\n" for each in trajectories)


def write_trajectory_file(file: Path, text: str) -> None:
    """Replaces the file atomically."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text, mode=PUBLIC_MODE)
    except OSError as error:
        raise HermesError(f"cannot write {file}: {error.strerror}") from error


async def save_trajectories(application: Application, run: str) -> None:
    """Into `trajectories/` of the working folder: a complete file for each conversation."""
    found = read_examples(
        application.loaded, application.journal, [run], describe_tools(application.loaded)
    )
    text = render_lines([each async for each in found], "sharegpt")
    write_trajectory_file(Path(application.directory) / "trajectories" / f"{run}.jsonl", text)


def unattended_settings(loaded: LoadedSettings, plan: BatchPlan) -> LoadedSettings:
    """The settings of the home, without what one prompt would pass on to the next."""
    settings = loaded.settings
    agent = msgspec.structs.replace(settings.agent, context_files=False)
    if plan.max_iterations:
        agent = msgspec.structs.replace(agent, max_iterations=plan.max_iterations)
    memory = msgspec.structs.replace(settings.memory, notes=False, recall=False, learn=False)
    return loaded.with_sections(agent=agent, memory=memory)


def check_batch(loaded: LoadedSettings, plan: BatchPlan) -> None:
    """Fails once for everything that would fail for each prompt. Raises `SettingsError`."""
    _find_distribution(loaded, plan)
    if plan.format not in TRAJECTORY_WRITERS:
        raise SettingsError(
            f"there is no format {plan.format!r}; there are: {', '.join(TRAJECTORY_WRITERS)}"
        )
    if plan.run_name in ("", ".", "..") or "/" in plan.run_name:
        raise SettingsError(f"--run_name {plan.run_name!r} is to be the name of a folder")


def run_locally(loaded: LoadedSettings, plan: BatchPlan, folder: Path) -> RunPrompt:
    """Run in this process: it waits for models most of the time, so one process is enough."""
    return partial(run_job, unattended_settings(loaded, plan), plan, folder)


def run_on_ray(loaded: LoadedSettings, plan: BatchPlan, folder: Path) -> RunPrompt:
    """Run on a cluster whose machines have the same home. Raises `SettingsError`."""
    try:
        from hermes.gym.training.ray_workers import run_on_ray as place
    except ImportError as error:
        raise SettingsError(
            "Ray is not installed here: pip install 'hermes-oncall[ray]'"
        ) from error
    settings = unattended_settings(loaded, plan)

    def run(job: BatchPrompt) -> tuple[TrajectoryLines, str]:
        try:
            return anyio.run(run_job, settings, plan, folder, job), ""
        except HermesError as error:
            return [], str(error)

    placed = place(run)

    async def hand_over(job: BatchPrompt) -> TrajectoryLines:
        return await anyio.to_thread.run_sync(placed, job, abandon_on_cancel=True)

    return hand_over


def _find_distribution(loaded: LoadedSettings, plan: BatchPlan) -> ToolsetDistribution:
    tools = loaded.settings.tools
    return find_distribution(plan.distribution, tools.distributions, with_own_toolsets(tools.sets))


async def run_job(
    loaded: LoadedSettings, plan: BatchPlan, folder: Path, job: BatchPrompt
) -> TrajectoryLines:
    """Run one prompt in an empty folder and return its lines. No person can approve anything."""
    toolsets = draw_toolsets(_find_distribution(loaded, plan), job.key)
    work_folder = (folder / "work" / job.key).absolute()
    try:
        shutil.rmtree(work_folder, ignore_errors=True)  # left by a killed attempt
        work_folder.mkdir(parents=True)
        async with open_application(
            loaded, origin="batch", model=plan.model, toolsets=toolsets, directory=work_folder
        ) as application:
            before = await application.journal.last()
            conversation = await application.begin(job.prompt[:200])
            await conversation.say(job.prompt)
            ended = conversation.ended
            tools = describe_tools(loaded)
            found = read_examples(
                loaded, application.journal, [conversation.run], tools, after=before
            )
            trajectories = [each async for each in found]
    except OSError as error:
        raise HermesError(f"{work_folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(work_folder, ignore_errors=True)
    if not trajectories:
        raise HermesError("nobody answered")
    return [_example_line(each, job, plan, toolsets, ended) for each in trajectories]


def _example_line(
    trajectory: Trajectory,
    job: BatchPrompt,
    plan: BatchPlan,
    toolsets: tuple[str, ...],
    ended: TurnEnded | None,
) -> Mapping[str, Any]:
    line = TRAJECTORY_WRITERS["openai" if plan.format == "openai" else "sharegpt"](trajectory)
    line["metadata"] |= {"dataset": job.extra, "run_name": plan.run_name}
    return {
        "prompt_index": job.index,
        **line,
        "partial": ended is None or ended.outcome != "answered",
        "api_calls": trajectory.about.model_calls,
        "toolsets_used": list(toolsets),
        "tool_stats": count_tool_calls(trajectory.messages),
    }
