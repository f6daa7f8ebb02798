"""`hermes batch` and `hermes trajectories`: produce training examples."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import anyio
import click

from hermes.cli import exit_codes
from hermes.cli.context import find_run, load_settings, query_journal, since_option, until_option
from hermes.cli.lazy import cli_command, cli_group
from hermes.cli.output import echo, note, print_fields, print_json, progress_bar
from hermes.gym.training.batch import (
    BatchFolder,
    BatchPlan,
    BatchPrompt,
    BatchSummary,
    RunPrompt,
    read_dataset,
    run_batch,
)
from hermes.gym.training.trajectory import Trajectory
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings


@cli_command("""
hermes batch --dataset_file=prompts.jsonl --batch_size=20 --num_workers=4 --run_name=my_run
hermes batch --dataset_file=prompts.jsonl --run_name=my_run --resume
hermes batch --dataset_file=prompts.jsonl --run_name=tools --distribution=mixed --max_samples=100
hermes batch --dataset_file=prompts.jsonl --run_name=wide --num_workers=64 --on ray
""")
@click.option(
    "--dataset_file",
    "--dataset-file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help='JSONL; each line has a "prompt".',
)
@click.option("--run_name", "--run-name", required=True, help="The folder of its results.")
@click.option("--batch_size", "--batch-size", default=20, show_default=True, help="Per file.")
@click.option("--num_workers", "--num-workers", default=4, show_default=True, help="At once.")
@click.option("--max_samples", "--max-samples", default=0, help="Only the first N prompts.")
@click.option("--max_iterations", "--max-iterations", default=0, help="Steps for each prompt.")
@click.option("--distribution", default="default", show_default=True, help="Of toolsets.")
@click.option("--model", default="", help="A model; default: as configured.")
@click.option("--format", type=click.Choice(["sharegpt", "openai"]), default="sharegpt")
@click.option("--out", type=click.Path(path_type=Path), default=Path("data"), show_default=True)
@click.option("--on", type=click.Choice(["here", "ray"]), default="here", show_default=True)
@click.option("--resume", is_flag=True, help="Continue: skip prompts that have a result.")
def batch(
    ctx: click.Context, /, dataset_file: Path, out: Path, as_json: bool, **options: object
) -> int:
    """Run the agent on every prompt of a file in parallel, and save each run as an example.

    Results are in OUT/RUN_NAME: trajectories.jsonl, a file for each batch, statistics.json. The
    policy applies; what needs approval is refused. Exit code 0 when every prompt has a result, 1
    when some failed: --resume tries those again.
    """
    from hermes.app.trajectories import check_batch

    loaded = load_settings(ctx)
    plan = BatchPlan(
        dataset_file=str(dataset_file),
        run_name=str(options["run_name"]),
        model=str(options["model"]),
        distribution=str(options["distribution"]),
        batch_size=_as_int(options["batch_size"]),
        max_iterations=_as_int(options["max_iterations"]),
        format=str(options["format"]),
    )
    check_batch(loaded, plan)
    jobs = read_dataset(
        dataset_file, batch_size=plan.batch_size, max_samples=_as_int(options["max_samples"])
    )
    folder = out / plan.run_name
    work = _run_batch(loaded, plan, folder, str(options["on"]))
    with progress_bar(plan.run_name) as show:

        async def run() -> BatchSummary:
            return await run_batch(
                plan,
                jobs,
                work,
                BatchFolder(folder),
                workers=_as_int(options["num_workers"]),
                resume=bool(options["resume"]),
                progress=show,
            )

        summary = anyio.run(run)
    _print_summary(summary, jobs, as_json=as_json)
    return exit_codes.FAILED if summary.failed else exit_codes.OK


def _run_batch(loaded: LoadedSettings, plan: BatchPlan, folder: Path, on: str) -> RunPrompt:
    from hermes.app.trajectories import run_locally, run_on_ray

    return (run_on_ray if on == "ray" else run_locally)(loaded, plan, folder.absolute())


def _as_int(value: object) -> int:
    return int(str(value))


def _print_summary(summary: BatchSummary, jobs: list[BatchPrompt], *, as_json: bool) -> None:
    if as_json:
        print_json(summary)
        return
    print_fields(
        {
            "prompts": f"{len(jobs)} ({summary.done_before} done before)",
            "examples": f"{summary.examples}, {summary.completed} completed",
            "failed": summary.failed,
            "took": f"{summary.seconds:.1f} s",
            "tools": ", ".join(
                f"{name} {counts['count']}" for name, counts in summary.tool_stats.items()
            ),
            "written to": summary.folder,
        }
    )
    for error in summary.errors:
        note(f"failed: {error}")
    if summary.failed:
        note("try those again with --resume")


TRAJECTORY_COMMANDS = {
    "export": ("drills.training_data:export", "Write runs as ShareGPT or OpenAI messages")
}


@cli_group(
    TRAJECTORY_COMMANDS,
    """
