"""Paths and words in the documentation exist in the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ARCHITECTURE = ROOT / "docs/explanation/architecture.md"
GLOSSARY = ROOT / "docs/glossary.md"


def rows_of(path: Path) -> list[list[str]]:
    lines = [line for line in path.read_text("utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_path_of_where_do_i_look_exists() -> None:
    after = ARCHITECTURE.read_text("utf-8").partition("## Where do I look for")[2]
    paths = [
        path for line in after.splitlines() for path in re.findall(r"`([\w/]+(?:\.py|/))`", line)
    ]
    assert len(paths) >= 40
    assert [path for path in paths if not (ROOT / "src/hermes" / path).exists()] == []


def test_the_glossary_has_sixty_words_each_once() -> None:
    words = [row[0] for row in rows_of(GLOSSARY)[2:]]
    assert len(words) >= 60
    assert len(set(words)) == len(words)


def check_names(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "scripts/names.py", "--root", root], capture_output=True, text=True
    )


@pytest.mark.command
def test_a_word_that_the_glossary_rules_out_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/glossary.md").write_text(GLOSSARY.read_text("utf-8"))
    source = tmp_path / "src/hermes"
    source.mkdir(parents=True)
    (source / "good.py").write_text("class Redactor:\n    pass\n")
    assert check_names(tmp_path).returncode == 0
    (source / "bad.py").write_text("def open_veil(deeds: int) -> None:\n    pass\n")
    (source / "again.py").write_text("class Redactor:\n    pass\n")
    found = check_names(tmp_path)
    assert found.returncode == 1
    assert "open_veil: the glossary says redactor" in found.stdout
    assert "deeds: the glossary says action" in found.stdout
    assert "class Redactor is defined more than once" in found.stdout
