"""A gateway whose chat consists of files: python gateway_victim.py FOLDER MESSAGES [--press]

With `--press` each command waits for an approval, and the person presses each button that is shown.
"""

import json
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio

from hermes.app import open_application
from hermes.app.channels.gateway import open_gateway_parts, serve_channel
from hermes.core.channels import Address, InboundMessage, OutgoingMessage
from hermes.gateway.chat_transport import ChatTransport
from hermes.gateway.manifest import ChannelLimits
from hermes.gateway.questions import QuestionNotifier
from hermes.gateway.settings import TelegramSettings
from hermes.settings.load import LoadedSettings, load


class FileChannel:
    """Messages are numbered; what is acknowledged, and what was sent, is in files."""

    name = "telegram"

    def __init__(self, folder: Path, messages: int) -> None:
        self._acknowledged, self._sent = folder / "acknowledged", folder / "sent.jsonl"
        self._messages = messages
        self._asked = anyio.Event()

    async def __aenter__(self) -> "FileChannel":
        return self

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def listen(self) -> AsyncIterator[InboundMessage]:
        while True:
            asked = self._asked
            for message in self._unacknowledged():
                yield message
                with self._acknowledged.open("a") as file:
                    file.write(f"{message.key}\n")
            await asked.wait()

    def _unacknowledged(self) -> list[InboundMessage]:
        lines = self._sent.read_text().splitlines() if self._sent.exists() else []
        presses = dict.fromkeys(json.loads(line)["press"] for line in lines)
        numbers = [str(number) for number in range(1, self._messages + 1)]
        known = self._acknowledged.read_text().split() if self._acknowledged.exists() else []
        keys = [key for key in (*numbers, *presses) if key and key not in known]
        return [self._written(key) if key in numbers else self._pressed(key) for key in keys]

    def _written(self, key: str) -> InboundMessage:
        return InboundMessage(
            key=key,
            address=Address("telegram", "1"),
            sender="1",
            text=f"message {key}",
            reference=key,
            direct=True,
        )

    def _pressed(self, data: str) -> InboundMessage:
        return InboundMessage(
            key=data,
            address=Address("telegram", "1"),
            sender="1",
            pressed=data,
            press=data,
            direct=True,
        )

    async def send(self, message: OutgoingMessage) -> str:
        press = message.buttons[0][0].data if message.buttons else ""
        line = {"key": message.key, "text": message.text, "press": press}
        with self._sent.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self._asked.set()
        self._asked = anyio.Event()
        return message.key


def victim_settings(folder: Path, *, press: bool = False) -> LoadedSettings:
    return load(
        home=folder / "home",
        variables={"PATH": os.environ["PATH"]},
        overrides={
            "model.default": f"scripted:{folder / 'script.jsonl'}",
            "memory.learn_with_model": "false",
            "channels.talk.cwd": str(folder),
            "channels.talk.busy": "queue",
            "policy.set": "careful" if press else "sandboxed",
            "policy.wait": "true",
            "people": '{"alice": {"telegram": "1"}}',
        },
    )


async def main(folder: Path, messages: int, *, press: bool) -> None:
    loaded = victim_settings(folder, press=press)
    channel = FileChannel(folder, messages)
    async with open_application(loaded, origin="chat", directory=folder) as application:
        parts = open_gateway_parts(application)
        transport = ChatTransport(channel, ChannelLimits(max_buttons=8), folder=folder / "outbox")
        async with anyio.create_task_group() as group, parts.outbox.serving(transport):
            await group.start(parts.outbox.run)
            await group.start(QuestionNotifier(application.bus, []).run)
            await group.start(parts.chats.run)
            await serve_channel(parts, channel, TelegramSettings(allowed_users=(1,)))


if __name__ == "__main__":
    anyio.run(partial(main, press="--press" in sys.argv), Path(sys.argv[1]), int(sys.argv[2]))
