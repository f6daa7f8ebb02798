"""`hermes skills run`: a playbook through the same gate as everything else, without a model."""

import anyio
import click

from hermes.app.house import open_house
from hermes.app.skills import road
from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, say, table
from hermes.cli.render_safe import clean
from hermes.cli.skills_desk import library_for
from hermes.core.errors import SettingsError
from hermes.core.ids import new_id
from hermes.core.protocols import ToolContext
from hermes.policy.ways_back import WaysBack
from hermes.settings.load import Loaded
from hermes.skills.library import Skill
from hermes.skills.playbook.facts import Facts
from hermes.skills.playbook.runner import Played, Runner
from hermes.skills.playbook.setting import Setting

ANSWER = 3600.0
"""Seconds that people may take to answer what a step asks."""


@click.command(
    cls=Examples,
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
    loaded, library = library_for(ctx)
    skill = library.find(name)
    if skill.playbook is None:
        problems = "\n".join(map(str, skill.problems))
        raise SettingsError(problems or f"{name} has no playbook: it is for reading only")
    facts = Facts(title=alert, labels=_pairs(label), given=_pairs(given))
    unknown = set(facts.given) - set(skill.playbook.parameters)
    if unknown:
        known = ", ".join(skill.playbook.parameters) or "none"
        raise SettingsError(f"{name} has no parameter {sorted(unknown)[0]!r}; there are: {known}")
    played = anyio.run(_play, loaded, skill, facts, dry_run, undo)
    if as_json:
        emit_json({each: getattr(played, each) for each in played.__struct_fields__})
    else:
        _tell(played)
    if played.outcome != "applied":
        ctx.exit(1)


async def _play(loaded: Loaded, skill: Skill, facts: Facts, dry: bool, undo: bool) -> Played:
    assert skill.playbook is not None
    async with open_house(loaded, origin="cli", toolsets=("terminal",)) as house:
        means, run = house.means, new_id("play")
        ways_back: dict[str, str] = {}
        executor = means.executor.under(WaysBack(means.executor.policy, ways_back))
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
        runner = Runner(
            skill.name,
            skill.playbook,
            Setting(road(executor, context), publish, run, before, patience=ANSWER),
            digest=skill.digest,
        )
        played = await runner.play(facts, dry=dry)
        if undo and played.changed and played.outcome not in ("applied", "undone"):
            played = await runner.undo(played)
        return played


def _tell(played: Played) -> None:
    rows = [
        (each.phase, each.name, "ok" if each.ok else "no", " ".join(each.command.split())[:100])
        for each in played.done
    ]
    table(("phase", "name", "", "command"), rows, empty="nothing was run")
    words = f"{played.skill}: {'would be applied' if played.dry else played.outcome}"
    if played.dry and played.outcome != "applied":
        words = f"{played.skill}: {played.outcome}"
    where = f" at {played.step}" if played.step else ""
    say(clean(f"{words}{where}{': ' + played.detail if played.detail else ''}"))


def _pairs(words: tuple[str, ...]) -> dict[str, str]:
    for word in words:
        if "=" not in word:
            raise click.UsageError(f"{word!r} is not NAME=VALUE")
    return dict(word.split("=", 1) for word in words)
