"""Runs many prompts and writes each as training examples; goes on after an interruption.

`read_dataset` reads the prompts from JSONL, `run_batch` runs them, `BatchFolder` holds the results.
"""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from hermes.core.errors import HermesError, SettingsError
from hermes.core.messages import Value
from hermes.plumbing.files import PUBLIC_MODE, FileLock, write_atomically


class BatchPrompt(Value, kw_only=True, frozen=True):
    """Its key depends on its text, so a dataset may be reordered or extended later."""

    key: str
    prompt: str
    index: int
    """Position in the dataset, from 0."""
    batch: int = 0
    extra: dict[str, Any] = {}
    """Other fields of its line; copied to the example."""


def read_dataset(file: Path, *, batch_size: int, max_samples: int = 0) -> list[BatchPrompt]:
    """Raises `SettingsError` with the number of a wrong line."""
    if batch_size < 1:
        raise SettingsError(f"--batch_size is {batch_size}; it must be 1 or more")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the dataset {file} cannot be read: {error}") from error
    jobs: list[BatchPrompt] = []
    times: Counter[str] = Counter()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        prompt, extra = _parse_dataset_line(line, f"{file}:{number}")
        times[prompt] += 1
        index = len(jobs)
        key = prompt_key(prompt, times[prompt])
        batch = index // batch_size
        jobs.append(BatchPrompt(key=key, prompt=prompt, index=index, batch=batch, extra=extra))
    if not jobs:
        raise SettingsError(f'{file} has no prompts; a line looks like {{"prompt": "..."}}')
    return jobs[:max_samples] if max_samples > 0 else jobs


def prompt_key(prompt: str, occurrence: int = 1) -> str:
    """The second occurrence of a text is another sample with another key."""
    digest = hashlib.sha256(prompt.encode()).hexdigest()[:16]
    return digest if occurrence == 1 else f"{digest}-{occurrence}"


def _parse_dataset_line(line: str, where: str) -> tuple[str, dict[str, Any]]:
    try:
        raw = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise SettingsError(f"{where}: not a JSON object: {error}") from error
    prompt = raw.pop("prompt", None)
    if not isinstance(prompt, str) or not prompt.strip():
        raise SettingsError(f'{where}: there is no "prompt" with text in it')
    return prompt, raw


def group_by_batch(jobs: Sequence[BatchPrompt]) -> Iterator[list[BatchPrompt]]:
    for number in sorted({job.batch for job in jobs}):
        yield [job for job in jobs if job.batch == number]


TRAJECTORIES_FILE, FAILED_FILE, CHECKPOINT_FILE, STATISTICS_FILE = (
    "trajectories.jsonl",
    "failed.jsonl",
    "checkpoint.json",
    "statistics.json",
)


class BatchLine(Value, kw_only=True, frozen=True):
    """The fields of a result line that a batch reads back."""

    key: str
    lines: int = 1
    completed: bool = False
    tool_stats: dict[str, dict[str, int]] = {}
    metadata: dict[str, Any] = {}


class BatchFolder:
    """The results of one batch run. Locked by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: FileLock | None = None

    def open(self, *, resume: bool) -> set[str]:
        """Returns the keys of finished prompts. Raises `SettingsError` when it is in use."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self.folder / ".lock", wait=False)
        except BlockingIOError as error:
            raise SettingsError(f"{self.folder} is in use by another process") from error
        except OSError as error:
            raise HermesError(f"cannot write in {self.folder}: {error.strerror}") from error
        found = self._files()
        if found and not resume:
            raise SettingsError(
                f"{self.folder} already holds results: continue with --resume, or choose another "
                "--run_name"
            )
        return {key for file in found for key in self._repair(file)}

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def add(self, job: BatchPrompt, lines: Sequence[Mapping[str, Any]]) -> None:
        """Writes all lines of a prompt; they are on disk when this returns."""
        data = b"".join(
            msgspec.json.encode({"key": job.key, "lines": len(lines), **line}) + b"\n"
            for line in lines
        )
        self._append(self.folder / f"batch_{job.batch:04d}.jsonl", data)

    def fail(self, job: BatchPrompt, error: str) -> None:
        line = {"key": job.key, "prompt_index": job.index, "prompt": job.prompt, "error": error}
        self._append(self.folder / FAILED_FILE, msgspec.json.encode(line) + b"\n")

    def save(self, name: str, value: object) -> None:
        encoded = msgspec.json.format(msgspec.json.encode(value), indent=2)
        self._replace(name, encoded + b"\n")

    def combine(self, jobs: Sequence[BatchPrompt]) -> list[BatchLine]:
        """Writes all lines into one file, in the order of the dataset."""
        kept: dict[str, list[bytes]] = {}
        for file in self._files():
            for raw in file.read_bytes().splitlines():
                kept.setdefault(_decode_line(raw).key, []).append(raw)
        ordered = [
            raw for batch in group_by_batch(jobs) for job in batch for raw in kept.get(job.key, ())
        ]
        self._replace(TRAJECTORIES_FILE, b"".join(raw + b"\n" for raw in ordered))
        return [_decode_line(raw) for raw in ordered]

    def delete_failures(self) -> None:
        (self.folder / FAILED_FILE).unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("batch_[0-9]*.jsonl"))

    def _repair(self, file: Path) -> set[str]:
        """Removes prompts that a kill left half written; returns the complete ones."""
        raw = file.read_bytes()
        groups: dict[str, list[bytes]] = {}
        wanted: dict[str, int] = {}
        for each in raw.splitlines(keepends=True):
            try:
                line = _decode_line(each)
            except msgspec.MsgspecError:
                continue
            if each.endswith(b"\n"):
                groups.setdefault(line.key, []).append(each)
                wanted[line.key] = line.lines
        complete = {key: group for key, group in groups.items() if len(group) == wanted[key]}
        repaired = b"".join(each for group in complete.values() for each in group)
        if repaired != raw:
            self._replace(file.name, repaired)
        return set(complete)

    def _append(self, file: Path, data: bytes) -> None:
        try:
            with file.open("ab") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())
        except OSError as error:
            raise HermesError(f"cannot write {file}: {error.strerror}") from error

    def _replace(self, name: str, data: bytes) -> None:
        try:
            write_atomically(self.folder / name, data, mode=PUBLIC_MODE)
        except OSError as error:
            raise HermesError(f"cannot write {self.folder / name}: {error.strerror}") from error


