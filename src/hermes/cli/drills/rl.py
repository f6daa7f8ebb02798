"""`hermes rl`: serves and samples gym incidents for training."""

from pathlib import Path

import anyio
import anyio.abc
import click

from hermes.cli.lazy import cli_command, cli_group
from hermes.cli.output import echo, note, print_json
from hermes.core.errors import SettingsError
from hermes.gym.drill import DrillTerms
from hermes.gym.random_source import Split
from hermes.gym.scenario import Scenario
from hermes.gym.training.external_episodes import SEVERITY_WEIGHTS, IncidentSampler
from hermes.gym.training.openenv_server import OpenEnvOptions

RL_COMMANDS = {
    "serve": ("drills.rl:serve", "Episodes over HTTP: reset, step, state"),
    "sample": ("drills.rl:sample", "Draw incidents like a training run"),
}


@cli_group(
    RL_COMMANDS,
    """
hermes rl serve --light --port 8900
hermes rl sample --count 10
""",
)
def rl() -> None:
    """Episodes for training. Severe incidents are drawn more often: P0 3, P1 2, P2 1.5, P3 1."""


@cli_command("""
hermes rl serve --light
hermes rl serve config-typo-after-edit --port 8900
hermes rl serve --host 0.0.0.0 --token-file token.txt
curl -s localhost:8900/reset -d '{}'
curl -s localhost:8900/step -d '{"action": {"command": "systemctl --failed"}}'
""")
@click.argument("scenarios", nargs=-1)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8900, show_default=True, help="0 takes a free one.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with the token that clients must send.",
)
@click.option("--light", is_flag=True, help="Only light scenarios.")
@click.option("--held-out", is_flag=True, help="Use the texts reserved for evaluation.")
@click.option("--seed", default=0, show_default=True, help="Of the order of incidents.")
@click.option("--sessions", default=8, show_default=True, help="Episodes at once.")
@click.option("--steps", default=40, show_default=True, help="Calls in an episode.")
@click.option("--timeout", default=600.0, show_default=True, help="Seconds for an episode.")
@click.option("--window", default=5.0, show_default=True, help="Seconds for which it must hold.")
@click.option("--idle", default=900.0, show_default=True, help="Seconds until one is given up.")
def serve(
    scenarios: tuple[str, ...], host: str, port: int, token_file: Path | None, **options: object
) -> None:
    """Serve episodes with the OpenEnv protocol: POST /reset, POST /step, GET /state, POST /close.

    Prints the address when it is ready. Processes of an episode end with it.
    """
    sampler = _build_sampler(scenarios, options)
    server_options = OpenEnvOptions(
        max_sessions=int(str(options["sessions"])),
        idle_timeout_s=float(str(options["idle"])),
        max_steps=int(str(options["steps"])),
        token=_read_token(token_file),
        terms=DrillTerms(
            responder_timeout_s=float(str(options["timeout"])),
            window_s=float(str(options["window"])),
            split=sampler.split,
        ),
    )
    anyio.run(_serve_episodes, sampler, server_options, host, port)


async def _serve_episodes(
    sampler: IncidentSampler, options: OpenEnvOptions, host: str, port: int
) -> None:
    from hermes.gym.episodes.responder_context import sandbox_rules
    from hermes.gym.training.openenv_server import serve_openenv

    async def run_server(*, task_status: anyio.abc.TaskStatus[int]) -> None:
        await serve_openenv(
            sampler, sandbox_rules(), options, host=host, port=port, task_status=task_status
        )

    async with anyio.create_task_group() as group:
        bound_port: int = await group.start(run_server)
        echo(f"http://{host}:{bound_port}")
        note(f"{len(sampler.scenarios)} scenarios, {options.max_sessions} sessions; Ctrl-C ends it")


@cli_command("hermes rl sample --count 20 --json")
@click.argument("scenarios", nargs=-1)
@click.option("--count", default=10, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--light", is_flag=True, help="Only light scenarios.")
@click.option("--held-out", is_flag=True, help="Use the texts reserved for evaluation.")
def sample(scenarios: tuple[str, ...], count: int, as_json: bool, **options: object) -> None:
    """Draw incidents like a training run."""
    sampler = _build_sampler(scenarios, options)
    drawn = [sampler.draw() for _ in range(count)]
    rows = [
        {
            "scenario": each.scenario.name,
            "seed": each.seed,
            "severity": each.spec.alert.severity,
            "weight": SEVERITY_WEIGHTS[each.spec.alert.severity],
        }
        for each in drawn
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        echo(f"{row['severity']}  {row['scenario']}  --seed {row['seed']}")


def _build_sampler(names: tuple[str, ...], options: dict[str, object]) -> IncidentSampler:
    split: Split = "held-out" if options["held_out"] else "train"
    chosen = _select_scenarios(names, light=bool(options["light"]))
    return IncidentSampler(chosen, seed=int(str(options["seed"])), split=split)


def _select_scenarios(names: tuple[str, ...], *, light: bool) -> list[Scenario]:
    from hermes.cli.drills.run import require_playable
    from hermes.gym.episodes.readiness import select_scenarios

    return (
        [require_playable(name) for name in names] if names else select_scenarios("", light=light)
    )


def _read_token(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from error
    if not token:
        raise SettingsError(f"{file} is empty: write a long random token into it")
    return token
