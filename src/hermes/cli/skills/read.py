"""`hermes skills list`, `show`, `stats` and `lint`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict, replace

from hermes.app.skills.usage import count_usage
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_fields, print_json, print_table
from hermes.cli.render.terminal_text import clean, clip
from hermes.cli.skills.context import load_library, with_journal
from hermes.memory.store import store_exists
from hermes.skills.discovery import SKILL_FILE, SkillRoot
from hermes.skills.library import Skill, SkillLibrary
from hermes.skills.lint import lint_skill
from hermes.skills.matching import SkillMatcher


@cli_command("""
hermes skills list --category database
hermes skills list --task "disk full" --json
""")
@click.option("--category", default="", help="Only of this category.")
@click.option("--task", default="", help="Only matches for this task or alert, best first.")
@click.option("--all", "every", is_flag=True, help="Retired ones too.")
def list_(ctx: click.Context, category: str, task: str, every: bool, as_json: bool) -> None:
    """List skills with their origin and state."""
    _, library = load_library(ctx)
    found = list(library.skills_by_name.values()) if every else library.skills
    found = [skill for skill in found if not category or skill.category == category]
    scores: dict[str, float] = {}
    if task:
        scores = {
            match.skill: match.score for match in SkillMatcher(found).rank(task, limit=len(found))
        }
        found = sorted((s for s in found if s.name in scores), key=lambda s: -scores[s.name])
    if as_json:
        print_json(
            [
                {**skill_data(skill), **({"score": scores[skill.name]} if task else {})}
                for skill in found
            ]
        )
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
    empty = "no skill matches" if task or category else "there are no skills"
    print_table(("skill", "category", "from", "state", "playbook", "what for"), rows, empty=empty)


@cli_command("""
hermes skills show port-taken
hermes skills show port-taken playbook.yaml
""")
@click.argument("name")
@click.argument("file", required=False)
def show(ctx: click.Context, name: str, file: str | None, as_json: bool) -> None:
    """Show skill NAME, or one FILE of it."""
    _, library = load_library(ctx)
    skill = library.find(name)
    if file:
        text = skill.read_linked_file(file)
        if as_json:
            print_json({"skill": skill.name, "file": file, "text": text})
        else:
            echo(clean(text))
        return
    if as_json:
        print_json({**skill_data(skill), "body": skill.text.body, "files": skill.files})
        return
    print_fields(
        {
            "skill": skill.name,
            "category": skill.category,
            "from": f"{skill.origin}, {skill.folder}",
            "state": skill.state,
            "digest": skill.digest[:12],
            "files": skill.files,
        }
    )
    echo()
    echo(clean(skill.text.body.strip()))


def skill_data(skill: Skill) -> dict[str, Any]:
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


@cli_command("""
hermes skills stats
hermes skills stats --json
""")
def stats(ctx: click.Context, as_json: bool) -> None:
    """Count from the journal: shown, played, applied, declined, undone."""
    loaded, library = load_library(ctx)
    states = {skill.name: str(skill.state) for skill in library.skills_by_name.values()}
    found = with_journal(loaded, count_usage) if store_exists(loaded.store) else []
    found = [replace(usage, state=states.get(usage.skill, "gone")) for usage in found]
    if as_json:
        print_json([asdict(usage) for usage in found])
        return
    rows = [
        (
            usage.skill, usage.state, usage.shown, usage.played, usage.applied, usage.declined,
            usage.undone, "–" if usage.seconds is None else f"{usage.seconds:.2f} s",
        )
        for usage in found
    ]  # fmt: skip
    columns = ("skill", "state", "shown", "played", "applied", "declined", "undone", "median")
    print_table(columns, rows, empty="no skill was used yet")


READ_ONLY_EFFECTS = frozenset({"read", "network-local", "read-as-root", "secret-read"})
"""Reading a secret changes nothing; the policy decides whether it is allowed."""


@cli_command("""
hermes skills lint
hermes skills lint my-skill ./other --json
""")
@click.argument("which", nargs=-1)
def lint(ctx: click.Context, which: tuple[str, ...], as_json: bool) -> None:
    """Check skills: WHICH are names or folders; all skills when none is given.

    It reports violations of the format, problems in playbooks, and probes that would change
    something. Exit code 1 when a problem is fatal.
    """
    _, library = load_library(ctx)
    folders = _skill_folders(which, library)
    changes = _changing_effect_finder()
    found = [problem for folder in folders for problem in lint_skill(folder, changes)]
    found += [] if which else library.problems
    if as_json:
        print_json([problem.to_json() for problem in found])
    else:
        for problem in found:
            echo(str(problem))
        fatal = sum(problem.fatal for problem in found)
        echo(f"{len(folders)} skills, {fatal} fatal problems, {len(found)} in all")
    if any(problem.fatal for problem in found):
        ctx.exit(1)


def _skill_folders(which: tuple[str, ...], library: SkillLibrary) -> list[Path]:
    if not which:
        return [skill.folder for skill in library.skills_by_name.values()]
    found: list[Path] = []
    for name in which:
        folder = Path(name)
        if (folder / SKILL_FILE).is_file() or (
            folder.is_dir() and "/" in name and not _folders_below(folder)
        ):
            found.append(folder.resolve())
        elif folder.is_dir() and "/" in name:
            found += _folders_below(folder)
        else:
            found.append(library.find(name).folder)
    return found


def _folders_below(folder: Path) -> list[Path]:
    inner = SkillLibrary([SkillRoot(folder.resolve(), "user")])
    return [skill.folder for skill in inner.skills_by_name.values()]


def _changing_effect_finder() -> Callable[[str], str]:
    from hermes.policy.command_analysis import analyse_command

    def describe(command: str) -> str:
        effects = analyse_command(command).effects - READ_ONLY_EFFECTS - {"network-read"}
        return f"it would {', '.join(sorted(effects))}" if effects else ""

    return describe
