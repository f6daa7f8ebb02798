"""`hermes cron list`, `show`, `next`, `history` and `run`."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from hermes.cli import exit_codes
from hermes.cli.context import load_settings, since_option
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_fields, print_json, print_table
from hermes.cli.render.terminal_text import clean, clip
from hermes.cli.schedule.edit import edit_jobs, note_unscheduled
from hermes.core.errors import ScheduleError

if TYPE_CHECKING:
    from hermes.app.jobs import JobEditor
    from hermes.app.schedule.history import JobHistoryRow
    from hermes.core.jobs import Job, JobTable

MAX_ROWS = 20


@cli_command("""
hermes cron list
hermes cron list --json
""")
def list_(ctx: click.Context, as_json: bool = False) -> None:
    """List all jobs: what they mean, when they run next, and how they ended last."""
    from hermes.app.jobs import describe_job, preview_schedule

    loaded = load_settings(ctx)
    table = edit_jobs(loaded, _read_table)
    jobs = [job for job in table.jobs.values() if not job.finished]
    if as_json:
        print_json([describe_job(job) for job in jobs])
        return
    rows = []
    for job in jobs:
        preview = preview_schedule(job.spec.schedule)
        due = f"{preview.times[0]:%a %m-%d %H:%M}" if preview.times else "–"
        rows.append(
            (
                job.name,
                clip(preview.meaning, 60),
                preview.zone,
                "paused" if job.paused is not None else due,
                _last_text(job),
                job.spec.deliver,
            )
        )
    print_table(("job", "meaning", "zone", "next", "last", "results to"), rows)
    note_unscheduled(loaded)


@cli_command("hermes cron show disk")
@click.argument("name")
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show the job NAME with its meaning, its next times and its last result."""
    from hermes.app.jobs import describe_job, find_job, preview_schedule

    loaded = load_settings(ctx)
    try:
        job = find_job(edit_jobs(loaded, _read_table), name)
    except ScheduleError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        print_json(describe_job(job))
        return
    preview, spec = preview_schedule(job.spec.schedule), job.spec
    fields: dict[str, object] = {
        "job": spec.name + (" (built-in)" if spec.builtin else ""),
        "schedule": spec.schedule.text,
        "meaning": preview.meaning,
        "zone": preview.zone,
        "next": ", ".join(f"{each:%a %Y-%m-%d %H:%M}" for each in preview.times),
        "paused": f"by {job.paused.by} {job.paused.reason}" if job.paused is not None else "",
        "does": spec.command or spec.task or f"built-in: {spec.builtin}",
        "results to": spec.deliver,
        "author": job.by,
        "overlap": spec.overlap if not spec.builtin else "",
        "pre-step": spec.pre_step,
        "context from": ", ".join(spec.context_from),
        "last": _last_text(job),
    }
    print_fields({key: value for key, value in fields.items() if value})
    ended = job.last.ended if job.last is not None else None
    if text := getattr(ended, "text", ""):
        echo()
        echo(clean(text))


@cli_command("""
hermes cron next
hermes cron next disk -n 10
hermes cron next "every other friday at 16:00" --zone Europe/Berlin
""")
@click.argument("what", default="")
@click.option("-n", "count", default=5, help="How many times.")
@click.option("--zone", default="", help="The time zone of a schedule that you try out.")
def next_(ctx: click.Context, what: str, count: int, zone: str, as_json: bool) -> None:
    """Show the next times of all jobs, of one job, or of a schedule that you try out."""
    from hermes.app.jobs import preview_schedule, read_schedule
    from hermes.scheduler.cron import find_zone, next_times

    loaded = load_settings(ctx)
    table, now = edit_jobs(loaded, _read_table), datetime.now(UTC)
    if what and what not in table.jobs:
        try:
            reading = read_schedule(loaded, what, zone)
        except ScheduleError as error:
            raise click.UsageError(str(error)) from error
        preview = preview_schedule(reading.schedule, reading.assumptions)
        found_zone = find_zone(preview.zone)
        times = [each.astimezone(found_zone) for each in next_times(reading.schedule, now, count)]
        if as_json:
            print_json({"meaning": preview.meaning, "zone": preview.zone, "times": times})
            return
        print_fields({"meaning": preview.meaning, "zone": preview.zone})
        if preview.assumptions:
            print_fields({"assumed": "; ".join(preview.assumptions)})
        for each in times:
            echo(f"{each:%a %Y-%m-%d %H:%M %Z}")
        return
    found = [
        (due.astimezone(find_zone(job.spec.schedule.zone)), job.name)
        for job in table.jobs.values()
        if job.paused is None and not job.finished and what in ("", job.name)
        for due in next_times(job.spec.schedule, now, count)
    ]
    found = sorted(found)[:count]
    if as_json:
        print_json([{"job": name, "due": due} for due, name in found])
        return
    rows = [(f"{due:%a %Y-%m-%d %H:%M %Z}", name) for due, name in found]
    print_table(("due", "job"), rows, empty="no job is due any more")


@cli_command("""
hermes cron history
hermes cron history disk --since 7d
hermes cron history disk --json
""")
@click.argument("name", default="")
@since_option
@click.option("-n", "count", default=MAX_ROWS, help="How many rows.")
def history(
    ctx: click.Context, name: str, since: datetime | None, count: int, as_json: bool
) -> None:
    """Show the outcome of every due time, and whether its result was delivered."""
    from hermes.app.schedule.history import read_history

    loaded = load_settings(ctx)
    rows = edit_jobs(loaded, lambda editor: read_history(editor.journal, name, since))[-count:]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("due", "job", "outcome", "took", "delivered", "reason"),
        [_history_cells(row) for row in rows],
        empty="no job was due yet",
    )


def _history_cells(row: "JobHistoryRow") -> tuple[object, ...]:
    due = f"{row.due.astimezone():%Y-%m-%d %H:%M:%S}"
    if row.count > 1:
        due += f" and {row.count - 1} more"
    took = f"{row.seconds:.1f} s" if row.seconds else ""
    return due, row.job, row.outcome, took, row.delivery, clip(row.reason, 60)


@cli_command("""
hermes cron run disk
hermes cron run audit
""")
@click.argument("name")
def run(ctx: click.Context, name: str, as_json: bool) -> int:
    """Run the job NAME now, outside of its schedule, and wait for its end.

    Exit codes: 0 it ran, 1 it failed, 2 there is no such job.
    """
    from hermes.app.schedule.history import run_now
    from hermes.app.schedule.rhythms import standalone_jobs

    loaded = load_settings(ctx)
    row = edit_jobs(loaded, lambda editor: run_now(loaded, editor, name, standalone_jobs(loaded)))
    if as_json:
        print_json(row)
    else:
        if row.text:
            echo(clean(row.text))
        reason = f": {row.reason}" if row.reason else ""
        echo(f"{row.job}: {row.outcome}{reason}")
    return exit_codes.OK if row.outcome in ("ran", "nothing") else exit_codes.FAILED


async def _read_table(editor: "JobEditor") -> "JobTable":
    return await editor.table()


def _last_text(job: "Job") -> str:
    if job.last is None or job.last.ended is None:
        return "running" if job.open else ""
    return f"{job.last.outcome} {job.last.ended.at.astimezone():%m-%d %H:%M}"
