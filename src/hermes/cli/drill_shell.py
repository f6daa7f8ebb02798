"""`hermes drill shell` and `score`: a person on call, in the box."""

import shutil
import sys
from functools import partial
from pathlib import Path

import anyio
import click

from hermes.cli import exits
from hermes.cli.drill_run import backend_option, gym_settings, playable
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say
from hermes.gym.backend import opener_of
from hermes.gym.box.carrier import Opener
from hermes.gym.box.place import BoxClient
from hermes.gym.drill import Terms, judge
from hermes.gym.episode import Episode, open_episode
from hermes.gym.scenario import Scenario
from hermes.gym.watch import Looked, answer, ask, greeting, looked


@click.command(cls=Examples, examples="hermes drill shell config-typo-after-edit --seed 4")
@click.argument("scenario")
@click.option("--seed", default=0, show_default=True)
@click.option("--host", default=0, show_default=True, help="Which machine, by number.")
@click.option("--window", default=2.0, show_default=True, help="Seconds for which it must hold.")
@backend_option
@click.pass_context
def shell(
    ctx: click.Context, scenario: str, seed: int, host: int, window: float, backend: str | None
) -> int:
    """Open a shell on the broken host of SCENARIO; it is scored when you leave.

    `hermes drill score` in another terminal says how it stands meanwhile.
    """
    loaded = settings_for(ctx)
    gym = gym_settings(loaded, backend)
    found, terms, opener = playable(scenario, gym), Terms(window=window), opener_of(gym)
    return anyio.run(partial(_sit, loaded.home, found, seed, host, terms, opener))


async def _sit(
    home: Path, scenario: Scenario, seed: int, host: int, terms: Terms, opener: Opener
) -> int:
    story = scenario.story(seed)
    async with open_episode(scenario, story, opener=opener) as episode:

        async def look() -> Looked:
            return looked(episode, seed, await judge(episode, terms))

        say(greeting(story))
        note("you are root on this host and nowhere else; `exit` ends the drill and scores it")
        async with anyio.create_task_group() as group:
            group.start_soon(answer, home, look)
            await _shell(episode, host)
            group.cancel_scope.cancel()
        result = await look()
    _tell(result)
    return exits.OK if result.resolved else exits.FAILED


async def _shell(episode: Episode, host: int) -> None:
    """In a terminal of the host's own, so that its shell has job control."""
    at_a_terminal = sys.stdin.isatty()
    words: tuple[str, ...] = ("bash", "--norc", "-i") if at_a_terminal else ("bash",)
    if at_a_terminal and shutil.which("script") is not None:
        words = ("script", "-q", "-c", " ".join(words), "/dev/null")
    client = BoxClient(episode.box, host)
    name = episode.story.hosts[host].name
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


@click.command(cls=Examples, examples="hermes drill score --json")
@json_option
@click.pass_context
def score(ctx: click.Context, as_json: bool) -> int:
    """Say how the drill stands that is open in a shell. Sets the trigger off again to find out."""
    loaded = settings_for(ctx)
    result = anyio.run(ask, loaded.home)
    if as_json:
        emit_json(result)
    else:
        _tell(result)
    return exits.OK if result.resolved else exits.FAILED


def _tell(result: Looked) -> None:
    state = "resolved" if result.resolved else "not resolved"
    say(f"{result.scenario} seed {result.seed}: {state}", bold=True)
    for line in (*result.checks, *(f"✗ collateral: {each}" for each in result.collateral)):
        say(f"  {line}")
