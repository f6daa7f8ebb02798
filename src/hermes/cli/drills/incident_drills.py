"""`hermes drill from-incident` and `hermes incident replay`."""

from functools import partial
from pathlib import Path

import anyio
import click

from hermes.cli.context import load_settings, query_journal
from hermes.cli.drills.run import (
    drill_exit_code,
    gym_settings,
    print_drill_result,
    require_playable,
)
from hermes.cli.drills.shell import run_shell_drill
from hermes.cli.incidents.lookup import complete_incident_id, find_incident
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json
from hermes.core.incident import incident_details
from hermes.gym.box.openers import box_opener
from hermes.gym.drill import DrillTerms
from hermes.gym.incidents.build import IncidentDrill
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings


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
    from hermes.app.incident_drill import (
        DRILLS_FOLDER,
        drill_name,
        make_incident_drill,
    )
    from hermes.app.secret_redactor import SecretRedactor
    from hermes.app.states import open_state_store

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
    from hermes.app.drill import parse_agent, run_agent_drill

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