def _decode_line(raw: bytes) -> BatchLine:
    return msgspec.json.decode(raw, type=BatchLine)


def sum_tool_stats(lines: Iterable[BatchLine]) -> dict[str, dict[str, int]]:
    """Calls by tool over all lines."""
    total: dict[str, dict[str, int]] = {}
    for line in lines:
        for tool, counts in line.tool_stats.items():
            tool_total = total.setdefault(tool, dict.fromkeys(counts, 0))
            for name, count in counts.items():
                tool_total[name] = tool_total.get(name, 0) + count
    return total


TrajectoryLines = Sequence[Mapping[str, Any]]
RunPrompt = Callable[[BatchPrompt], Awaitable[TrajectoryLines]]
"""Runs a prompt and returns its example lines. Raises `HermesError` when it fails."""


class BatchPlan(Value, kw_only=True, frozen=True, omit_defaults=False):
    """The options of a batch; a resumed run must have the same."""

    dataset_file: str
    run_name: str
    model: str = ""
    distribution: str = "default"
    batch_size: int = 20
    max_iterations: int = 0
    format: str = "sharegpt"


class BatchSummary(Value, kw_only=True, frozen=True, omit_defaults=False):
    """The content of `statistics.json`."""

    run_name: str
    folder: str
    prompts: int
    done_before: int
    """Prompts finished by an earlier run."""
    done_now: int
    failed: int
    completed: int
    """Examples that end with an answer."""
    examples: int
    seconds: float
    tool_stats: dict[str, dict[str, int]] = {}
    errors: tuple[str, ...] = ()


async def run_batch(
    plan: BatchPlan,
    jobs: Sequence[BatchPrompt],
    run_prompt: RunPrompt,
    folder: BatchFolder,
    *,
    workers: int,
    resume: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> BatchSummary:
    """Raises `SettingsError` when the folder is in use or holds another run."""
    if workers < 1:
        raise SettingsError(f"--num_workers is {workers}; it must be 1 or more")
    started = time.monotonic()
    before = folder.open(resume=resume)
    try:
        folder.save(CHECKPOINT_FILE, {"plan": plan, "prompts": len(jobs), "done": len(before)})
        folder.delete_failures()
        waiting = [job for job in jobs if job.key not in before]
        errors = await _run_prompts(waiting, run_prompt, folder, workers, len(jobs), progress)
        lines = folder.combine(jobs)
        summary = BatchSummary(
            run_name=plan.run_name,
            folder=str(folder.folder),
            prompts=len(jobs),
            done_before=len(jobs) - len(waiting),
            done_now=len(waiting) - len(errors),
            failed=len(errors),
            completed=sum(line.completed for line in lines),
            examples=len(lines),
            seconds=round(time.monotonic() - started, 3),
            tool_stats=sum_tool_stats(lines),
            errors=tuple(sorted(set(errors))[:10]),
        )
        folder.save(STATISTICS_FILE, summary)
        done = len(jobs) - len(errors)
        folder.save(CHECKPOINT_FILE, {"plan": plan, "prompts": len(jobs), "done": done})
        return summary
    finally:
        folder.close()


async def _run_prompts(
    waiting: Sequence[BatchPrompt],
    run_prompt: RunPrompt,
    folder: BatchFolder,
    workers: int,
    total: int,
    progress: Callable[[int, int], None],
) -> list[str]:
    """Returns the errors, one for each failed prompt."""
    errors: list[str] = []
    todo = iter(waiting)
    ended = total - len(waiting)
    progress(ended, total)

    async def worker() -> None:
        nonlocal ended
        for job in todo:
            try:
                lines = await run_prompt(job)
            except HermesError as error:  # one failed prompt must not end the batch
                errors.append(str(error))
                await anyio.to_thread.run_sync(folder.fail, job, str(error))
            else:
                await anyio.to_thread.run_sync(folder.add, job, lines)
            ended += 1
            progress(ended, total)

    async with anyio.create_task_group() as group:
        for _ in range(min(workers, len(waiting))):
            group.start_soon(worker)
    return errors
