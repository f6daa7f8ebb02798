"""`hermes drill list` and `show`."""

import click

from hermes.cli.drill_run import backend_option, gym_settings
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, fields, json_option, note, say, table
from hermes.cli.render_safe import clip
from hermes.gym.readiness import Listed, Readiness, lacking, listed, readiness
from hermes.gym.scenario import find


@click.command("list", cls=Examples, examples="hermes drill list --group jobs --json")
@click.option("--group", help="Only this group.")
@click.option("--light", is_flag=True, help="Only those that need nothing but bash and Python.")
@backend_option
@json_option
@click.pass_context
def list_(
    ctx: click.Context, group: str | None, light: bool, backend: str | None, as_json: bool
) -> int:
    """List the scenarios, with what this machine lacks to play them."""
    here = readiness(gym_settings(settings_for(ctx), backend))
    found = [
        each
        for each in listed(here=here)
        if (not group or each.group == group) and (not light or each.light)
    ]
    if as_json:
        emit_json({"here": here, "scenarios": found})
    else:
        table(
            ("scenario", "group", "light", "here", "about"),
            [
                (each.name, each.group, each.light, _state(each), clip(each.summary, 70))
                for each in found
            ],
            empty="no scenario fits",
        )
        _tell(here, found)
    return int(any(each.broken for each in found))


def _state(each: Listed) -> str:
    if each.broken:
        return "broken"
    return f"no: {clip('; '.join(each.missing), 60)}" if each.missing else "yes"


def _tell(here: Readiness, found: list[Listed]) -> None:
    for each in found:
        if each.broken:
            note(f"{each.name}: {each.broken}")
    for lacks in here.missing:
        note(f"this machine lacks {lacks}")
    playable = sum(not each.missing and not each.broken for each in found)
    if playable < len(found):
        note(f"{playable} of {len(found)} scenarios can be played here")


@click.command(cls=Examples, examples="hermes drill show config-typo-after-edit --seed 3 --answer")
@click.argument("scenario")
@click.option("--seed", default=0, show_default=True)
@click.option("--answer", is_flag=True, help="Also what is wrong and how it is mended.")
@json_option
def show(scenario: str, seed: int, answer: bool, as_json: bool) -> None:
    """Show the alert of SCENARIO and what will be checked; with --answer the rest."""
    found = find(scenario)
    story = found.story(seed)
    told: dict[str, object] = {
        "name": found.name,
        "group": found.group,
        "summary": found.summary,
        "needs": found.needs,
        "missing": lacking(found),
        "seed": seed,
        "severity": story.alert.severity,
        "alert": story.alert.text,
        "labels": story.alert.labels,
        "hosts": [host.name for host in story.hosts],
        "checks": [check.name for check in (*story.healthy, *story.symptoms)],
    }
    if answer:
        told |= {
            "answer": story.answer,
            "faults": story.faults,
            "inject": story.inject,
            "reference": story.reference,
            "relief": story.relief,
            "shortcut": story.shortcut,
            "collateral": [check.name for check in story.collateral],
        }
    if as_json:
        emit_json(told)
        return
    fields({name: value for name, value in told.items() if name not in ("inject", "reference")})
    for part in ("inject", "reference") if answer else ():
        say(f"\n{part}", bold=True)
        for command in getattr(story, part):
            say(f"  {command}")
