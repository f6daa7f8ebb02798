"""Runs a batch: so many workers, each result on the disk at once, one bad prompt is only itself."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread

from hermes.core.errors import HermesError, SettingsError
from hermes.core.messages import Value
from hermes.gym.batch.dataset import Job
from hermes.gym.batch.shelf import CHECKPOINT, STATISTICS, Shelf, add_up

Lines = Sequence[Mapping[str, Any]]
Work = Callable[[Job], Awaitable[Lines]]
"""The lines that a prompt became. Raises `HermesError` when it became none."""


class Plan(Value, kw_only=True, frozen=True, omit_defaults=False):
    """What decides what is done; a run that goes on must go on with the same."""

    dataset_file: str
    run_name: str
    model: str = ""
    distribution: str = "default"
    batch_size: int = 20
    max_iterations: int = 0
    format: str = "sharegpt"


class Summary(Value, kw_only=True, frozen=True, omit_defaults=False):
    """What came of it; also `statistics.json`."""

    run_name: str
    folder: str
    prompts: int
    done_before: int
    """Found on the disk, not asked again."""
    done_now: int
    failed: int
    completed: int
    """Examples that end with an answer."""
    examples: int
    seconds: float
    tool_stats: dict[str, dict[str, int]] = {}
    errors: tuple[str, ...] = ()


async def run_batch(
    plan: Plan,
    jobs: Sequence[Job],
    work: Work,
    shelf: Shelf,
    *,
    workers: int,
    resume: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Summary:
    """Raises `SettingsError` when the folder belongs to something else."""
    if workers < 1:
        raise SettingsError(f"--num_workers is {workers}; it must be 1 or more")
    started = time.monotonic()
    before = shelf.open(resume=resume)
    try:
        shelf.save(CHECKPOINT, {"plan": plan, "prompts": len(jobs), "done": len(before)})
        shelf.forget_failures()
        waiting = [job for job in jobs if job.key not in before]
        errors = await _work_off(waiting, work, shelf, workers, len(jobs), progress)
        lines = shelf.combine(jobs)
        summary = Summary(
            run_name=plan.run_name,
            folder=str(shelf.folder),
            prompts=len(jobs),
            done_before=len(jobs) - len(waiting),
            done_now=len(waiting) - len(errors),
            failed=len(errors),
            completed=sum(line.completed for line in lines),
            examples=len(lines),
            seconds=round(time.monotonic() - started, 3),
            tool_stats=add_up(lines),
            errors=tuple(sorted(set(errors))[:10]),
        )
        shelf.save(STATISTICS, summary)
        done = len(jobs) - len(errors)
        shelf.save(CHECKPOINT, {"plan": plan, "prompts": len(jobs), "done": done})
        return summary
    finally:
        shelf.close()


async def _work_off(
    waiting: Sequence[Job],
    work: Work,
    shelf: Shelf,
    workers: int,
    total: int,
    progress: Callable[[int, int], None],
) -> list[str]:
    """What went wrong, one text for each prompt that failed."""
    errors: list[str] = []
    todo = iter(waiting)
    ended = total - len(waiting)
    progress(ended, total)

    async def worker() -> None:
        nonlocal ended
        for job in todo:
            try:
                lines = await work(job)
            except HermesError as error:  # one prompt's failure is a line, not the end of the rest
                errors.append(str(error))
                await anyio.to_thread.run_sync(shelf.fail, job, str(error))
            else:
                await anyio.to_thread.run_sync(shelf.add, job, lines)
            ended += 1
            progress(ended, total)

    async with anyio.create_task_group() as group:
        for _ in range(min(workers, len(waiting))):
            group.start_soon(worker)
    return errors
