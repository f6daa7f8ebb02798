"""Configures one chat channel for a person: secrets, home chat, a test message, who they are."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from msgspec.structs import replace

from hermes.app.channels.gateway import CHANNEL_LOCK_PREFIX
from hermes.app.people import add_person, load_people, user_name
from hermes.app.run_locks import RunLocks
from hermes.core.channels import (
    Address,
    AnswersPresses,
    Button,
    Channel,
    InboundMessage,
    OutgoingMessage,
    press_data,
)
from hermes.core.errors import SettingsError
from hermes.core.events.people import PersonAdded
from hermes.core.people import UNIX, actor_name
from hermes.core.plugins import BUILT_IN, load_plugin, plugin_names, suggest_plugin
from hermes.core.run_ids import new_id
from hermes.gateway.manifest import CHANNEL_GROUP, ChannelManifest, configured_channels
from hermes.memory.store import open_journal
from hermes.settings.edit import set_value
from hermes.settings.load import LoadedSettings

PRESS_TIMEOUT_S = 120.0
PRESS_TEXT = (
    "🔐 Test approval of Hermes. Nothing runs: it only shows that your answers arrive. "
    "Press a button."
)
PRESSED_TEXT = "Thank you: your answers arrive."


def channel_titles() -> dict[str, str]:
    """The chat channels that there are, with the names that their platforms use."""
    return {name: find_manifest(name).title for name in sorted(BUILT_IN[CHANNEL_GROUP])}


def find_manifest(name: str, home: Path | None = None) -> ChannelManifest:
    """Raises `SettingsError` for a name that is no chat channel."""
    if name not in plugin_names(CHANNEL_GROUP, home):
        hint = suggest_plugin(CHANNEL_GROUP, name, home)
        raise SettingsError(f"there is no chat channel {name!r}; {hint}")
    found = load_plugin(CHANNEL_GROUP, name, home)
    if not isinstance(found, ChannelManifest):
        raise SettingsError(f"{name} only sends; `hermes channels list` shows the chats")
    return found


def save_channel(
    home: Path, manifest: ChannelManifest, given: Mapping[str, str], chat: str = ""
) -> Iterator[str]:
    """Write secrets and keys, and yield a line for each; what is empty is left as it is."""
    for name, value in given.items():
        if value and name in manifest.settings.secret_names:
            yield f"{name} → {set_value(home, name, value)}"
        elif value:
            key = f"channels.{manifest.name}.{name}"
            yield f"{key}: {value} → {set_value(home, key, value)}"
    if chat:
        key = f"channels.{manifest.name}.home_channel"
        yield f"{key}: {chat} → {set_value(home, key, chat)}"


async def wait_for_press(
    loaded: LoadedSettings, to: Address, timeout_s: float = PRESS_TIMEOUT_S
) -> InboundMessage | None:
    """Send a test approval and wait for its answer; None without a press in time.

    Raises `SettingsError` when another process receives from the channel, `ChannelFailed` and
    `DeliveryError`.
    """
    locks = RunLocks(loaded.home / "locks")
    try:
        locks.acquire(f"{CHANNEL_LOCK_PREFIX}{to.channel}")
        async with _open_channel(loaded, to) as (channel, where):
            id = new_id("test")
            yes, no = press_data("once", id), press_data("deny", id)
            buttons = (Button("✅ Once", yes), Button("❌ Deny", no))
            question = OutgoingMessage(key=id, to=where, text=PRESS_TEXT, buttons=(buttons,))
            await channel.send(question)
            with anyio.move_on_after(timeout_s):
                async for message in channel.listen():
                    if message.pressed.endswith(f":{id}"):
                        if message.press and isinstance(channel, AnswersPresses):
                            await channel.answer_press(message.press, PRESSED_TEXT)
                        return message
    finally:
        locks.close()
    return None


@asynccontextmanager
async def _open_channel(
    loaded: LoadedSettings, to: Address
) -> AsyncIterator[tuple[Channel, Address]]:
    configured = configured_channels(loaded.settings.channels, loaded.secrets.get).get(to.channel)
    if configured is None or configured.missing:
        raise SettingsError(
            f"{to.channel} is not configured: `hermes setup --channel {to.channel}`"
        )
    manifest = configured.load(loaded.home)
    async with manifest(configured.settings, configured.secrets) as channel:
        yield channel, replace(to, chat=to.chat or configured.settings.home_chat)


async def name_person(loaded: LoadedSettings, name: str, channel: str, id: str) -> PersonAdded:
    """The person at this terminal has this id on the platform. Raises `HermesError`."""
    async with open_journal(loaded.store) as journal:
        people = await load_people(loaded, journal)
        own = actor_name(UNIX, user_name())
        ids = [actor_name(channel, id)]
        if not people.name_of(UNIX, user_name()):
            ids.insert(0, own)
        return await add_person(loaded, journal, name, ids)
