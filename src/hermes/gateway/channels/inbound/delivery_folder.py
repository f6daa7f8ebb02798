"""Deliveries of a platform to our web server, kept in files until the channel has taken them.

The web server and the gateway may be two processes, and either may end at any time. What was kept
is read again after a crash: the key of each message makes it one turn.
"""

import secrets
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread
import msgspec

from hermes.core.messages import Value
from hermes.plumbing.files import write_atomically

MAX_WAITING_DELIVERIES = 1_000
POLL_INTERVAL_S = 0.25
"""How often the folder is looked at."""
FULL_FOLDER_TEXT = "too many messages wait for the gateway; is `hermes gateway run` running?"


class DeliveryFolderFull(Exception):
    """No process has taken the deliveries for a long time."""


class KeptDelivery(Value, frozen=True, array_like=True):
    body: bytes
    signature: str


class WaitingDelivery(NamedTuple):
    file: Path
    delivery: KeptDelivery | None
    """None: the file cannot be read."""


def delivery_folder(home: Path, channel: str) -> Path:
    return home / "deliveries" / channel


class DeliveryFolder:
    """Its methods block, except `follow`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, body: bytes, signature: str) -> None:
        """Raises `OSError` and `DeliveryFolderFull`."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if len(self._files()) >= MAX_WAITING_DELIVERIES:
            raise DeliveryFolderFull
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.json"
        write_atomically(self._folder / name, msgspec.json.encode(KeptDelivery(body, signature)))

    def waiting(self) -> list[WaitingDelivery]:
        """In the order of their arrival."""
        return [WaitingDelivery(file, _read(file)) for file in self._files()]

    async def follow(self) -> AsyncGenerator[tuple[bytes, str], None]:
        """Body and signature of each; asking for the next one removes the last."""
        while True:
            for file, delivery in await anyio.to_thread.run_sync(self.waiting):
                if delivery is not None:
                    yield delivery.body, delivery.signature
                await anyio.to_thread.run_sync(_remove, file)
            await anyio.sleep(POLL_INTERVAL_S)

    def _files(self) -> list[Path]:
        try:
            return sorted(self._folder.glob("[0-9]*.json"))
        except OSError:
            return []


def _read(file: Path) -> KeptDelivery | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=KeptDelivery)
    except (OSError, msgspec.DecodeError):
        return None


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
