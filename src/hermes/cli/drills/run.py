"""`hermes drill run`, `list` and `show`."""

from functools import partial

import anyio
import click
import msgspec

from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_fields, print_json, print_table
from hermes.cli.render.terminal_text import clip
from hermes.core.errors import HermesError, SettingsError
from hermes.gym.box.openers import box_opener
from hermes.gym.drill import DrillResult, DrillTerms
from hermes.gym.episodes.readiness import (
    GymReadiness,
    ScenarioListing,
    check_readiness,
    list_scenarios,
    missing_requirements,
)
from hermes.gym.scenario import Scenario, find_scenario, scenario_catalog, scenario_reference
from hermes.gym.settings import GymSettings
from hermes.gym.supervisors.hosts import (
    OWN_SYSTEMCTL,
    SUPERVISOR_KINDS,
    missing_supervisor_programs,
)
from hermes.settings.load import LoadedSettings

backend_option = click.option(
    "--backend",
    type=click.Choice(["box", "docker"]),
    default=None,
    help="The backend of the box; default: gym.backend.",
)

supervisor_option = click.option(
    "--supervisor",
    type=click.Choice(SUPERVISOR_KINDS),
    default=OWN_SYSTEMCTL,
    show_default=True,
    help="What runs the services of the hosts.",
)

without_playbooks_option = click.option(
    "--without-playbooks", is_flag=True, help="Skills can be read, but no playbook runs."
)

without_state_option = click.option(
    "--without-state",
    is_flag=True,
    help="Withhold the known good state, which a watch would have recorded before the fault.",
)

prove_skill_option = click.option(
    "--prove-skill",
    is_flag=True,
    help="Replay the learned skill alone on a fresh variant; takes up to a minute.",
)


@cli_command("""
hermes drill run config-typo-after-edit --seed 7
hermes drill run config-typo-after-edit --backend docker
hermes drill run config-typo-after-edit --model none --json
hermes drill run config-typo-after-edit --model none --without-playbooks
hermes drill run config-typo-after-edit --model none --supervisor supervisord
hermes drill run ./my-scenario --model anthropic:claude-sonnet-5 --turns 30
""")
@click.argument("scenario")
@click.option("--seed", default=0, show_default=True, help="Another seed, another host.")
@click.option(
    "--model", default="", help="A model; `none` for playbooks only; default: as configured."
)
@click.option("--no-skills", is_flag=True, help="Without skills and playbooks.")
@without_playbooks_option
@without_state_option
@click.option("--no-memory", is_flag=True, help="Without notes, recall and learning.")
@click.option("--turns", default=40, show_default=True, help="Answers that the model may give.")
@click.option("--timeout", default=600.0, show_default=True, help="Seconds for the agent.")
@click.option("--window", default=5.0, show_default=True, help="Seconds for which it must hold.")
@click.option("--held-out", is_flag=True, help="Use the texts reserved for evaluation.")
@backend_option
@supervisor_option
@prove_skill_option
def run(ctx: click.Context, /, scenario: str, as_json: bool, **options: object) -> int:
    """Break a host as defined by SCENARIO, let an agent answer the alert, and score it.

    Exit code 0 when it was resolved, 1 when not, 5 when there was no episode to score.
    """
    from hermes.app.drills.drill import parse_agent, run_agent_drill
    from hermes.app.skills.gym_replay import make_skill_trial

    loaded = load_settings(ctx)
    gym = gym_settings(loaded, options["backend"])
    found = require_playable(scenario, gym)
    supervisor = str(options["supervisor"])
    require_supervisor(supervisor, gym)
    agent = parse_agent(
        str(options["model"]) or loaded.settings.model.default,
        skills=not options["no_skills"],
        memory=not options["no_memory"],
        turns=int(str(options["turns"])),
        playbooks=not options["without_playbooks"],
        states=not options["without_state"],
    )
    terms = DrillTerms(
        responder_timeout_s=float(str(options["timeout"])),
        window_s=float(str(options["window"])),
        split="held-out" if options["held_out"] else "train",
        supervisor=supervisor,
    )
    if not as_json:
        note(f"{found.name}: {agent.name} answers; the drill cannot change this machine")
    seed, opener = int(str(options["seed"])), box_opener(gym)
    learned = None
    if options["prove_skill"]:
        reference = scenario_reference(scenario, gym.scenarios)
        learned = make_skill_trial(reference, split=terms.split, opener=opener)
    work = partial(run_agent_drill, opener=opener, learned=learned)
    drilled = anyio.run(work, loaded, found, seed, agent, terms)
    if as_json:
        print_json(drilled)
    else:
        print_drill_result(drilled)
    return drill_exit_code(drilled)


def gym_settings(loaded: LoadedSettings, backend: object) -> GymSettings:
    """The settings of the home, with the options of the command line."""
    gym = loaded.settings.gym
    return msgspec.structs.replace(gym, backend=backend) if backend else gym


def require_playable(name: str, gym: GymSettings | None = None) -> Scenario:
    """Find the scenario. Raises `SettingsError` with the missing requirements."""
    scenario = find_scenario(name, gym.scenarios if gym else ())
    missing = missing_requirements(scenario, check_readiness(gym))
    if missing:
        raise SettingsError(
            f"{scenario.name} cannot run here: {'; '.join(missing)}\n"
            "available scenarios: hermes drill list"
        )
    return scenario


