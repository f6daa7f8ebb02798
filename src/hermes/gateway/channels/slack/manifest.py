"""The manifest of Slack.

Nothing here imports the client library.
"""

from hermes.gateway.manifest import ChannelLimits, ChannelManifest, SendingPace
from hermes.gateway.settings import SlackSettings

MANIFEST = ChannelManifest(
    name="slack",
    title="Slack",
    settings=SlackSettings,
    runtime="hermes.gateway.channels.slack.runtime:open_channel",
    extra="slack",
    limits=ChannelLimits(
        max_text=3_000,
        unit="code points",
        format="mrkdwn",
        max_buttons=25,
        max_file_bytes=50 * 10**6,
        pace=SendingPace(
            interval_s=1.0,
            per_minute=60,
            per_second_in_all=20.0,
        ),
    ),
    setup=(
        "Create an app at api.slack.com/apps, and switch on socket mode.",
        "Scopes of the bot: app_mentions:read, channels:history, chat:write, files:read, "
        "files:write, groups:history, im:history, im:write, reactions:write.",
        "Events: app_mention, message.channels, message.groups, message.im.",
        "Install it, and put both tokens into the file .env of the home folder: "
        "SLACK_BOT_TOKEN=xoxb-… and SLACK_APP_TOKEN=xapp-…",
        "Invite the bot to a channel, and set the id of that channel: SLACK_HOME_CHANNEL=C024BE7LH",
        "Write to your bot, then let yourself in with the code that it answers: "
        "hermes pairing approve slack CODE --as NAME",
    ),
)
"""Named by the entry point `slack`.

The limit of a text is that of one block. A button is found again by its action id; its data may be
longer than the 64 bytes that Hermes uses everywhere.
"""
