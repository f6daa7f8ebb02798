"""Files of outgoing messages."""

import mimetypes
from pathlib import Path
from typing import NamedTuple

import anyio

from hermes.core.channels import Address
from hermes.core.errors import DeliveryError

DEFAULT_MIME_TYPE = "application/octet-stream"


class OutgoingFile(NamedTuple):
    name: str
    data: bytes

    @property
    def mime_type(self) -> str:
        return mimetypes.guess_type(self.name)[0] or DEFAULT_MIME_TYPE


async def read_outgoing_file(path: str) -> OutgoingFile:
    """Raises `DeliveryError`: it is gone or may not be read."""
    file = Path(path)
    try:
        return OutgoingFile(file.name, await anyio.Path(file).read_bytes())
    except OSError as error:
        text = f"the file {file.name} cannot be read: {error.strerror}"
        raise DeliveryError(text, permanent=True) from error


def chat_of(to: Address, home: str) -> str:
    """Raises `DeliveryError` without a chat."""
    if not (to.chat or home):
        key = f"channels.{to.channel}.home_channel"
        raise DeliveryError(f"no chat is named, and {key} is not set", permanent=True)
    return to.chat or home
