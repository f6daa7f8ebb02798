"""`hermes drill shell`, `score` and `from-incident`, and `hermes incident replay`."""

import shutil
import sys
from functools import partial
from pathlib import Path

import anyio
import click

from hermes.app.incidents.views import find_incident
from hermes.cli import exit_codes
from hermes.cli.context import load_settings, query_journal
from hermes.cli.drills.run import (
    backend_option,
    drill_exit_code,
    gym_settings,
    print_drill_result,
    require_playable,
)
from hermes.cli.incidents.lookup import complete_incident_id
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json
from hermes.core.incident import incident_details
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
from hermes.gym.incidents.build import IncidentDrill
from hermes.gym.scenario import Scenario
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings


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


@cli_command("""
hermes drill from-incident last
hermes drill from-incident 4f2a1c --folder ./drills/shop-down
hermes drill from-incident 4f2a1c --json
""")
@click.argument("id", shell_complete=complete_incident_id)
@click.option(
    "--folder", default="", help="Where to write it; default: `drills` in the home folder."
)
def from_incident(ctx: click.Context, id: str, folder: str, as_json: bool) -> None:
    """Make a drill from the incident ID: the host as it was, what broke it, and its checks.

    Secrets and data are left out or made up; the drill says which. It needs the states that were
    kept for the incident.
    """
    loaded = load_settings(ctx)
    path, made = make_drill(loaded, id, folder)
    if as_json:
        checks = [each.name for each in made.spec.symptoms]
        print_json({"folder": path, "left_out": made.left_out, "symptoms": checks})
        return
    echo(f"drill {path}")
    for each in made.left_out:
        note(f"left out or made up: {each}")
    echo(f"check it: hermes drill selftest {path}")
    echo(f"play it:  hermes drill run {path} --model none")


def make_drill(loaded: LoadedSettings, id: str, folder: str = "") -> tuple[Path, IncidentDrill]:
    """Raises `HermesError` with what is missing."""
    from hermes.app.changes.states import open_state_store
    from hermes.app.incidents.drill import (
        DRILLS_FOLDER,
        drill_name,
        make_incident_drill,
    )
    from hermes.app.secret_redactor import SecretRedactor

    chosen = Path(folder).expanduser() if folder else None

    async def query(journal: JournalStore) -> tuple[Path, IncidentDrill]:
        details = incident_details(await find_incident(journal, id))
        name = drill_name(details.incident)
        path = chosen or loaded.home / DRILLS_FOLDER / name
        store = open_state_store(loaded)
        redact = SecretRedactor(loaded)
        return path, await make_incident_drill(journal, store, details, path, redact)

    return query_journal(loaded, query)


@cli_command("""
hermes incident replay last                     a shell on the broken host
hermes incident replay 4f2a1c --model none      playbooks and experiments
hermes incident replay 4f2a1c --model anthropic:claude-sonnet-5 --json
""")
@click.argument("id", default="last", shell_complete=complete_incident_id)
@click.option("--model", default="", help="Who works on it; without it, you do, in a shell.")
@click.option("--without-playbooks", is_flag=True, help="No playbook runs.")
@click.option("--window", default=2.0, show_default=True, help="Seconds for which it must hold.")
def replay(
    ctx: click.Context, id: str, model: str, without_playbooks: bool, window: float, as_json: bool
) -> int:
    """Work on the incident ID again, in a box: with a shell, or with a model.

    Exit code 0 when it was resolved, 1 when not, 5 when the host could not be rebuilt.
    """
    from hermes.app.drills.drill import parse_agent, run_agent_drill

    loaded = load_settings(ctx)
    path, made = make_drill(loaded, id)
    for each in () if as_json else made.left_out:
        note(f"left out or made up: {each}")
    gym = gym_settings(loaded, None)
    scenario, opener = require_playable(str(path), gym), box_opener(gym)
    terms = DrillTerms(window_s=window)
    if not model:
        return anyio.run(partial(run_shell_drill, loaded.home, scenario, 0, 0, terms, opener))
    agent = parse_agent(model, playbooks=not without_playbooks)
    work = partial(run_agent_drill, opener=opener)
    result = anyio.run(work, loaded, scenario, 0, agent, terms)
    if as_json:
        print_json(result)
    else:
        print_drill_result(result)
    return drill_exit_code(result)
