"""The files of a batch run: what is on them survives a kill, and says what need not be done again.

`batch_0000.jsonl` and so on get a prompt's lines in one piece as soon as it has ended.
`trajectories.jsonl` is made of them in the end. Each line has the prompt's key and how many lines
belong to it; a prompt whose lines are not all there, or are torn, counts as never done.
"""

import fcntl
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import HermesError, SettingsError
from hermes.core.messages import Value
from hermes.gym.batch.dataset import Job, batches

COMBINED, FAILED, CHECKPOINT, STATISTICS = (
    "trajectories.jsonl",
    "failed.jsonl",
    "checkpoint.json",
    "statistics.json",
)


class Line(Value, kw_only=True, frozen=True):
    """What is read of a line to know what was done."""

    key: str
    lines: int = 1
    completed: bool = False
    tool_stats: dict[str, dict[str, int]] = {}
    metadata: dict[str, Any] = {}


class Shelf:
    """One batch run's folder. Held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: int | None = None

    def open(self, *, resume: bool) -> set[str]:
        """Keys of what is done already. Raises `SettingsError` when the folder is not free."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SettingsError(f"another process works on {self.folder}; let it end") from error
        except OSError as error:
            raise HermesError(f"cannot write in {self.folder}: {error.strerror}") from error
        found = self._files()
        if found and not resume:
            raise SettingsError(
                f"{self.folder} holds results already; go on with --resume, or take another "
                "--run_name"
            )
        return {key for file in found for key in self._mend(file)}

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def add(self, job: Job, lines: Sequence[Mapping[str, Any]]) -> None:
        """All lines of a prompt; on the disk when this returns."""
        whole = b"".join(
            msgspec.json.encode({"key": job.key, "lines": len(lines), **line}) + b"\n"
            for line in lines
        )
        self._append(self.folder / f"batch_{job.batch:04d}.jsonl", whole)

    def fail(self, job: Job, error: str) -> None:
        line = {"key": job.key, "prompt_index": job.index, "prompt": job.prompt, "error": error}
        self._append(self.folder / FAILED, msgspec.json.encode(line) + b"\n")

    def save(self, name: str, value: object) -> None:
        encoded = msgspec.json.format(msgspec.json.encode(value), indent=2)
        self._replace(name, encoded + b"\n")

    def combine(self, jobs: Sequence[Job]) -> list[Line]:
        """Every line of these prompts in the order of the dataset, in one file."""
        kept: dict[str, list[bytes]] = {}
        for file in self._files():
            for raw in file.read_bytes().splitlines():
                kept.setdefault(_line(raw).key, []).append(raw)
        ordered = [raw for batch in batches(jobs) for job in batch for raw in kept.get(job.key, ())]
        self._replace(COMBINED, b"".join(raw + b"\n" for raw in ordered))
        return [_line(raw) for raw in ordered]

    def forget_failures(self) -> None:
        (self.folder / FAILED).unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("batch_[0-9]*.jsonl"))

    def _mend(self, file: Path) -> set[str]:
        """Take out what a kill left half written, and say what is whole."""
        raw = file.read_bytes()
        groups: dict[str, list[bytes]] = {}
        wanted: dict[str, int] = {}
        for each in raw.splitlines(keepends=True):
            try:
                line = _line(each)
            except msgspec.MsgspecError:
                continue
            if each.endswith(b"\n"):
                groups.setdefault(line.key, []).append(each)
                wanted[line.key] = line.lines
        whole = {key: group for key, group in groups.items() if len(group) == wanted[key]}
        mended = b"".join(each for group in whole.values() for each in group)
        if mended != raw:
            self._replace(file.name, mended)
        return set(whole)

    def _append(self, file: Path, data: bytes) -> None:
        try:
            with file.open("ab") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())
        except OSError as error:
            raise HermesError(f"cannot write {file}: {error.strerror}") from error

    def _replace(self, name: str, data: bytes) -> None:
        unfinished = self.folder / f".{name}.new"
        try:
            unfinished.write_bytes(data)
            unfinished.replace(self.folder / name)
        except OSError as error:
            raise HermesError(f"cannot write {self.folder / name}: {error.strerror}") from error


def _line(raw: bytes) -> Line:
    return msgspec.json.decode(raw, type=Line)


def add_up(lines: Iterable[Line]) -> dict[str, dict[str, int]]:
    """Calls by tool over all lines."""
    total: dict[str, dict[str, int]] = {}
    for line in lines:
        for tool, counts in line.tool_stats.items():
            of = total.setdefault(tool, dict.fromkeys(counts, 0))
            for name, count in counts.items():
                of[name] = of.get(name, 0) + count
    return total
