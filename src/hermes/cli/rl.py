"""`hermes rl`: the incidents of the gym for those who train models."""

from pathlib import Path

import anyio
import anyio.abc
import click

from hermes.cli.lazy import ExampleGroup, Examples
from hermes.cli.output import emit_json, json_option, note, say
from hermes.core.errors import SettingsError
from hermes.gym.dice import Split
from hermes.gym.doors.openenv import House
from hermes.gym.doors.sampling import WEIGHTS, Sampler
from hermes.gym.drill import Terms
from hermes.gym.scenario import Scenario

TABLE = {
    "serve": ("hermes.cli.rl:serve", "Episodes over HTTP: reset, step, state"),
    "sample": ("hermes.cli.rl:sample", "Which incidents would be drawn"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    examples="""
hermes rl serve --light --port 8900
hermes rl sample --count 10
""",
)
def rl() -> None:
    """Episodes for training. What hurts more is drawn more often: P0 3, P1 2, P2 1.5, P3 1."""


@click.command(
    cls=Examples,
    examples="""
hermes rl serve --light
hermes rl serve config-typo-after-edit --port 8900
hermes rl serve --host 0.0.0.0 --token-file token.txt
curl -s localhost:8900/reset -d '{}'
curl -s localhost:8900/step -d '{"action": {"command": "systemctl --failed"}}'
""",
)
@click.argument("scenarios", nargs=-1)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8900, show_default=True, help="0 takes a free one.")
@click.option("--token-file", type=click.Path(path_type=Path), help="What clients must send.")
@click.option("--light", is_flag=True, help="Only light scenarios.")
@click.option("--held-out", is_flag=True, help="The wordings kept apart for evaluation.")
@click.option("--seed", default=0, show_default=True, help="Of the order of incidents.")
@click.option("--sessions", default=8, show_default=True, help="Episodes at once.")
@click.option("--steps", default=40, show_default=True, help="Calls in an episode.")
@click.option("--timeout", default=600.0, show_default=True, help="Seconds for an episode.")
@click.option("--window", default=5.0, show_default=True, help="Seconds for which it must hold.")
@click.option("--idle", default=900.0, show_default=True, help="Seconds until one is given up.")
def serve(
    scenarios: tuple[str, ...],
    host: str,
    port: int,
    token_file: Path | None,
    **options: object,
) -> None:
    """Serve episodes in the shape of OpenEnv: POST /reset, POST /step, GET /state, POST /close.

    Prints the address once it listens. Everything that runs in an episode ends with it.
    """
    sampler = _sampler(scenarios, options)
    house = House(
        sessions=int(str(options["sessions"])),
        idle=float(str(options["idle"])),
        steps=int(str(options["steps"])),
        token=_token(token_file),
        terms=Terms(
            timeout=float(str(options["timeout"])),
            window=float(str(options["window"])),
            split=sampler.split,
        ),
    )
    anyio.run(_serve, sampler, house, host, port)


async def _serve(sampler: Sampler, house: House, host: str, port: int) -> None:
    from hermes.gym.doors.openenv import serve as open_door
    from hermes.gym.stage import rules

    async def opened(*, task_status: anyio.abc.TaskStatus[int]) -> None:
        await open_door(sampler, rules(), house, host=host, port=port, task_status=task_status)

    async with anyio.create_task_group() as group:
        found: int = await group.start(opened)
        say(f"http://{host}:{found}")
        note(f"{len(sampler.scenarios)} scenarios, {house.sessions} seats; Ctrl-C ends it")


@click.command(cls=Examples, examples="hermes rl sample --count 20 --json")
@click.argument("scenarios", nargs=-1)
@click.option("--count", default=10, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--light", is_flag=True, help="Only light scenarios.")
@click.option("--held-out", is_flag=True, help="The wordings kept apart for evaluation.")
@json_option
def sample(scenarios: tuple[str, ...], count: int, as_json: bool, **options: object) -> None:
    """Draw incidents as a training run would."""
    sampler = _sampler(scenarios, options)
    drawn = [sampler.draw() for _ in range(count)]
    rows = [
        {
            "scenario": each.scenario.name,
            "seed": each.seed,
            "severity": each.story.alert.severity,
            "weight": WEIGHTS[each.story.alert.severity],
        }
        for each in drawn
    ]
    if as_json:
        emit_json(rows)
        return
    for row in rows:
        say(f"{row['severity']}  {row['scenario']}  --seed {row['seed']}")


def _sampler(names: tuple[str, ...], options: dict[str, object]) -> Sampler:
    split: Split = "held-out" if options["held_out"] else "train"
    chosen = _chosen(names, light=bool(options["light"]))
    return Sampler(chosen, seed=int(str(options["seed"])), split=split)


def _chosen(names: tuple[str, ...], *, light: bool) -> list[Scenario]:
    from hermes.cli.drill_run import playable
    from hermes.gym.doors.choosing import chosen

    return [playable(name) for name in names] if names else chosen("", light=light)


def _token(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from error
    if not token:
        raise SettingsError(f"{file} is empty: write a long random word into it")
    return token
