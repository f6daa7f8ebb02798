"""SKILL.md: read as people wrote it, written by the rules, mistakes with their lines."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.plumbing.yaml_document import YamlFileError, load_yaml
from hermes.skills.format import (
    SkillText,
    compute_skill_digest,
    parse_skill_text,
    render_skill_text,
)
from hermes.skills.lint import lint_skill_folder

GOOD = SkillText(name="mend-it", description="Mends it: when it is broken", body="# Mend\n\nDo.")


def put(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(text)
    return folder


def test_what_is_written_is_read_back() -> None:
    full = SkillText(
        name="mend-it",
        description="Mends: 'it', \"now\" # really",
        body="# Mend\n\nDo.",
        license="MIT",
        compatibility="linux",
        metadata={"category": "files", "version": "1.2"},
        allowed_tools=("terminal", "read_file"),
    )
    again = parse_skill_text(render_skill_text(full))
    assert (again.name, again.description, again.metadata) == (
        full.name,
        full.description,
        full.metadata,
    )
    assert again.allowed_tools == full.allowed_tools
    assert again.body.strip() == full.body


@given(st.text(min_size=1, max_size=200).filter(lambda text: text.strip() and text.isprintable()))
def test_any_description_survives_the_writer(description: str) -> None:
    text = SkillText(name="x", description=description.strip(), body="b")
    assert parse_skill_text(render_skill_text(text)).description == description.strip()


def test_the_older_front_matter_is_read() -> None:
    found = parse_skill_text(
        "---\nname: old\ndescription: does it\ntags: [disk, log]\nrelated_skills: [other]\n"
        "version: 1.0.0\n---\nbody\n"
    )
    assert found.tags == ("disk", "log")
    assert found.metadata["version"] == "1.0.0"
    assert "other" in found.metadata["related_skills"]


def test_a_missing_name_is_the_folders() -> None:
    assert (
        parse_skill_text("---\ndescription: x\n---\nb", folder="from-folder").name == "from-folder"
    )


@pytest.mark.parametrize(
    "name", ["", "Upper", "two--hyphens", "-begin", "end-", "x" * 65, "a_b", "a.b", "ä"]
)
def test_the_writer_refuses_a_name_that_breaks_the_rules(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        render_skill_text(SkillText(name=name, description="d", body="b"))


def test_the_writer_refuses_what_is_too_long() -> None:
    with pytest.raises(ValueError, match="description"):
        render_skill_text(SkillText(name="x", description="d" * 1025, body="b"))
    with pytest.raises(ValueError, match="500 lines"):
        render_skill_text(SkillText(name="x", description="d", body="b\n" * 501))


def test_the_linter_names_each_mistake_with_its_line(tmp_path: Path) -> None:
    folder = put(
        tmp_path / "right-name",
        "---\nname: wrong-name\ndescription: d\ncolour: red\ntags: [a]\n---\n"
        "see [this](references/gone.md)\nand `scripts/gone.sh`\nand [that](../../etc/passwd)\n",
    )
    found = {(each.line, each.cause, each.fatal) for each in lint_skill_folder(folder)}
    assert (2, "the skill is called 'wrong-name', but its folder 'right-name'", True) in found
    assert (4, "colour is not a key of the format", False) in found
    assert (5, "tags is the old format: put it under metadata", False) in found
    assert (7, "there is no references/gone.md in the skill", True) in found
    assert (8, "there is no scripts/gone.sh in the skill", True) in found
    assert (9, "../../etc/passwd is outside the skill", True) in found


def test_a_folder_without_front_matter_or_with_broken_yaml_is_told(tmp_path: Path) -> None:
    assert "front matter" in lint_skill_folder(put(tmp_path / "a", "# hello\n"))[0].cause
    broken = lint_skill_folder(put(tmp_path / "b", "---\nname: b\nname: c\n---\nx\n"))[0]
    assert (broken.line, broken.cause) == (3, "name is set twice, first on line 2")
    assert lint_skill_folder(tmp_path / "none")[0].fatal


def test_links_out_of_the_folder_are_reported(tmp_path: Path) -> None:
    folder = put(tmp_path / "mend-it", render_skill_text(GOOD))
    (folder / "leak").symlink_to("/etc/passwd")
    assert any("link" in each.cause for each in lint_skill_folder(folder))


def test_an_alias_bomb_ends_in_bounded_effort() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
    )
    with pytest.raises(YamlFileError, match="too"):
        load_yaml(bomb)


def test_any_change_of_a_file_is_another_digest(tmp_path: Path) -> None:
    folder = put(tmp_path / "mend-it", render_skill_text(GOOD))
    (folder / "scripts").mkdir()
    script = folder / "scripts/do.sh"
    script.write_text("echo 1\n")
    seen = {compute_skill_digest(folder)}
    script.write_text("echo 2\n")
    seen.add(compute_skill_digest(folder))
    script.chmod(0o755)
    seen.add(compute_skill_digest(folder))
    script.rename(folder / "scripts/did.sh")
    seen.add(compute_skill_digest(folder))
    assert len(seen) == 4
