"""`hermes skills list|show`."""

from typing import Any

import click

from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, fields, json_option, say, table
from hermes.cli.render_safe import clean, clip
from hermes.cli.skills_desk import library_for
from hermes.skills.library import Skill
from hermes.skills.matching import Matcher


@click.command(
    "list",
    cls=Examples,
    examples='hermes skills list --category database\nhermes skills list --task "disk full" --json',
)
@click.option("--category", default="", help="Only of this category.")
@click.option("--task", default="", help="Only what fits this task or alert, best first.")
@click.option("--all", "every", is_flag=True, help="Retired ones too.")
@json_option
@click.pass_context
def list_(ctx: click.Context, category: str, task: str, every: bool, as_json: bool) -> None:
    """List skills, with where they come from and what state they are in."""
    _, library = library_for(ctx)
    found = list(library.all.values()) if every else library.skills
    found = [skill for skill in found if not category or skill.category == category]
    scores: dict[str, float] = {}
    if task:
        scores = {match.skill: match.score for match in Matcher(found).rank(task, limit=len(found))}
        found = sorted((s for s in found if s.name in scores), key=lambda s: -scores[s.name])
    if as_json:
        emit_json([{**as_data(skill), **_score(scores, skill)} for skill in found])
        return
    rows = [
        (
            skill.name,
            skill.category,
            skill.origin,
            skill.state,
            "yes" if skill.playbook else "–",
            clip(skill.description, 70),
        )
        for skill in found
    ]
    empty = "no skill fits" if task or category else "there are no skills"
    table(("skill", "category", "from", "state", "playbook", "what for"), rows, empty=empty)


@click.command(
    cls=Examples,
    examples="hermes skills show port-taken\nhermes skills show port-taken playbook.yaml",
)
@click.argument("name")
@click.argument("file", required=False)
@json_option
@click.pass_context
def show(ctx: click.Context, name: str, file: str | None, as_json: bool) -> None:
    """Show skill NAME, or one FILE of it."""
    _, library = library_for(ctx)
    skill = library.find(name)
    if file:
        text = skill.linked(file)
        emit_json({"skill": skill.name, "file": file, "text": text}) if as_json else say(
            clean(text)
        )
        return
    if as_json:
        emit_json({**as_data(skill), "body": skill.text.body, "files": skill.files})
        return
    fields(
        {
            "skill": skill.name,
            "category": skill.category,
            "from": f"{skill.origin}, {skill.folder}",
            "state": skill.state,
            "digest": skill.digest[:12],
            "files": skill.files,
        }
    )
    say()
    say(clean(skill.text.body.strip()))


def as_data(skill: Skill) -> dict[str, Any]:
    return {
        "name": skill.name,
        "description": skill.description,
        "category": skill.category,
        "origin": skill.origin,
        "state": skill.state,
        "playbook": skill.playbook is not None,
        "digest": skill.digest,
        "folder": str(skill.folder),
        "metadata": skill.text.metadata,
    }


def _score(scores: dict[str, float], skill: Skill) -> dict[str, float]:
    return {"score": scores[skill.name]} if skill.name in scores else {}
