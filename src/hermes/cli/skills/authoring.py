"""`hermes skills new`, `edit`, `history`, `diff`, `rollback` and `retire`."""

import sys

import click

from hermes.app.people import user_name
from hermes.app.skills.library import retire_skill
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.skills.context import (
    load_library,
    record_skill_state,
    require_own_skill,
    skill_history,
    with_journal,
)
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillChanged
from hermes.memory.store import JournalStore, store_exists
from hermes.skills.format import SkillText, render_skill_text
from hermes.skills.history import copy_skill
from hermes.skills.library import SkillLibrary
from hermes.skills.lint import lint_skill

SKILL_BODY_TEMPLATE = """\
# {title}

## When to use

## Early warning signs

## Checks

## Playbook

## Known false positives
"""
PLAYBOOK_TEMPLATE = """\
version: 1
summary: What it fixes, in one line
signature:
  words: [words of matching alerts]
  probes:
    - name: confirm
      command: systemctl is-failed {{service}}
parameters:
  service: {from: alert, labels: [service], kind: word}
steps:
  - name: fix
    command: systemctl restart {{service}}
    undo: systemctl stop {{service}}
verify:
  - name: runs
    command: systemctl is-active {{service}}
"""


@cli_command('hermes skills new rotate-keys --description "Rotate the signing keys; when due"')
@click.argument("name")
@click.option("--description", required=True, help="What it does and when to use it.")
@click.option("--category", default="", help="The folder for it.")
@click.option("--playbook", is_flag=True, help="With a playbook.yaml to fill in.")
def new(
    ctx: click.Context, name: str, description: str, category: str, playbook: bool, as_json: bool
) -> None:
    """Create skill NAME in your home: a SKILL.md to fill in, as a draft."""
    loaded, library = load_library(ctx)
    if name in library.skills_by_name:
        raise SettingsError(f"there is a skill {name!r} already: hermes skills edit {name}")
    title = name.replace("-", " ").capitalize()
    text = SkillText(
        name=name, description=description, body=SKILL_BODY_TEMPLATE.format(title=title)
    )
    try:
        written = render_skill_text(text)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    folder = loaded.home / "skills" / category / name
    folder.mkdir(parents=True, exist_ok=False)
    (folder / "SKILL.md").write_text(written)
    if playbook:
        (folder / "playbook.yaml").write_text(PLAYBOOK_TEMPLATE)
    skill = SkillLibrary(library.roots).find(name)
    version = skill_history(loaded, skill).record(folder, reason="created", by=user_name())
    record_skill_state(loaded, skill, "draft", "created")
    if as_json:
        print_json({"name": name, "folder": str(folder), "version": version.number})
    else:
        echo(f"created {folder / 'SKILL.md'}; fill it in, then: hermes skills lint {name}")


@cli_command("""
hermes skills edit my-skill
hermes skills edit port-taken
""")
@click.argument("name")
@click.option("--reason", default="edited", help="Why, for its history.")
def edit(ctx: click.Context, name: str, reason: str, as_json: bool) -> None:
    """Open NAME in your editor; the previous content is kept as a version.

    A bundled skill is first copied to your home, and the copy replaces it.
    """
    loaded, library = load_library(ctx)
    skill = library.find(name)
    if skill.origin == "bundled":
        folder = loaded.home / "skills" / skill.category / name
        copy_skill(skill.folder, folder)
        if not as_json:
            note(f"{name} is now your own: {folder}")
        skill = SkillLibrary(library.roots).find(name)
    skill_versions = skill_history(loaded, skill)
    before = skill_versions.record(skill.folder, reason="before an edit", by=user_name())
    if sys.stdin.isatty() and not as_json:
        click.edit(filename=str(skill.folder / "SKILL.md"))
    version = skill_versions.record(skill.folder, reason=reason, by=user_name())
    changed = version.number != before.number
    if changed:
        record_skill_state(
            loaded, SkillLibrary(library.roots).find(name), "draft", reason, (before.digest,)
        )
    problems = lint_skill(skill.folder)
    if as_json:
        print_json(
            {
                "name": name,
                "folder": str(skill.folder),
                "changed": changed,
                "problems": [p.to_json() for p in problems],
            }
        )
    else:
        for problem in problems:
            note(str(problem))
        echo(f"{skill.folder}: {'version ' + str(version.number) if changed else 'unchanged'}")


