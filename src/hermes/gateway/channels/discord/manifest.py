"""The manifest of Discord.

Nothing here imports the client library.
"""

from hermes.gateway.manifest import ChannelLimits, ChannelManifest, SendingPace
from hermes.gateway.settings import DiscordSettings

MANIFEST = ChannelManifest(
    name="discord",
    title="Discord",
    settings=DiscordSettings,
    runtime="hermes.gateway.channels.discord.runtime:open_channel",
    extra="discord",
    limits=ChannelLimits(
        max_text=2_000,
        unit="utf16",
        format="markdown",
        max_buttons=25,
        max_file_bytes=10 * 10**6,
        pace=SendingPace(
            interval_s=0.25,
            per_minute=120,
            per_second_in_all=40.0,
        ),
    ),
    setup=(
        "Create an application at discord.com/developers, and add a bot to it.",
        "Switch on the message content intent of the bot.",
        "Put its token into the file .env of the home folder: DISCORD_BOT_TOKEN=…",
        "Invite it with the scope bot and the rights to read and send messages, to create and "
        "to write in threads, and to attach files.",
        "Set the id of the channel for notifications: DISCORD_HOME_CHANNEL=80351110",
        "Write to your bot, then let yourself in with the code that it answers: "
        "hermes pairing approve discord CODE --as NAME",
    ),
)
"""Named by the entry point `discord`.

The client library waits for rate limits; the pace only keeps a lane from running ahead
of them. Mentions in what Hermes sends are switched off, so that no text of an alert calls a whole
server.
"""
