"""The manifest of Telegram."""

from hermes.gateway.manifest import ChannelLimits, ChannelManifest, SendingPace
from hermes.gateway.settings import TelegramSettings

MANIFEST = ChannelManifest(
    name="telegram",
    title="Telegram",
    settings=TelegramSettings,
    runtime="hermes.gateway.channels.telegram.runtime:open_channel",
    extra="telegram",
    limits=ChannelLimits(
        max_text=4_096,
        unit="utf16",
        max_buttons=8,
        max_file_bytes=50 * 10**6,
        pace=SendingPace(
            interval_s=1.0,
            per_minute=20,
            per_second_in_all=25.0,
        ),
    ),
    setup=(
        "Write /newbot to @BotFather in Telegram, and choose a name.",
        "Put the token that it answers with into the file .env of the home folder: "
        "TELEGRAM_BOT_TOKEN=123456:ABC…",
        "Write to your bot, then let yourself in with the code that it answers: "
        "hermes pairing approve telegram CODE --as NAME",
        "For notifications: add the bot to a group, and set the id of the group: "
        "TELEGRAM_HOME_CHANNEL=-100123",
        "For a thread per incident: switch on topics in the group, and let the bot manage them.",
    ),
)
"""Named by the entry point `telegram`.

A bot may send about 30 messages a second in all, one a second to a chat, and 20 a minute to a
group. What it may not see: messages of a group from before it joined, and in a group with privacy
mode on, messages that do not mention it. A file that it receives has at most 20 MB, one that it
sends 50 MB.
"""
