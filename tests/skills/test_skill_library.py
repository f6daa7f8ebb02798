"""Where skills come from, which of two counts, and every version they have had."""

from pathlib import Path

import pytest

from hermes.core.errors import SettingsError
from hermes.skills.discovery import SkillRoot, default_roots, read_descriptions
from hermes.skills.format import SkillText, render_skill_text
from hermes.skills.history import SkillHistory
from hermes.skills.library import SkillLibrary


def put(root: Path, name: str, description: str = "does it", body: str = "# Do\n\nit") -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    text = SkillText(name=folder.name, description=description, body=body)
    (folder / "SKILL.md").write_text(render_skill_text(text))
    return folder


def library(tmp_path: Path) -> SkillLibrary:
    return SkillLibrary(
        [SkillRoot(tmp_path / "user", "user"), SkillRoot(tmp_path / "project", "project")],
        {"retired-one": "retired"},
    )


def test_the_nearer_skill_of_a_name_counts(tmp_path: Path) -> None:
    put(tmp_path / "user", "files/mend-it", "the person's")
    put(tmp_path / "project", "mend-it", "the project's")
    found = library(tmp_path).find("mend-it")
    assert (found.origin, found.description) == ("project", "the project's")


def test_folders_above_a_skill_are_its_category(tmp_path: Path) -> None:
    put(tmp_path / "user", "files/mend-it")
    put(tmp_path / "user", "loose")
    assert library(tmp_path).categories() == {"files": 1, "general": 1}


def test_a_retired_skill_is_out_of_use_but_not_gone(tmp_path: Path) -> None:
    put(tmp_path / "user", "retired-one")
    found = library(tmp_path)
    assert found.skills == []
    assert found.find("retired-one").state == "retired"


def test_what_cannot_be_read_is_told_and_keeps_nobody_else(tmp_path: Path) -> None:
    put(tmp_path / "user", "good")
    (tmp_path / "user/bad").mkdir()
    (tmp_path / "user/bad/SKILL.md").write_text("no front matter\n")
    (tmp_path / "user/huge").mkdir()
    (tmp_path / "user/huge/SKILL.md").write_text("---\nname: huge\n---\n" + "x" * 600_000)
    found = library(tmp_path)
    assert [skill.name for skill in found.skills] == ["good"]
    assert {Path(each.file).parent.name for each in found.problems} == {"bad", "huge"}


def test_links_and_hidden_folders_are_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "user", "good")
    put(tmp_path / "user", ".history/good")
    put(tmp_path / "elsewhere", "other")
    (tmp_path / "user/circle").symlink_to(tmp_path / "user")
    (tmp_path / "user/out").symlink_to(tmp_path / "elsewhere")
    assert list(library(tmp_path).skills_by_name) == ["good"]


def test_an_unknown_skill_is_answered_with_near_ones(tmp_path: Path) -> None:
    put(tmp_path / "user", "mend-it")
    with pytest.raises(SettingsError, match="similar: mend-it"):
        library(tmp_path).find("mend-that")


def test_only_files_of_the_skill_can_be_opened(tmp_path: Path) -> None:
    folder = put(tmp_path / "user", "mend-it")
    (folder / "references").mkdir()
    (folder / "references/more.md").write_text("more")
    skill = library(tmp_path).find("mend-it")
    assert skill.read_linked_file("references/more.md") == "more"
    for path in ("../../../etc/passwd", "/etc/passwd", "references/../SKILL.md"):
        with pytest.raises(SettingsError, match="no file"):
            skill.read_linked_file(path)


def test_the_quick_list_says_what_the_library_says(tmp_path: Path) -> None:
    quick = dict(read_descriptions(root.path for root in default_roots(tmp_path)))
    full = {skill.name: skill.description for skill in SkillLibrary(default_roots(tmp_path)).skills}
    assert quick == full
    assert len(full) >= 12


def test_every_version_can_be_compared_and_brought_back(tmp_path: Path) -> None:
    folder = put(tmp_path / "user", "mend-it", body="# One")
    history = SkillHistory(tmp_path / "user")
    first = history.record(folder, reason="begun", by="me")
    assert history.record(folder) == first, "the same content is no new version"
    put(tmp_path / "user", "mend-it", body="# Two")
    second = history.record(folder, reason="better", by="me")
    assert second.number == 2
    assert "-# One\n+# Two" in history.diff("mend-it", first, second)
    third = history.restore(folder, first, by="me")
    assert "# One" in (folder / "SKILL.md").read_text()
    assert (third.number, third.digest) == (3, first.digest)
    assert history.find("mend-it", second.digest[:8]) == second
    with pytest.raises(SettingsError, match="no version"):
        history.find("mend-it", "9")
