"""`hermes skills new|edit`."""

import sys

import click

from hermes.app.approving import user_name
from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, note, say
from hermes.cli.skills_desk import history_of, library_for, record
from hermes.core.errors import SettingsError
from hermes.skills.format.skill_text import SkillText, write_skill
from hermes.skills.history import copy_skill
from hermes.skills.library import Library
from hermes.skills.lint import lint

BODY = """\
# {title}

## When to use

## Early warning signs

## Checks

## Playbook

## Known false positives
"""
PLAYBOOK = """\
version: 1
summary: What it mends, in one line
signature:
  words: [words of the alerts it is for]
  probes:
    - name: confirm
      command: systemctl is-failed {{service}}
parameters:
  service: {from: alert, labels: [service], kind: word}
steps:
  - name: mend
    command: systemctl restart {{service}}
    undo: systemctl stop {{service}}
verify:
  - name: runs
    command: systemctl is-active {{service}}
"""


@click.command(
    cls=Examples,
    examples='hermes skills new rotate-keys --description "Rotate the signing keys; when due"',
)
@click.argument("name")
@click.option("--description", required=True, help="What it does and when to use it.")
@click.option("--category", default="", help="A folder that it goes into.")
@click.option("--playbook", is_flag=True, help="With a playbook.yaml to fill in.")
@json_option
@click.pass_context
def new(
    ctx: click.Context, name: str, description: str, category: str, playbook: bool, as_json: bool
) -> None:
    """Begin skill NAME in your home: a SKILL.md to fill in, as a draft."""
    loaded, library = library_for(ctx)
    if name in library.all:
        raise SettingsError(f"there is a skill {name!r} already: hermes skills edit {name}")
    title = name.replace("-", " ").capitalize()
    text = SkillText(name=name, description=description, body=BODY.format(title=title))
    try:
        written = write_skill(text)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    folder = loaded.home / "skills" / category / name
    folder.mkdir(parents=True, exist_ok=False)
    (folder / "SKILL.md").write_text(written)
    if playbook:
        (folder / "playbook.yaml").write_text(PLAYBOOK)
    skill = Library(library.roots).find(name)
    version = history_of(loaded, skill).record(folder, reason="begun", by=user_name())
    record(loaded, skill, "draft", "begun")
    if as_json:
        emit_json({"name": name, "folder": str(folder), "version": version.number})
    else:
        say(f"{folder / 'SKILL.md'} is there to be filled in; then: hermes skills lint {name}")


@click.command(cls=Examples, examples="hermes skills edit my-skill\nhermes skills edit port-taken")
@click.argument("name")
@click.option("--reason", default="edited", help="Why, for its history.")
@json_option
@click.pass_context
def edit(ctx: click.Context, name: str, reason: str, as_json: bool) -> None:
    """Open NAME in your editor; what it was is kept as a version.

    A bundled skill is first copied to your home, where it takes the place of ours.
    """
    loaded, library = library_for(ctx)
    skill = library.find(name)
    if skill.origin == "bundled":
        folder = loaded.home / "skills" / skill.category / name
        copy_skill(skill.folder, folder)
        if not as_json:
            note(f"{name} is now your own: {folder}")
        skill = Library(library.roots).find(name)
    kept = history_of(loaded, skill)
    before = kept.record(skill.folder, reason="before an edit", by=user_name())
    if sys.stdin.isatty() and not as_json:
        click.edit(filename=str(skill.folder / "SKILL.md"))
    version = kept.record(skill.folder, reason=reason, by=user_name())
    changed = version.number != before.number
    if changed:
        record(loaded, Library(library.roots).find(name), "draft", reason, (before.digest,))
    problems = lint(skill.folder)
    if as_json:
        emit_json(
            {"name": name, "folder": str(skill.folder), "changed": changed, "problems": problems}
        )
    else:
        for problem in problems:
            note(str(problem))
        say(f"{skill.folder}: {'version ' + str(version.number) if changed else 'unchanged'}")
