"""`hermes drill shell` and `score`: a person works on the broken host."""

import shutil
import sys
from functools import partial
from pathlib import Path

import anyio
import click

from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.drills.run import backend_option, gym_settings, require_playable
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json
from hermes.environments.boxes.backend import BoxOpener
from hermes.gym.box.environment import BoxHostClient
from hermes.gym.box.openers import box_opener
from hermes.gym.drill import DrillTerms, judge_episode
from hermes.gym.episodes.episode import Episode, open_episode
from hermes.gym.episodes.shell_score import (
    ShellScore,
    alert_banner,
    request_shell_score,
    serve_shell_score,
    shell_score,
)
from hermes.gym.scenario import Scenario


@cli_command("hermes drill shell config-typo-after-edit --seed 4")
@click.argument("scenario")
@click.option("--seed", default=0, show_default=True)
@click.option("--host", default=0, show_default=True, help="Which machine, by number.")
@click.option("--window", default=2.0, show_default=True, help="Seconds for which it must hold.")
@backend_option
def shell(
    ctx: click.Context, scenario: str, seed: int, host: int, window: float, backend: str | None
) -> int:
    """Open a shell on the broken host of SCENARIO; it is scored when you leave.

    `hermes drill score` in another terminal shows the current score.
    """
    loaded = load_settings(ctx)
    gym = gym_settings(loaded, backend)
    found, terms, opener = (
        require_playable(scenario, gym),
        DrillTerms(window_s=window),
        box_opener(gym),
    )
    return anyio.run(partial(run_shell_drill, loaded.home, found, seed, host, terms, opener))


async def run_shell_drill(
    home: Path, scenario: Scenario, seed: int, host: int, terms: DrillTerms, opener: BoxOpener
) -> int:
    spec = scenario.draw_spec(seed)
    async with open_episode(scenario, spec, opener=opener) as episode:

        async def current_score() -> ShellScore:
            return shell_score(episode, seed, await judge_episode(episode, terms))

        echo(alert_banner(spec))
        note("you are root on this host and nowhere else; `exit` ends the drill and scores it")
        async with anyio.create_task_group() as group:
            group.start_soon(serve_shell_score, home, current_score)
            await _open_host_shell(episode, host)
            group.cancel_scope.cancel()
        result = await current_score()
    _print_score(result)
    return exit_codes.OK if result.resolved else exit_codes.FAILED


async def _open_host_shell(episode: Episode, host: int) -> None:
    """Use a terminal of the host, so that its shell has job control."""
    at_a_terminal = sys.stdin.isatty()
    words: tuple[str, ...] = ("bash", "--norc", "-i") if at_a_terminal else ("bash",)
    if at_a_terminal and shutil.which("script") is not None:
        words = ("script", "-q", "-c", " ".join(words), "/dev/null")
    client = BoxHostClient(episode.box, host)
    name = episode.spec.hosts[host].name
    variables = {
        **client.variables,
        "HOME": "/root",
        "USER": "root",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PS1": f"[root@{name} \\w]# ",
    }
    argv = [f"{key}={value}" for key, value in variables.items()]
    inside = client.words(
        ["/usr/bin/env", "-i", "-C", "/root", *argv, *words], terminal=at_a_terminal
    )
    process = await anyio.open_process(inside, stdin=None, stdout=None, stderr=None)
    async with process:
        await process.wait()


@cli_command("hermes drill score --json")
def score(ctx: click.Context, as_json: bool) -> int:
    """Score the drill that is open in a shell. This repeats the trigger of the fault."""
    loaded = load_settings(ctx)
    result = anyio.run(request_shell_score, loaded.home)
    if as_json:
        print_json(result)
    else:
        _print_score(result)
    return exit_codes.OK if result.resolved else exit_codes.FAILED


def _print_score(result: ShellScore) -> None:
    state = "resolved" if result.resolved else "not resolved"
    echo(f"{result.scenario} seed {result.seed}: {state}", bold=True)
    for line in (*result.checks, *(f"✗ collateral: {each}" for each in result.collateral)):
        echo(f"  {line}")
