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
