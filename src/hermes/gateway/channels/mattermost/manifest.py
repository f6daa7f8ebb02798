"""The manifest of Mattermost.

Nothing here imports the client library.
"""

from hermes.gateway.manifest import ChannelLimits, ChannelManifest, SendingPace
from hermes.gateway.settings import MattermostSettings

MANIFEST = ChannelManifest(
    name="mattermost",
    title="Mattermost",
    settings=MattermostSettings,
    runtime="hermes.gateway.channels.mattermost.runtime:open_channel",
    extra="mattermost",
    limits=ChannelLimits(
        max_text=16_383,
        unit="code points",
        format="markdown",
        max_buttons=0,
        max_file_bytes=50 * 10**6,
        pace=SendingPace(
            interval_s=0.2,
            per_minute=120,
            per_second_in_all=5.0,
        ),
    ),
    setup=(
        "Allow bot accounts in the system console, and create one under Integrations.",
        "Put its token into the file .env of the home folder: MATTERMOST_TOKEN=…",
        "Name the server in config.yaml: channels: {mattermost: {url: 'https://chat.example.org'}}",
        "Add the bot to a team and a channel, and set the id of the channel (View Info): "
        "MATTERMOST_HOME_CHANNEL=…",
        "Write to your bot, then let yourself in with the code that it answers: "
        "hermes pairing approve mattermost CODE --as NAME",
    ),
)
"""Named by the entry point `mattermost`.

Buttons of Mattermost need an address at which its server reaches Hermes, so there are none:
questions are answered elsewhere, or with the id of the question in an answer to it.
"""
