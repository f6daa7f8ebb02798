"""A backup of a home in use is complete, and only a complete one is restored."""

import gzip
import io
import os
import stat
import tarfile
import threading
from pathlib import Path

import anyio
import pytest

from hermes.app.journal.home_backup import back_up, restore
from hermes.core.errors import HermesError, SettingsError, StoreCorrupt
from hermes.core.events.operations import WatchStopped
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import verify
from hermes.plumbing.files import FileLock


async def append(home: Path, count: int) -> None:
    async with SqliteJournal.open(home / "journal.db") as journal:
        for _ in range(count):
            await journal.append(WatchStopped(run="watch"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "policies").mkdir(mode=0o700, parents=True)
    (home / "policies" / "own.yaml").write_text("# mine\n")
    (home / ".env").write_text("KEY=secret\n")
    (home / ".env").chmod(0o600)
    (home / "locks").mkdir()
    anyio.run(append, home, 20)
    return home


def test_everything_comes_back_with_its_mode(home: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.tar.gz"
    done = back_up(home, saved)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    back = tmp_path / "back"
    assert restore(saved, back).files == done.files
    assert (back / ".env").read_text() == "KEY=secret\n"
    assert stat.S_IMODE((back / ".env").stat().st_mode) == 0o600
    assert stat.S_IMODE(back.stat().st_mode) == 0o700
    assert (back / "policies" / "own.yaml").read_text() == "# mine\n"
    assert verify(back / "journal.db").events == 20
    assert not (back / "locks").exists()


def test_a_home_in_use_is_saved_in_one_state(home: Path, tmp_path: Path) -> None:
    ended = threading.Event()

    async def keep_writing() -> None:
        async with SqliteJournal.open(home / "journal.db") as journal:
            while not ended.is_set():
                await journal.append(WatchStopped(run="watch"))

    writer = threading.Thread(target=anyio.run, args=(keep_writing,))
    writer.start()
    try:
        for number in range(3):
            back_up(home, tmp_path / f"{number}.tar.gz")
    finally:
        ended.set()
        writer.join()
    for number in range(3):
        restore(tmp_path / f"{number}.tar.gz", tmp_path / f"back-{number}")
        assert verify(tmp_path / f"back-{number}" / "journal.db").ok


def test_links_are_not_followed(home: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("private")
    (home / "link").symlink_to(tmp_path / "outside")
    (home / "folder").symlink_to(tmp_path)
    os.mkfifo(home / "pipe")
    done = back_up(home, tmp_path / "saved.tar.gz")
    assert [each.split()[0] for each in done.left_out] == ["folder", "link", "pipe"]
    restore(tmp_path / "saved.tar.gz", tmp_path / "back")
    assert not (tmp_path / "back" / "link").exists()


def test_a_home_is_never_overwritten(home: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.tar.gz"
    back_up(home, saved)
    (home / "new").write_text("later")
    with pytest.raises(SettingsError, match="not empty"):
        restore(saved, home)
    with FileLock(home / "locks" / "watch.lock"), pytest.raises(SettingsError, match="uses"):
        restore(saved, home, force=True)
    done = restore(saved, home, force=True)
    assert (Path(done.previous) / "new").read_text() == "later"
    assert not (home / "new").exists()


def test_where_a_backup_may_not_be(home: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be in the home"):
        back_up(home, home / "saved.tar.gz")
    (tmp_path / "there").write_text("x")
    with pytest.raises(SettingsError, match="not overwritten"):
        back_up(home, tmp_path / "there")


def archive(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as made:
        for member in members:
            made.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def member(name: str, **more: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    for key, value in more.items():
        setattr(made, key, value)
    return made


@pytest.mark.parametrize(
    "hostile",
    [
        member("../outside", size=1),
        member("/etc/outside", size=1),
        member("a/../../outside", size=1),
        member("link", type=tarfile.SYMTYPE, linkname="/etc"),
        member("hard", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
        member("device", type=tarfile.CHRTYPE),
    ],
    ids=lambda each: each.name,
)
def test_a_hostile_archive_writes_nothing(tmp_path: Path, hostile: tarfile.TarInfo) -> None:
    source = archive(tmp_path / "bad.tar.gz", hostile)
    with pytest.raises(StoreCorrupt):
        restore(source, tmp_path / "deep" / "back")
    assert not any((tmp_path / "deep").iterdir())
    assert not (tmp_path / "outside").exists()


def test_a_damaged_archive_is_refused(home: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.tar.gz"
    back_up(home, saved)
    whole = gzip.decompress(saved.read_bytes())
    changed = whole.replace(b"KEY=secret", b"KEY=forged", 1)
    assert changed != whole
    for data in (gzip.compress(changed), saved.read_bytes()[:-2000], b"nothing"):
        bad = tmp_path / "bad.tar.gz"
        bad.write_bytes(data)
        with pytest.raises(HermesError):
            restore(bad, tmp_path / "back")
        assert not (tmp_path / "back").exists()
    with pytest.raises(SettingsError, match="no file"):
        restore(tmp_path / "missing", tmp_path / "back")
