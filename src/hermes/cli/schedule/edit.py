"""`hermes cron add`, `pause`, `resume`, `remove`, `export`, `apply`, and `hermes task add`."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_fields, print_json, write_file
from hermes.core.errors import ScheduleError
from hermes.plumbing.units import parse_duration
from hermes.settings.load import LoadedSettings

if TYPE_CHECKING:
    from hermes.app.jobs import JobEditor
    from hermes.core.events.jobs import JobSpec
    from hermes.core.jobs import Job

EditResult = TypeVar("EditResult")
UNSCHEDULED_NOTE = (
    "no process runs the schedule now: `hermes up` does, and `hermes service install` keeps it "
    "running"
)


def edit_jobs(
    loaded: LoadedSettings, change: "Callable[[JobEditor], Awaitable[EditResult]]"
) -> EditResult:
    """Change jobs as the user of this process. A refused job is wrong usage."""
    import anyio

    from hermes.app.jobs import JobEditor
    from hermes.app.people import local_actor
    from hermes.memory.store import open_journal

    async def run() -> EditResult:
        async with open_journal(loaded.store) as journal:
            return await change(JobEditor(loaded, journal, await local_actor(loaded, journal)))

    try:
        return anyio.run(run)
    except ScheduleError as error:
        raise click.UsageError(str(error)) from error


def _parse_length(ctx: click.Context, parameter: click.Parameter, text: str) -> float:
    try:
        return parse_duration(text) if text else 0.0
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not like 90s, 15m or 2h") from error


def _job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--name", default="", help="A short name; default: the first words."),
        click.option(
            "--to", "deliver", default="", metavar="ADDRESS", help="telegram, telegram:CHAT, log."
        ),
        click.option("--zone", default="", help="A time zone, such as Europe/Berlin."),
        click.option("--command", is_flag=True, help="TASK is a command, not instructions."),
        click.option("--model", default="", help="Another model than the default."),
        click.option("--toolset", "toolsets", multiple=True, help="Only these tools."),
        click.option("--skill", "skills", multiple=True, help="A skill to read first."),
        click.option("--dir", "directory", default="", help="The working folder."),
        click.option(
            "--limit", "seconds", default="", callback=_parse_length, help="Longest run: 15m."
        ),
        click.option("--max-tokens", "tokens", default=0, help="Tokens of one run."),
        click.option("--max-usd", "usd", default=0.0, help="US dollars of one run."),
        click.option(
            "--overlap",
            type=click.Choice(["skip", "queue", "parallel"]),
            default="skip",
            help="When it is due while it still runs.",
        ),
        click.option(
            "--late", "late_s", default="", callback=_parse_length, help="How late it may begin."
        ),
        click.option("--pre-step", default="", help="A command whose output it gets."),
        click.option("--context-from", multiple=True, help="A job whose last result it gets."),
        click.option("--silent", is_flag=True, help="Deliver nothing when there is nothing."),
        click.option("--heartbeat-url", default="", help="Requested after each success."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@cli_command("""
