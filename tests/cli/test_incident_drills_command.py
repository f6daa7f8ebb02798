"""`hermes drill from-incident` and `hermes incident replay` where the states are missing."""

from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from hermes.cli.root_command import root
from hermes.core.errors import HermesError
from hermes.core.events.incidents import IncidentOpened
from hermes.memory.journal.sqlite_journal import SqliteJournal

INCIDENT = "incident-20260101-120000-a1b2c3"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    async def fill() -> None:
        async with SqliteJournal.open(tmp_path / "journal.db") as journal:
            await journal.append(
                IncidentOpened(run=INCIDENT, incident=INCIDENT, title="shop is down", severity="P1")
            )

    anyio.run(fill)
    return tmp_path


@pytest.mark.parametrize(
    "words", [["drill", "from-incident", "a1b2c3"], ["incident", "replay", "--model", "none"]]
)
def test_without_states_it_says_what_is_needed(home: Path, words: list[str]) -> None:
    env = {"HERMES_HOME": str(home), "NO_COLOR": "1"}
    done = CliRunner().invoke(root, words, env=env, standalone_mode=False)
    assert isinstance(done.exception, HermesError)
    assert "no states were kept" in str(done.exception)
    assert "hermes state record" in str(done.exception)
    assert not (home / "drills").exists()


def test_an_unknown_incident_is_an_error(home: Path) -> None:
    env = {"HERMES_HOME": str(home), "NO_COLOR": "1"}
    words = ["drill", "from-incident", "none-such"]
    done = CliRunner().invoke(root, words, env=env, standalone_mode=False)
    assert isinstance(done.exception, HermesError)
