"""Stores long texts and pictures as files beside the journal, under names that are safe."""

import errno
import os
import re
import shutil
from collections.abc import Iterable
from hashlib import sha256
from itertools import count
from pathlib import Path

import anyio.to_thread

from hermes.core.errors import StoreError, StoreFull, ToolError
from hermes.plumbing.files import temporary_copy

_SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
_REFERENCE = re.compile(r"artifact://([a-z0-9][a-z0-9_.-]*)/([a-z0-9][a-z0-9_.-]*)")


class FileArtifacts:
    """Fulfils `ArtifactStore` and `StoresBytes`. What is stored is never changed: a second text of
    the same name gets its own reference."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def save(self, run: str, name: str, text: str) -> str:
        """Raises `StoreError` when it cannot be stored."""
        return await self.save_bytes(run, name, text.encode(errors="replace"))

    async def load(self, reference: str) -> str:
        return (await self.load_bytes(reference)).decode(errors="replace")

    async def save_bytes(self, run: str, name: str, data: bytes) -> str:
        """Raises `StoreError` when it cannot be stored."""
        return await anyio.to_thread.run_sync(self._save, run, name, data)

    async def load_bytes(self, reference: str) -> bytes:
        return await anyio.to_thread.run_sync(self._load, reference)

    def _save(self, run: str, name: str, data: bytes) -> str:
        folder = self._folder / _safe_file_name(run)
        try:
            for needed in (self._folder, folder):
                needed.mkdir(mode=0o700, parents=True, exist_ok=True)
            safe_name = _safe_file_name(name)
            with temporary_copy(folder / safe_name, data) as partial:
                kept = _create_unique_file(folder, safe_name)
                partial.replace(kept)
        except OSError as error:
            raise _store_error(error, folder) from error
        return f"artifact://{folder.name}/{kept.name}"

    def _load(self, reference: str) -> bytes:
        match = _REFERENCE.fullmatch(reference.strip())
        if match is None:
            raise ToolError(f"{reference!r} is not a reference like artifact://<run>/<name>")
        home = self._folder.resolve()
        path = home.joinpath(*match.groups()).resolve()
        if not path.is_relative_to(home) or not path.is_file():  # a link may point elsewhere
            raise ToolError(f"there is no artifact {reference!r}")
        try:
            return path.read_bytes()
        except OSError as error:
            raise ToolError(f"the artifact {reference!r} cannot be read: {error}") from error


def delete_artifacts(folder: Path, runs: Iterable[str]) -> None:
    """Delete the texts of these runs from the disk. Raises `StoreError`."""
    for run in runs:
        try:
            shutil.rmtree(folder / _safe_file_name(run))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(
                f"the long texts of {run} in {folder} could not be deleted: {error.strerror}"
            ) from error


def _safe_file_name(name: str) -> str:
    """A file name without folders. The dot marks changed names, with a hash that keeps different
    names different, also on file systems that fold case."""
    if _SAFE_NAME.fullmatch(name):
        return name
    plain = re.sub(r"[^a-z0-9_-]+", "-", name.lower()[:60]).strip("-_") or "x"
    return f"{plain}.{sha256(name.encode(errors='replace')).hexdigest()[:16]}"


def _create_unique_file(folder: Path, name: str) -> Path:
    for number in count(1):
        path = folder / (name if number == 1 else f"{name}.{number}")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            continue
        return path
    raise AssertionError("count never ends")


def _store_error(error: OSError, folder: Path) -> StoreError:
    kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreError
    return kind(f"a long text could not be kept in {folder}: {error.strerror}")
