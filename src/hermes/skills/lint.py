"""All that is wrong with a skill, its playbook included."""

from collections.abc import Callable
from pathlib import Path

from hermes.skills.format.lint import lint_folder
from hermes.skills.format.problem import Problem
from hermes.skills.format.shared import Shelf
from hermes.skills.playbook.reading import FILE, doubts, read_playbook


def lint(folder: Path, changes: Callable[[str], str] | None = None) -> list[Problem]:
    """`changes` tells what a command would change; with it, probes are held to looking."""
    found = lint_folder(folder)
    file = folder / FILE
    if file.is_file():
        text = file.read_text(encoding="utf-8", errors="replace")
        playbook, problems = read_playbook(text, str(file), Shelf(folder))
        found += problems
        if playbook is not None and changes is not None:
            found += doubts(text, playbook, changes, str(file))
    return sorted(found, key=lambda each: (each.file, each.line))
