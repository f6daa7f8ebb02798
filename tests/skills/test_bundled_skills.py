"""What comes along: well formed, within budget, and looking before acting."""

from pathlib import Path

import pytest

from hermes.policy.command_analysis import analyse_command
from hermes.skills.discovery import BUNDLED_SKILLS, SkillRoot, find_skill_folders
from hermes.skills.library import SkillLibrary
from hermes.skills.lint import lint_skill

FOLDERS = list(find_skill_folders(BUNDLED_SKILLS))
SECTIONS = ("## When to use", "## Early warning signs", "## Checks", "## Playbook")


def changes(command: str) -> str:
    effects = analyse_command(command).effects - {
        "read",
        "network-local",
        "network-read",
        "secret-read",
    }
    return ", ".join(sorted(effects))


def test_there_are_enough_of_them() -> None:
    library = SkillLibrary([SkillRoot(BUNDLED_SKILLS, "bundled")])
    assert sum(skill.playbook is not None for skill in library.skills) >= 12
    assert "incident-commander" in library.skills_by_name


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_passes_its_own_linter_and_its_probes_only_look(folder: Path) -> None:
    assert [str(each) for each in lint_skill(folder, changes) if each.fatal] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_says_when_to_use_it_and_when_not(folder: Path) -> None:
    text = (folder / "SKILL.md").read_text()
    if (folder / "playbook.yaml").exists():
        for section in (*SECTIONS, "## Known false positives"):
            assert section in text
    assert len(text.splitlines()) < 500
