"""`hermes skills history|diff|rollback|retire`: every step of a skill's life can be taken back."""

from datetime import datetime

import click

from hermes.app.approving import user_name
from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, say, table
from hermes.cli.skills_desk import history_of, library_for, own, record, with_journal
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillChanged, SkillState
from hermes.memory.opening import Store, exists
from hermes.skills.library import Library


@click.command(cls=Examples, examples="hermes skills history my-skill --json")
@click.argument("name")
@json_option
@click.pass_context
def history(ctx: click.Context, name: str, as_json: bool) -> None:
    """Tell what NAME has been through: its versions, and the states of its life."""
    loaded, library = library_for(ctx)
    skill = library.find(name)
    versions = history_of(loaded, skill).versions(name)

    async def ask(journal: Store) -> list[SkillChanged]:
        events = journal.read(kinds=("skill.changed",))
        found = [recorded.event async for recorded in events]
        return [each for each in found if isinstance(each, SkillChanged) and each.skill == name]

    life = with_journal(loaded, ask) if exists(loaded.store) else []
    if as_json:
        emit_json({"name": name, "state": skill.state, "versions": versions, "life": life})
        return
    rows = [
        (
            each.number,
            each.digest[:12],
            f"{each.at.astimezone():%Y-%m-%d %H:%M}",
            each.by,
            each.reason,
        )
        for each in versions
    ]
    table(("version", "digest", "at", "by", "why"), rows, empty=f"{name} was never changed")
    steps = [(when(e.at), e.before, e.state, e.digest[:12], e.by, e.reason) for e in life]
    if steps:
        say()
        table(("at", "was", "became", "digest", "by", "why"), steps)


@click.command(
    cls=Examples, examples="hermes skills diff my-skill 1\nhermes skills diff my-skill 1 3"
)
@click.argument("name")
@click.argument("old")
@click.argument("new", required=False)
@json_option
@click.pass_context
def diff(ctx: click.Context, name: str, old: str, new: str | None, as_json: bool) -> None:
    """Show what changed in NAME from version OLD to NEW, or to what it is now."""
    loaded, library = library_for(ctx)
    skill = library.find(name)
    kept = history_of(loaded, skill)
    before = kept.find(name, old)
    text = kept.diff(name, before, kept.find(name, new) if new else skill.folder)
    if as_json:
        emit_json({"name": name, "old": old, "new": new or "now", "diff": text})
    else:
        say(text.rstrip("\n") or "the same")


@click.command(cls=Examples, examples="hermes skills rollback my-skill 2")
@click.argument("name")
@click.argument("version", required=False)
@json_option
@click.pass_context
def rollback(ctx: click.Context, name: str, version: str | None, as_json: bool) -> None:
    """Bring back VERSION of NAME, or the one before; what it is now stays in its history."""
    loaded, library = library_for(ctx)
    skill = own(library.find(name))
    kept = history_of(loaded, skill)
    kept.record(skill.folder, reason="before a rollback", by=user_name())
    known = kept.versions(name)
    if version is None and len(known) < 2:
        raise SettingsError(f"{name} has no earlier version")
    wanted = kept.find(name, version) if version else known[-2]
    parent = skill.digest
    made = kept.restore(skill.folder, wanted, by=user_name())
    fresh = Library(library.roots, {name: skill.state}).find(name)
    record(loaded, fresh, "draft", f"rolled back to version {wanted.number}", (parent,))
    if as_json:
        emit_json({"name": name, "restored": wanted.number, "version": made.number})
    else:
        say(f"{name} is as it was in version {wanted.number}; this is version {made.number}")


@click.command(
    cls=Examples, examples="hermes skills retire my-skill\nhermes skills retire my-skill --back"
)
@click.argument("name")
@click.option("--back", is_flag=True, help="Put it into use again, as a draft.")
@click.option("--reason", default="", help="Why, for its history.")
@json_option
@click.pass_context
def retire(ctx: click.Context, name: str, back: bool, reason: str, as_json: bool) -> None:
    """Take NAME out of use: no list, no match, no reflex. Its folder stays."""
    loaded, library = library_for(ctx)
    skill = library.find(name)
    if back != (skill.state == "retired"):
        raise SettingsError(f"{name} is {'not retired' if back else 'retired already'}")
    again: SkillState = "trusted" if skill.origin == "bundled" else "draft"
    state: SkillState = again if back else "retired"
    record(loaded, skill, state, reason or ("back in use" if back else "retired by hand"))
    if as_json:
        emit_json({"name": name, "state": state})
    else:
        say(f"{name} is {state}")


def when(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M}"
