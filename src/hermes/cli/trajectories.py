"""`hermes trajectories`: runs of the journal as examples to train on."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from hermes.cli.lazy import ExampleGroup, Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say
from hermes.cli.progress import bar
from hermes.cli.stored import ask_journal, find_run
from hermes.cli.when import SINCE, UNTIL
from hermes.gym.trajectories.trajectory import Trajectory
from hermes.memory.opening import Store
from hermes.settings.load import Loaded

TABLE = {
    "export": ("hermes.cli.trajectories:export", "Write runs as ShareGPT or OpenAI messages"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    examples="""
hermes trajectories export latest
hermes trajectories export --since 7d --format openai --out week.jsonl
""",
)
def trajectories() -> None:
    """What the model saw and said, one JSON object a line, without secrets.

    RUN is an id, the beginning or end of one, a title, or `latest`.
    """


@click.command(
    cls=Examples,
    examples="""
hermes trajectories export latest
hermes trajectories export 4f2a1c 9b03de --out two.jsonl
hermes trajectories export --since 7d --completed --format openai --out week.jsonl
""",
)
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@SINCE
@UNTIL
@click.option("--format", type=click.Choice(["sharegpt", "openai"]), default="sharegpt")
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="Into a file.")
@click.option("--completed", is_flag=True, help="Only those that ended with an answer.")
@click.option("--no-subagents", is_flag=True, help="Without the runs of subagents.")
@json_option
@click.pass_context
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
    """Write RUNs, or all that began since a time, as examples: one a line.

    Turns that were undone are left out. A conversation that was compressed on its way becomes
    several examples, each as the model saw it. With --json a summary is printed instead of lines,
    which need --out then.
    """
    from hermes.app.trajectories import keep, lines

    if bool(runs) == (since is not None):
        raise click.UsageError("name runs, or say since when: hermes trajectories export latest")
    if as_json and out is None:
        raise click.UsageError("--json prints a summary; say with --out where the lines go")
    made = _made(settings_for(ctx), runs, since, until, subagents=not options["no_subagents"])
    chosen = [each for each in made if each.completed or not options["completed"]]
    text = lines(chosen, "openai" if options["format"] == "openai" else "sharegpt")
    if out is None:
        click.echo(text, nl=False)
    else:
        keep(out, text)
    _tell(chosen, out, as_json=as_json)


def _made(
    loaded: Loaded,
    wanted: Sequence[str],
    since: datetime | None,
    until: datetime | None,
    *,
    subagents: bool,
) -> list[Trajectory]:
    from hermes.app.trajectories import begun_since, examples, tools_of

    async def ask(journal: Store) -> list[Trajectory]:
        ids = [(await find_run(journal, each)).id for each in wanted]
        if since is not None:
            ids = await begun_since(journal, since, until)
        made: list[Trajectory] = []
        done: set[str] = set()
        with bar("reading", least=20) as show:
            async for each in examples(loaded, journal, ids, tools_of(loaded), subagents=subagents):
                made.append(each)
                done.add(each.about.run.partition("/")[0])
                show(len(done), len(ids))
        return made

    return ask_journal(loaded, ask)


def _tell(made: Sequence[Trajectory], out: Path | None, *, as_json: bool) -> None:
    lost = sorted({name for each in made for name in each.about.undescribed})
    if as_json:
        summary = {
            "examples": len(made),
            "completed": sum(each.completed for each in made),
            "runs": len({each.about.run for each in made}),
            "undescribed": lost,
            "out": out,
        }
        emit_json(summary)
        return
    if out is not None:
        say(f"{len(made)} examples written to {out}")
    if not made:
        note("nobody answered in those runs, so there is nothing to learn from")
    if lost:
        note(f"tools that are not installed here have only a name in <tools>: {', '.join(lost)}")
