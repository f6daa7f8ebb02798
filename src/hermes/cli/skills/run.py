"""`hermes skills run`: a playbook through the same gate as everything else, without a model."""

import anyio
import click

from hermes.app.application import open_application
from hermes.app.skills.library import tool_caller
from hermes.cli.lazy import CommandWithExamples
from hermes.cli.output import echo, json_option, print_json, print_table
from hermes.cli.render.terminal_text import clean
from hermes.cli.skills.context import load_library
from hermes.core.errors import SettingsError
from hermes.core.protocols import ToolContext
from hermes.core.run_ids import new_id
from hermes.policy.undo import KnownUndoPolicy
from hermes.settings.load import LoadedSettings
from hermes.skills.library import Skill
from hermes.skills.playbook.commands import PlaybookContext
from hermes.skills.playbook.parameters import AlertFacts
from hermes.skills.playbook.runner import PlaybookRunner, PlaybookRunResult

ANSWER_TIMEOUT_S = 3600.0
"""Seconds that people may take to answer what a step asks."""


@click.command(
    cls=CommandWithExamples,
    examples="""
hermes skills run port-taken --dry-run --label service=orders
hermes skills run port-taken --label service=orders --undo
hermes skills run config-restore --alert "orders is down" --set unit=orders.service
""",
)
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Look, and tell what would be done.")
@click.option("--undo", is_flag=True, help="Take everything back when a step or check fails.")
@click.option("--alert", default="", help="The alert's words.")
@click.option("--label", multiple=True, metavar="KEY=VALUE", help="A label of the alert.")
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A parameter.")
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    name: str,
    dry_run: bool,
    undo: bool,
    alert: str,
    label: tuple[str, ...],
    given: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run the playbook of NAME in the place of work.

    Its probes look first: unless all of them hold, nothing is changed. Exit code 0 when it was
    applied and its checks hold, 1 when not; a rule that says no holds here as everywhere.
    """
    loaded, library = load_library(ctx)
    skill = library.find(name)
    if skill.playbook is None:
        problems = "\n".join(map(str, skill.problems))
        raise SettingsError(problems or f"{name} has no playbook: it is for reading only")
    facts = AlertFacts(title=alert, labels=_parse_pairs(label), given=_parse_pairs(given))
    unknown = set(facts.given) - set(skill.playbook.parameters)
    if unknown:
        known = ", ".join(skill.playbook.parameters) or "none"
        raise SettingsError(f"{name} has no parameter {sorted(unknown)[0]!r}; there are: {known}")
    played = anyio.run(_run_playbook, loaded, skill, facts, dry_run, undo)
    if as_json:
        print_json({each: getattr(played, each) for each in played.__struct_fields__})
    else:
        _print_result(played)
    if played.outcome != "applied":
        ctx.exit(1)


async def _run_playbook(
    loaded: LoadedSettings, skill: Skill, facts: AlertFacts, dry: bool, undo: bool
) -> PlaybookRunResult:
    assert skill.playbook is not None
    async with open_application(loaded, origin="cli", toolsets=("terminal",)) as house:
        means, run = house.agent_dependencies, new_id("play")
        ways_back: dict[str, str] = {}
        executor = means.executor.with_policy(KnownUndoPolicy(means.executor.policy, ways_back))
        context = ToolContext(
            run=run,
            environment=means.environment,
            publish=means.bus.publish,
            call=lambda call: executor.execute(call, context),
            artifacts=means.artifacts,
            processes=means.processes,
        )

        async def before(call_id: str, command: str, undo: str) -> None:
            ways_back[call_id] = undo

        publish = means.bus.publish
        runner = PlaybookRunner(
            skill.name,
            skill.playbook,
            PlaybookContext(
                tool_caller(executor, context), publish, run, before, step_grace_s=ANSWER_TIMEOUT_S
            ),
            digest=skill.digest,
        )
        played = await runner.run(facts, dry=dry)
        if undo and played.changed and played.outcome not in ("applied", "undone"):
            played = await runner.undo(played)
        return played


def _print_result(played: PlaybookRunResult) -> None:
    rows = [
        (each.phase, each.name, "ok" if each.ok else "no", " ".join(each.command.split())[:100])
        for each in played.done
    ]
    print_table(("phase", "name", "", "command"), rows, empty="nothing was run")
    words = f"{played.skill}: {'would be applied' if played.dry else played.outcome}"
    if played.dry and played.outcome != "applied":
        words = f"{played.skill}: {played.outcome}"
    where = f" at {played.step}" if played.step else ""
    echo(clean(f"{words}{where}{': ' + played.detail if played.detail else ''}"))


def _parse_pairs(words: tuple[str, ...]) -> dict[str, str]:
    for word in words:
        if "=" not in word:
            raise click.UsageError(f"{word!r} is not NAME=VALUE")
    return dict(word.split("=", 1) for word in words)