hermes trajectories export latest
hermes trajectories export --since 7d --format openai --out week.jsonl
""",
)
def trajectories() -> None:
    """Export the input and output of the model, one JSON object per line, without secrets.

    RUN is an id, the beginning or end of one, a title, or `latest`.
    """


@cli_command("""
hermes trajectories export latest
hermes trajectories export 4f2a1c 9b03de --out two.jsonl
hermes trajectories export --since 7d --completed --format openai --out week.jsonl
""")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@since_option
@until_option
@click.option("--format", type=click.Choice(["sharegpt", "openai"]), default="sharegpt")
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="Into a file.")
@click.option("--completed", is_flag=True, help="Only those that ended with an answer.")
@click.option("--no-subagents", is_flag=True, help="Without the runs of subagents.")
def export(
    ctx: click.Context,
    /,
    runs: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    out: Path | None,
    as_json: bool,
    **options: object,
) -> None:
    """Write RUNs, or all runs since a time, as examples, one per line.

    Undone turns are left out. A conversation that was compressed becomes several examples, each as
    the model saw it. With --json a summary is printed, and the lines need --out.
    """
    from hermes.app.trajectories import render_lines, write_trajectory_file

    if bool(runs) == (since is not None):
        raise click.UsageError("name runs, or use --since: hermes trajectories export latest")
    if as_json and out is None:
        raise click.UsageError("--json prints a summary; --out is needed for the lines")
    built = _build_trajectories(
        load_settings(ctx), runs, since, until, subagents=not options["no_subagents"]
    )
    chosen = [each for each in built if each.completed or not options["completed"]]
    text = render_lines(chosen, "openai" if options["format"] == "openai" else "sharegpt")
    if out is None:
        click.echo(text, nl=False)
    else:
        write_trajectory_file(out, text)
    _print_trajectories(chosen, out, as_json=as_json)


def _build_trajectories(
    loaded: LoadedSettings,
    wanted: Sequence[str],
    since: datetime | None,
    until: datetime | None,
    *,
    subagents: bool,
) -> list[Trajectory]:
    from hermes.app.trajectories import describe_tools, find_runs_begun, read_examples

    async def query(journal: JournalStore) -> list[Trajectory]:
        ids = [(await find_run(journal, each)).id for each in wanted]
        if since is not None:
            ids = await find_runs_begun(journal, since, until)
        built: list[Trajectory] = []
        done: set[str] = set()
        with progress_bar("reading", min_total=20) as show:
            async for each in read_examples(
                loaded, journal, ids, describe_tools(loaded), subagents=subagents
            ):
                built.append(each)
                done.add(each.about.run.partition("/")[0])
                show(len(done), len(ids))
        return built

    return query_journal(loaded, query)


def _print_trajectories(built: Sequence[Trajectory], out: Path | None, *, as_json: bool) -> None:
    undescribed = sorted({name for each in built for name in each.about.undescribed})
    if as_json:
        summary = {
            "examples": len(built),
            "completed": sum(each.completed for each in built),
            "runs": len({each.about.run for each in built}),
            "undescribed": undescribed,
            "out": out,
        }
        print_json(summary)
        return
    if out is not None:
        echo(f"{len(built)} examples written to {out}")
    if not built:
        note("the model gave no answer in those runs, so there are no examples")
    if undescribed:
        names = ", ".join(undescribed)
        note(f"tools that are not installed here have only a name in <tools>: {names}")
