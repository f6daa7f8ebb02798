"""A gateway in the process: everything is real but the chat, which is in memory."""

import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from hermes.app import open_application
from hermes.app.application import Application
from hermes.app.channels.gateway import open_gateway_parts, serve_channel
from hermes.app.chats.context import ChatContext
from hermes.app.chats.service import ChatService
from hermes.core.channels import Address, InboundMessage
from hermes.gateway.chat_transport import ChatTransport
from hermes.gateway.manifest import ChannelLimits
from hermes.gateway.outbox import Outbox
from hermes.gateway.questions import QuestionNotifier
from hermes.gateway.settings import TelegramSettings
from hermes.settings.load import LoadedSettings, load
from hermes.testing.chats import MemoryChannel

ALICE, BOB, MALLORY = "1", "2", "666"
GROUP = "-100"
SETTINGS = TelegramSettings(allowed_users=(1, 2), allowed_groups=(GROUP,), mention="thread")


def says(text: str) -> dict[str, object]:
    return {"role": "assistant", "text": text}


def runs(command: str, call: str = "c1", **more: object) -> dict[str, object]:
    arguments = {"command": command, **more}
    return {
        "role": "assistant",
        "calls": [{"id": call, "name": "terminal", "arguments": arguments}],
    }


def chat_settings(
    tmp_path: Path, replies: Sequence[dict[str, object]], **more: str
) -> LoadedSettings:
    script = tmp_path / f"script-{len(list(tmp_path.glob('script-*')))}.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    overrides = {
        "model.default": f"scripted:{script}",
        "memory.learn_with_model": "false",
        "channels.talk.cwd": str(work),
        "channels.talk.progress_every": "0.01",
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return load(home=tmp_path / "home", variables={"PATH": os.environ["PATH"]}, overrides=overrides)


_numbers = iter(range(1, 1_000_000))


def said(text: str, sender: str = ALICE, **more: Any) -> InboundMessage:
    number = next(_numbers)
    values: dict[str, Any] = {
        "key": f"u{number}",
        "address": Address("telegram", sender),
        "sender": sender,
        "text": text,
        "reference": f"r{number}",
        "direct": True,
        **more,
    }
    return InboundMessage(**values)


def said_in_group(text: str, sender: str = ALICE, thread: str = "7", **more: Any) -> InboundMessage:
    return said(text, sender, address=Address("telegram", GROUP, thread), direct=False, **more)


@dataclass
class ChatGateway:
    application: Application
    service: ChatService
    channel: MemoryChannel
    outbox: Outbox
    context: ChatContext

    async def events(self, *kinds: str) -> list[Any]:
        return [r.event async for r in self.application.journal.read(kinds=kinds)]


@asynccontextmanager
async def open_gateway(
    loaded: LoadedSettings,
    channel: MemoryChannel | None = None,
    settings: TelegramSettings = SETTINGS,
    **more: Any,
) -> AsyncIterator[ChatGateway]:
    channel = channel or MemoryChannel()
    folder = Path(loaded.settings.channels.talk.cwd)
    async with (
        open_application(loaded, origin="chat", directory=folder, **more) as application,
        AsyncExitStack() as stack,
        anyio.create_task_group() as group,
    ):
        parts = open_gateway_parts(application)
        transport = ChatTransport(
            channel, ChannelLimits(max_buttons=8), folder=loaded.home / "outbox"
        )
        await group.start(parts.outbox.run)
        await group.start(QuestionNotifier(application.bus, []).run)
        await group.start(parts.chats.run)
        await stack.enter_async_context(parts.outbox.serving(transport))
        group.start_soon(serve_channel, parts, channel, settings)
        yield ChatGateway(application, parts.chats, channel, parts.outbox, parts.context)
        group.cancel_scope.cancel()