hermes cron add "every weekday at 9" "check the backups and tell what is missing" --to telegram
hermes cron add "every 45 minutes" "df -h /srv" --command --name disk
hermes cron add "0 */6 * * *" "Summarise the logs of nginx. Send results to Telegram."
hermes cron add "in 20 minutes" "look whether the deployment is fine" --to telegram
hermes cron add "every day at 9 Europe/Berlin" "look for new certificates" --dry-run
""")
@click.argument("schedule")
@click.argument("task")
@_job_options
@click.option("--dry-run", is_flag=True, help="Only show what it means.")
def add(
    ctx: click.Context, schedule: str, task: str, dry_run: bool, as_json: bool, **options: Any
) -> None:
    """Run TASK by SCHEDULE: words, cron with five fields, or a date.

    What the words mean, the zone and the next times are shown. Words that are not understood are
    refused. The last sentence "Send results to Telegram." sets where results go.
    """
    _add(ctx, schedule, task, options, dry_run=dry_run, as_json=as_json)


@cli_command("""
hermes task add --cron "0 */6 * * *" "Check disk usage on all servers. Send results to Telegram."
hermes task add --when "every weekday at 9" "check the backups"
""")
@click.argument("task")
@click.option("--cron", "--when", "schedule", required=True, help="Cron, or words.")
@_job_options
@click.option("--dry-run", is_flag=True, help="Only show what it means.")
def task_add(
    ctx: click.Context, schedule: str, task: str, dry_run: bool, as_json: bool, **options: Any
) -> None:
    """Run TASK by a schedule: the same as `hermes cron add`."""
    _add(ctx, schedule, task, options, dry_run=dry_run, as_json=as_json)


task_add.name = "add"


def _add(
    ctx: click.Context,
    schedule: str,
    task: str,
    options: Mapping[str, Any],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from hermes.app.jobs import preview_schedule, read_schedule, zone_note

    loaded = load_settings(ctx)
    try:
        reading = read_schedule(loaded, schedule, options["zone"])
    except ScheduleError as error:
        raise click.UsageError(str(error)) from error

    async def change(editor: "JobEditor") -> "JobSpec":
        table = await editor.table()
        spec = _build_spec(reading.schedule, task, options, list(table.jobs))
        return editor.check(spec, table) if dry_run else (await editor.add(spec)).spec

    spec = edit_jobs(loaded, change)
    preview = preview_schedule(spec.schedule, reading.assumptions)
    if as_json:
        print_json({"job": spec, "added": not dry_run, "preview": preview})
        return
    fields = {
        "job": spec.name + (" (not added)" if dry_run else ""),
        "meaning": preview.meaning,
        "zone": preview.zone,
        "assumed": "; ".join(preview.assumptions),
        "next": ", ".join(f"{each:%a %Y-%m-%d %H:%M}" for each in preview.times),
        "does": spec.command or spec.task,
        "results to": spec.deliver or "history only: hermes cron history",
    }
    print_fields({name: text for name, text in fields.items() if text})
    if text := zone_note(loaded, preview.zone):
        note(text)
    note_unscheduled(loaded)


def note_unscheduled(loaded: LoadedSettings) -> None:
    from hermes.app.jobs import scheduler_is_running

    if not scheduler_is_running(loaded):
        note(UNSCHEDULED_NOTE)


def _build_spec(
    schedule: Any, task: str, options: Mapping[str, Any], taken: list[str]
) -> "JobSpec":
    from hermes.app.jobs import job_name, split_delivery
    from hermes.core.events.jobs import JobLimits, JobSpec

    words, named = (task, "") if options["command"] else split_delivery(task)
    if named and options["deliver"] and named != options["deliver"]:
        raise ScheduleError(f"the task says results to {named}, and --to {options['deliver']}")
    return JobSpec(
        name=options["name"] or job_name(words, taken),
        schedule=schedule,
        task="" if options["command"] else words,
        command=words if options["command"] else "",
        deliver=options["deliver"] or named,
        model=options["model"],
        toolsets=options["toolsets"],
        skills=options["skills"],
        directory=str(Path(options["directory"]).absolute()) if options["directory"] else "",
        limits=JobLimits(seconds=options["seconds"], tokens=options["tokens"], usd=options["usd"]),
        overlap=options["overlap"],
        late_s=options["late_s"],
        pre_step=options["pre_step"],
        context_from=options["context_from"],
        silent_when_nothing=options["silent"],
        heartbeat_url=options["heartbeat_url"],
    )


@cli_command("hermes cron pause briefing --reason 'on holiday'")
@click.argument("name")
@click.option("--reason", default="", metavar="TEXT", help="Recorded with the pause.")
def pause(ctx: click.Context, name: str, reason: str, as_json: bool) -> None:
    """Stop the job NAME until it is resumed. Times in between are not due."""
    loaded = load_settings(ctx)
    _print_changed(edit_jobs(loaded, lambda editor: editor.pause(name, reason)), as_json)


@cli_command("hermes cron resume briefing")
@click.argument("name")
def resume(ctx: click.Context, name: str, as_json: bool) -> None:
    """Run the job NAME again from its next time on."""
    loaded = load_settings(ctx)
    _print_changed(edit_jobs(loaded, lambda editor: editor.resume(name)), as_json)


@cli_command("hermes cron remove disk")
@click.argument("name")
def remove(ctx: click.Context, name: str, as_json: bool) -> None:
    """Remove the job NAME; its history stays. Built-in jobs can only be paused."""
    edit_jobs(load_settings(ctx), lambda editor: editor.remove(name))
    if as_json:
        print_json({"job": name, "removed": True})
    else:
        echo(f"{name} is removed")


def _print_changed(job: "Job", as_json: bool) -> None:
    from hermes.app.jobs import preview_schedule

    preview = preview_schedule(job.spec.schedule)
    if as_json:
        print_json({"job": job.name, "paused": job.paused is not None, "preview": preview})
    elif job.paused is not None:
        echo(f"{job.name} is paused; `hermes cron resume {job.name}` ends that")
    else:
        due = f"; next {preview.times[0]:%a %Y-%m-%d %H:%M}" if preview.times else ""
        echo(f"{job.name} runs{due} ({preview.zone})")


@cli_command("""
hermes cron export > jobs.yaml
hermes cron export -o jobs.yaml
""")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file; default: printed.")
def export(ctx: click.Context, output: Path | None, as_json: bool) -> None:
    """Write all jobs as YAML, for people who keep them in git. Built-in ones are not in it."""
    from hermes.app.schedule.job_file import write_jobs

    loaded = load_settings(ctx)

    async def read(editor: "JobEditor") -> "list[JobSpec]":
        jobs = (await editor.table()).jobs.values()
        return [job.spec for job in jobs if not job.spec.builtin and not job.finished]

    specs = edit_jobs(loaded, read)
    if as_json:
        print_json(specs)
        return
    text = write_jobs(specs)
    if output is None:
        echo(text.rstrip())
    else:
        write_file(output, text)
        echo(f"{len(specs)} jobs written to {output}")


@cli_command("""
hermes cron apply jobs.yaml --dry-run
hermes cron apply jobs.yaml --prune
""")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--prune", is_flag=True, help="Remove jobs that are not in the file.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
def apply(ctx: click.Context, file: Path, prune: bool, dry_run: bool, as_json: bool) -> None:
    """Add and change jobs so that they are as in FILE, which `hermes cron export` writes.

    Everything is checked before anything is changed.
    """
    from hermes.app.schedule.job_file import apply_jobs, read_job_file

    loaded = load_settings(ctx)
    try:
        wanted = read_job_file(loaded, file)
    except ScheduleError as error:
        raise click.UsageError(str(error)) from error
    done = edit_jobs(
        loaded, lambda editor: apply_jobs(editor, wanted, prune=prune, dry_run=dry_run)
    )
    if as_json:
        print_json({"dry_run": dry_run, "changes": [{"job": n, "change": c} for n, c in done]})
        return
    for name, what in done:
        echo(f"{what:<10}{name}")
    if not done:
        echo("nothing to change")
    if not dry_run and any(what == "added" for _, what in done):
        note_unscheduled(loaded)
