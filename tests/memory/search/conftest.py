"""A home of its own for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from search_home import Home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.past.close()
