"""A gateway whose chat consists of files, to be killed: python gateway_victim.py FOLDER"""

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from hermes.app import open_application
from hermes.app.channels.gateway import open_gateway_parts, serve_channel
from hermes.core.channels import Address, InboundMessage, OutgoingMessage
from hermes.gateway.chat_transport import ChatTransport
from hermes.gateway.manifest import ChannelLimits
from hermes.gateway.settings import TelegramSettings
from hermes.settings.load import LoadedSettings, load


class FileChannel:
    """Messages are numbered; what is acknowledged, and what was sent, is in files."""

    name = "telegram"

    def __init__(self, folder: Path, messages: int) -> None:
        self._acknowledged, self._sent = folder / "acknowledged", folder / "sent.jsonl"
        self._messages = messages

    async def __aenter__(self) -> "FileChannel":
        return self

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def listen(self) -> AsyncIterator[InboundMessage]:
        while True:
            known = self._acknowledged.read_text() if self._acknowledged.exists() else ""
            if len(known) >= self._messages:
                await anyio.sleep_forever()
            number = len(known) + 1
            yield InboundMessage(
                key=str(number),
                address=Address("telegram", "1"),
                sender="1",
                text=f"message {number}",
                reference=str(number),
                direct=True,
            )
            with self._acknowledged.open("a") as file:
                file.write(".")

    async def send(self, message: OutgoingMessage) -> str:
        with self._sent.open("a") as file:
            file.write(json.dumps({"key": message.key, "text": message.text}) + "\n")
        return message.key


def victim_settings(folder: Path) -> LoadedSettings:
    return load(
        home=folder / "home",
        variables={"PATH": os.environ["PATH"]},
        overrides={
            "model.default": f"scripted:{folder / 'script.jsonl'}",
            "memory.learn_with_model": "false",
            "channels.talk.cwd": str(folder),
            "channels.talk.busy": "queue",
            "policy.set": "sandboxed",
        },
    )


async def main(folder: Path, messages: int) -> None:
    loaded = victim_settings(folder)
    channel = FileChannel(folder, messages)
    async with open_application(loaded, origin="chat", directory=folder) as application:
        parts = open_gateway_parts(application)
        transport = ChatTransport(channel, ChannelLimits(), folder=folder / "outbox")
        async with anyio.create_task_group() as group, parts.outbox.serving(transport):
            await group.start(parts.outbox.run)
            await group.start(parts.chats.run)
            await serve_channel(parts, channel, TelegramSettings(allowed_users=(1,)))


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
