"""The log of a background process: nothing lost, little kept."""

import os
from pathlib import Path

import pytest

from hermes.environments.processes.background import LocalProcess, LogTail
from hermes.environments.processes.spawn import ChildProcess


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def drain(tail: LogTail) -> bytes:
    told = b""
    while piece := tail.read():
        told += piece
    return told


def test_nothing_is_lost_while_old_text_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    tail = LogTail(path, window=8192)
    sent = told = 0
    for number in range(300):
        piece = (b"%06d\n" % number) * 4000
        append(path, piece)
        sent += len(piece)
        got = drain(tail)
        assert got == piece
        told += len(got)
    assert told == sent > 8_000_000
    assert path.stat().st_blocks * 512 < 3 * 1024 * 1024
    tail.close()


def test_a_later_reader_begins_within_the_window(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, b"a" * 100_000 + b"b" * 4096)
    tail = LogTail(path, window=4096)
    assert drain(tail) == b"b" * 4096
    tail.close()
    assert tail.read() == b""


def start_and_end() -> int:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


@pytest.mark.anyio
async def test_a_new_process_is_read_from_its_start_however_late(tmp_path: Path) -> None:
    (tmp_path / "mark.log").write_bytes(b"a" * 500_000)
    (tmp_path / "mark.exit").touch()
    pid = start_and_end()
    process = LocalProcess(tmp_path, "mark", pid, "0", ChildProcess(pid))
    read = 0
    while piece := await process.output():
        read += len(piece)
    assert read == 500_000


def test_one_that_is_too_fast_is_followed_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    tail = LogTail(path, window=4096)
    append(path, b"z" * 20_000_000 + b"last")
    told = drain(tail)
    assert b"bytes came too fast" in told
    assert told.endswith(b"zlast")
    assert len(told) < 10_000
    tail.close()


def test_a_process_that_empties_its_log_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, b"before")
    tail = LogTail(path)
    assert drain(tail) == b"before"
    os.truncate(path, 0)
    assert tail.read() == b""
    append(path, b"after")
    assert drain(tail) == b"after"
    tail.close()
