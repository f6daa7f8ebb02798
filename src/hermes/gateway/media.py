"""Files that people send: kept under names of our own, for a while, and never executable."""

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

import msgspec

from hermes.core.channels import MediaItem
from hermes.plumbing.files import write_atomically

MEDIA_FOLDERS = {"image": "image_cache", "audio": "audio_cache", "file": "file_cache"}
SPEECH_PREFIX = "speech-"
"""How the names of recordings begin that Hermes made."""
STICKER_FILE = "sticker_cache.json"
MAX_STICKERS = 2_000
_SUFFIX = re.compile(r"\.[a-z0-9]{1,8}$")
_DAY_S = 86_400.0


class MediaCache:
    """Keeps received files in the home folder. A file is named by its content, so the same one is
    kept once."""

    def __init__(self, home: Path, *, max_bytes: int, max_age_days: float) -> None:
        self._home = home
        self._max_bytes, self._max_age_s = max_bytes, max_age_days * _DAY_S

    def save(self, media: MediaItem, data: bytes, now: float) -> Path:
        """Raises `OSError`."""
        suffix = _SUFFIX.search(media.name.lower())
        name = f"{hashlib.sha256(data).hexdigest()[:32]}{suffix[0] if suffix else ''}"
        folder = self._home / MEDIA_FOLDERS.get(media.kind, MEDIA_FOLDERS["file"])
        return self._write(folder / name, data, now)

    def save_speech(self, data: bytes, suffix: str, now: float) -> Path:
        """A recording that Hermes made. Raises `OSError`."""
        name = f"{SPEECH_PREFIX}{hashlib.sha256(data).hexdigest()[:32]}{suffix}"
        return self._write(self._home / MEDIA_FOLDERS["audio"] / name, data, now)

    def _write(self, path: Path, data: bytes, now: float) -> Path:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists():
            os.utime(path, (now, now))
        else:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.utime(path, (now, now))
        self.prune(now, keep=path)
        return path

    def prune(self, now: float, keep: Path | None = None) -> None:
        """Remove what is too old, then the oldest until the rest is small enough."""
        found = sorted(self._files(), key=lambda entry: entry[0], reverse=True)
        total = 0
        for changed_at, size, path in found:
            total += size
            if path != keep and (now - changed_at > self._max_age_s or total > self._max_bytes):
                total -= size
                with suppress(OSError):
                    path.unlink()

    def _files(self) -> list[tuple[float, int, Path]]:
        found = []
        for name in MEDIA_FOLDERS.values():
            folder = self._home / name
            for path in folder.iterdir() if folder.is_dir() else ():
                with suppress(OSError):
                    status = path.stat()
                    found.append((status.st_mtime, status.st_size, path))
        return found


def is_made_recording(path: Path, home: Path) -> bool:
    """Return whether Hermes made it, to be sent; anything else in the folder was said by people."""
    folder = (home / MEDIA_FOLDERS["audio"]).resolve()
    return path.parent == folder and path.name.startswith(SPEECH_PREFIX)


class StickerCache:
    """Remembers the description of each sticker, so that it is described once."""

    def __init__(self, home: Path) -> None:
        self._path = home / STICKER_FILE

    def describe(self, sticker: MediaItem) -> str:
        """Return what the platform said of it when it was first seen; kept for the next time."""
        known = self._read()
        text = known.get(sticker.reference) or sticker.description or "a sticker"
        if known.get(sticker.reference) != text:
            kept = dict(list(known.items())[-MAX_STICKERS + 1 :])
            with suppress(OSError):
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_atomically(self._path, msgspec.json.encode({**kept, sticker.reference: text}))
        return text

    def _read(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (OSError, ValueError):
            return {}
