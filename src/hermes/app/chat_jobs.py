"""Jobs that the agent adds for a person. Words of others never become a job."""

from collections.abc import Mapping
from typing import Any

from hermes.app.jobs import (
    JobEditor,
    JobPreview,
    job_name,
    preview_schedule,
    read_schedule,
    split_delivery,
)
from hermes.core.actions import Action, Policy
from hermes.core.errors import ScheduleError, ToolError
from hermes.core.events.jobs import JobSpec
from hermes.core.messages import Risk, ToolCall
from hermes.core.protocols import Journal, ToolContext
from hermes.settings.load import LoadedSettings
from hermes.tools.cronjob import CRONJOB_TOOL, JobVerb

TAINTED_TEXT = (
    "refused: the job carries text from a source that is not trusted ({words}). Say so to the "
    "person; they can add it themselves with: hermes cron add"
)


async def change_jobs(
    loaded: LoadedSettings,
    journal: Journal,
    policy: Policy,
    context: ToolContext,
    verb: JobVerb,
    arguments: Mapping[str, Any],
) -> str:
    """Return what was done, with the meaning of the schedule. Raises `ToolError`."""
    editor = JobEditor(loaded, journal, context.actor)
    name = str(arguments.get("name") or "")
    try:
        match verb:
            case "add":
                _refuse_tainted(policy, context, arguments)
                return await _add(loaded, editor, name, arguments)
            case "list":
                jobs = (await editor.table()).jobs.values()
                return "\n".join(
                    f"{job.name}: {_preview_text(preview_schedule(job.spec.schedule))}"
                    for job in jobs
                    if not job.finished
                )
            case "pause":
                await editor.pause(name)
            case "resume":
                await editor.resume(name)
            case "remove":
                await editor.remove(name)
    except ScheduleError as error:
        raise ToolError(str(error)) from error
    return f"{name}: {verb} done"


def _refuse_tainted(policy: Policy, context: ToolContext, arguments: Mapping[str, Any]) -> None:
    """Asked again here: a rule that allows the tool, or a person in a hurry, cannot lift it."""
    environment = context.environment
    words = " ".join(str(arguments.get(each) or "") for each in ("schedule", "task", "deliver"))
    action = Action(
        call=ToolCall("taint", CRONJOB_TOOL, {"action": "add", **arguments}),
        risk=Risk.CHANGE,
        run=context.run,
        origin=context.origin,
        environment=environment.name,
        target=environment.target,
        isolated=environment.isolated,
        command=words,
        actor=context.actor,
    )
    if carried := policy.decide(action).tainted:
        raise ToolError(TAINTED_TEXT.format(words=carried))


async def _add(
    loaded: LoadedSettings, editor: JobEditor, name: str, arguments: Mapping[str, Any]
) -> str:
    reading = read_schedule(loaded, str(arguments["schedule"]))
    task, named = split_delivery(str(arguments["task"]))
    table = await editor.table()
    spec = JobSpec(
        name=name or job_name(task, list(table.jobs)),
        schedule=reading.schedule,
        task=task,
        deliver=str(arguments.get("deliver") or "") or named,
    )
    job = await editor.add(spec)
    text = _preview_text(preview_schedule(job.spec.schedule, reading.assumptions))
    where = job.spec.deliver or "its history only"
    return f"added {job.name}: {text}; results go to {where}"


def _preview_text(preview: JobPreview) -> str:
    times = ", ".join(f"{each:%a %Y-%m-%d %H:%M}" for each in preview.times)
    assumed = f"; assumed: {'; '.join(preview.assumptions)}" if preview.assumptions else ""
    return f"{preview.meaning} ({preview.zone}); next {times or 'never'}{assumed}"
