"""Files that changed while a sandbox could write to them are known afterwards."""

import os
import time
from pathlib import Path

import anyio
import msgspec
import pytest

from hermes.core.errors import EnvironmentFailed
from hermes.environments.open import EnvironmentOpening, open_environment
from hermes.environments.sandboxing.sandbox_records import (
    FILE_TIME_MARGIN_NS,
    MAX_SCANNED_FILES,
    RECORDS_FOLDER,
    SandboxRecord,
    SandboxRecords,
)
from hermes.environments.settings import TerminalSettings

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work" / ".git").mkdir(parents=True)
    return tmp_path / "work"


def opening(home: Path, work: Path, **more: object) -> EnvironmentOpening:
    settings = TerminalSettings(backend="sandbox", **more)  # type: ignore[arg-type]
    return EnvironmentOpening(settings, work, home, {"PATH": os.environ["PATH"]})


async def test_what_a_command_in_a_sandbox_wrote_is_known_and_the_rest_is_not(
    home: Path, work: Path
) -> None:
    (work / "before").write_text("ours")
    await anyio.sleep(2 * FILE_TIME_MARGIN_NS / 1e9)
    async with open_environment(opening(home, work)) as place:
        await place.run("echo bad > .git/config; mkdir -p a/b; touch -d 2001-01-01 a/b/run.sh")
    records = SandboxRecords(home)
    assert records.wrote(str(work / ".git/config"))
    assert records.wrote(str(work / "a/b/run.sh"))
    assert not records.wrote(str(work / "before"))
    assert not records.wrote(str(work / "missing"))
    assert records.matching(str(work / "a/b"), (".git/*",)) == [str(work / ".git/config")]
    assert records.matching(str(work), ("*.sh",)) == [str(work / "a/b/run.sh")]
    assert records.matching(str(work.parent), ("*.sh",)) == []


async def test_a_file_that_was_changed_outside_later_is_known_no_more(
    home: Path, work: Path
) -> None:
    async with open_environment(opening(home, work)) as place:
        await place.run("echo bad > Makefile; echo bad > other.mk")
    records = SandboxRecords(home)
    assert records.wrote(str(work / "Makefile"))
    await anyio.sleep(2 * FILE_TIME_MARGIN_NS / 1e9)
    (work / "Makefile").write_text("ours")
    assert not records.wrote(str(work / "Makefile"))
    assert records.matching(str(work), ("Makefile", "*.mk")) == [str(work / "other.mk")]


async def test_a_folder_of_the_sandbox_alone_leaves_no_record(home: Path, work: Path) -> None:
    async with open_environment(opening(home, work, cwd="")) as place:
        await place.run("echo x > made")
    assert not (home / RECORDS_FOLDER).exists()


async def test_a_sandbox_that_cannot_be_recorded_is_not_opened(work: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="cannot record"):
        async with open_environment(opening(Path("/dev/null/home"), work)):
            pass


def test_a_sandbox_whose_process_died_counts_until_it_is_noticed(home: Path, work: Path) -> None:
    records = SandboxRecords(home)
    file = records.record_opened((str(work),))
    assert file is not None
    left = msgspec.json.decode(file.read_bytes(), type=SandboxRecord)
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(left, owner="1:gone")))
    (work / "left").touch()
    assert SandboxRecords(home).wrote(str(work / "left"))
    time.sleep(2 * FILE_TIME_MARGIN_NS / 1e9)
    (work / "ours").touch()
    assert not SandboxRecords(home).wrote(str(work / "ours"))


def test_while_a_sandbox_is_open_what_changes_is_distrusted(home: Path, work: Path) -> None:
    records = SandboxRecords(home)
    records.record_opened((str(work),))
    (work / "new").touch()
    assert records.wrote(str(work / "new"))
    (work / "newer").touch()
    assert records.wrote(str(work / "newer"))


def test_a_folder_too_large_to_look_through_is_distrusted_as_a_whole(
    home: Path, work: Path
) -> None:
    (work / "old").touch()
    for number in range(MAX_SCANNED_FILES // 1000 + 1):
        (work / f"{number}").mkdir()
        for each in range(1000):
            os.link(work / "old", work / f"{number}/{each}") if each else None
    time.sleep(2 * FILE_TIME_MARGIN_NS / 1e9)
    records = SandboxRecords(home)
    records.record_closed(records.record_opened((str(work),)))
    assert records.wrote(str(work / "old"))
    assert records.matching(str(work), ("Makefile",)) == [str(work)]


def test_an_old_or_unreadable_record_is_left_aside(home: Path, work: Path) -> None:
    (home / RECORDS_FOLDER).mkdir(parents=True)
    old = SandboxRecord(folders=(str(work),), opened_ns=1, closed_ns=2)
    (home / RECORDS_FOLDER / "1.json").write_bytes(msgspec.json.encode(old))
    (home / RECORDS_FOLDER / "2.json").write_text("{")
    assert not SandboxRecords(home).wrote(str(work / ".git"))
    assert [file.name for file in (home / RECORDS_FOLDER).iterdir()] == ["2.json"]
