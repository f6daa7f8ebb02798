"""`hermes batch`: the agent over a file of prompts."""

from pathlib import Path

import anyio
import click

from hermes.cli import exits
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, fields, json_option, note
from hermes.cli.progress import bar
from hermes.gym.batch.dataset import Job, read_dataset
from hermes.gym.batch.running import Plan, Summary, Work, run_batch
from hermes.gym.batch.shelf import Shelf
from hermes.settings.load import Loaded


@click.command(
    cls=Examples,
    examples="""
hermes batch --dataset_file=prompts.jsonl --batch_size=20 --num_workers=4 --run_name=my_run
hermes batch --dataset_file=prompts.jsonl --run_name=my_run --resume
hermes batch --dataset_file=prompts.jsonl --run_name=tools --distribution=mixed --max_samples=100
hermes batch --dataset_file=prompts.jsonl --run_name=wide --num_workers=64 --on ray
""",
)
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
@click.option("--max_samples", "--max-samples", default=0, help="Only the first so many.")
@click.option("--max_iterations", "--max-iterations", default=0, help="Steps for each prompt.")
@click.option("--distribution", default="default", show_default=True, help="Of toolsets.")
@click.option("--model", default="", help="Another model than the one that is set up.")
@click.option("--format", type=click.Choice(["sharegpt", "openai"]), default="sharegpt")
@click.option("--out", type=click.Path(path_type=Path), default=Path("data"), show_default=True)
@click.option("--on", type=click.Choice(["here", "ray"]), default="here", show_default=True)
@click.option("--resume", is_flag=True, help="Go on: prompts that have a result are not asked.")
@json_option
@click.pass_context
def batch(
    ctx: click.Context, /, dataset_file: Path, out: Path, as_json: bool, **options: object
) -> int:
    """Ask the agent every prompt of a file, side by side, and keep each answer as an example.

    Results are in OUT/RUN_NAME: trajectories.jsonl, a file for each batch, statistics.json. The
    rules hold as ever; what they would ask a person about is refused. Exit code 0 when every
    prompt has a result, 1 when some failed: --resume tries those again.
    """
    from hermes.app.batch import check

    loaded = settings_for(ctx)
    plan = Plan(
        dataset_file=str(dataset_file),
        run_name=str(options["run_name"]),
        model=str(options["model"]),
        distribution=str(options["distribution"]),
        batch_size=_number(options["batch_size"]),
        max_iterations=_number(options["max_iterations"]),
        format=str(options["format"]),
    )
    check(loaded, plan)
    jobs = read_dataset(
        dataset_file, batch_size=plan.batch_size, max_samples=_number(options["max_samples"])
    )
    folder = out / plan.run_name
    work = _work(loaded, plan, folder, str(options["on"]))
    with bar(plan.run_name) as show:

        async def run() -> Summary:
            return await run_batch(
                plan,
                jobs,
                work,
                Shelf(folder),
                workers=_number(options["num_workers"]),
                resume=bool(options["resume"]),
                progress=show,
            )

        summary = anyio.run(run)
    _tell(summary, jobs, as_json=as_json)
    return exits.FAILED if summary.failed else exits.OK


def _work(loaded: Loaded, plan: Plan, folder: Path, on: str) -> Work:
    from hermes.app.batch import here, on_ray

    return (on_ray if on == "ray" else here)(loaded, plan, folder.absolute())


def _number(value: object) -> int:
    return int(str(value))


def _tell(summary: Summary, jobs: list[Job], *, as_json: bool) -> None:
    if as_json:
        emit_json(summary)
        return
    fields(
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
