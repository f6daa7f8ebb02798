"""`hermes skills run`: runs a playbook under the policy, without a model."""

import anyio
import click
from msgspec.structs import asdict

from hermes.agent.dependencies import execute_for_run
from hermes.app.application import open_application
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_json, print_table
from hermes.cli.render.terminal_text import clean
from hermes.cli.skills.context import load_library
from hermes.core.errors import SettingsError
from hermes.core.incident import AlertFacts
from hermes.core.run_ids import new_id
from hermes.policy.undo import KnownUndoPolicy
from hermes.settings.load import LoadedSettings
from hermes.skills.library import Skill
from hermes.skills.playbook.commands import PlaybookContext, find_root_commands
from hermes.skills.playbook.runner import PlaybookRunner, PlaybookRunResult

ANSWER_TIMEOUT_S = 3600.0
"""How long a step may wait for an approval."""


@cli_command("""
hermes skills run port-taken --dry-run --label service=orders
hermes skills run port-taken --label service=orders --undo
hermes skills run config-restore --alert "orders is down" --set unit=orders.service
""")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Run only the probes, and show what would be done.")
@click.option("--undo", is_flag=True, help="Undo everything when a step or check fails.")
@click.option("--alert", default="", help="The title of the alert.")
@click.option("--label", multiple=True, metavar="KEY=VALUE", help="A label of the alert.")
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A parameter.")
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
    """Run the playbook of NAME in the environment.

    Its probes run first: unless all of them match, nothing is changed. Exit code 0 when it was
    applied and its checks pass, 1 when not. The policy applies to every command.
    """
    loaded, library = load_library(ctx)
    skill = library.find(name)
    if skill.playbook is None:
        problems = "\n".join(map(str, skill.problems))
        raise SettingsError(problems or f"{name} has no playbook and cannot be run")
    facts = AlertFacts(title=alert, labels=_parse_pairs(label), given=_parse_pairs(given))
    unknown = set(facts.given) - set(skill.playbook.parameters)
    if unknown:
        known = ", ".join(skill.playbook.parameters) or "none"
        raise SettingsError(f"{name} has no parameter {sorted(unknown)[0]!r}; there are: {known}")
    result = anyio.run(_run_playbook, loaded, skill, facts, dry_run, undo)
    if as_json:
        print_json(asdict(result))
    else:
        _print_result(result)
    if result.outcome != "applied":
        ctx.exit(1)


async def _run_playbook(
    loaded: LoadedSettings, skill: Skill, facts: AlertFacts, dry: bool, undo: bool
) -> PlaybookRunResult:
    assert skill.playbook is not None
    async with open_application(loaded, origin="cli", toolsets=("terminal",)) as application:
        dependencies, run = application.agent_dependencies, new_id("play")
        undo_by_call: dict[str, str] = {}
        executor = dependencies.executor.with_policy(
            KnownUndoPolicy(dependencies.executor.policy, undo_by_call)
        )

        async def before(call_id: str, command: str, undo: str) -> None:
            undo_by_call[call_id] = undo

        publish = dependencies.bus.publish
        runner = PlaybookRunner(
            skill.name,
            skill.playbook,
            PlaybookContext(
                execute_for_run(dependencies, run, executor, actor=dependencies.by),
                publish,
                run,
                before,
                step_grace_s=ANSWER_TIMEOUT_S,
                root_commands=await find_root_commands(dependencies.environment),
            ),
            digest=skill.digest,
        )
        result = await runner.run(facts, dry=dry)
        if undo and result.changed and result.outcome not in ("applied", "undone"):
            result = await runner.undo(result)
        return result


def _print_result(result: PlaybookRunResult) -> None:
    rows = [
        (each.phase, each.name, "ok" if each.ok else "no", " ".join(each.command.split())[:100])
        for each in result.done
    ]
    print_table(("phase", "name", "", "command"), rows, empty="nothing was run")
    words = f"{result.skill}: {'would be applied' if result.dry else result.outcome}"
    if result.dry and result.outcome != "applied":
        words = f"{result.skill}: {result.outcome}"
    where = f" at {result.step}" if result.step else ""
    echo(clean(f"{words}{where}{': ' + result.detail if result.detail else ''}"))


def _parse_pairs(words: tuple[str, ...]) -> dict[str, str]:
    for word in words:
        if "=" not in word:
            raise click.UsageError(f"{word!r} is not NAME=VALUE")
    return dict(word.split("=", 1) for word in words)
