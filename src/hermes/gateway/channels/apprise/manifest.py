"""The manifest of Apprise.

Nothing here imports the client library.
"""

from hermes.gateway.manifest import ChannelLimits, ChannelManifest, SendingPace
from hermes.gateway.settings import AppriseSettings

MANIFEST = ChannelManifest(
    name="apprise",
    title="Apprise",
    settings=AppriseSettings,
    runtime="hermes.gateway.channels.apprise.runtime:open_channel",
    extra="apprise",
    limits=ChannelLimits(
        max_text=2_000,
        unit="code points",
        max_buttons=0,
        max_file_bytes=5 * 10**6,
        pace=SendingPace(
            interval_s=1.0,
            per_minute=20,
            per_second_in_all=1.0,
        ),
    ),
    setup=(
        "Look up the address of your service: https://appriseit.com/services/",
        "Put it into .env, several with a space between them: APPRISE_URLS=pover://user@token",
        "Try it: hermes channels test apprise",
    ),
)
"""Named by the entry point `apprise`.

The limits are those that most services can do. Apprise itself shortens what is too long for one.
"""
