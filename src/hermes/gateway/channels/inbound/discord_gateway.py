"""The receiving connection of Discord: a client without caches that hands on raw events.

The library reconnects and resumes. After a session that could not be resumed it says `READY` once
more; what was missed then has to be fetched from the history.
"""

import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import aiohttp
import anyio
import msgspec
import yarl
from anyio.abc import TaskGroup

from hermes.core.errors import ChannelFailed

with warnings.catch_warnings():
    # For calls, which nothing here uses, the library imports the deprecated `audioop`.
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord as discord
    from discord.gateway import DiscordWebSocket
    from discord.http import Route as Route

MAX_WAITING_EVENTS = 10_000
EVENTS = frozenset({"READY", "MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE"})
REFUSED_TOKEN = 4004
TOKEN_ADVICE = "Discord refused the bot token: take a new one from discord.com/developers"
INTENT_ADVICE = (
    "the bot lacks the message content intent: switch it on at discord.com/developers, "
    "Bot, Privileged Gateway Intents"
)


class DiscordEvent(NamedTuple):
    kind: str
    data: dict[str, Any]


class DiscordReceiver(discord.Client):
    """Keeps no members, messages or servers: every event is taken as Discord sent it."""

    def __init__(self) -> None:
        discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # no calls here
        super().__init__(
            intents=discord.Intents(guild_messages=True, dm_messages=True, message_content=True),
            member_cache_flags=discord.MemberCacheFlags.none(),
            max_messages=None,
            chunk_guilds_at_startup=False,
            enable_debug_events=True,  # on_socket_raw_receive
        )
        # The library would build objects of every event, and end with one that it cannot read.
        parsers = self._connection.parsers
        for event in parsers.keys() - {"READY", "RESUMED"}:
            del parsers[event]
        self._give, self._given = anyio.create_memory_object_stream[DiscordEvent | ChannelFailed](
            MAX_WAITING_EVENTS
        )

    async def on_socket_raw_receive(self, received: str) -> None:
        message = msgspec.json.decode(received)
        if message.get("t") in EVENTS:
            # One that does not fit is found in the history after the next start.
            with suppress(anyio.WouldBlock, anyio.ClosedResourceError):
                self._give.send_nowait(DiscordEvent(message["t"], message["d"]))

    async def events(self) -> AsyncIterator[DiscordEvent]:
        """Raises `ChannelFailed` when the connection ended for good."""
        while True:
            found = await self._given.receive()
            if isinstance(found, ChannelFailed):
                raise found
            yield found

    def close_streams(self) -> None:
        self._give.close()
        self._given.close()

    async def run_until_failure(self, token: str) -> None:
        try:
            await self.login(token)
            if not Route.BASE.startswith("https://discord.com/"):
                gateway = (await self.http.get_bot_gateway())[1]
                DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(gateway)
            await self.connect()
            failure = ChannelFailed("Discord closed the connection")
        except discord.LoginFailure:
            failure = ChannelFailed(TOKEN_ADVICE, permanent=True)
        except discord.PrivilegedIntentsRequired:
            failure = ChannelFailed(INTENT_ADVICE, permanent=True)
        except discord.ConnectionClosed as error:
            refused = error.code == REFUSED_TOKEN
            text = TOKEN_ADVICE if refused else f"Discord closed the connection ({error.code})"
            failure = ChannelFailed(text, permanent=refused)
        except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
            failure = ChannelFailed(f"Discord: {error}".replace(token, "[token]"))
        await self._give.send(failure)


@asynccontextmanager
async def receiving(token: str, tasks: TaskGroup) -> AsyncIterator[DiscordReceiver]:
    """A connected receiver. `tasks` owns its task, because a generator cannot own one."""
    receiver = DiscordReceiver()
    scope, ended = anyio.CancelScope(), anyio.Event()

    async def run() -> None:
        try:
            with scope:
                await receiver.run_until_failure(token)
        finally:
            ended.set()

    tasks.start_soon(run)
    try:
        yield receiver
    finally:
        with anyio.CancelScope(shield=True):
            scope.cancel()
            await ended.wait()
            await receiver.close()
            receiver.close_streams()
