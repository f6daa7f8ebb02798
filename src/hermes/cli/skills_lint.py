"""`hermes skills lint`: every mistake, with file and line."""

from collections.abc import Callable
from pathlib import Path

import click

from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, say
from hermes.cli.skills_desk import library_for
from hermes.skills.cards import SKILL, Root
from hermes.skills.format.problem import Problem
from hermes.skills.library import Library
from hermes.skills.lint import lint as look_over

LOOKS = frozenset({"read", "network-local", "read-as-root", "secret-read"})
"""Whether a secret may be read is for the gate to say; it changes nothing."""


@click.command(
    cls=Examples, examples="hermes skills lint\nhermes skills lint my-skill ./other --json"
)
@click.argument("which", nargs=-1)
@json_option
@click.pass_context
def lint(ctx: click.Context, which: tuple[str, ...], as_json: bool) -> None:
    """Look over skills: WHICH are names or folders, all when none is named.

    The rules of the format, mistakes in playbooks, and probes that would change something. Exit
    code 1 when a mistake is fatal.
    """
    _, library = library_for(ctx)
    folders = _folders(which, library)
    changes = _changes()
    found = [problem for folder in folders for problem in look_over(folder, changes)]
    found += [] if which else library.mistakes
    if as_json:
        emit_json([{**_data(problem)} for problem in found])
    else:
        for problem in found:
            say(str(problem))
        say(f"{len(folders)} skills, {sum(p.fatal for p in found)} mistakes, {len(found)} in all")
    if any(problem.fatal for problem in found):
        ctx.exit(1)


def _folders(which: tuple[str, ...], library: Library) -> list[Path]:
    if not which:
        return [skill.folder for skill in library.all.values()]
    found: list[Path] = []
    for name in which:
        folder = Path(name)
        if (folder / SKILL).is_file() or (folder.is_dir() and "/" in name and not _many(folder)):
            found.append(folder.resolve())
        elif folder.is_dir() and "/" in name:
            found += _many(folder)
        else:
            found.append(library.find(name).folder)
    return found


def _many(folder: Path) -> list[Path]:
    inner = Library([Root(folder.resolve(), "user")])
    return [*(skill.folder for skill in inner.all.values())]


def _changes() -> Callable[[str], str]:
    from hermes.policy.commands import analyse

    def told(command: str) -> str:
        effects = analyse(command).effects - {
            "read",
            "network-local",
            "read-as-root",
            "secret-read",
        }
        return f"it would {', '.join(sorted(effects))}" if effects else ""

    return told


def _data(problem: Problem) -> dict[str, object]:
    return {name: getattr(problem, name) for name in problem.__struct_fields__}
