"""`hermes drill run`: one scenario, one agent, one score."""

import anyio
import click
import msgspec

from hermes.cli import exits
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, fields, json_option, note, say
from hermes.core.errors import HermesError, SettingsError
from hermes.gym.drill import Drilled, Terms
from hermes.gym.readiness import DOCKER, lacking, readiness
from hermes.gym.scenario import Scenario, find


@click.command(
    cls=Examples,
    examples="""
hermes drill run config-typo-after-edit --seed 7
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
@click.option("--backend", type=click.Choice(["box", "docker"]), default="box", hidden=True)
@json_option
@click.pass_context
def run(ctx: click.Context, /, scenario: str, as_json: bool, **options: object) -> int:
    """Break a host as SCENARIO says, let an agent answer the alert, and score what it did.

    Exit code 0 when it was resolved, 1 when not, 5 when there was no episode to score.
    """
    from hermes.app.drill import agent_called, drill

    if options["backend"] == "docker":
        raise SettingsError(DOCKER)
    loaded = settings_for(ctx)
    found = playable(scenario)
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
    drilled = anyio.run(drill, loaded, found, int(str(options["seed"])), agent, terms)
    if as_json:
        emit_json(drilled)
    else:
        tell(drilled)
    return code_of(drilled)


def playable(name: str) -> Scenario:
    """Raises `SettingsError` with what this machine lacks."""
    scenario = find(name)
    missing = lacking(scenario, readiness())
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
