"""Commands of git that change what references name, or give a file a name."""

import pytest
from reading import beyond, cases, effects

CHANGING = """
git fetch . HEAD:refs/tags/x
git fetch origin main:main
git fetch origin 'refs/heads/*:refs/heads/*'
git fetch origin +main:main
git fetch +main:main
git -C sub fetch . a:b
git fetch --refmap=a:b origin main
git fetch --stdin origin
git fetch --prune-tags
git pull . a:b
"""
NAMING_FILES = """
git fetch . 1234abcd:refs/tags/x
git fetch . 1234abcd
git fetch /srv/app 1234abcd
git fetch "$remote" 1234abcd
"""
ORDINARY = """
git fetch
git fetch origin
git fetch origin main
git fetch origin release/2.1
git fetch --all --tags --prune
"""


@pytest.mark.parametrize("command", cases(CHANGING))
def test_a_target_of_a_fetch_is_a_changed_reference(command: str) -> None:
    assert "delete" in effects(command)


@pytest.mark.parametrize("command", cases(NAMING_FILES))
def test_a_fetch_by_number_gives_a_file_a_name(command: str) -> None:
    assert "secret-read" in effects(command)


@pytest.mark.parametrize("command", cases(ORDINARY))
def test_a_plain_fetch_only_records(command: str) -> None:
    assert beyond(command) == {"write"}
