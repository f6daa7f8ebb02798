"""An older file is copied, then brought up to date in one step or not at all."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

from hermes.core.errors import StoreError, StoreTooNew
from hermes.memory.journal.sqlite_file import MIGRATIONS, open_for_writing

NOW = len(MIGRATIONS)
LATER = (*MIGRATIONS, "ALTER TABLE event ADD COLUMN mood TEXT; CREATE TABLE mood(name)")
MIGRATE = """
import sys
from pathlib import Path
from hermes.memory.journal.sqlite_file import MIGRATIONS, open_for_writing

open_for_writing(Path(sys.argv[1]), migrations=(*MIGRATIONS, sys.argv[2]))
"""
BROKEN = (*MIGRATIONS, "CREATE TABLE mood(name); CREATE TABLE mood(name)")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    connection = open_for_writing(path)
    connection.execute("INSERT INTO gap VALUES(1, 2)")
    connection.close()
    return path


def state(path: Path) -> tuple[int, set[str], list[object]]:
    connection = apsw.Connection(str(path))
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    found = (
        connection.pragma("user_version"),
        {str(name) for (name,) in tables} - {"sqlite_sequence"},
        connection.execute("SELECT * FROM gap").fetchall(),
    )
    connection.close()
    return found


def wait_for_a_backup(folder: Path) -> None:
    deadline = time.monotonic() + 120
    while not [name for name in folder.glob(f"*.v{NOW}-*") if name.suffix != ".partial"]:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_new_file_is_made_without_a_backup(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    open_for_writing(path, migrations=LATER).close()
    assert state(path)[0] == NOW + 1
    assert [file.name for file in tmp_path.iterdir()] == ["journal.db"]


def test_an_older_file_is_copied_and_brought_up_to_date(old: Path) -> None:
    open_for_writing(old, migrations=LATER).close()
    (backup,) = old.parent.glob(f"journal.db.v{NOW}-*")
    assert backup.stat().st_mode & 0o777 == 0o600
    assert state(backup) == (NOW, {"event", "gap"}, [(1, 2)])
    assert state(old) == (NOW + 1, {"event", "gap", "mood"}, [(1, 2)])
    open_for_writing(old, migrations=LATER).close()
    assert list(old.parent.glob(f"journal.db.v{NOW}-*")) == [backup]
    with pytest.raises(StoreTooNew):
        open_for_writing(old)


def test_a_step_that_fails_leaves_the_old_version_as_it_was(old: Path) -> None:
    with pytest.raises(StoreError, match="mood already exists"):
        open_for_writing(old, migrations=BROKEN)
    assert state(old) == (NOW, {"event", "gap"}, [(1, 2)])


@pytest.mark.torture
def test_a_process_killed_in_the_middle_leaves_the_old_version_as_it_was(old: Path) -> None:
    # The last statement never ends: the kill comes when the tables are changed but not committed.
    endless = (
        "CREATE TABLE mood(name); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT count(*) FROM n"
    )
    migrating = subprocess.Popen([sys.executable, "-c", MIGRATE, str(old), endless])
    try:
        wait_for_a_backup(old.parent)
    finally:
        migrating.kill()
    assert migrating.wait(timeout=120) == -signal.SIGKILL
    assert state(old) == (NOW, {"event", "gap"}, [(1, 2)])
    open_for_writing(old, migrations=LATER).close()
    assert state(old)[0] == NOW + 1
