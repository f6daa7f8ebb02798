"""The prompts of a batch: a JSONL file in which every line has a `prompt`."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Value


class Job(Value, kw_only=True, frozen=True):
    """One prompt. Known by its text, so that a dataset may be reordered or extended later."""

    key: str
    prompt: str
    index: int
    """Its place in the dataset, from 0."""
    batch: int = 0
    extra: dict[str, Any] = {}
    """What else its line says; kept beside the example."""


def read_dataset(file: Path, *, batch_size: int, max_samples: int = 0) -> list[Job]:
    """Raises `SettingsError` naming the line that is wrong."""
    if batch_size < 1:
        raise SettingsError(f"--batch_size is {batch_size}; it must be 1 or more")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the dataset {file} cannot be read: {error}") from error
    jobs: list[Job] = []
    times: Counter[str] = Counter()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        prompt, extra = _read(line, f"{file}:{number}")
        times[prompt] += 1
        place = len(jobs)
        key = key_of(prompt, times[prompt])
        batch = place // batch_size
        jobs.append(Job(key=key, prompt=prompt, index=place, batch=batch, extra=extra))
    if not jobs:
        raise SettingsError(f'{file} has no prompts; a line looks like {{"prompt": "..."}}')
    return jobs[:max_samples] if max_samples > 0 else jobs


def key_of(prompt: str, time: int = 1) -> str:
    """The same text a second time is another sample of it."""
    digest = hashlib.sha256(prompt.encode()).hexdigest()[:16]
    return digest if time == 1 else f"{digest}-{time}"


def _read(line: str, where: str) -> tuple[str, dict[str, Any]]:
    try:
        raw = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise SettingsError(f"{where}: not a JSON object: {error}") from error
    prompt = raw.pop("prompt", None)
    if not isinstance(prompt, str) or not prompt.strip():
        raise SettingsError(f'{where}: there is no "prompt" with text in it')
    return prompt, raw


def batches(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    for number in sorted({job.batch for job in jobs}):
        yield [job for job in jobs if job.batch == number]