@cli_command("hermes skills history my-skill --json")
@click.argument("name")
def history(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show the versions and state changes of NAME."""
    loaded, library = load_library(ctx)
    skill = library.find(name)
    versions = skill_history(loaded, skill).versions(name)

    async def query(journal: JournalStore) -> list[SkillChanged]:
        events = journal.read(kinds=("skill.changed",))
        found = [recorded.event async for recorded in events]
        return [each for each in found if isinstance(each, SkillChanged) and each.skill == name]

    states = with_journal(loaded, query) if store_exists(loaded.store) else []
    if as_json:
        print_json({"name": name, "state": skill.state, "versions": versions, "life": states})
        return
    rows = [
        (each.number, each.digest[:12], format_time(each.at), each.by, each.reason)
        for each in versions
    ]
    print_table(("version", "digest", "at", "by", "why"), rows, empty=f"{name} was never changed")
    steps = [(format_time(e.at), e.before, e.state, e.digest[:12], e.by, e.reason) for e in states]
    if steps:
        echo()
        print_table(("at", "was", "became", "digest", "by", "why"), steps)


@cli_command("""
hermes skills diff my-skill 1
hermes skills diff my-skill 1 3
""")
@click.argument("name")
@click.argument("old")
@click.argument("new", required=False)
def diff(ctx: click.Context, name: str, old: str, new: str | None, as_json: bool) -> None:
    """Show what changed in NAME from version OLD to NEW, or to the current content."""
    loaded, library = load_library(ctx)
    skill = library.find(name)
    skill_versions = skill_history(loaded, skill)
    before = skill_versions.find(name, old)
    text = skill_versions.diff(
        name, before, skill_versions.find(name, new) if new else skill.folder
    )
    if as_json:
        print_json({"name": name, "old": old, "new": new or "now", "diff": text})
    else:
        echo(text.rstrip("\n") or "the same")


@cli_command("hermes skills rollback my-skill 2")
@click.argument("name")
@click.argument("version", required=False)
def rollback(ctx: click.Context, name: str, version: str | None, as_json: bool) -> None:
    """Restore VERSION of NAME, or the previous one; the current content stays in its history."""
    loaded, library = load_library(ctx)
    skill = require_own_skill(library.find(name))
    skill_versions = skill_history(loaded, skill)
    skill_versions.record(skill.folder, reason="before a rollback", by=user_name())
    known = skill_versions.versions(name)
    if version is None and len(known) < 2:
        raise SettingsError(f"{name} has no earlier version")
    wanted = skill_versions.find(name, version) if version else known[-2]
    parent = skill.digest
    restored = skill_versions.restore(skill.folder, wanted, by=user_name())
    fresh = SkillLibrary(library.roots, {name: skill.state}).find(name)
    record_skill_state(loaded, fresh, "draft", f"rolled back to version {wanted.number}", (parent,))
    if as_json:
        print_json({"name": name, "restored": wanted.number, "version": restored.number})
    else:
        echo(
            f"{name} has the content of version {wanted.number}; this is version {restored.number}"
        )


@cli_command("""
hermes skills retire my-skill
hermes skills retire my-skill --back
""")
@click.argument("name")
@click.option("--back", is_flag=True, help="Use it again, as a draft.")
@click.option("--reason", default="", help="Why, for its history.")
def retire(ctx: click.Context, name: str, back: bool, reason: str, as_json: bool) -> None:
    """Take NAME out of use: it is not listed, matched or run. Its folder stays."""
    loaded, library = load_library(ctx)
    skill = library.find(name)
    who = user_name()
    state = with_journal(
        loaded,
        lambda journal: retire_skill(journal, skill, person=who, back=back, reason=reason),
    )
    if as_json:
        print_json({"name": name, "state": state})
    else:
        echo(f"{name} is {state}")
