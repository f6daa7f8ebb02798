"""Skills whose name is a title are installed under a valid name."""

from pathlib import Path

import pytest

from hermes.skills.hub.archive import find_skills, make_skill_name
from hermes.skills.lint import lint_skill_folder
from hermes.skills.scanner.finding import SkillFile


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Spring Boot Testing", "spring-boot-testing"),
        ("HTTP Client", "http-client"),
        ("Überblick & mehr", "uberblick-mehr"),
        ("words", "words"),
        ("../../etc", "etc"),
        ("日本", ""),
    ],
)
def test_a_title_becomes_a_name(title: str, name: str) -> None:
    assert make_skill_name(title) == name


def test_a_skill_with_a_title_for_a_name_is_installable(tmp_path: Path) -> None:
    text = (
        b"---\r\nname: HTTP Client\r\ndescription: Sends requests.\r\n---\r\n# A\r\n\r\nname: x\r\n"
    )
    (found,) = find_skills([SkillFile(path="testing/SKILL.md", data=text)])
    assert found.name == "http-client"
    folder = tmp_path / "http-client"
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(found.files[0].data)
    assert [each for each in lint_skill_folder(folder) if each.fatal] == []
    assert found.files[0].data.endswith(b"\r\nname: x\r\n")


@pytest.mark.parametrize(
    ("head", "description"),
    [
        ("---\nname: words\ndescription: Counts: words\n---\n", "Counts: words"),
        ("---\ntools:\n- - a\nb\ndescription: |-\n  Counts\n  words.\n---\n", "Counts words."),
        ("---\nversion: 1\n---\n", "Counts the words."),
        ("---\ndescription: >-\n  Counts.\n---\n", "Counts."),
        ("", "Counts the words."),
    ],
)  # fmt: skip
def test_front_matter_is_read_leniently(tmp_path: Path, head: str, description: str) -> None:
    text = f"{head}# Words\n\nCounts the words.\n"
    (found,) = find_skills([SkillFile(path="words/SKILL.md", data=text.encode())])
    assert (found.name, found.description) == ("words", description)
    assert [each.blocks for each in found.findings] == [False]
    folder = tmp_path / "words"
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(found.files[0].data)
    assert [each for each in lint_skill_folder(folder) if each.fatal] == []
