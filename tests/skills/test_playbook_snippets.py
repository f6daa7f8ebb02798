"""Shell that playbooks share: found, put in its place, and part of what a digest covers."""

import json
from pathlib import Path

import msgspec
import pytest

from hermes.skills.format import (
    SharedSnippets,
    compute_skill_digest,
    referenced_snippets,
)
from hermes.skills.playbook.reader import parse_playbook

TEXT = """\
summary: fixes
signature:
  probes:
    - use: glance
      expect: {contains: broken}
    - name: find
      with: [tools]
      command: list {{unit}}
parameters:
  unit: {from: glance, pattern: 'unit=(.*)', kind: unit}
steps:
  - name: mend
    command: mkdir -p {{kept}} && cp a {{kept}}/a
    undo: cp {{kept}}/a a
verify:
  - use: glance
    name: again
"""


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    folder = tmp_path / "disk" / "full"
    (folder.parent / "_probes").mkdir(parents=True)
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: full\ndescription: x\n---\ntext\n")
    (folder / "playbook.yaml").write_text(TEXT)
    (folder.parent / "_probes" / "glance.sh").write_text("cat state\n")
    (folder.parent / "_probes" / "tools.sh").write_text('list() { ls "$1"; }\n')
    return folder


def test_what_is_borrowed_stands_in_its_place(skill: Path) -> None:
    playbook, problems = parse_playbook(TEXT, "playbook.yaml", SharedSnippets(skill))
    assert playbook is not None, problems
    glance, find = playbook.signature.probes
    assert (glance.name, glance.command) == ("glance", "cat state")
    assert find.command == 'list() { ls "$1"; }\nlist {{unit}}'
    assert (playbook.verify[0].name, playbook.verify[0].command) == ("again", "cat state")


def test_the_nearest_of_a_name_counts(skill: Path) -> None:
    (skill / "_probes").mkdir()
    (skill / "_probes" / "glance.sh").write_text("cat own\n")
    playbook, _ = parse_playbook(TEXT, "playbook.yaml", SharedSnippets(skill))
    assert playbook is not None
    assert playbook.signature.probes[0].command == "cat own"


def test_what_is_not_there_is_told_with_its_line_and_what_was_meant(skill: Path) -> None:
    wrong = TEXT.replace("use: glance\n      expect", "use: glanc\n      expect")
    playbook, problems = parse_playbook(wrong, "playbook.yaml", SharedSnippets(skill))
    assert playbook is None
    told = [(each.line, each.cause) for each in problems if "glanc'" in each.cause]
    assert told == [(4, "there is no shared 'glanc' in _probes; did you mean glance?")]


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        (
            "    - use: glance\n",
            "    - use: glance\n      command: cat x\n",
            "leave out one of them",
        ),
        ("command: list {{unit}}", "command: list {{kept}}", "no parameter 'kept'"),
        ("  unit: {", "  kept: {from: alert}\n  unit: {", "kept is predefined"),
    ],
)
def test_each_way_to_get_it_wrong_is_said(skill: Path, old: str, new: str, cause: str) -> None:
    _, problems = parse_playbook(TEXT.replace(old, new, 1), "playbook.yaml", SharedSnippets(skill))
    assert any(cause in each.cause and each.fatal for each in problems), problems


def test_the_digest_covers_what_a_skill_borrows(skill: Path) -> None:
    before = compute_skill_digest(skill)
    shared = skill.parent / "_probes" / "tools.sh"
    shared.write_text('list() { rm -r "$1"; }\n')
    changed = compute_skill_digest(skill)
    assert changed != before
    (skill.parent / "_probes" / "unused.sh").write_text("true\n")
    assert compute_skill_digest(skill) == changed


def test_a_skill_that_takes_along_what_it_borrows_has_the_same_digest(
    skill: Path, tmp_path: Path
) -> None:
    before = compute_skill_digest(skill)
    taken = tmp_path / "elsewhere" / "full"
    (taken / "_probes").mkdir(parents=True)
    for name in ("SKILL.md", "playbook.yaml"):
        (taken / name).write_bytes((skill / name).read_bytes())
    for name, file in referenced_snippets(skill):
        (taken / name).write_bytes(file.read_bytes())
    assert compute_skill_digest(taken) == before
    assert list(referenced_snippets(taken)) == []


def test_written_down_again_a_playbook_is_whole_by_itself(skill: Path) -> None:
    playbook, _ = parse_playbook(TEXT, "playbook.yaml", SharedSnippets(skill))
    assert playbook is not None
    again, problems = parse_playbook(json.dumps(msgspec.to_builtins(playbook)))
    assert again == playbook, problems