def require_supervisor(kind: str, gym: GymSettings) -> None:
    """Raises `SettingsError` with what this machine lacks for it."""
    missing = missing_supervisor_programs(kind)
    if missing and gym.backend == "box":
        raise SettingsError(f"no host can run {kind} here: {', '.join(missing)} not installed")


def drill_exit_code(drilled: DrillResult) -> int:
    if drilled.void:
        return exit_codes.ENVIRONMENT
    return exit_codes.OK if drilled.resolved else exit_codes.FAILED


def print_drill_result(drilled: DrillResult) -> None:
    if drilled.void:
        note(f"void, not scored: {drilled.void}")
        return
    parts = msgspec.structs.asdict(drilled.reward)
    total = parts.pop("total")
    found = ""
    if diagnosis := drilled.diagnosis:
        found = f"{diagnosis.component}: {diagnosis.mechanism} ({diagnosis.value})"
    print_fields(
        {
            "resolved": drilled.resolved,
            "claimed": drilled.claimed,
            "reward": f"{total:.2f}  "
            + "  ".join(f"{name.replace('_', ' ')} {share:.2f}" for name, share in parts.items()),
            "answered by": drilled.answered_by,
            "ended": drilled.ended,
            "diagnosis": found,
            "collateral": drilled.collateral,
            "breaches": drilled.policy_breaches,
            "took": f"{drilled.seconds:.1f} s, {drilled.tool_calls} tool calls, "
            f"{drilled.model_calls} model calls, {drilled.tokens:,} tokens",
            "run": drilled.run,
            "window": f"{drilled.window:g} s",
        }
    )
    for each in drilled.checks:
        echo(f"  {'✓' if each.ok else '✗'} {each.check}: {each.detail}", dim=each.ok)
    if drilled.ended.startswith("failed: "):
        raise HermesError(drilled.ended.removeprefix("failed: "))


@cli_command("hermes drill list --group jobs --json")
@click.option("--group", help="Only this group.")
@click.option("--light", is_flag=True, help="Only those that need nothing but bash and Python.")
@backend_option
def list_(
    ctx: click.Context, group: str | None, light: bool, backend: str | None, as_json: bool
) -> int:
    """List the scenarios, with requirements that this machine lacks."""
    gym = gym_settings(load_settings(ctx), backend)
    readiness, problems = check_readiness(gym), scenario_catalog(gym.scenarios).problems
    found = [
        each
        for each in list_scenarios(here=readiness, folders=gym.scenarios)
        if (not group or each.group == group) and (not light or each.light)
    ]
    if as_json:
        print_json({"here": readiness, "scenarios": found, "problems": problems})
    else:
        print_table(
            ("scenario", "group", "light", "here", "about"),
            [
                (each.name, each.group, each.light, _scenario_state(each), clip(each.summary, 70))
                for each in found
            ],
            empty="no scenario matches",
        )
        _print_scenarios(readiness, found)
        for problem in problems:
            note(problem)
    return int(any(each.broken for each in found))


def _scenario_state(each: ScenarioListing) -> str:
    if each.broken:
        return "broken"
    return f"no: {clip('; '.join(each.missing), 60)}" if each.missing else "yes"


def _print_scenarios(readiness: GymReadiness, found: list[ScenarioListing]) -> None:
    for each in found:
        if each.broken:
            note(f"{each.name}: {each.broken}")
    for requirement in readiness.missing:
        note(f"this machine lacks {requirement}")
    playable = sum(not each.missing and not each.broken for each in found)
    if playable < len(found):
        note(f"{playable} of {len(found)} scenarios can run here")


@cli_command("hermes drill show config-typo-after-edit --seed 3 --answer")
@click.argument("scenario")
@click.option("--seed", default=0, show_default=True)
@click.option("--answer", is_flag=True, help="Also the fault and its fix.")
def show(ctx: click.Context, scenario: str, seed: int, answer: bool, as_json: bool) -> None:
    """Show the alert and the checks of SCENARIO; with --answer also the fault and its fix."""
    found = find_scenario(scenario, load_settings(ctx).settings.gym.scenarios)
    spec = found.draw_spec(seed)
    data: dict[str, object] = {
        "name": found.name,
        "group": found.group,
        "summary": found.summary,
        "needs": found.needs,
        "missing": missing_requirements(found),
        "seed": seed,
        "severity": spec.alert.severity,
        "alert": spec.alert.text,
        "labels": spec.alert.labels,
        "hosts": [host.name for host in spec.hosts],
        "checks": [check.name for check in (*spec.healthy, *spec.symptoms)],
    }
    if answer:
        data |= {
            "answer": spec.answer,
            "faults": spec.faults,
            "inject": spec.inject,
            "reference": spec.reference,
            "relief": spec.relief,
            "shortcut": spec.shortcut,
            "futile": spec.futile,
            "collateral": [check.name for check in spec.collateral],
        }
    if as_json:
        print_json(data)
        return
    print_fields(
        {name: value for name, value in data.items() if name not in ("inject", "reference")}
    )
    for part in ("inject", "reference") if answer else ():
        echo(f"\n{part}", bold=True)
        for command in getattr(spec, part):
            echo(f"  {command}")
