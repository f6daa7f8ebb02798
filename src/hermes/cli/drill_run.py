"""`hermes drill run`: one scenario, one agent, one score."""

from functools import partial

import anyio
import click
import msgspec

from hermes.cli import exits
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, fields, json_option, note, say
from hermes.core.errors import HermesError, SettingsError
from hermes.gym.backend import opener_of
from hermes.gym.drill import Drilled, Terms
from hermes.gym.readiness import lacking, readiness
from hermes.gym.scenario import Scenario, find
from hermes.gym.settings import GymSettings
from hermes.settings.load import Loaded

backend_option = click.option(
    "--backend",
    type=click.Choice(["box", "docker"]),
    default=None,
    help="Where the box is made; else as set in gym.backend.",
)

prove_skill_option = click.option(
    "--prove-skill",
    is_flag=True,
    help="Try what was learned, alone, on a fresh variant; takes up to a minute.",
)


@click.command(
    cls=Examples,
    examples="""
hermes drill run config-typo-after-edit --seed 7
hermes drill run config-typo-after-edit --backend docker
hermes drill run config-typo-after-edit --model none --json
hermes drill run ./my-scenario --model anthropic:claude-sonnet-5 --turns 30
""",
)
@click.argument("scenario")
@click.option("--seed", default=0, show_default=True, help="Another seed, another host.")
@click.option("--model", default="", help="A model; `none` for playbooks alone; else as set up.")
@click.option("--no-skills", is_flag=True, help="Without skills and playbooks.")
@click.option("--no-memory", is_flag=True, help="Without notes, recall and learning.")
@click.option("--turns", default=40, show_default=True, help="Answers that the model may give.")
@click.option("--timeout", default=600.0, show_default=True, help="Seconds for the agent.")
@click.option("--window", default=5.0, show_default=True, help="Seconds for which it must hold.")
@click.option("--held-out", is_flag=True, help="The wordings kept apart for evaluation.")
@backend_option
@prove_skill_option
@json_option
@click.pass_context
def run(ctx: click.Context, /, scenario: str, as_json: bool, **options: object) -> int:
    """Break a host as SCENARIO says, let an agent answer the alert, and score what it did.

    Exit code 0 when it was resolved, 1 when not, 5 when there was no episode to score.
    """
    from hermes.app.drill import agent_called, drill
    from hermes.app.skill_trial import skill_trial

    loaded = settings_for(ctx)
    gym = gym_settings(loaded, options["backend"])
    found = playable(scenario, gym)
    agent = agent_called(
        str(options["model"]) or loaded.settings.model.default,
        skills=not options["no_skills"],
        memory=not options["no_memory"],
        turns=int(str(options["turns"])),
    )
    terms = Terms(
        timeout=float(str(options["timeout"])),
        window=float(str(options["window"])),
        split="held-out" if options["held_out"] else "train",
    )
    if not as_json:
        note(f"{found.name}: {agent.name} answers; nothing here reaches this machine")
    seed, opener = int(str(options["seed"])), opener_of(gym)
    learned = None
    if options["prove_skill"]:
        learned = skill_trial(scenario, split=terms.split, opener=opener)
    work = partial(drill, opener=opener, learned=learned)
    drilled = anyio.run(work, loaded, found, seed, agent, terms)
    if as_json:
        emit_json(drilled)
    else:
        tell(drilled)
    return code_of(drilled)


def gym_settings(loaded: Loaded, backend: object) -> GymSettings:
    """Those of the home, with what the command line says."""
    gym = loaded.settings.gym
    return msgspec.structs.replace(gym, backend=backend) if backend else gym


def playable(name: str, gym: GymSettings | None = None) -> Scenario:
    """Raises `SettingsError` with what this machine lacks."""
    scenario = find(name)
    missing = lacking(scenario, readiness(gym))
    if missing:
        raise SettingsError(
            f"{scenario.name} cannot be played here: {'; '.join(missing)}\n"
            "see what can: hermes drill list"
        )
    return scenario


def code_of(drilled: Drilled) -> int:
    if drilled.void:
        return exits.PLACE
    return exits.OK if drilled.resolved else exits.FAILED


def tell(drilled: Drilled) -> None:
    if drilled.void:
        note(f"void, not scored: {drilled.void}")
        return
    parts = msgspec.structs.asdict(drilled.reward)
    total = parts.pop("total")
    said = drilled.diagnosis
    fields(
        {
            "resolved": drilled.resolved,
            "reward": f"{total:.2f}  "
            + "  ".join(f"{name.replace('_', ' ')} {share:.2f}" for name, share in parts.items()),
            "answered by": drilled.answered_by,
            "ended": drilled.ended,
            "diagnosis": f"{said.component}: {said.mechanism} ({said.value})" if said else "",
            "collateral": drilled.collateral,
            "breaches": drilled.policy_breaches,
            "took": f"{drilled.seconds:.1f} s, {drilled.tool_calls} tool calls, "
            f"{drilled.model_calls} model calls, {drilled.tokens:,} tokens",
            "run": drilled.run,
            "window": f"{drilled.window:g} s",
        }
    )
    for each in drilled.checks:
        say(f"  {'✓' if each.ok else '✗'} {each.check}: {each.detail}", dim=each.ok)
    if drilled.ended.startswith("failed: "):
        raise HermesError(drilled.ended.removeprefix("failed: "))
